# SPDX-License-Identifier: GPL-2.0-only
"""Reads C sources in kernel style: what they define, and of what type it is.

It reads text, not what a preprocessor makes of it, and takes what it wants from
there.  libclang and sparse's semind know types better, but need the headers of
a configured kernel, and see one configuration of the sources; gcc's
-fcallgraph-info needs a build besides, and has no inline functions any more.
universal-ctags finds functions, but not what they use.  Text needs nothing but
Python, and all branches of all conditions count.  Compared with clang's syntax
trees for 6.12, none of the driver's and the fabric's 2157 uses of functions is
missing.

The price is that the kernel's macros are not known.  Those that paste names are
listed below; macros of the sources themselves are followed.
"""

import os
import re

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>\.?[0-9][\w.]*)
  | (?P<mark>->|\+\+|--|<<=|>>=|<<|>>|\.\.\.|\#\#|[-+*/%&|^=!<>]=|&&|\|\|
     |[^\s\\])
  """, re.X | re.S | re.M)

WORD = re.compile(r"[A-Za-z_]\w*$")
KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern "
    "float for goto if inline int long register restrict return short signed "
    "sizeof static struct switch typedef typeof union unsigned void volatile "
    "while __always_inline noinline __init __exit".split())
# Behind the parameters of a function, or before its type
ATTRIBUTES = frozenset(
    "__printf __scanf __attribute__ __aligned __must_hold __acquires __section "
    "__releases __must_hold_shared __cond_acquires __no_sanitize".split())
# Macros of the kernel that make names: what they define and use
PASTED = {
    "DEFINE_SHOW_ATTRIBUTE": (["{0}_fops"], ["{0}_show"]),
    "DEFINE_SEQ_ATTRIBUTE": (["{0}_fops"], ["{0}_sops"]),
    "ATTRIBUTE_GROUPS": (["{0}_groups", "{0}_group"], ["{0}_attrs"]),
    "DEFINE_SIMPLE_ATTRIBUTE": (["{0}"], []),
    "DEFINE_DEBUGFS_ATTRIBUTE": (["{0}"], []),
    "DECLARE_WORK": (["{0}"], []),
    "DECLARE_DELAYED_WORK": (["{0}"], []),
    "DEFINE_TIMER": (["{0}"], []),
    "TRACE_EVENT": (["trace_{0}"], []),
    "DEFINE_EVENT": (["trace_{1}"], []),
}
for _macro, _prefix in (("DEVICE", "dev"), ("BUS", "bus"), ("CLASS", "class"),
                        ("DRIVER", "driver")):
    for _mode, _uses in (("RO", ["{0}_show"]), ("WO", ["{0}_store"]),
                         ("RW", ["{0}_show", "{0}_store"])):
        PASTED[f"{_macro}_ATTR_{_mode}"] = ([_prefix + "_attr_{0}"], _uses)
OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = {b: a for a, b in OPEN.items()}


class Unreadable(Exception):
    """Text that is no C as this understands it."""


class Token(str):
    """A word or mark, with the number of its line."""
    line = 0

    @staticmethod
    def make(text, line):
        """A token that is @text."""
        token = Token(text)
        token.line = line
        return token


def is_word(token):
    """An identifier, or a keyword?"""
    return WORD.match(token) is not None


def is_name(token):
    """An identifier that is no keyword?"""
    return is_word(token) and token not in KEYWORDS


def tokens_of(text, first=1):
    """Tokens of @text, and its directives as (line, text)."""
    found, directives = [], []
    line, last = first, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", last, match.start())
        last = match.start()
        if match.lastgroup == "directive":
            directives.append((line, match.group().strip()))
        elif match.lastgroup != "comment":
            found.append(Token.make(match.group(), line))
    return found, directives


def pairs_of(tokens):
    """Where brackets match, both ways."""
    pairs, stack = {}, []
    for i, token in enumerate(tokens):
        if token in OPEN:
            stack.append(i)
        elif token in CLOSE and stack:
            j = stack.pop()
            pairs[i], pairs[j] = j, i
    return pairs


def split(tokens, mark):
    """Pieces of @tokens between @mark, brackets kept together."""
    pieces, piece, depth = [], [], 0
    for token in tokens:
        depth += (token in OPEN) - (token in CLOSE)
        if token == mark and not depth:
            pieces.append(piece)
            piece = []
        else:
            piece.append(token)
    return pieces + [piece] if piece or pieces else []


class Definition:
    """A function, variable, macro or type, or something else at file level."""

    def __init__(self, kind, name, path, head, body, static=False):
        self.kind, self.name, self.path = kind, name, path
        self.head, self.body, self.static = head, body, static
        self.params = []        # names, of a function or macro
        self.type = None        # structure that it is, points to or returns;
                                # "()" of a variable that points to a function
        self.members = {}       # of a structure: type, "()" if a function
        self.uses = []          # names that are used without being written
        self.generated = False
        self.line = name.line if isinstance(name, Token) else \
            (head or body)[0].line
        self.end = body[-1].line if body else self.line

    @property
    def lines(self):
        """From its name to its last brace."""
        return self.end - self.line + 1

    def __repr__(self):
        return f"{self.path}:{self.line}: {self.kind} {self.name}"


class Source:
    """One file."""

    def __init__(self, path, text):
        self.path = path
        self.lines = text.count("\n")
        self.tokens, directives = tokens_of(text)
        self.includes = []
        self.macros = {}
        for line, words in directives:
            self.directive(line, words)

    def directive(self, line, words):
        """Note a directive of the preprocessor."""
        match = re.match(r'#\s*include\s*"([^"]+)"', words)
        if match:
            self.includes.append((line, match.group(1)))
        match = re.match(r"#\s*define\s+(\w+)(\(([^)]*)\))?", words)
        if not match:
            return
        body, _ = tokens_of(words[match.end():].replace("\\\n", "\n"),
                            line + words.count("\n", 0, match.end()))
        name = Token.make(match.group(1), line)
        macro = Definition("macro", name, self.path, [], body)
        if match.group(2):
            macro.params = [p.strip().replace("...", "__VA_ARGS__")
                            for p in match.group(3).split(",")]
            self.macros[str(name)] = macro


def substitute(macro, args, line):
    """What @macro gives for @args, names pasted."""
    given = dict(zip(macro.params, args))
    out = []
    paste = False
    for token in macro.body:
        if token == "##":
            paste = True
            continue
        new = given.get(token, [token])
        if paste and out and new:
            new = [Token.make(out.pop() + new[0], line)] + list(new[1:])
        paste = False
        out += [Token.make(t, line) for t in new]
    return out


def expand(tokens, macros, only=lambda macro: True, depth=0):
    """@tokens with those calls of @macros replaced that @only wants."""
    pairs, out, i = pairs_of(tokens), [], 0
    while i < len(tokens):
        macro = macros.get(tokens[i])
        if macro and only(macro) and i + 1 in pairs and tokens[i + 1] == "(" \
                and depth < 8:
            end = pairs[i + 1]
            args = split(tokens[i + 2:end], ",")
            out += expand(substitute(macro, args, tokens[i].line), macros,
                          only, depth + 1)
            i = end + 1
        else:
            out.append(tokens[i])
            i += 1
    return out


def pastes(macro):
    """Does @macro make names?"""
    return any(t == "##" and n != "__VA_ARGS__"
               for t, n in zip(macro.body, macro.body[1:]))


class Reader:
    """Takes the tokens of a file apart into definitions."""

    def __init__(self, source, macros):
        self.path = source.path
        self.macros = macros
        self.found = []
        self.structs = {}       # name: Definition
        self.typedefs = set()   # names of types of function pointers
        self.tokens, self.pairs = [], {}
        self.read(expand(source.tokens, macros, pastes))

    def read(self, tokens):
        """Take @tokens apart."""
        before = self.tokens, self.pairs
        self.tokens, self.pairs = tokens, pairs_of(tokens)
        for i, token in enumerate(tokens):
            if (token in OPEN or token in CLOSE) and \
               OPEN.get(token, CLOSE.get(token)) != \
               tokens[self.pairs.get(i, i)]:
                raise Unreadable(f"{self.path}:{token.line}: {token} has no "
                                 "counterpart")
        i = 0
        while i < len(tokens):
            i = self.chunk(i)
        self.tokens, self.pairs = before

    def chunk(self, start):
        """One definition or declaration; returns where the next begins."""
        tokens, i = self.tokens, start
        while i < len(tokens):
            token = tokens[i]
            if token == ";":
                self.statement(tokens[start:i])
                return i + 1
            if token == "{":
                end = self.pairs[i]
                if self.function(tokens[start:i], tokens[i:end + 1]):
                    return end + 1
                i = end
            elif token in OPEN:
                end = self.pairs[i]
                if i == start + 1 and tokens[start].isupper() and \
                   tokens[end + 1:end + 2] != [";"]:
                    self.statement(tokens[start:end + 1])   # no semicolon
                    return end + 1
                i = end
            i += 1
        return i

    def function(self, head, body):
        """Note a function, if that is one."""
        pairs, i = pairs_of(head), 0
        while i < len(head):
            if head[i] == "=":
                return False
            if head[i] == "(" and i + 1 < len(head) and head[i + 1] == "*":
                i += 2      # int (*name(...))[]
            elif head[i] == "(" and i and is_name(head[i - 1]) and \
                    head[i - 1] not in ATTRIBUTES:
                new = Definition("function", head[i - 1], self.path, head,
                                 body, "static" in head[:i])
                new.params = [str(declared(p) or "") for p in
                              split(head[i + 1:pairs.get(i, len(head))], ",")]
                new.type = struct_name(head[:i])
                self.found.append(new)
                return True
            elif head[i] in OPEN:
                i = pairs.get(i, len(head))
            i += 1
        return False

    def statement(self, tokens):
        """What ends with a semicolon."""
        if not tokens:
            return
        if tokens[0] == "typedef":
            self.typedef(tokens)
            return
        self.types(tokens)
        if "=" not in tokens and (tokens[0] == "extern" or (
                tokens[0] in ("struct", "union", "enum") and
                (len(tokens) == 2 or tokens[-1] == "}"))):
            return
        called = [t for t in tokens[:3] if t not in ("static", "extern")]
        if called[1:2] == ["("] and called[0] in self.macros:
            self.read(expand(tokens, self.macros))
        elif called[1:2] == ["("] and called[0] in PASTED:
            self.pasted(str(called[0]), tokens)
        elif declared(tokens):
            self.variable(declared(tokens), tokens)
        elif tokens[1:2] == ["("]:
            self.found.append(
                Definition("other", tokens[0], self.path, [], tokens))

    def variable(self, name, tokens):
        """A variable, perhaps with a value."""
        start = tokens.index("=") if "=" in tokens else len(tokens)
        value = expand(tokens[start:], self.macros)
        new = Definition("variable", name, self.path, tokens[:start], value,
                         "static" in tokens[:start])
        new.type = struct_name(tokens[:start])
        if "{" in tokens[:start] and tokens[tokens.index("{") - 1] == "struct":
            new.type = str(name)
        if pointer_name(tokens[:start]):
            new.type = "()"
        self.found.append(new)

    def pasted(self, macro, tokens):
        """A macro of the kernel that defines something."""
        start = tokens.index("(")
        args = [a[0] if a else "" for a in
                split(tokens[start + 1:pairs_of(tokens)[start]], ",")]
        defines, uses = PASTED[macro]
        for word in defines:
            kind = "function" if word.startswith("trace_") else "variable"
            name = Token.make(word.format(*args, ""), tokens[0].line)
            new = Definition(kind, name, self.path, [], tokens,
                             kind == "variable")
            new.generated = True
            new.uses = [u.format(*args) for u in uses]
            self.found.append(new)

    def typedef(self, tokens):
        """typedef void (*name)(...)"""
        for i, token in enumerate(tokens[:-2]):
            if token == "(" and tokens[i + 1] == "*":
                self.typedefs.add(str(tokens[i + 2]))
                return
        self.types(tokens)

    def types(self, tokens):
        """Note the structures that @tokens define."""
        pairs = pairs_of(tokens)
        for i, token in enumerate(tokens):
            if token in ("struct", "union") and i + 2 < len(tokens):
                start = i + 1 if tokens[i + 1] == "{" else i + 2
                if tokens[start] != "{" or i and tokens[i - 1] in ("(", "="):
                    continue
                name = str(tokens[i + 1] if start == i + 2 else
                           declared(tokens))
                new = Definition("struct", Token.make(name, token.line),
                                 self.path, [], tokens[start:pairs[start] + 1])
                self.structs[name] = new
                self.found.append(new)
                self.members(name, tokens[start + 1:pairs[start]], new)
                return

    def members(self, name, tokens, new):
        """Types of the members, in order, of anonymous ones too."""
        for words in split(tokens, ";"):
            if "{" in words:
                start = words.index("{")
                end = pairs_of(words)[start]
                rest = declared(["int"] + words[end + 1:])
                if words[0] in ("struct", "union") and rest is not None:
                    inner = words[1] if start == 2 else f"{name}.{rest}"
                    kind = Definition("struct",
                                      Token.make(inner, words[0].line),
                                      self.path, [], words)
                    self.structs[str(inner)] = kind
                    self.members(str(inner), words[start + 1:end], kind)
                    new.members[str(rest)] = str(inner)
                elif words[0] in ("struct", "union"):
                    self.members(name, words[start + 1:end], new)
                continue
            base = struct_name(words)
            for j, part in enumerate(split(words, ",")):
                pointer = pointer_name(part)
                if pointer:
                    new.members[str(pointer)] = "()"
                    break
                member = declared(part if j == 0 else ["int"] + part)
                if member is not None:
                    kind = base or next((f"typedef {w}" for w in words
                                         if is_name(w)), None)
                    new.members[str(member)] = kind


def struct_name(tokens):
    """X of "struct X", or None."""
    for i, token in enumerate(tokens[:-1]):
        if token in ("struct", "union") and is_word(tokens[i + 1]):
            return str(tokens[i + 1])
    return None


def pointer_at(tokens, i, pairs):
    """The name in "(*name)(...)" or "(*const name[])(...)" at @i, or None."""
    end = pairs.get(i, len(tokens))
    if tokens[i:i + 2] != ["(", "*"] or tokens[end + 1:end + 2] != ["("]:
        return None
    rest = [t for t in tokens[i + 2:end] if t != "const"]
    return rest[0] if rest[1:2] in ([], ["["]) and is_name(rest[0]) else None


def pointer_name(tokens):
    """What a declaration of a pointer to a function declares, or None."""
    pairs, i = pairs_of(tokens), 0
    while i < len(tokens):
        if pointer_at(tokens, i, pairs):
            return pointer_at(tokens, i, pairs)
        i = pairs.get(i, i) + 1 if tokens[i] in OPEN else i + 1
    return None


def declared(tokens):
    """What a declaration of one thing that is no function declares, or None."""
    pairs, name, i = pairs_of(tokens), pointer_name(tokens), 0
    if name:
        return name
    while i < len(tokens):
        token = tokens[i]
        if token in ("=", ":", ",") or token == "[" and name is not None:
            break
        if token == "(" and tokens[i + 1:i + 2] == ["*"]:
            return next((t for t in tokens[i + 2:] if is_name(t)), None)
        if token == "(" and name is not None and \
           tokens[i - 1] == name and name not in ATTRIBUTES:
            return None
        if token in OPEN:
            i = pairs.get(i, i)
        elif is_name(token) and not token.startswith("__") and \
                (i == 0 or tokens[i - 1] not in ("struct", "union", "enum")):
            name = token
        i += 1
    return name if len(tokens) > 1 else None


def read(root, paths):
    """Files @paths below @root as {path: Source}, with definitions."""
    sources = {}
    for path in paths:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            sources[path] = Source(path, file.read())
    macros = {}
    for source in sources.values():
        macros.update(source.macros)
    for source in sources.values():
        reader = Reader(source, macros)
        source.found = reader.found + list(source.macros.values())
        source.structs, source.typedefs = reader.structs, reader.typedefs
    return sources
