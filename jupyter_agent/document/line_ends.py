r"""Line endings of cells: `\n` wherever people and models work. The file of a notebook may have
`\r\n`, and keeps it.

An editor in a browser counts `\r\n` as one character, its document as two: text typed further down
would be stored at another place than shown (jupyterlab/jupyterlab#10770).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jupyter_agent.document.merge import text_operations

_BREAK = r"(?<!\r)\r+\n"  # from the first of many: quadratic otherwise
_BREAKS = re.compile(_BREAK)
_CHARACTERS = re.compile(f"{_BREAK}|.", re.DOTALL)


def unify(text: str) -> str:
    r"""The text with `\n` for each `\r\n`. A lone `\r` stays: it is one character everywhere."""
    return _BREAKS.sub("\n", text) if "\r" in text else text


def restore(text: str, stored: str) -> str:
    """The text, an edited `unify(stored)`, with the line endings of `stored`. New lines end as most
    do there.
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
    r"""A new text next to others: with `\r\n` if all their lines end so."""
    breaks = False
    for other in others:
        ends = other.count("\n")
        if ends != other.count("\r\n"):
            return text
        breaks = breaks or ends > 0
    return text.replace("\n", "\r\n") if breaks else text
