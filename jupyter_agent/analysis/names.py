"""Finds the global names that a Python cell needs from other cells, sets or changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha1
from typing import Literal

_CELL_MAGIC = re.compile(r"\s*%%(\w+)[ \t]*(.*)\n?")
_PYTHON_MAGICS = frozenset({"time", "timeit", "capture", "prun"})
_FOREIGN_MAGICS = frozenset(
    {"bash", "sh", "html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG", "script"}
    | {"writefile", "perl", "ruby"}
)
"""Their text is not Python and sets no variables, except for options that name some."""
_NAMES_VARIABLES = re.compile(r"--(?:out|err)\b")
_CAPTURED = re.compile(r"(?<!\S)(\w+)\s*$")
"""The variable in which `%%capture --no-stderr shown` stores the output."""
_OPEN_MAGICS = re.compile(r"(?m)^[ \t]*%(?:run|store|reset|load|pylab|sql)\b")
_TIMED_MAGIC = re.compile(
    r"(?m)^([ \t]*(?:\w+[ \t]*=[ \t]*)?)%(?:time|timeit|prun)[ \t]+(?:-\w *\d*[ \t]+)*(?=[^-\s])"
)
"""Python follows these magics."""
_ASSIGNED_MAGIC = re.compile(r"(?m)^([ \t]*\w[\w., \t]*=[ \t]*)([%!].*)$")
_LINE_MAGIC = re.compile(r"(?m)^([ \t]*)([%!?].*|[\w.]+\?{1,2})$")
_IN_MAGIC = re.compile(r"(?<!\$)\$(\w+)|(?<!\{)\{([^{}\n]+)\}")
_CHANGING = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard"}
    | {"update", "setdefault", "popitem", "appendleft", "popleft", "fit", "partial_fit"}
)
"""Methods that change their object, if their result is not used."""
_ONE_MORE_EACH_TIME = frozenset(
    {"append", "extend", "insert", "remove", "pop", "reverse", "popitem", "appendleft", "popleft"}
    | {"partial_fit"}
)
"""Those of them that change it again with each call."""
_PURE_CALLS = frozenset(
    {"abs", "all", "any", "bool", "bytes", "complex", "dict", "enumerate", "float", "frozenset"}
    | {"int", "len", "list", "max", "min", "pow", "range", "repr", "reversed", "round", "set"}
    | {"sorted", "str", "sum", "tuple", "zip", "print", "display"}
)
_PURE_METHODS = _CHANGING - {"fit", "partial_fit"} | {"copy", "count", "endswith", "format", "get"}
_PURE_METHODS |= {"index", "items", "join", "keys", "lower", "replace", "split", "startswith"}
_PURE_METHODS |= {"strip", "title", "upper", "values"}
_SHOWS_NOTHING = frozenset({"print", "display"})


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


@lru_cache(maxsize=20_000)  # with more cells than this, each look would parse all of them again
def names_of(source: str) -> Names:
    """The names of a cell's code. Cached: do not change the result."""
    names = _names_of(source)
    names.meaning = names.meaning or source
    return names


def _names_of(source: str) -> Names:
    magic = _CELL_MAGIC.match(source)
    body, before = source, ""
    if magic is not None:
        line = magic[2].strip()
        if magic[1] not in _PYTHON_MAGICS:
            foreign = magic[1] in _FOREIGN_MAGICS and not _NAMES_VARIABLES.search(magic[0])
            return Names(used=_in_magic(line), anything=not foreign)
        body = source[magic.end() :]
        if magic[1] == "capture":
            captured = _CAPTURED.search(line)
            before = f"{captured[1]} = None\n" if captured else ""
        elif magic[1] == "timeit":
            before = re.sub(r"^(?:-\w *\d*(?:\s+|$))*", "", line) + "\n"
    plain = without_magics(body)
    for text in (body, plain, before + plain):
        if text == body and before:
            continue
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.parse(text)
            finder = _Finder()
            finder.visit(tree)
            names = finder.names
            names.anything |= bool(_OPEN_MAGICS.search(body))
            names.result = _result(tree, body)
            if text == source:
                names.pure = _is_pure(tree)
                names.meaning = sha1(ast.dump(tree).encode(errors="replace")).hexdigest()
            return names
    return Names()


def without_magics(source: str) -> str:
    """The code with magics and shell commands replaced with uses of the names in them."""
    timed = _TIMED_MAGIC.sub(r"\1", re.sub(r"^\s*%%(?:time|timeit|capture|prun)\b.*", "", source))
    return _LINE_MAGIC.sub(_read_magic, _ASSIGNED_MAGIC.sub(_read_magic, timed))


def _read_magic(found: re.Match[str]) -> str:
    """Replace a magic or command with a tuple of the names that IPython inserts into it."""
    names = sorted(_in_magic(found[2])) if found[2][0] in "%!" else []
    if not names:
        return f"{found[1]}None" if "=" in found[1] else f"{found[1]}pass"
    return f"{found[1]}({', '.join(names)},)"


def _in_magic(line: str) -> set[str]:
    """Names in `$name` and `{expression}`."""
    used: set[str] = set()
    for name, expression in _IN_MAGIC.findall(line):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            tree = ast.parse((expression or name).strip(), mode="eval")
            used |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used


def _result(tree: ast.Module, text: str) -> Literal["none", "sure", "maybe"]:
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or text.rstrip().endswith(";"):
        return "none"
    if not isinstance(last.value, ast.Call):
        unsure = isinstance(last.value, ast.Await) or _LINE_MAGIC.search(text)
        return "maybe" if unsure else "sure"
    name = last.value.func
    return "none" if isinstance(name, ast.Name) and name.id in _SHOWS_NOTHING else "maybe"


def _is_pure(tree: ast.AST) -> bool:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Await | ast.Import | ast.ImportFrom):
            return False
        if isinstance(node, ast.Call) and not _is_pure_call(node.func):
            return False
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue  # it runs when it is called
        if not _is_pure(node):
            return False
    return True


def _is_pure_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in _PURE_METHODS
    return isinstance(function, ast.Name) and function.id in _PURE_CALLS


@lru_cache(maxsize=4096)
def made_of(source: str, name: str) -> str:
    """The statements of a cell's code that determine this name, as one text.

    The same text means that an edit did not affect the name. Statements that only call something
    may do anything, so they count for every name; code with magics counts as a whole.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    wanted, parts = {name}, list[str]()
    for statement in reversed(tree.body):
        finder = _Finder()
        finder.visit(statement)
        names = finder.names
        sets = names.defined | names.imported.keys()
        later = set().union(*names.later.values())
        acts = isinstance(statement, ast.Expr) and not _is_pure(statement)
        if acts or names.anything or wanted & (sets | later):
            wanted |= names.used.union(names.called, *names.deferred.values())
            parts.append(ast.dump(statement))
    return "\n".join(parts)


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


@dataclass
class _Scope:
    """A function, class or comprehension around the visited code."""

    local: set[str]
    outer: frozenset[str] = frozenset()
    """Names declared `global` in it."""
    passing: bool = False
    """A comprehension: `:=` in it sets a name in the enclosing scope."""


class _Finder(ast.NodeVisitor):
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
            if in_place or call.func.attr in _CHANGING:
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
