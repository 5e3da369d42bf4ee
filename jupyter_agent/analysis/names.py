"""Finds the global names that a Python cell needs from other cells, sets or changes."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1
from typing import Literal

from jupyter_agent.analysis.name_finder import CHANGING, NameFinder, Names

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
_PURE_CALLS = frozenset(
    {"abs", "all", "any", "bool", "bytes", "complex", "dict", "enumerate", "float", "frozenset"}
    | {"int", "len", "list", "max", "min", "pow", "range", "repr", "reversed", "round", "set"}
    | {"sorted", "str", "sum", "tuple", "zip", "print", "display"}
)
_PURE_METHODS = CHANGING - {"fit", "partial_fit"} | {"copy", "count", "endswith", "format", "get"}
_PURE_METHODS |= {"index", "items", "join", "keys", "lower", "replace", "split", "startswith"}
_PURE_METHODS |= {"strip", "title", "upper", "values"}
_SHOWS_NOTHING = frozenset({"print", "display"})


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
            finder = NameFinder()
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
        finder = NameFinder()
        finder.visit(statement)
        names = finder.names
        sets = names.defined | names.imported.keys()
        later = set().union(*names.later.values())
        acts = isinstance(statement, ast.Expr) and not _is_pure(statement)
        if acts or names.anything or wanted & (sets | later):
            wanted |= names.used.union(names.called, *names.deferred.values())
            parts.append(ast.dump(statement))
    return "\n".join(parts)
