"""Code that reaches beyond the language of its kernel: IPython's `!`, `%` and their kin."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

_STARTS = re.compile(r"^[^\S\n]*+[!%]", re.M)
"""In kernels other than IPython."""
_FIRST_WORD = re.compile(r"[\s,;/]*+([A-Za-z_]\w*+)(?!\.\w)\s*+(?!=)")
"""A name and whatever follows, but for an assignment or a comparison."""
_HELP = re.compile(r"\?\s*+$", re.M)
_OF_KERNELS = frozenset(
    {"autosave", "clear", "connect_info", "ed", "hist", "less", "man", "more", "qtconsole", "rep"}
)
"""What ipykernel adds, and other names of IPython's own."""


def leaves_language(code: str, language: str = "") -> bool:
    """Whether the code may call the shell or a magic of a kernel of this language, of any if that
    is not known; where it is not certain, it does.
    """
    if language not in ("python", ""):
        return bool(_STARTS.search(code))
    manager = _transformers()
    if manager is None:
        return any(sign in code for sign in "!%") or _is_automagic(code)
    lines = code.splitlines(keepends=True)
    try:
        for transform in manager.cleanup_transforms:  # indents, and prompts that were copied
            lines = transform(lines)
        if any(transform(lines) != lines for transform in manager.line_transforms):
            return True
        changed, _ = manager.do_one_token_transform(lines)  # once: a hostile cell has thousands
    except Exception:  # noqa: BLE001 - whatever another's parser raises of hostile code
        return True
    plain = "".join(lines)
    return bool(changed) or _is_automagic(plain) or _asks_for_help(plain)


def _is_automagic(code: str) -> bool:
    """IPython takes a single line such as `ls -la`, `pip install x` or `sx("ls")` for a magic,
    without any sign.
    """
    if len(code.strip().splitlines()) != 1:
        return False
    first = _FIRST_WORD.match(code)
    if first is None or keyword.iskeyword(first[1]) or hasattr(builtins, first[1]):
        return False
    names = _magics()
    return names is None or first[1] in names or not _is_python(code)


def _asks_for_help(code: str) -> bool:
    """IPython finds `name?` in code that Python refuses, too."""
    return bool(_HELP.search(code)) and not _is_python(code)


def _is_python(code: str) -> bool:
    try:
        ast.parse(code.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


@cache
def _transformers() -> Any:
    """What IPython transforms cells with, or None if the server has no IPython."""
    try:
        return import_module("IPython.core.inputtransformer2").TransformerManager()
    except ImportError:
        return None


@cache
def _magics() -> frozenset[str] | None:
    """The names of IPython's line magics and aliases, or None if the server has no IPython."""
    try:
        package = import_module("IPython.core.magics")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
        kinds = import_module("IPython.core.magic").Magics.__subclasses__()
        aliases = dict(import_module("IPython.core.alias").default_aliases())
    except ImportError:
        return None
    return _OF_KERNELS.union(aliases, *(kind.magics.get("line", ()) for kind in kinds))
