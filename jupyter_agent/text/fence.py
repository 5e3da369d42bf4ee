"""What is ours and what is data in a text for a model: told apart by a mark that data cannot know.

Outputs, sources, files and whatever else comes from outside may imitate our own lines, heads of
cells among them. So what is ours carries a mark that is chosen at random for each turn, and what
is data stands between marks. Where no model is on the other side there is no mark, and no fence.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

_FIRST = "bcdfghjkmnpqrstvwxz"
_LETTERS = f"{_FIRST}23456789"
"""No vowels: a mark is no word, so that it is in no data by chance."""
_LENGTH = 5
"""One guess in 10 million is right, and a mark costs some three tokens."""


@dataclass(frozen=True)
class Fence:
    """The mark of one turn; an empty one marks nothing. No secret passes a fence: data is masked
    before anybody cuts it.
    """

    mark: str = ""
    mask: Callable[[str], str] = field(default=str, compare=False)
    """Takes secrets out of data."""

    @classmethod
    def random(cls) -> Fence:
        """One with a mark that nobody can foresee."""
        rest = (secrets.choice(_LETTERS) for _ in range(_LENGTH - 1))
        return cls("".join([secrets.choice(_FIRST), *rest]))

    def unmarked(self) -> Fence:
        """The same for a text that is data altogether."""
        return Fence(mask=self.mask)

    def around(self, data: str) -> str:
        """Data between `<mark>` and `</mark>`, on lines of their own."""
        return self.enclosed(self.inside(data))

    def enclosed(self, text: str) -> str:
        """A text with lines of ours in it, which were marked when it was made, between marks."""
        return f"<{self.mark}>\n{text}\n</{self.mark}>" if self.mark else text

    def inside(self, data: str) -> str:
        """Data as it stands where marked lines are around it: without the mark itself, should the
        model have written it there.
        """
        data = self.mask(data)
        return data.replace(self.mark, "?" * len(self.mark)) if self.mark else data

    def head(self, words: str) -> str:
        """A line of ours that names what follows: `[words mark]`."""
        return f"[{words} {self.mark}]" if self.mark else f"[{words}]"

    def line(self, text: str) -> str:
        """A line of ours amid data: `mark text`."""
        return f"{self.mark} {text}" if self.mark else text

    def removed(self, text: str) -> str:
        """A text that was made with this fence, as a person reads it: without marks."""
        if not self.mark:
            return text
        marks = rf"^<{self.mark}>\n|\n</{self.mark}>$|^{self.mark} | {self.mark}(?=\])"
        return re.sub(marks, "", text, flags=re.MULTILINE)


NO_FENCE = Fence()
"""For texts that no model reads, or that only a program parses."""
