r"""How the lines of a cell end: with `\n` wherever people and models work in it. In its file a
notebook may have `\r\n`, and keeps it.

An editor in a browser takes `\r\n` for one character and the document behind it for two: what is
typed further down would be stored somewhere else than it is shown (jupyterlab/jupyterlab#10770).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_agent.document.merge import text_operations

_BREAK = r"(?<!\r)\r+\n"  # from the first of many: quadratic otherwise
_BREAKS = re.compile(_BREAK)
_CHARACTERS = re.compile(f"{_BREAK}|.", re.DOTALL)


def unify(text: str) -> str:
    r"""The text with `\n` for each `\r\n`. A `\r` alone stays: it is one character everywhere."""
    return _BREAKS.sub("\n", text) if "\r" in text else text


def restore(text: str, stored: str) -> str:
    """The text, which was made of `unify(stored)`, with the line ends of `stored`. New lines end as
    most do there.
    """
    plain = unify(stored)
    if plain in (text, stored):
        return stored if plain == text else text
    characters: list[str] = _CHARACTERS.findall(stored)
    end = "\r\n" if (len(stored) - len(plain)) * 2 > plain.count("\n") else "\n"
    for start, stop, new in text_operations(plain, text):
        characters[start:stop] = new.replace("\n", end)
    restored = "".join(characters)
    return restored if unify(restored) == text else text


def like_all(text: str, others: Iterable[str]) -> str:
    r"""A new text beside others: with `\r\n` if all their lines end so."""
    breaks = False
    for other in others:
        ends = other.count("\n")
        if ends != other.count("\r\n"):
            return text
        breaks = breaks or ends > 0
    return text.replace("\n", "\r\n") if breaks else text
