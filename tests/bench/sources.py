"""Figures of the product's Python files."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path


class Sources:
    """The files below a package, and our figures for them."""

    def __init__(self, package: Path, without: str | None = None) -> None:
        """`without` is a folder to leave out."""
        self._package = package
        self._trees = {
            path: ast.parse(path.read_text(encoding="utf-8"))
            for path in package.rglob("*.py")
            if without is None or package / without not in path.parents
        }
        self._lengths = {
            path: len(path.read_text(encoding="utf-8").splitlines()) for path in self._trees
        }

    @property
    def files(self) -> int:
        """The number of files with code."""
        return sum(bool(tree.body) for tree in self._trees.values())

    @property
    def lines(self) -> int:
        """The number of lines, including blank ones."""
        return sum(self._lengths.values())

    @property
    def imported_once(self) -> list[str]:
        """The files that exactly one other file of the product imports."""
        importers: defaultdict[str, set[Path]] = defaultdict(set)
        for path, tree in self._trees.items():
            for name in _imported(tree):
                importers[name].add(path)
        names = map(self._module, self._trees)
        return sorted(name for name in names if len(importers[name]) == 1)

    @property
    def splinters(self) -> list[str]:
        """Those of them with less than 100 lines."""
        short = {self._module(path) for path, lines in self._lengths.items() if 0 < lines < 100}
        return [name for name in self.imported_once if name in short]

    @property
    def longest(self) -> int:
        """The length of the longest file."""
        return max(self._lengths.values())

    @property
    def homonyms(self) -> list[str]:
        """Names of public classes and type aliases with more than one meaning."""
        names = Counter(
            name for tree in self._trees.values() for name in _classes(tree) if name[0] != "_"
        )
        return sorted(name for name, count in names.items() if count > 1)

    @property
    def long_functions(self) -> list[str]:
        """Functions of more than 60 lines."""
        return [
            node.name
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= 60
        ]

    @property
    def excepts(self) -> tuple[int, int]:
        """The number of handlers that catch everything, and of all handlers."""
        handlers = [
            node
            for tree in self._trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ExceptHandler)
        ]
        broad = [
            handler
            for handler in handlers
            if handler.type is None
            or (isinstance(handler.type, ast.Name) and handler.type.id.endswith("Exception"))
        ]
        return len(broad), len(handlers)

    def _module(self, path: Path) -> str:
        name = ".".join(path.relative_to(self._package.parent).with_suffix("").parts)
        return name.removesuffix(".__init__")


def _imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def _classes(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            yield ast.unparse(node.target)
