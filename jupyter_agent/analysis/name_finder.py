"""Walks the syntax tree of a cell for the names that it defines, uses and changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

_ONE_MORE_EACH_TIME = frozenset(
    {"append", "extend", "insert", "remove", "pop", "reverse", "popitem", "appendleft", "popleft"}
    | {"partial_fit"}
)
"""Those of them that change it again with each call."""
CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard"}
    | {"update", "setdefault", "popitem", "appendleft", "popleft", "fit", "partial_fit"}
)
"""Methods that change their object, if their result is not used."""


@dataclass
class _Scope:
    """A function, class or comprehension around the visited code."""

    local: set[str]
    outer: frozenset[str] = frozenset()
    """Names declared `global` in it."""
    passing: bool = False
    """A comprehension: `:=` in it sets a name in the enclosing scope."""


class NameFinder(ast.NodeVisitor):
    """Collects names while visiting the code from top to bottom."""

    def __init__(self) -> None:
        self.names = Names()
        self._scopes: list[_Scope] = []
        self._deferred: set[str] | None = None
        """Collects the needs of the function whose body is visited; None at the top level."""
        self._later: set[str] = set()
        """Outer names that this function sets."""

    def _define(self, name: str) -> None:
        if self._scopes and name not in self._scopes[-1].outer:
            self._scopes[-1].local.add(name)
        elif self._deferred is not None:
            self._later.add(name)
        elif not self._scopes:
            self.names.defined.add(name)
            self.names.deferred.pop(name, None)

    def _use(self, name: str) -> None:
        if any(name in scope.local for scope in self._scopes):
            return
        if self._deferred is not None:
            self._deferred.add(name)
            return
        needed = with_deferred({name}, self.names.deferred)
        self.names.used |= needed - self.names.defined - self.names.imported.keys()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self._define(node.id)

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
            if _grows(target, node.value):
                self._repeat(target)

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
        self._repeat(node.target)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if self._deferred is None:
            operands = (node.func, *node.args, *(word.value for word in node.keywords))
            self.names.called |= {each.id for each in operands if isinstance(each, ast.Name)}
        if isinstance(node.func, ast.Name) and node.func.id == "next":
            for iterator in node.args[:1]:
                self._mark_changed(iterator)
                self._repeat(iterator)

    def _repeat(self, target: ast.expr) -> None:
        each = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        names = set(filter(None, map(_base, each)))
        if not self._scopes:
            self.names.repeating |= names & self.names.defined

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
            if in_place or call.func.attr in CHANGING:
                self._change(call.func)
                if call.func.attr in _ONE_MORE_EACH_TIME:
                    self._repeat(call.func)

    def _change(self, target: ast.expr) -> None:
        """`df["x"] = 1` and `model.rate = 2` change a name without setting it."""
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, ast.Tuple | ast.List):
            for item in target.elts:
                self._change(item)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            self._mark_changed(target)

    def _mark_changed(self, target: ast.expr) -> None:
        name = _base(target)
        if name is None:
            return
        self._use(name)
        if any(name in scope.local for scope in self._scopes):
            return
        if self._deferred is None:
            self.names.defined.add(name)
        else:
            self._later.add(name)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        whole = isinstance(node, ast.Import)
        module = "" if isinstance(node, ast.Import) else f"{'.' * node.level}{node.module or ''}"
        names = {
            alias.asname or alias.name.partition(".")[0]: alias.name
            if alias.asname
            else alias.name.partition(".")[0]
            for alias in node.names
        }
        if "*" in names:
            self.names.anything = True
            self.names.stars.add(module)
        elif self._scopes:
            self._scopes[-1].local.update(names)
        else:
            self.names.imported.update(
                {name: of if whole else f"{module}:{of}" for name, of in names.items()}
            )

    visit_ImportFrom = visit_Import

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._in_order(node.iter, node.target, *node.body, *node.orelse)

    visit_AsyncFor = visit_For

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        self._in_order(
            *node.decorator_list, *arguments.defaults, *filter(None, arguments.kw_defaults)
        )
        self._define(node.name)
        with self._when_called(node.name):
            self._function(arguments, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._in_order(*node.args.defaults, *filter(None, node.args.kw_defaults))
        self._function(node.args, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._in_order(*node.decorator_list, *node.bases, *node.keywords)
        self._define(node.name)
        methods = [
            part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        self._inside(_Scope(set()), [part for part in node.body if part not in methods])
        with self._when_called(node.name):
            self._inside(_Scope(set()), methods)

    @contextmanager
    def _when_called(self, name: str) -> Iterator[None]:
        """Names used in this block are needed when `name` is called."""
        if self._scopes or self._deferred is not None:
            yield
            return
        self._deferred, self._later = set(), set()
        yield
        self.names.deferred[name], self._deferred = self._deferred - {name}, None
        self.names.later[name] = self._later

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._inside(_Scope(set(), passing=True), [*node.generators, node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._inside(_Scope(set(), passing=True), [*node.generators, node.key, node.value])

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._in_order(node.iter, node.target, *node.ifs)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._define(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self.generic_visit(node)
        if node.name:
            self._define(node.name)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self._define(node.rest)

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
        self._inside(_Scope(local - outer, frozenset(outer)), body)

    def _inside(self, scope: _Scope, body: Iterable[ast.AST]) -> None:
        self._scopes.append(scope)
        self._in_order(*body)
        self._scopes.pop()

    def _in_order(self, *nodes: ast.AST) -> None:
        for node in nodes:
            self.visit(node)


def _base(target: ast.expr) -> str | None:
    """`df` of `df["x"].y` and `d.setdefault("x", []).y`."""
    while True:
        if isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
            target = target.value
        elif (
            isinstance(target, ast.Call)
            and isinstance(target.func, ast.Attribute)
            and target.func.attr in ("setdefault", "get")
        ):
            target = target.func.value
        else:
            break
    return target.id if isinstance(target, ast.Name) else None


def _grows(target: ast.expr, value: ast.expr) -> bool:
    """Whether the value derives from the target: `x = x + 1`, `x = [*x, 1]`, `x = x[1:]`,
    `df["a"] = df["a"] * 2`.
    """
    target_text = ast.unparse(target)
    if isinstance(target, ast.Tuple | ast.List):  # `a, b = b, a`
        return any(
            isinstance(part, ast.Name) and any(_base(each) == part.id for each in target.elts)
            for part in ast.walk(value)
        )
    if isinstance(target, ast.Name):
        parts: list[ast.AST] = [value]
        while parts:
            part = parts.pop()
            if isinstance(part, ast.Name) and part.id == target_text and part is not value:
                return True
            if isinstance(part, ast.BinOp | ast.UnaryOp | ast.List | ast.Starred):
                parts += ast.iter_child_nodes(part)
            elif isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice):
                parts.append(part.value)
        return False
    return isinstance(target, ast.Subscript | ast.Attribute) and any(
        isinstance(part, ast.Subscript | ast.Attribute) and ast.unparse(part) == target_text
        for part in ast.walk(value)
    )


@dataclass
class Names:
    """The names of a cell; nothing if its magic or a syntax error shows that it is not Python."""

    used: set[str] = field(default_factory=set)
    """Names that must exist before the cell runs."""
    defined: set[str] = field(default_factory=set)
    """Set, changed in place or deleted."""
    imported: dict[str, str] = field(default_factory=dict)
    """Name -> the module, or `module:attribute`, that it stands for."""
    stars: set[str] = field(default_factory=set)
    """Modules imported with `*`."""
    deferred: dict[str, set[str]] = field(default_factory=dict)
    """Function or class -> the names that it needs when called."""
    called: set[str] = field(default_factory=set)
    """Called, or passed as an argument."""
    later: dict[str, set[str]] = field(default_factory=dict)
    """Function -> the outer names that it sets or changes when called."""
    repeating: set[str] = field(default_factory=set)
    """Defined names that change each time the cell runs again (`n += 1`)."""
    result: Literal["none", "sure", "maybe"] = "none"
    """Whether it sets `_`, with a last line that has a value."""
    pure: bool = False
    """Running it again with the same inputs gives the same: it only calls pure functions."""
    meaning: str = ""
    """A digest of the code that ignores comments and layout."""
    anything: bool = False
    """It may set any name: `from x import *`, `%run`, another language."""


def with_deferred(used: Iterable[str], deferred: Mapping[str, set[str]]) -> set[str]:
    """The names, and what the functions among them need, directly or by their calls."""
    every: set[str] = set()
    left = list(used)
    while left:
        name = left.pop()
        if name not in every:
            every.add(name)
            left += deferred.get(name, ())
    return every
