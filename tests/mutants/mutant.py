"""The list of bugs, mutants.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One bug: `code`, which occurs once in the file, is replaced."""

    file: str
    """Relative to the root of the checkout."""
    breaks: str
    """The consequence, as a sentence."""
    code: str
    becomes: str

    def made_in(self, text: str) -> str:
        """The text of the file with the bug. Raises ValueError if the code has changed since."""
        if (count := text.count(self.code)) != 1:
            raise ValueError(f"{self.file} has this {count} times, and not once: {self.code}")
        return text.replace(self.code, self.becomes)


def listed() -> list[Mutant]:
    """All bugs."""
    return [Mutant(**each) for each in _table()["mutant"]]


def near(file: str) -> Sequence[str]:
    """The tests that are likely to notice a bug in this file."""
    tests: list[str] = _table()["near"][file]
    return tests


def _table() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("mutants.toml").read_text(encoding="utf-8"))
