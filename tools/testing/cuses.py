# SPDX-License-Identifier: GPL-2.0-only
"""Who calls whom in C sources, by name and through function pointers.

A function pointer is named by the structure it is a member of ("type.member"),
or, if it is a parameter, by its function ("function(parameter)").  A work item,
a timer and a NAPI context count as pointers, too: arming one calls the function
that was put into it.  Other callbacks that the kernel is given are no calls.
"""

import collections
import re

from csource import CLOSE, KEYWORDS, OPEN, is_name, is_word, pairs_of, \
    pointer_at, pointer_name, split, struct_name

# What arms a work item, a timer or NAPI
ARM = re.compile(
    r"(queue|schedule|mod)_(delayed_|rcu_)?work(_on|_node)?"
    r"|mod_timer(_pending)?|timer_reduce|add_timer(_on)?"
    r"|hrtimer_(start|restart|forward)\w*|(__)?napi_schedule\w*"
    r"|irq_work_queue(_on)?|(__)?tasklet_(hi_)?schedule")
# Macros whose value has the type of their first argument, or of a named one
SAME = re.compile(r"(rcu|rtnl|srcu)_dereference\w*|rcu_access_pointer|xchg"
                  r"|READ_ONCE|smp_load_acquire|(per|this|raw)_cpu_ptr"
                  r"|unrcu_pointer|rcu_replace_pointer|no_free_ptr")
NAMED = re.compile(r"container_of\w*|\w*_entry(_\w+)?|k[vmz]*alloc_\w+"
                   r"|from_timer|timer_container_of")

Use = collections.namedtuple("Use", "user target path line")
Access = collections.namedtuple("Access", "user struct member line")


class Pointer:
    """A function pointer: what is put into it, and what calls it."""

    def __init__(self, name):
        self.name = name
        self.fills = []     # Use of a function, or of another pointer
        self.calls = []     # Use without target
        self.member = None  # what declares it in the sources

    def where(self):
        """Where it is used, or else defined, as file:line."""
        for use in self.calls + self.fills:
            return f"{use.path}:{use.line}"
        return f"{self.member.path}:{self.member.line}"

    def functions(self, pointers, seen=()):
        """Uses of functions that it may point to."""
        for use in self.fills:
            if not isinstance(use.target, str):
                yield use
            elif use.target not in seen and use.target in pointers:
                yield from pointers[use.target].functions(
                    pointers, seen + (use.target,))


