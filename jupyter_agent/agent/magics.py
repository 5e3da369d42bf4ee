"""Code that reaches beyond the language of its kernel: IPython's `!`, `%` and their kin."""

from __future__ import annotations

import ast
import re

_STARTS = re.compile(r"^[^\S\n]*+[!%]", re.M)
_COMMAND = re.compile(r"[A-Za-z_]\w*+\s++\S.*")


def leaves_language(code: str) -> bool:
    """Whether the code may call the shell or a magic; where that is not certain, it does.

    IPython also takes a single line such as `pip install x` for a magic, without any sign.
    """
    if _STARTS.search(code) or any(map(_assigns, code.split("\n"))):
        return True
    return bool(_COMMAND.fullmatch(code.strip())) and not _is_python(code)


def _assigns(line: str) -> bool:
    """`files = !ls`, `t = %time f()`: what follows the first sign outside of strings, brackets."""
    if "=" not in line:
        return False
    quote, depth = "", 0
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "#":
            return False
        elif character == "=" and depth <= 0:
            return line[position + 1 :].lstrip()[:1] in ("!", "%")
    return False


def _is_python(line: str) -> bool:
    try:
        ast.parse(line.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
