r"""How the lines of a cell end: with `\n` wherever people and models work in it. In its file a
notebook may have `\r\n`, and keeps it.

An editor in a browser takes `\r\n` for one character and the document behind it for two: what is
typed further down would be stored somewhere else than it is shown (jupyterlab/jupyterlab#10770).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    if plain == text:
        return stored
    characters: list[str] = _CHARACTERS.findall(stored)
    end = "\r\n" if (len(stored) - len(plain)) * 2 > plain.count("\n") else "\n"
    for start, stop, new in text_operations(plain, text):
        characters[start:stop] = new.replace("\n", end)
    restored = "".join(characters)
    return restored if unify(restored) == text else text


@dataclass(frozen=True)
class LineEnds:
    """How the lines of a notebook's cells end in its file."""

    texts: Mapping[str, str] = field(default_factory=dict)
    r"""By id the cells as they are there that have `\r\n`."""
    throughout: bool = False
    """Whether all lines of the notebook do."""

    @classmethod
    def of(cls, cells: Iterable[tuple[str, str]]) -> LineEnds:
        """`cells` are ids and texts as they are in the file."""
        texts = dict(cells)
        odd = {cell_id: text for cell_id, text in texts.items() if unify(text) != text}
        breaks = sum(text.count("\n") for text in texts.values())
        return cls(odd, bool(odd) and breaks == sum(text.count("\r\n") for text in odd.values()))

    def restored(self, cell_id: str, text: str) -> str:
        """The cell's text as it goes into the file."""
        stored = self.texts.get(cell_id)
        if stored is not None:
            return restore(text, stored)
        return text.replace("\n", "\r\n") if self.throughout else text