class Program:
    """All definitions, and what they use of each other."""

    def __init__(self, sources):
        self.sources = sources
        self.names, self.local, self.structs = {}, {}, {}
        self.typedefs = set()
        self.uses, self.accesses = [], []
        self.pointers = {}
        self.unknown = []       # (Use, structure or None, member)
        self.unarmed = []       # Use: arms something that is not known
        found = [d for s in sources.values() for d in s.found]
        for one in found:
            self.define(one)
        for source in sources.values():
            self.structs.update(source.structs)
            self.typedefs.update(source.typedefs)
        for name, struct in self.structs.items():
            for member in struct.members:
                if self.is_pointer(name, member):
                    self.pointer(f"{name}.{member}").member = struct
        self.carrying = self.carriers(found)
        self.armers = self.find_armers(found)
        for one in found:
            if one.kind != "struct":
                Walk(self, one).run()
        self.match_calls()

    def define(self, one):
        """Note a definition; a .c file's wins over a header's stub."""
        def rank(one):
            return one.path.endswith(".c"), one.kind != "macro"

        name = str(one.name)
        if one.kind not in ("function", "variable", "macro"):
            return
        if one.path.endswith(".c") and (one.static or one.kind == "macro"):
            self.local.setdefault((one.path, name), one)
        elif name not in self.names or rank(one) > rank(self.names[name]):
            self.names[name] = one

    def find(self, name, path):
        """What @name means in @path, or None."""
        return self.local.get((path, name)) or self.names.get(name)

    def pointer(self, name):
        """The pointer of that name."""
        return self.pointers.setdefault(name, Pointer(name))

    def is_pointer(self, struct, member):
        """Is that member a function pointer?"""
        kind = self.member(struct, member)
        return kind == "()" or bool(kind) and kind.startswith("typedef ") and \
            kind.split()[1] in self.typedefs

    def member(self, struct, member):
        """Type of a member: of a structure's name, "()" or None."""
        found = self.structs.get(struct)
        return found.members.get(member) if found else None

    def carriers(self, found):
        """Variables that hold functions, or other such variables."""
        named = {}
        for one in found:
            if one.kind == "variable":
                words = set(one.body) | set(one.uses)
                named[id(one)] = [self.find(w, one.path) for w in words]
        held = {i for i, names in named.items()
                if any(n and n.kind == "function" for n in names)}
        while True:
            more = {i for i, names in named.items() if i not in held and
                    any(n and id(n) in held for n in names)}
            if not more:
                return held
            held |= more

    def unused(self):
        """Static functions that nothing uses: a compiler would say so, thus a
        macro that is not known must paste their names."""
        used = {u.target for u in self.uses}
        return [one for one in self.local.values()
                if one.kind == "function" and one not in used]

    def calls(self):
        """Uses, but those of macros that use nothing themselves."""
        useful, more = set(), True
        while more:
            more = {u.user for u in self.uses if u.user.kind == "macro" and (
                u.target.kind != "macro" or u.target in useful)} - useful
            useful |= more
        return [u for u in self.uses
                if u.target.kind != "macro" or u.target in useful]

    @staticmethod
    def find_armers(found):
        """Names of functions that arm what is passed to them."""
        armers, more = set(), True
        while more:
            more = {str(d.name) for d in found if d.kind == "function" and
                    str(d.name) not in armers and arms_parameter(d, armers)}
            armers |= more
        return armers

    def match_calls(self):
        """Calls through members of kernel structures, and of structures that
        are not known, are calls of pointers of that name that are filled."""
        for use, struct, member in self.unknown:
            for name, pointer in list(self.pointers.items()):
                owner, _, last = name.rpartition(".")
                if last == member and struct in (None, owner) and \
                   pointer.fills:
                    pointer.calls.append(use)


def arms_parameter(one, armers):
    """Does a function arm one of its parameters?"""
    pairs = pairs_of(one.body)
    for i, token in enumerate(one.body[:-1]):
        if one.body[i + 1] == "(" and \
           (ARM.fullmatch(token) or token in armers):
            args = split(one.body[i + 2:pairs[i + 1]], ",")
            if any(len(a) == 1 and a[0] in one.params for a in args):
                return True
    return False


