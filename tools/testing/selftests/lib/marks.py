# SPDX-License-Identifier: GPL-2.0-only
"""
Marks of the documentation: what runs the commands of a block, or why nothing does.

A comment directly in front of each literal block is one of

    .. run: FILE.CASE, FILE.CASE
    .. not run: REASON

and in Markdown the same as <!-- run: ... -->.
"""

import ast
import collections
import functools
import os
import re

import docutils.core
from docutils import nodes
from docutils.parsers.rst import Directive, directives

from common import TESTS
from . import harness

LIB = os.path.join(TESTS, "lib")
MARK = re.compile(r"(run|not run):\s*(.*)", re.S)

# A mark without a block has no text, a block without a mark no mark.
Block = collections.namedtuple("Block", "mark text file")


# ---- blocks of a page ----------------------------------------------------------


class Included(Directive):
    """Sphinx's literalinclude: a block of which only the file counts."""

    required_arguments = 1
    option_spec = {"start-after": directives.unchanged}

    def run(self):
        return [nodes.literal_block("", self.arguments[0], file=self.arguments[0])]


class Nothing(Directive):
    """A directive of Sphinx that has no blocks."""

    has_content = True
    option_spec = {"maxdepth": directives.unchanged}

    def run(self):
        return []


directives.register_directive("literalinclude", Included)
directives.register_directive("toctree", Nothing)


def is_mark(node):
    return isinstance(node, nodes.comment) and MARK.match(node.astext())


def blocks_of_rst(text):
    """The blocks, and the marks that have none, of a page for Sphinx."""
    # Sphinx complains of what is wrong with the page, and knows more roles.
    page = docutils.core.publish_doctree(text, settings_overrides={
        "report_level": 5, "halt_level": 5, "input_encoding": "unicode"})
    found = []
    for node in page.findall(lambda each: isinstance(
            each, (nodes.literal_block, nodes.doctest_block)) or is_mark(each)):
        place = node.parent.index(node)
        around = node.parent.children[max(place - 1, 0):place + 2]
        if not is_mark(node):
            mark = around[0].astext() if is_mark(around[0]) else ""
            found.append(Block(mark, node.astext(), node.get("file", "")))
        elif not isinstance(around[-1], nodes.literal_block):
            found.append(Block(node.astext(), "", ""))
    return found


def blocks_of_markdown(text):
    """The same of a page in Markdown, whose blocks are those that are indented."""
    found = []
    for mark, lines in re.findall(
            r"(?:^<!-- ((?:not )?run:[^>]*?) -->\n+)?((?:^    [^\n]*\n|^\n+(?=    ))*)",
            text, re.M):
        if mark or lines.strip():
            found.append(Block(mark, re.sub(r"^    ", "", lines, flags=re.M), ""))
    return found


# ---- commands of a block -------------------------------------------------------

# Programs whose next words say what they do, and how many do
SUBCOMMANDS = {"ip": 2, "nmcli": 2, "ipoibctl": 1, "systemctl": 1, "netplan": 1}


def words_of(line):
    """What has to be in a case that runs a line, or that writes it to a file."""
    first, *rest = re.sub(r"\s{2,}# .*", "", line).split()
    name = os.path.basename(re.split("[=:]", first)[0])
    if name in ("echo", "cat"):
        return [os.path.basename(rest[-1])]
    if name == "make":
        return [word.partition("=")[0] for word in rest]
    if name == "ethtool":
        return [name, *[word for word in rest if word.startswith("-")][:1]]
    return [name, *[word for word in rest if not word.startswith("-")]
            [:SUBCOMMANDS.get(name, 0)]]


def commands_of(text):
    """The commands of a block: lines behind a prompt, or all if there is no prompt."""
    lines = [line for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    prompts = [line[2:] for line in lines if line[:2] in ("# ", "$ ")]
    return prompts or lines


# ---- cases --------------------------------------------------------------------


@functools.cache
def cases():
    """{FILE.CASE: path} of all there are."""
    return {f"{file.name}.{case}": file.path for file in harness.find_files(TESTS)
            for case in file.cases}


def modules_of(path):
    """Files of the library that a file imports."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    inside = os.path.dirname(path) == LIB
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        name = node.module or ""
        if node.level or name.split(".")[0] == "lib":
            name = name.removeprefix("lib").lstrip(".")
            for each in ([name] if name else
                         ["__init__"] * (not inside) +
                         [alias.name for alias in node.names]):
                yield os.path.join(LIB, each + ".py")


@functools.cache
def source(path):
    """A test file with all of the library that it imports."""
    todo, seen = [path], {}
    while todo:
        one = todo.pop()
        if one in seen or not os.path.exists(one):
            continue
        with open(one, encoding="utf-8") as file:
            seen[one] = file.read()
        todo += modules_of(one)
    return "\n".join(seen.values()).replace("\\n", "\n")


def has(text, word):
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)


# ---- the verdict ---------------------------------------------------------------


def complaint(block):
    """What is wrong with a block or its mark; nothing if all is well."""
    kind, rest = MARK.fullmatch(block.mark.strip()).groups() if \
        MARK.fullmatch(block.mark.strip()) else ("", "")
    if not kind:
        return "no mark"
    if not block.text.strip():
        return f"no block behind the mark: {kind}: {rest}"
    names = re.split(r"[,\s]+", rest) if kind == "run" else []
    if not rest:
        return "the mark says nothing"
    missing = [name for name in names if name not in cases()]
    if missing:
        return f"there is no case {', '.join(missing)}"
    if kind == "not run":
        return ""
    text = "\n".join(source(cases()[name]) for name in names)
    if block.file:
        missing = [] if f'"{os.path.basename(block.file)}"' in text else [block.file]
    else:
        missing = [word for line in commands_of(block.text)
                   for word in words_of(line) if not has(text, word)]
    return f"{', '.join(names)} has no {', '.join(missing)}" if missing else ""


def complaints(blocks):
    """All of those about a page's blocks, with the first line of each."""
    for block in blocks:
        wrong = complaint(block)
        if wrong:
            yield f"{block.text.strip().splitlines()[:1]}: {wrong}"
