# SPDX-License-Identifier: GPL-2.0-only
"""What names stand for in the text of a python file, which is read and not run.

A name may be imported from another file beside it or in lib/, where it is a literal,
or imported in turn.
"""

import ast
import copy
import functools
import os


class Unreadable(ValueError):
    """There is no literal where there has to be one."""


class Text:
    """A file's top level; @root: where the files are that it may import from."""

    def __init__(self, path, root):
        self.path, self.root = path, root
        with open(path, encoding="utf-8") as file:
            self.tree = ast.parse(file.read(), path)
        self.assigned, self.imported = {}, {}
        for node in self.tree.body:
            for name in names_of(node):
                if isinstance(node, ast.Assign):
                    self.assigned[name] = node.value
                    self.imported.pop(name, None)
                else:
                    self.imported[name] = node
                    self.assigned.pop(name, None)

    def _source(self, node):
        """The file that an import is from; None if it is none of ours."""
        where = self.root
        if node.level:
            where = os.path.dirname(self.path)
            for _ in range(node.level - 1):
                where = os.path.dirname(where)
        base = os.path.join(where, *(node.module or "").split("."))
        for path in (f"{base}.py", os.path.join(base, "__init__.py")):
            if os.path.isfile(path):
                return read_text(path, self.root)
        return None

    def find(self, name):
        """(Text, expression) of what a name stands for."""
        if name in self.assigned:
            value = self.assigned[name]
            return self.find(value.id) if isinstance(value, ast.Name) else (self, value)
        if name in self.imported:
            node = self.imported[name]
            source = self._source(node)
            if source:
                return source.find(next(alias.name for alias in node.names
                                        if name in (alias.asname, alias.name)))
        raise Unreadable(f"{self.path}: nothing says what {name} is, in this file or "
                         "those of the tests that it imports")

    def value(self, node):
        """The value of an expression: a literal, in which there may be names."""
        try:
            return ast.literal_eval(_Named(self).visit(copy.deepcopy(node)))
        except Unreadable:
            raise
        except ValueError as error:
            raise Unreadable(f"{self.path}:{node.lineno}: no literal: "
                             f"{ast.unparse(node)}") from error

    def value_of(self, name):
        """The value that a name stands for."""
        where, node = self.find(name)
        return where.value(node)

    def keys_of(self, name):
        """The keys of a table, whose values may be anything."""
        where, node = self.find(name)
        if not isinstance(node, ast.Dict) or None in node.keys:
            raise Unreadable(f"{where.path}:{node.lineno}: {name} is no table")
        return [where.value(key) for key in node.keys]


class _Named(ast.NodeTransformer):
    """Puts what names stand for in their place."""

    def __init__(self, text):
        self.text = text

    def visit_Name(self, node):     # pylint: disable=invalid-name
        """A name, which may stand for an expression of another file."""
        where, value = self.text.find(node.id)
        return _Named(where).visit(copy.deepcopy(value))


def names_of(node):
    """The names to which a statement gives a value, or that it imports from a file."""
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    return []


@functools.lru_cache(None)
def read_text(path, root):
    """Files that several others import from are read once."""
    return Text(path, root)