class Scope:
    """What names mean in a definition, and what types expressions have."""

    def __init__(self, program, one):
        self.program, self.one = program, one
        self.tokens = one.body
        self.pairs = pairs_of(one.body)
        self.types = {}
        self.own = set(one.params)
        self.local = set()      # pointers to functions among them
        if one.kind == "function":
            self.declared(one.head)
            self.declared(one.body)
            self.own |= self.local

    def declared(self, tokens):
        """Local variables, and the structures they are or point to."""
        pairs = pairs_of(tokens)
        for i, token in enumerate(tokens[:-2]):
            if token in ("struct", "union") and is_name(tokens[i + 1]):
                self.declarators(tokens, i + 2, str(tokens[i + 1]))
            elif is_name(token) and is_name(tokens[i + 1]) and \
                    tokens[i + 2] in ("=", ";", ",", ")", "["):
                self.own.add(str(tokens[i + 1]))
            elif pointer_at(tokens, i, pairs) and \
                    is_word(tokens[i - 1] if tokens[i - 1] != "*" else
                            tokens[i - 2]):
                self.local.add(str(pointer_at(tokens, i, pairs)))

    def declarators(self, tokens, i, struct):
        """Names declared as of @struct, from place @i."""
        depth = 0
        fresh = True
        while i < len(tokens):
            token = tokens[i]
            if depth == 0 and (token in (";", "{", "}") or token in CLOSE):
                return
            if fresh and is_name(token):
                self.types.setdefault(str(token), struct)
                self.own.add(str(token))
                fresh = False
            elif fresh and token not in ("*", "const", "__rcu", "__percpu"):
                return
            elif token == "," and depth == 0:
                follows = tokens[i + 1:i + 3] + ["", ""]
                if follows[0] in KEYWORDS or is_name(follows[0]) and \
                   (is_name(follows[1]) or follows[1] == "*"):
                    return      # another parameter
                fresh = True
            depth += (token in OPEN) - (token in CLOSE)
            i += 1

    def type_ending(self, j):
        """Structure that the expression which ends at @j is or points to."""
        tokens = self.tokens
        while j in self.pairs and tokens[j] == "]":
            j = self.pairs[j] - 1
        begin = self.pairs.get(j, 0)
        found = None
        if j < 0:
            pass
        elif tokens[j] == ")" and begin and is_name(tokens[begin - 1]):
            found = self.type_of_call(begin, j)
        elif tokens[j] == ")":
            found = self.type_of(begin + 1, j)
        elif is_name(tokens[j]) and j and tokens[j - 1] in ("->", "."):
            found = self.program.member(self.type_ending(j - 2),
                                        str(tokens[j]))
        elif is_name(tokens[j]):
            found = self.type_of_name(str(tokens[j]))
        # A function or a type of the kernel is no structure
        return found if found and found != "()" and " " not in found else None

    def type_of_name(self, name):
        """The same, of a variable."""
        if name in self.types:
            return self.types[name]
        found = self.program.find(name, self.one.path)
        return found.type if found and found.kind == "variable" else None

    def type_of_call(self, begin, end):
        """The same, of a call's value."""
        name = str(self.tokens[begin - 1])
        args = split(self.tokens[begin + 1:end], ",")
        found = self.program.find(name, self.one.path)
        if found and found.kind == "function":
            return found.type
        if NAMED.fullmatch(name):
            return next((s for s in map(struct_name, args) if s), None)
        if SAME.fullmatch(name) and args:
            return self.type_of(begin + 1, begin + 1 + len(args[0]))
        return None

    def type_of(self, begin, end):
        """The same, of a whole expression."""
        tokens = self.tokens
        if begin < end and tokens[begin] == "(" and begin in self.pairs and \
           self.pairs[begin] < end - 1 and \
           tokens[begin + 1] in ("struct", "const", "union"):
            return struct_name(tokens[begin:self.pairs[begin]])
        return self.type_ending(end - 1)

    def member_of(self, begin, end):
        """"type.member" if tokens @begin to @end are "&x->y" or "x->y"."""
        tokens = self.tokens
        j = end - 1
        while j >= begin and tokens[j] == "]":
            j = self.pairs.get(j, 0) - 1
        if j - 1 > begin and is_name(tokens[j]) and \
           tokens[j - 1] in ("->", "."):
            return f"{self.type_ending(j - 2) or '?'}.{tokens[j]}"
        if j - 1 == begin and tokens[begin] == "&" or j == begin:
            found = self.program.find(str(tokens[j]), self.one.path)
            if found and found.kind == "variable" and \
               (found.type == "()" or tokens[begin] == "&"):
                return str(tokens[j])
        return None

    def target_of(self, begin, end):
        """The pointer that "tokens = function" fills, or None."""
        name = self.member_of(begin, end)
        if name is None:
            local = pointer_name(self.tokens[begin:end]) or self.tokens[end - 1]
            if self.one.kind == "function" and \
               (local in self.local or local in self.one.params):
                name = f"{self.one.name}({local})"
        return name

    def following(self, i):
        """What follows the word at @i and its subscripts, and where."""
        i += 1
        while self.tokens[i:i + 1] == ["["] and i in self.pairs:
            i = self.pairs[i] + 1
        return self.tokens[i] if i < len(self.tokens) else "", i


