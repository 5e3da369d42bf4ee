"""Which global names some Python of a cell needs from other cells, and which it sets or changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache

_CELL_MAGIC = re.compile(r"\s*%%(\w+).*\n?")
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun"})
_FOREIGN_MAGICS = frozenset(
    {"bash", "sh", "html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG", "script"}
    | {"writefile", "perl", "ruby"}
)
"""Their text is no Python and, but for options that name variables, sets none."""
_NAMES_VARIABLES = re.compile(r"--(?:out|err)\b")
_OPEN_MAGICS = re.compile(r"(?m)^[ \t]*%(?:run|store|reset|load|pylab|sql)\b")
_ASSIGNED_MAGIC = re.compile(r"(?m)^([ \t]*\w[\w., \t]*=[ \t]*)[%!].*$")
_LINE_MAGIC = re.compile(r"(?m)^([ \t]*)(?:[%!?].*|[\w.]+\?{1,2})$")
_CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard"}
    | {"update", "setdefault", "popitem", "appendleft", "popleft", "fit", "partial_fit"}
)
"""Methods that change what they are called on, where their result is not used."""


@dataclass
class Names:
    """What is found; nothing where it is no Python, by its magic or its errors."""

    used: set[str] = field(default_factory=set)
    """Needed from before when the cell runs."""
    defined: set[str] = field(default_factory=set)
    """Set, changed in place or deleted."""
    imported: set[str] = field(default_factory=set)
    deferred: dict[str, set[str]] = field(default_factory=dict)
    """Function or class -> what it needs when it is called."""
    anything: bool = False
    """It may set any name: `from x import *`, `%run`, a language of its own."""


@lru_cache(maxsize=4096)
def names_of(source: str) -> Names:
    """The names of a cell's code; not to be changed."""
    magic = _CELL_MAGIC.match(source)
    if magic is not None:
        if magic[1] not in _PYTHON_MAGICS:
            foreign = magic[1] in _FOREIGN_MAGICS and not _NAMES_VARIABLES.search(magic[0])
            return Names(anything=not foreign)
        source = source[magic.end() :]
    without_magics = _LINE_MAGIC.sub(r"\1pass", _ASSIGNED_MAGIC.sub(r"\1None", source))
    for text in (source, without_magics):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            finder = _Finder()
            finder.visit(ast.parse(text))
            finder.names.anything |= bool(_OPEN_MAGICS.search(source))
            return finder.names
    return Names()


def with_deferred(used: Iterable[str], deferred: Mapping[str, set[str]]) -> set[str]:
    """Also what the functions among the names need, and those that they call."""
    every: set[str] = set()
    left = list(used)
    while left:
        name = left.pop()
        if name not in every:
            every.add(name)
            left += deferred.get(name, ())
    return every


@dataclass
class _Scope:
    """A function, class or comprehension around the code that is looked at."""

    local: set[str]
    passing: bool = False
    """A comprehension: `:=` in it sets a name around it."""


class _Finder(ast.NodeVisitor):
    """Follows the code from top to bottom."""

    def __init__(self) -> None:
        self.names = Names()
        self._scopes: list[_Scope] = []
        self._deferred: set[str] | None = None
        """Where the needs of the function go whose body this is; None at the top."""

    def _set(self, name: str) -> None:
        if self._scopes:
            self._scopes[-1].local.add(name)
        else:
            self.names.defined.add(name)
            self.names.deferred.pop(name, None)

    def _use(self, name: str) -> None:
        if any(name in scope.local for scope in self._scopes):
            return
        if self._deferred is not None:
            self._deferred.add(name)
            return
        needed = with_deferred({name}, self.names.deferred)
        self.names.used |= needed - self.names.defined - self.names.imported

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self._set(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        around = [scope for scope in self._scopes if not scope.passing]
        if around:
            around[-1].local.add(node.target.id)
        elif self._deferred is None:
            self.names.defined.add(node.target.id)

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

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._use(target.id)
            self.visit(target)
            self._change(target)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            in_place = any(
                word.arg == "inplace"
                and isinstance(word.value, ast.Constant)
                and word.value.value is True
                for word in call.keywords
            )
            if in_place or call.func.attr in _CHANGING:
                self._change(call.func)

    def _change(self, target: ast.expr) -> None:
        """`df["x"] = 1` and `model.rate = 2` change a name that they do not set."""
        changed = isinstance(target, ast.Subscript | ast.Attribute)
        while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
            target = target.value
        if isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self._change(item)
        elif changed and isinstance(target, ast.Name) and self._deferred is None:
            self._use(target.id)
            if not any(target.id in scope.local for scope in self._scopes):
                self.names.defined.add(target.id)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        if "*" in names:
            self.names.anything = True
        elif self._scopes:
            self._scopes[-1].local.update(names)
        else:
            self.names.imported.update(names)

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
        with self._later(node.name):
            self._function(arguments, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._in_order(*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._in_order(*node.decorator_list, *node.bases, *node.keywords)
        self._set(node.name)
        methods = [
            part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        self._inside(_Scope(set()), [part for part in node.body if part not in methods])
        with self._later(node.name):
            self._inside(_Scope(set()), methods)

    @contextmanager
    def _later(self, name: str) -> Iterator[None]:
        """What is needed in this block is needed when `name` is called."""
        if self._scopes or self._deferred is not None:
            yield
            return
        self._deferred = set()
        yield
        self.names.deferred[name], self._deferred = self._deferred - {name}, None

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._inside(_Scope(set(), passing=True), [*node.generators, node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._inside(_Scope(set(), passing=True), [*node.generators, node.key, node.value])

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._in_order(node.iter, node.target, *node.ifs)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._set(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name:
            self._set(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self._set(node.rest)

    def _function(self, arguments: ast.arguments, body: Sequence[ast.AST]) -> None:
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += filter(None, [arguments.vararg, arguments.kwarg])
        local = {argument.arg for argument in every}
        outer: set[str] = set()
        for node in (inner for part in body for inner in ast.walk(part)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                local.add(node.id)
            elif isinstance(node, ast.Global):
                outer.update(node.names)
        self._inside(_Scope(local - outer), body)

    def _inside(self, scope: _Scope, body: Iterable[ast.AST]) -> None:
        self._scopes.append(scope)
        self._in_order(*body)
        self._scopes.pop()

    def _in_order(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)
