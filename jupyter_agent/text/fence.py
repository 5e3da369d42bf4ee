"""Separates our own lines from data in texts for a model, by a mark that data cannot know.

Outputs, sources, files and other data may imitate our own lines, such as the heads of cells. So our
lines carry a mark that is chosen at random for each turn, and data stands between marks. Texts that
no model reads have no mark.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

_FIRST = "bcdfghjkmnpqrstvwxz"
_LETTERS = f"{_FIRST}23456789"
"""No vowels: a mark is never a word that data could contain by chance."""
_LENGTH = 5
"""One guess in 10 million is right; a mark costs about three tokens."""


@dataclass(frozen=True)
class Fence:
    """The mark of one turn; an empty one marks nothing. Secrets are masked in all data, before
    anything shortens it.
    """

    mark: str = ""
    mask: Callable[[str], str] = field(default=str, compare=False)
    """Masks secrets in data."""

    @classmethod
    def random(cls) -> Fence:
        """A fence with an unpredictable mark."""
        rest = (secrets.choice(_LETTERS) for _ in range(_LENGTH - 1))
        return cls("".join([secrets.choice(_FIRST), *rest]))

    def without_mark(self) -> Fence:
        """The same fence without a mark, for a text that consists of data only."""
        return Fence(mask=self.mask)

    def around(self, data: str) -> str:
        """Mask data and put it between `<mark>` and `</mark>`, each on its own line."""
        return self.wrap(self.inside(data))

    def wrap(self, text: str) -> str:
        """Put a text whose own lines are already marked between `<mark>` and `</mark>`."""
        return f"<{self.mark}>\n{text}\n</{self.mark}>" if self.mark else text

    def inside(self, data: str) -> str:
        """Mask data that goes between marked lines, and replace the mark in it: the model may have
        written it there.
        """
        data = self.mask(data)
        return data.replace(self.mark, "?" * len(self.mark)) if self.mark else data

    def head(self, words: str) -> str:
        """Our heading of what follows: `[words mark]`."""
        return f"[{words} {self.mark}]" if self.mark else f"[{words}]"

    def line(self, text: str) -> str:
        """Our own line amid data: `mark text`."""
        return f"{self.mark} {text}" if self.mark else text

    def strip_marks(self, text: str) -> str:
        """A text made with this fence, without its marks, for a person."""
        if not self.mark:
            return text
        marks = rf"^<{self.mark}>\n|\n</{self.mark}>$|^{self.mark} | {self.mark}(?=\])"
        return re.sub(marks, "", text, flags=re.MULTILINE)


NO_FENCE = Fence()
"""For texts that no model reads, or that a program parses."""