class Walk(Scope):
    """Goes through one definition and notes what it uses."""

    def __init__(self, program, one):
        super().__init__(program, one)
        self.initialisers = set()

    def run(self):
        """Note what is used."""
        stack = []
        for name in self.one.uses:
            self.named(name, self.one.line)
        if self.one.kind == "variable" and self.one.type == "()":
            self.program.pointer(str(self.one.name)).member = self.one
            self.hold(str(self.one.name), 0, len(self.tokens))
        for i, token in enumerate(self.tokens):
            if token in OPEN:
                stack.append(i)
                if token == "{":
                    self.value(i)
            elif token in CLOSE and stack:
                stack.pop()
            elif is_name(token):
                self.word(i, stack)

    def named(self, name, line):
        """Something generated names @name."""
        found = self.program.find(name, self.one.path)
        if found and found.kind == "function":
            self.use(found, line)

    def use(self, target, line):
        """The definition uses @target."""
        new = Use(self.one, target, self.one.path, line)
        if target is not self.one:
            self.program.uses.append(new)
        return new

    def word(self, i, stack):
        """What the word at @i uses."""
        tokens, token = self.tokens, self.tokens[i]
        before = tokens[i - 1] if i else ""
        after, _ = self.following(i)
        if before in ("->", "."):
            if before == "->" or i > 1 and tokens[i - 2] not in ("{", ","):
                self.access(i)
            return
        if before in ("struct", "union", "enum", "goto"):
            return
        if token in self.own:
            self.parameter(i, after, stack)
            return
        found = self.program.find(str(token), self.one.path)
        if after == "(" and (ARM.fullmatch(token) or
                             token in self.program.armers):
            self.arm(i)
        if found is None or found is self.one and after == "(":
            return
        if found.kind == "function":
            new = self.use(found, token.line)
            if after != "(":
                self.address(i, stack, new)
        elif found.kind == "variable" and found.type == "()":
            if after == "(":
                self.program.pointer(str(token)).calls.append(
                    Use(self.one, None, self.one.path, token.line))
        elif found.kind == "macro" or id(found) in self.program.carrying:
            self.use(found, token.line)

    def access(self, i):
        """A member of a structure."""
        tokens, program = self.tokens, self.program
        after, start = self.following(i)
        member = str(tokens[i])
        struct = self.type_ending(i - 2)
        if struct:
            program.accesses.append(
                Access(self.one, struct, member, tokens[i].line))
        called = after == "(" or after == ")" and \
            tokens[start + 1:start + 2] == ["("] and \
            tokens[self.pairs.get(start, 0) + 1] == "*"
        if not called:
            return
        use = Use(self.one, None, self.one.path, tokens[i].line)
        if program.is_pointer(struct, member):
            program.pointer(f"{struct}.{member}").calls.append(use)
        else:
            program.unknown.append((use, struct, member))

    def arm(self, i):
        """A work item or timer is armed."""
        start, known = i + 2, False
        use = Use(self.one, None, self.one.path, self.tokens[i].line)
        for arg in split(self.tokens[start:self.pairs.get(i + 1)], ","):
            name = self.member_of(start, start + len(arg))
            if arg[:1] == ["&"] and name:
                self.program.pointer(name).calls.append(use)
                known = True
            elif len(arg) == 1 and arg[0] in self.one.params:
                known = True    # its caller arms it, see find_armers()
            start += len(arg) + 1
        if not known:
            self.program.unarmed.append(use)

    def parameter(self, i, after, stack):
        """A parameter or local variable that may hold a function."""
        token = str(self.tokens[i])
        if self.one.kind != "function" or \
           token not in self.one.params and token not in self.local:
            return
        name = f"{self.one.name}({token})"
        use = Use(self.one, None, self.one.path, self.tokens[i].line)
        if after == "(" and token in self.one.params:
            self.program.pointer(name).calls.append(use)
        elif after in (",", ")", ";"):
            self.address(i, stack, use._replace(target=name))

    def address(self, i, stack, use):
        """A function's address, or a parameter, at @i is put somewhere."""
        tokens, program = self.tokens, self.program
        for begin in reversed(stack):
            if tokens[begin] == "{":
                break
            if tokens[begin] == "(" and begin and is_name(tokens[begin - 1]):
                self.argument(i, begin, use)
                break
        if stack and stack[-1] in self.initialisers:
            return
        # x->y = function;
        j = i
        while j > 0 and tokens[j] not in (";", "{", "}"):
            if tokens[j] == "=":
                begin = j
                while begin > 0 and tokens[begin - 1] not in (";", "{", "}"):
                    begin -= 1
                name = self.target_of(begin, j)
                if name and (not isinstance(use.target, str) or
                             self.could_hold(name)):
                    program.pointer(name).fills.append(use)
                break
            j -= 1

    def could_hold(self, name):
        """Is the member @name a function pointer?"""
        struct, _, member = name.rpartition(".")
        return not struct or self.program.is_pointer(struct, member)

    def argument(self, i, begin, use):
        """A function is passed to one that is called."""
        tokens, program = self.tokens, self.program
        called = program.find(str(tokens[begin - 1]), self.one.path)
        args, start = [], begin + 1
        for arg in split(tokens[begin + 1:self.pairs.get(begin)], ","):
            args.append((start, start + len(arg)))
            start += len(arg) + 1
        if called and called.kind == "function":
            for (first, end), param in zip(args, called.params):
                if first <= i < end and end - first <= 2:
                    program.pointer(f"{called.name}({param})").fills.append(use)
            return
        if isinstance(use.target, str):
            return
        for first, end in args:
            name = self.member_of(first, end)
            if name and not first <= i < end and \
               (tokens[first] == "&" or self.could_hold(name)):
                program.pointer(name).fills.append(use)
                return

    def value(self, i):
        """The initialiser at @i, if it is one."""
        tokens = self.tokens
        before = tokens[i - 1] if i else ""
        if before == "=":
            struct = self.one.type if self.one.kind == "variable" and i == 1 \
                else None
            j = i
            while j > 0 and tokens[j - 1] not in (";", "{", "}"):
                j -= 1
            self.fill(struct or struct_name(tokens[j:i]), i)
        elif before == ")" and self.pairs.get(i - 1) is not None:
            begin = self.pairs[i - 1]
            if tokens[begin + 1] in ("struct", "const") and begin and \
               not is_name(tokens[begin - 1]):
                self.fill(struct_name(tokens[begin:i]), i)

    def fill(self, struct, i):
        """What the braces at @i put into @struct."""
        self.initialisers.add(i)
        known = self.program.structs.get(struct)
        order = list(known.members) if known else []
        start = i + 1
        for place, entry in enumerate(
                split(self.tokens[start:self.pairs.get(i)], ",")):
            owner, member, j = self.designated(struct, entry)
            if entry[j:j + 1] == ["{"]:
                # Without a member's name these are of an array
                self.fill(self.program.member(owner, member) if member
                          else struct, start + j)
            else:
                member = member or "".join(order[place:place + 1])
                self.hold(f"{owner or '?'}.{member}" if member else None,
                          start + j, start + len(entry))
            start += len(entry) + 1

    def designated(self, struct, entry):
        """Which member of which structure an entry of an initialiser names,
        and where its value begins."""
        member, j = None, 0
        while entry[j:j + 1] in (["."], ["["]):
            if entry[j] == "[":
                j = pairs_of(entry)[j] + 1
                continue
            if member:
                struct = self.program.member(struct, member)
            member = str(entry[j + 1])
            j += 2
        return struct, member, j + (entry[j:j + 1] == ["="])

    def hold(self, name, begin, end):
        """The pointer @name is given functions between @begin and @end."""
        for j in range(begin, end if name else begin):
            found = is_name(self.tokens[j]) and \
                self.program.find(str(self.tokens[j]), self.one.path)
            if found and found.kind == "function" and \
               self.tokens[j + 1:j + 2] != ["("]:
                self.program.pointer(name).fills.append(
                    Use(self.one, found, self.one.path, self.tokens[j].line))
