# SPDX-License-Identifier: GPL-2.0-only
"""Reads descriptions of system calls as syzkaller has them (syzlang), and constants.

syz-compiler is the authority, but needs Go and the whole of syzkaller.  This knows
as much of the language as tools/testing/fuzz/syzkaller uses: statements, types,
templates, what has which size, and which names there are.  What it does not know it
refuses.  Names of syzkaller's own descriptions that those here use are in UPSTREAM.

Constants come from the headers of a kernel, as syz-extract takes them.
"""

import collections
import os
import re
import subprocess

TOKEN = re.compile(r"""
    (?P<space>[ \t]+|\#[^\n]*)
  | (?P<newline>\n)
  | (?P<include><[^>\n]+>)
  | (?P<string>"[^"\n]*")
  | (?P<char>'.')
  | (?P<number>-?(?:0x[0-9a-fA-F]+|\d+)\b)
  | (?P<word>[A-Za-z_][\w]*(?:\$[\w]+)?)
  | (?P<mark>==|>>|[][(){}:,=&|!])
  """, re.X)

INTS = {f"int{bits}{end}": bits // 8 for bits in (8, 16, 32, 64) for end in ("", "be")}
INTS["intptr"] = 8
SCALARS = {"bool8": 1, "bool16": 2, "bool32": 4, "bool64": 8}
FLAG_TYPES = ("flags", "string", "stringnoz")
BUILTIN = {*INTS, *SCALARS, "const", "flags", "array", "ptr", "ptr64", "string",
           "stringnoz", "fmt", "len", "bytesize", "bytesize4", "vma64", "void",
           "optional"}
# What syzkaller's own descriptions have: parameters of a template, or the size of a
# type, None if it varies; "resource"
UPSTREAM = {
    "fd": "resource", "sock": "resource", "sock_nl_route": "resource",
    "sock_nl_generic": "resource", "ifindex": "resource", "fd_rdma": "resource",
    "pd_handle": "resource", "mr_handle": "resource", "mr_rkey": "resource",
    "cq_handle": "resource", "qp_handle": "resource", "srq_handle": "resource",
    "mac_addr": 6, "ipv4_addr": 4, "ipv6_addr": 16, "ipv4_packet": None,
    "ipv6_packet": None,
}
UPSTREAM_TEMPLATES = {"msghdr_netlink": 1, "netlink_msg": 3, "netlink_msg_t": 3,
                      "nlattr": 2, "nlattr_t": 2, "nlnest": 2, "genlmsghdr_t": 1}
UPSTREAM_FLAGS = {"send_flags"}
UPSTREAM_CALLS = {"socket", "openat", "read", "write", "ioctl", "sendmsg", "recvmsg",
                  "setsockopt", "syz_init_net_socket", "syz_genetlink_get_family_id"}
DIRECTIONS = ("in", "out", "inout")


class Wrong(Exception):
    """A description that can't be."""


class Type:
    """A type, or another argument of one: NAME[ARGS]:MORE"""

    def __init__(self, name, args=(), more=(), line=0):
        self.name, self.args, self.more, self.line = name, list(args), list(more), line

    def __repr__(self):
        text = self.name
        if self.more:
            text += ":" + ":".join(map(str, self.more))
        if self.args:
            text += f"[{', '.join(map(repr, self.args))}]"
        return text

    def bound(self, given):
        """With parameters of a template replaced."""
        if self.name in given and not self.args:
            return given[self.name]
        return Type(self.name, [arg.bound(given) for arg in self.args],
                    [given[m].name if m in given else m for m in self.more],
                    self.line)

    def walk(self):
        """It, and all in it."""
        yield self
        for arg in self.args:
            yield from arg.walk()

    def has(self, word):
        """One of its arguments is a word."""
        return any(arg.name == word and not arg.args for arg in self.args)


Field = collections.namedtuple("Field", "name type direction condition")
Call = collections.namedtuple("Call", "name args result attrs file line")
Resource = collections.namedtuple("Resource", "name base values file line")
Flags = collections.namedtuple("Flags", "name values file line")
Alias = collections.namedtuple("Alias", "name params type file line")


class Struct:
    """A structure or union, or a template of one."""

    def __init__(self, name, params, fields, union, where):
        self.name, self.params, self.fields, self.union = name, params, fields, union
        self.attrs = []
        self.file, self.line = where

    def has(self, attr):
        """An attribute."""
        return any(each.name == attr for each in self.attrs)


class Parser:
    """One file."""

    def __init__(self, name, text):
        self.file, self.tokens, self.pos = name, [], 0
        self.found = []
        self.includes, self.defines, self.options = [], {}, {}
        line, at = 1, 0
        while at < len(text):
            match = TOKEN.match(text, at)
            if not match:
                raise Wrong(f"{name}:{line}: {text[at:at + 20]!r}")
            if match.lastgroup != "space":
                self.tokens.append((match.lastgroup, match.group(), line))
            line += match.lastgroup == "newline"
            at = match.end()
        if not text.endswith("\n"):
            raise Wrong(f"{name}: no newline at the end")
        while self.skip_lines():
            self.statement()

    def fail(self, what):
        """Complain about the next token."""
        line = self.tokens[min(self.pos, len(self.tokens) - 1)][2]
        raise Wrong(f"{self.file}:{line}: {what}")

    @property
    def where(self):
        """Of the next token."""
        return self.file, self.tokens[self.pos][2]

    def peek(self, ahead=0):
        """The text of a token that follows."""
        at = self.pos + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def kind(self):
        """What the next token is."""
        return self.tokens[self.pos][0] if self.pos < len(self.tokens) else ""

    def skip_lines(self):
        """To the next line that has something."""
        while self.kind() == "newline":
            self.pos += 1
        return self.pos < len(self.tokens)

    def take(self, text=None, kind=None):
        """The next token, which has to be that."""
        if (text and self.peek() != text) or (kind and self.kind() != kind):
            self.fail(f"{self.peek()!r} where {text or kind} should be")
        self.pos += 1
        return self.tokens[self.pos - 1][1]

    def try_take(self, text):
        """The next token, if it is that."""
        if self.peek() != text or self.kind() == "string":
            return False
        self.pos += 1
        return True

    def list_of(self, item, end):
        """Items between commas, to @end."""
        items = []
        while not self.try_take(end):
            if items:
                self.take(",")
            items.append(item())
        return items

    # ---- statements --------------------------------------------------------

    def statement(self):
        """Any one."""
        if self.peek() == "resource":
            self.resource()
        elif self.peek() in ("include", "meta", "define"):
            getattr(self, self.take())()
        elif self.peek() == "type":
            self.template()
        elif self.peek(1) == "=":
            self.flags()
        elif self.peek(1) == "(":
            self.call()
        elif self.peek(1) in ("{", "["):
            where = self.where
            self.struct(self.take(kind="word"), [], where)
        else:
            self.fail(f"{self.peek()!r} begins nothing")
        if self.kind() != "newline":
            self.fail(f"{self.peek()!r} behind a statement")

    def include(self):
        """A header."""
        self.includes.append(self.take(kind="include")[1:-1])

    def meta(self):
        """About the file."""
        word = self.take(kind="word")
        if word == "arches":
            self.take("[")
            self.options[word] = self.list_of(
                lambda: self.take(kind="string").strip('"'), "]")
        elif word == "noextract":
            self.options[word] = True
        else:
            self.fail(f"meta {word}")

    def define(self):
        """A constant of its own: an expression of C."""
        name = self.take(kind="word")
        words = []
        while self.kind() != "newline":
            words.append(self.take())
        if name in self.defines or not words:
            self.fail(f"define {name}")
        self.defines[name] = " ".join(words)

    def resource(self):
        """A kind of handle."""
        file, line = self.where
        self.take("resource")
        name = self.take(kind="word")
        self.take("[")
        base = self.take(kind="word")
        self.take("]")
        values = []
        if self.try_take(":"):
            values.append(self.take())
            while self.try_take(","):
                values.append(self.take())
        self.found.append(Resource(name, base, values, file, line))

    def flags(self):
        """Values to choose from."""
        file, line = self.where
        name = self.take(kind="word")
        self.take("=")
        values = [(self.kind(), self.take())]
        while self.try_take(","):
            values.append((self.kind(), self.take()))
        if any(kind not in ("number", "word", "string") for kind, _ in values) or \
                len({kind == "string" for kind, _ in values}) > 1:
            self.fail(f"values of {name}")
        self.found.append(Flags(name, [value for _, value in values], file, line))

    def template(self):
        """An alias or a template."""
        file, line = self.where
        self.take("type")
        name = self.take(kind="word")
        params = []
        # "type name [" begins a template's parameters or a union without them: here
        # only the first is used
        if self.try_take("["):
            params = self.list_of(lambda: self.take(kind="word"), "]")
        if self.peek() in ("{", "["):
            self.struct(name, params, (file, line))
        else:
            self.found.append(Alias(name, params, self.type(), file, line))

    def struct(self, name, params, where):
        """A structure or a union, from its bracket on."""
        union = self.take() == "["
        end = "]" if union else "}"
        fields = []
        if self.kind() != "newline":
            self.fail("a field in the line of the bracket")
        while self.skip_lines() and not self.try_take(end):
            fields.append(self.field())
        if not fields:
            self.fail(f"{name} is empty")
        new = Struct(name, params, fields, union, where)
        if self.try_take("["):
            new.attrs = self.list_of(self.type, "]")
        for attr in new.attrs:
            if attr.name not in (("varlen",) if union else ("packed", "align")):
                self.fail(f"attribute {attr}")
        self.found.append(new)

    def field(self):
        """A line of a structure."""
        name = self.take(kind="word")
        kind = self.type()
        direction = condition = None
        if self.try_take("("):
            if self.peek() == "if":
                self.take("if")
                self.take("[")
                condition = []
                depth = 1
                while depth:
                    token = self.take()
                    depth += (token == "[") - (token == "]")
                    condition.append(token)
                condition.pop()
            else:
                direction = self.take(kind="word")
                if direction not in DIRECTIONS:
                    self.fail(f"attribute {direction}")
            self.take(")")
        if self.kind() != "newline":
            self.fail(f"{self.peek()!r} behind a field")
        return Field(name, kind, direction, condition)

    def call(self):
        """A system call."""
        file, line = self.where
        name = self.take(kind="word")
        self.take("(")
        args = self.list_of(lambda: Field(self.take(kind="word"), self.type(),
                                          None, None), ")")
        result, attrs = None, []
        if self.kind() == "word":
            result = self.take()
        if self.try_take("("):
            attrs = self.list_of(self.type, ")")
        for attr in attrs:
            if attr.name not in ("timeout", "prog_timeout"):
                self.fail(f"attribute {attr}")
        self.found.append(Call(name, args, result, attrs, file, line))

    # ---- types -------------------------------------------------------------

    def value(self):
        """A word, number or string."""
        if self.kind() not in ("word", "number", "string", "char"):
            self.fail(f"{self.peek()!r} is no type")
        return self.take()

    def type(self):
        """A type or an argument of one."""
        line = self.tokens[self.pos][2]
        new = Type(self.value(), line=line)
        while self.try_take(":"):
            new.more.append(self.value())
        if self.try_take("["):
            new.args = self.list_of(self.type, "]")
            if not new.args:
                self.fail(f"{new.name}[]")
        return new



class Descriptions:
    """All files of a directory, which use each other's names."""

    def __init__(self, texts):
        self.files = {name: Parser(name, text) for name, text in texts.items()}
        self.named, self.calls = {}, {}
        for parser in self.files.values():
            for each in parser.found:
                table = self.calls if isinstance(each, Call) else self.named
                if each.name in table or each.name in UPSTREAM or \
                        each.name in UPSTREAM_TEMPLATES or each.name in BUILTIN:
                    raise Wrong(f"{each.file}:{each.line}: another {each.name}")
                table[each.name] = each
        self.used = set()
        self.consts = {name: set() for name in self.files}
        self.made, self.taken = set(), set()
        self.sizes = {}

    def of(self, kind):
        """Everything of a kind, by name."""
        return {name: each for name, each in self.named.items()
                if isinstance(each, kind)}

    @staticmethod
    def fail(each, what):
        """Complain."""
        raise Wrong(f"{each.file}:{each.line}: {each.name}: {what}")

    # ---- names -------------------------------------------------------------

    def check(self):
        """Everything that can be checked without headers."""
        for call in self.calls.values():
            self.check_call(call)
        for name, each in self.named.items():
            if isinstance(each, Struct):
                self.check_struct(each)
            elif isinstance(each, Alias):
                self.check_type(each, each.type, each.params)
            elif isinstance(each, Flags):
                self.check_flag_values(each)
            else:
                self.check_resource(each)
        unused = set(self.named) - self.used
        if unused:
            raise Wrong(f"not used: {', '.join(sorted(unused))}")
        for call in self.calls.values():
            self.check_use(call)
        for name in self.of(Resource):
            if name not in self.made:
                self.fail(self.named[name], "nothing makes one")
            if name not in self.taken:
                self.fail(self.named[name], "nothing takes one")

    def check_call(self, call):
        """Its arguments, and what it returns."""
        base = call.name.partition("$")[0]
        if base not in UPSTREAM_CALLS or "$" not in call.name:
            self.fail(call, "not a variant of a call that is known")
        if not base.startswith("syz_"):
            self.consts[call.file].add(f"__NR_{base}")
        names = [arg.name for arg in call.args]
        if len(set(names)) < len(names):
            self.fail(call, "two arguments of one name")
        if call.result:
            self.used.add(call.result)
            if not isinstance(self.named.get(call.result), Resource):
                self.fail(call, f"{call.result} is no resource")
        for arg in call.args:
            self.check_type(call, arg.type, (), True)

    def check_struct(self, struct):
        """Its fields."""
        names = [field.name for field in struct.fields]
        if len(set(names)) < len(names):
            self.fail(struct, "two fields of one name")
        if "parent" in names or "syscall" in names:
            self.fail(struct, "a field with a name of the language")
        for field in struct.fields:
            self.check_type(struct, field.type, struct.params)
            for word in field.condition or ():
                if re.match(r"[A-Z]\w*$", word):
                    self.consts[struct.file].add(word)

    def check_flag_values(self, flags):
        """Values that are constants."""
        for value in flags.values:
            if re.match(r"[A-Za-z_]", value):
                self.consts[flags.file].add(value)

    def check_resource(self, resource):
        """What it is a kind of."""
        base = resource.base
        self.used.add(base)
        if base not in INTS and UPSTREAM.get(base) != "resource" and \
                not isinstance(self.named.get(base), Resource):
            self.fail(resource, f"{base} is no resource")

    def constant(self, owner, arg, params):
        """A number, or the name of one."""
        if arg.name in params or re.match(r"['\"-]|\d", arg.name):
            return
        if arg.name in self.named or arg.name in BUILTIN:
            self.fail(owner, f"{arg.name} is no constant")
        self.consts[owner.file].add(arg.name)

    def check_values(self, owner, arg, params, strings):
        """A reference to flags of that kind."""
        if arg.name in params:
            return
        if arg.name in UPSTREAM_FLAGS and not strings:
            return
        flags = self.named.get(arg.name)
        if not isinstance(flags, Flags):
            self.fail(owner, f"there are no flags {arg.name}")
        if flags.values[0].startswith('"') != strings:
            self.fail(owner, f"flags {arg.name} are of the other kind")
        self.used.add(arg.name)

    def check_int(self, owner, kind, params):
        """intN, intN[VALUE], intN[FLAGS], intN[FROM:TO], intN:BITS"""
        if kind.name == "intptr" and kind.more:
            self.fail(owner, "bits of a pointer")
        for bits in kind.more:
            if not 0 < int(bits) <= 8 * INTS[kind.name]:
                self.fail(owner, f"{kind} has no such bits")
        if len(kind.args) > 1:
            self.fail(owner, f"arguments of {kind}")
        for arg in kind.args:
            if isinstance(self.named.get(arg.name), Flags):
                self.check_values(owner, arg, params, False)
                continue
            self.constant(owner, arg, params)
            for more in arg.more:
                self.constant(owner, Type(more), params)
            if arg.more and re.match(r"-?\d", arg.name) and \
                    re.match(r"-?\d", arg.more[0]) and \
                    int(arg.name, 0) > int(arg.more[0], 0):
                self.fail(owner, f"{kind}: no such range")

    def check_type(self, owner, kind, params, top=False):
        """A type in @owner, and all types in it."""
        name, args = kind.name, [arg for arg in kind.args if arg.name != "opt"]
        check = getattr(self, f"check_{name}", None) if name in BUILTIN else None
        if name in params:
            if kind.args:
                self.fail(owner, f"parameter {name} has arguments")
        elif name in INTS:
            self.check_int(owner, kind, params)
        elif name in SCALARS or name == "void":
            if args:
                self.fail(owner, f"arguments of {name}")
        elif check:
            check(owner, args, params, top)
        elif name in UPSTREAM:
            if args:
                self.fail(owner, f"arguments of {name}")
        elif name in UPSTREAM_TEMPLATES:
            self.check_arity(owner, kind, UPSTREAM_TEMPLATES[name])
            self.check_template(owner, kind, params)
        elif isinstance(self.named.get(name), (Struct, Alias, Resource)):
            self.used.add(name)
            self.check_arity(owner, kind,
                             len(getattr(self.named[name], "params", ())))
            self.check_template(owner, kind, params)
        else:
            self.fail(owner, f"there is no type {name}")

    def check_arity(self, owner, kind, number):
        """A template has as many arguments as parameters."""
        if len([arg for arg in kind.args if arg.name != "opt"]) != number:
            self.fail(owner, f"{kind} has not {number} arguments")

    def check_template(self, owner, kind, params):
        """Arguments of a template: types, constants, flags or strings."""
        for arg in kind.args:
            if arg.name in params or arg.name == "opt" or \
                    arg.name.startswith('"'):
                continue
            if isinstance(self.named.get(arg.name), Flags):
                self.used.add(arg.name)
            elif arg.name in BUILTIN or arg.name in self.named or \
                    arg.name in UPSTREAM or arg.name in UPSTREAM_TEMPLATES:
                self.check_type(owner, arg, params)
            else:
                self.constant(owner, arg, params)

    # One for each type with arguments of its own; pylint: disable=unused-argument

    def sized(self, owner, args, params, top, at):
        """The size of a value, which arguments of calls have not."""
        if top:
            if len(args) != at:
                self.fail(owner, "the size of an argument")
            return
        if len(args) != at + 1 or (args[at].name not in INTS and
                                   args[at].name not in params):
            self.fail(owner, "the size of a value is not said")
        self.check_type(owner, args[at], params)

    def check_const(self, owner, args, params, top):
        """const[VALUE, intN]"""
        self.sized(owner, args, params, top, 1)
        self.constant(owner, args[0], params)

    def check_flags(self, owner, args, params, top):
        """flags[FLAGS, intN]"""
        self.sized(owner, args, params, top, 1)
        self.check_values(owner, args[0], params, False)

    def check_len(self, owner, args, params, top):
        """len[TARGET, intN]; the target is looked at when sizes are."""
        self.sized(owner, args, params, top, 1)

    check_bytesize = check_bytesize4 = check_len

    def check_array(self, owner, args, params, top):
        """array[TYPE], array[TYPE, FROM:TO]"""
        if len(args) not in (1, 2):
            self.fail(owner, "arguments of array")
        self.check_type(owner, args[0], params)
        for arg in args[1:]:
            self.constant(owner, arg, params)

    def check_ptr(self, owner, args, params, top):
        """ptr[DIRECTION, TYPE]"""
        if len(args) != 2 or args[0].name not in DIRECTIONS:
            self.fail(owner, "arguments of ptr")
        self.check_type(owner, args[1], params)

    check_ptr64 = check_ptr

    def check_string(self, owner, args, params, top):
        """string["TEXT"], string[FLAGS, SIZE]"""
        if len(args) not in (1, 2):
            self.fail(owner, "arguments of string")
        if not args[0].name.startswith('"'):
            self.check_values(owner, args[0], params, True)
        for arg in args[1:]:
            self.constant(owner, arg, params)

    check_stringnoz = check_string

    def check_fmt(self, owner, args, params, top):
        """fmt[FORMAT, VALUE]"""
        if len(args) != 2 or args[0].name not in ("dec", "hex", "oct"):
            self.fail(owner, "arguments of fmt")
        self.check_type(owner, args[1], params)

    def check_vma64(self, owner, args, params, top):
        """vma64[PAGES]"""
        for arg in args:
            self.constant(owner, arg, params)

    def check_optional(self, owner, args, params, top):
        """optional[TYPE]"""
        if len(args) != 1:
            self.fail(owner, "arguments of optional")
        self.check_type(owner, args[0], params)

    # pylint: enable=unused-argument

    # ---- sizes, and resources on the way -----------------------------------

    def check_use(self, call):
        """What a call makes and takes, and that what it names has a size."""
        if call.result:
            self.made.add(call.result)
        names = {arg.name: arg.type for arg in call.args}
        for arg in call.args:
            if arg.type.name in ("len", "bytesize") and \
                    arg.type.args[0].name not in names:
                self.fail(call, f"no argument {arg.type.args[0]}")
            self.size(call, arg.type, "in", ())

    def note(self, name, direction):
        """A resource, which is of each kind that it is derived from."""
        while isinstance(self.named.get(name), Resource):
            if direction != "in":
                self.made.add(name)
            if direction != "out":
                self.taken.add(name)
            name = self.named[name].base

    def base_size(self, name):
        """Bytes of a resource."""
        while isinstance(self.named.get(name), Resource):
            name = self.named[name].base
        return INTS.get(name, 4)

    def size(self, owner, kind, direction, above):
        """
        Bytes of a type in a structure, None: it varies.  @above: the structures that
        it is in, innermost last, each as (name, {field: type}).
        """
        name, args = kind.name, [arg for arg in kind.args if arg.name != "opt"]
        if name in INTS:
            return INTS[name]
        if name in SCALARS:
            return SCALARS[name]
        if name == "void":
            return 0
        if name in ("const", "flags"):
            return self.size(owner, args[1], direction, above) if args[1:] else 8
        if name in ("len", "bytesize", "bytesize4"):
            self.check_target(owner, args[0], above)
            return self.size(owner, args[1], direction, above) if args[1:] else 8
        if name in ("ptr", "ptr64"):
            self.size(owner, args[1], args[0].name, above)
            return 8
        if name == "vma64":
            return 8
        if name == "fmt":
            self.size(owner, args[1], direction, above)
            return {"dec": 20, "hex": 18, "oct": 23}[args[0].name]
        if name in ("string", "stringnoz"):
            return self.number(args[1].name) if args[1:] else None
        if name == "optional":
            self.size(owner, args[0], direction, above)
            return None
        if name == "array":
            one = self.size(owner, args[0], direction, above)
            fixed = args[1:] and not args[1].more
            return one * self.number(args[1].name) if fixed and one is not None \
                else None
        return self.size_named(owner, kind, args, direction, above)

    def size_named(self, owner, kind, args, direction, above):
        """The same of what has a name."""
        name = kind.name
        if name in UPSTREAM_TEMPLATES:
            for arg in args:
                if arg.name in self.named or arg.name in UPSTREAM_TEMPLATES or \
                        arg.name in BUILTIN:
                    self.size(owner, arg, "in", above)
            return {"genlmsghdr_t": 4}.get(name)
        if UPSTREAM.get(name) == "resource":
            return 4
        if name in UPSTREAM:
            return UPSTREAM[name]
        each = self.named[name]
        if isinstance(each, Resource):
            self.note(name, direction)
            return self.base_size(name)
        if isinstance(each, Flags):
            self.fail(owner, f"{name} is no type")
        given = dict(zip(each.params, args))
        if isinstance(each, Alias):
            return self.size(owner, each.type.bound(given), direction, above)
        return self.layout(each, given, direction, above)[0]

    def check_target(self, owner, target, above):
        """What the length of is asked for."""
        if target.name == "parent":
            return
        if not above:
            return      # an argument of a call
        fields = above[-1][1]
        for word in (target.name, *target.more):
            if word in dict(above) and fields is above[-1][1]:
                return
            if word not in fields:
                self.fail(owner, f"there is no field {word}")
            at = fields[word]
            while at.name in ("ptr", "ptr64"):
                at = at.args[1]
            struct = self.named.get(at.name)
            while isinstance(struct, Alias):
                at = struct.type.bound(dict(zip(struct.params, at.args)))
                struct = self.named.get(at.name)
            fields = {}
            if isinstance(struct, Struct):
                given = dict(zip(struct.params, at.args))
                fields = {field.name: field.type.bound(given)
                          for field in struct.fields}

    @staticmethod
    def bits(kind):
        """Bits of a bit field, 0: none."""
        if kind.name in INTS and kind.more:
            return int(kind.more[0])
        for arg in kind.args[1:]:
            if kind.name in ("const", "flags") and arg.name in INTS and arg.more:
                return int(arg.more[0])
        return 0

    def alignment(self, kind):
        """Of a type."""
        if kind.name in ("const", "flags", "len", "bytesize", "bytesize4"):
            return self.alignment(kind.args[1])
        if kind.name in ("ptr", "ptr64", "vma64"):
            return 8
        if kind.name in ("array", "optional"):
            return self.alignment(kind.args[0])
        each = self.named.get(kind.name)
        if isinstance(each, Alias):
            return self.alignment(each.type.bound(dict(zip(each.params, kind.args))))
        if isinstance(each, Struct):
            if each.has("packed"):
                return 1
            given = dict(zip(each.params, kind.args))
            return max(self.alignment(field.type.bound(given))
                       for field in each.fields)
        if isinstance(each, Resource) or UPSTREAM.get(kind.name) == "resource":
            return self.base_size(kind.name)
        return INTS.get(kind.name, SCALARS.get(kind.name, 1))

    def layout(self, struct, given, direction="in", above=()):
        """
        (bytes, {field: (offset, bytes, (first bit from the top, bits) or None)}) of a
        structure with parameters @given.
        """
        fields = {field.name: field.type.bound(given) for field in struct.fields}
        above = (*above, (struct.name, fields))
        if [name for name, _ in above].count(struct.name) > 4:
            self.fail(struct, "contains itself")
        if struct.union:
            sizes = [self.size(struct, fields[field.name],
                               field.direction or direction, above)
                     for field in struct.fields]
            if None in sizes and not struct.has("varlen"):
                self.fail(struct, "varies, and is not varlen")
            return (None if struct.has("varlen") and len(set(sizes)) > 1 or
                    None in sizes else max(sizes)), {}
        return self.layout_struct(struct, fields, direction, above)

    def layout_struct(self, struct, fields, direction, above):
        """The same of what is no union."""
        at, bit, found = 0, 0, {}
        packed = struct.has("packed")
        for field in struct.fields:
            kind = fields[field.name]
            size = self.size(struct, kind, field.direction or direction, above)
            self.check_condition(struct, field, fields, above)
            bits = self.bits(kind)
            if bit and (not bits or bit + bits > 8 * size):
                if bit % 8:
                    self.fail(struct, f"bits are missing before {field.name}")
                at, bit = None if at is None else at + bit // 8, 0
            if not packed and at is not None and not bit:
                step = self.alignment(kind)
                at = (at + step - 1) // step * step
            if at is None and not packed:
                self.fail(struct, f"{field.name} is behind what varies: not packed")
            place = (8 * size - bit - bits, bits) if bits else None
            found[field.name] = (at, size, place)
            if bits:
                bit += bits
            elif size is None or field.condition:
                at = None
            elif at is not None:
                at += size
        if bit % 8:
            self.fail(struct, "bits are missing at the end")
        if at is not None:
            at += bit // 8
            step = 1 if packed else max(map(self.alignment, fields.values()))
            at = (at + step - 1) // step * step
        return at, found

    def check_condition(self, struct, field, fields, above):
        """value[PATH] == CONSTANT"""
        if field.condition is None:
            return
        text = "".join(field.condition)
        match = re.match(r"value\[(\w+(?::\w+)*)\](==|!=|&)\w+$", text)
        if not match:
            self.fail(struct, f"condition {text}")
        first, *more = match[1].split(":")
        if first not in fields:
            self.fail(struct, f"there is no field {first}")
        self.check_target(struct, Type(first, more=more), above)

    def number(self, word):
        """A number, or a constant whose value is known."""
        if re.match(r"\d", word):
            return int(word, 0)
        return self.sizes.get(word, 16)

    def uses(self, name):
        """Types that are @name with arguments that are not parameters."""
        for each in (*self.named.values(), *self.calls.values()):
            params = set(getattr(each, "params", ()))
            kinds = [each.type] if isinstance(each, Alias) else \
                [field.type for field in getattr(each, "fields",
                                                 getattr(each, "args", ()))]
            for kind in kinds:
                for one in kind.walk():
                    if one.name == name and \
                            not any(sub.name in params for sub in one.walk()):
                        yield one


# ---- constants -------------------------------------------------------------

def common_headers(kdir):
    """Where the headers of a kernel are that do not depend on its configuration."""
    common = re.sub(r"-amd64$", "-common", kdir)
    return common if os.path.isdir(common) else kdir


def compiler(root, kdir):
    """How C is compiled that includes the headers of a kernel, and of the tree."""
    common = common_headers(kdir)
    words = ["gcc", "-S", "-O1", "-w", "-std=gnu11", "-fms-extensions", "-nostdinc",
             "-D__KERNEL__", "-DKBUILD_MODNAME=\"x\"", "-mcmodel=kernel", "-mno-sse",
             "-fno-pie", "-mno-red-zone", "-mfentry", "-DCC_USING_FENTRY", "-o", "-",
             "-x", "c", "-"]
    for where in ("arch/x86/include", "arch/x86/include/generated", "include",
                  "arch/x86/include/uapi", "arch/x86/include/generated/uapi",
                  "include/uapi", "include/generated/uapi"):
        for base in dict.fromkeys((common, kdir)):
            words.append(f"-I{os.path.join(base, where)}")
    words += [f"-I{os.path.join(root, 'include', 'uapi')}", f"-I{root}"]
    for name in ("kconfig.h", "compiler_types.h"):
        words += ["-include", os.path.join(common, "include", "linux", name)]
    return words


def evaluate(root, kdir, includes, expressions, defines=()):
    """
    {expression: value} of constant expressions of C, without those that the headers
    don't have.  @defines: (name, expression) of what is used in them; what is a macro
    of the headers stays as it is there.
    """
    argv = compiler(root, kdir)
    wanted = list(dict.fromkeys(expressions))
    while True:
        lines = [f"#include <{name}>" for name in includes]
        # The kernel's own is no constant before the compiler has optimised.
        lines += ["#undef _IOC_TYPECHECK", "#define _IOC_TYPECHECK(t) sizeof(t)"]
        for name, text in defines:
            lines += [f"#ifndef {name}", f"#define {name} {text}", "#endif"]
        lines.append("void values(void);\nvoid values(void)\n{")
        first = sum(line.count("\n") + 1 for line in lines) + 1
        lines += [f'asm volatile("\\n.ascii \\"->{at} %c0 %c1\\"" : : "i" ((int)'
                  f'((long long)({text}) >> 32)), "i" ((int)(long long)({text})));'
                  for at, text in enumerate(wanted)]
        done = subprocess.run(argv, input="\n".join(lines + ["}"]), text=True,
                              capture_output=True, check=False)
        if not done.returncode:
            break
        bad = {int(line) - first for line in
               re.findall(r"^<stdin>:(\d+):\d+: (?:error|note)", done.stderr, re.M)}
        if not bad or min(bad) < 0 or max(bad) >= len(wanted):
            raise Wrong(done.stderr[:2000])
        wanted = [text for at, text in enumerate(wanted) if at not in bad]
    found = re.findall(r"->(\d+) (-?\d+) (-?\d+)", done.stdout)
    return {wanted[int(at)]: (int(high) << 32) + int(low) % (1 << 32)
            for at, high, low in found}


def constants(root, kdir, parser, names):
    """Values of a file's constants, as evaluate()."""
    extra = [name for name in names if name.startswith("__NR_")]
    values = evaluate(root, kdir, parser.includes,
                      [name for name in names if name not in extra],
                      parser.defines.items())
    values.update(evaluate(root, kdir, ["asm/unistd_64.h"], extra))
    return {name: value % (1 << 64) for name, value in values.items()}


def const_text(values):
    """A file of constants, in the form of syz-extract, for one architecture."""
    lines = ["# Code generated by tools/testing/fuzz/syzkaller/consts. DO NOT EDIT.",
             "arches = amd64"]
    lines += [f"{name} = {value}" for name, value in sorted(values.items())]
    return "\n".join(lines) + "\n"


def read_consts(text):
    """{name: value} of such a file."""
    head, *lines = text.splitlines()
    if not head.startswith("#") or lines[:1] != ["arches = amd64"]:
        raise Wrong("no file of constants")
    return {name: int(value) for name, value in
            (line.split(" = ") for line in lines[1:])}


def read(directory):
    """All descriptions of a directory, and their constants, by file."""
    texts, consts = {}, {}
    for name in sorted(os.listdir(directory)):
        if name.endswith((".txt", ".txt.const")):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                (texts if name.endswith(".txt") else consts)[name] = file.read()
    descriptions = Descriptions(texts)
    for name, text in consts.items():
        consts[name] = read_consts(text)
        descriptions.sizes.update(consts[name])
    descriptions.check()
    return descriptions, consts
