"""Which cells show results that no longer follow from the code above them.

For Python by names: a cell is stale when the cell above that sets one of its names ran after it,
did not run, or is stale itself. For other languages by execution counts alone. What was edited and
not run again cannot be told from the document.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from jupyter_agent.notebook.cell import Cell

_CELL_MAGIC = re.compile(r"\s*%%(\w+).*\n?")
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun"})
_ASSIGNED_MAGIC = re.compile(r"(?m)^([ \t]*\w[\w., \t]*=[ \t]*)[%!].*$")
_LINE_MAGIC = re.compile(r"(?m)^([ \t]*)(?:[%!?].*|[\w.]+\?{1,2})$")


def stale_cells(cells: Sequence[Cell], language: str) -> dict[str, str]:
    """Ids of the stale cells, each with why, as a sentence."""
    code = [cell for cell in cells if cell.type == "code"]
    return _by_names(code) if language == "python" else _by_counts(code)


def _by_counts(cells: Sequence[Cell]) -> dict[str, str]:
    stale: dict[str, str] = {}
    latest: Cell | None = None
    for cell in cells:
        if cell.execution_count is None:
            continue
        if latest is not None and cell.execution_count < (latest.execution_count or 0):
            stale[cell.id] = f"Cell `{latest.id}` above ran after it."
        else:
            latest = cell
    return stale


def _by_names(cells: Sequence[Cell]) -> dict[str, str]:
    stale: dict[str, str] = {}
    setters: dict[str, Cell] = {}
    for cell in cells:
        names = names_of(cell.source)
        if cell.execution_count is not None:
            reasons = (_reason(cell, name, setters, stale) for name in sorted(names.used))
            why = next((reason for reason in reasons if reason), None)
            if why:
                stale[cell.id] = why
        setters.update(dict.fromkeys(names.defined, cell))
        for name in names.imported:  # importing once more changes nothing
            setters.pop(name, None)
    return stale


def _reason(cell: Cell, name: str, setters: dict[str, Cell], stale: dict[str, str]) -> str | None:
    setter = setters.get(name)
    if setter is None:
        return None
    if setter.execution_count is None:
        return f"It uses `{name}`, but cell `{setter.id}`, which sets it, has not run."
    if setter.execution_count > (cell.execution_count or 0):
        return f"It uses `{name}`, which cell `{setter.id}` set again later."
    if setter.id in stale:
        return f"It uses `{name}` of cell `{setter.id}`, which is stale."
    return None


@dataclass
class Names:
    """Global names of some Python: what it needs from before, what it sets or changes, imports."""

    used: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    imported: set[str] = field(default_factory=set)


def names_of(source: str) -> Names:
    """The names of a cell's code; none where it is no Python, by its magic or its errors."""
    magic = _CELL_MAGIC.match(source)
    if magic is not None:
        if magic[1] not in _PYTHON_MAGICS:
            return Names()
        source = source[magic.end() :]
    without_magics = _LINE_MAGIC.sub(r"\1pass", _ASSIGNED_MAGIC.sub(r"\1None", source))
    for text in (source, without_magics):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            finder = _Finder()
            finder.visit(ast.parse(text))
            return finder.names
    return Names()


class _Finder(ast.NodeVisitor):
    """Follows the code from top to bottom; `_scopes` are the local names of functions around."""

    def __init__(self) -> None:
        self.names = Names()
        self._scopes: list[set[str]] = []

    def _set(self, name: str) -> None:
        if self._scopes:
            self._scopes[-1].add(name)
        else:
            self.names.defined.add(name)

    def _use(self, name: str) -> None:
        known = (self.names.defined, self.names.imported, *self._scopes)
        if not any(name in names for names in known):
            self.names.used.add(name)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self._set(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)
            self._change(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
            self._change(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self.visit(node.target)
        self._change(node.target)

    def _change(self, target: ast.expr) -> None:
        """`df["x"] = 1` and `model.rate = 2` change a name that they do not set."""
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
            if isinstance(target, ast.Name):
                self._set(target.id)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        (self._scopes[-1] if self._scopes else self.names.imported).update(names)

    visit_ImportFrom = visit_Import

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._in_order(node.iter, node.target, *node.body, *node.orelse)

    visit_AsyncFor = visit_For

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        self._in_order(
            *node.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)
        )
        self._set(node.name)
        self._function(arguments, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._in_order(*node.decorator_list, *node.bases, *node.keywords)
        self._set(node.name)
        self._inside(set(), node.body)

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._inside(set(), [*node.generators, node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._inside(set(), [*node.generators, node.key, node.value])

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._in_order(node.iter, node.target, *node.ifs)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._set(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.generic_visit(node)
        if node.name:
            self._set(node.name)

    def _function(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += filter(None, [arguments.vararg, arguments.kwarg])
        local = {argument.arg for argument in every}
        for node in (inner for part in body for inner in ast.walk(part)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                local.add(node.id)
        self._inside(local, body)

    def _inside(self, local: set[str], body: Iterable[ast.AST]) -> None:
        self._scopes.append(local)
        self._in_order(*body)
        self._scopes.pop()

    def _in_order(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)
