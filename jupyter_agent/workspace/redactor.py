"""Masks secrets in texts that models read and in texts that we store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.document.cell import Change
from jupyter_agent.errors import ToolError
from jupyter_agent.legible import ModelText, legible

_PART = 12
"""Characters of a secret that already reveal something."""
_MASK = "***"
"""Replaces a secret."""


@dataclass(frozen=True)
class Redactor:
    """Masks secrets in texts for models and in stored texts."""

    secrets: Callable[[], Collection[str]] = tuple
    """Returns the current secrets."""

    def text(self, text: str) -> ModelText:
        """A text for a model: without secrets and without characters that a person cannot see."""
        return ModelText(self.mask()(legible(text)))

    def mask_all(self, value: Any) -> Any:
        """A JSON value with secrets masked in all its strings."""
        return map_strings(value, self.mask(), keys=True)

    def mask(self) -> Callable[[str], str]:
        """A function that masks the current secrets in a text."""
        # Longest first: if a secret is part of a longer one, the rest of that would stay.
        secrets = sorted(self.secrets(), key=len, reverse=True)

        def mask(text: str) -> str:
            for secret in secrets:
                text = text.replace(secret, _MASK)
            return text

        return mask

    def mask_fragments(self, text: str) -> str:
        """Mask secrets, and parts of secrets, in a text that may have been shortened."""
        for secret in self.secrets():
            parts = {secret[i : i + _PART] for i in range(len(secret) - _PART + 1)} or {secret}
            size = len(next(iter(parts)))
            places = [i for i in range(len(text) - size + 1) if text[i : i + size] in parts]
            for start, end in reversed(list(_runs(places, size))):
                text = f"{text[:start]}{_MASK}{text[end:]}"
        return text

    def error(self, error: ToolError) -> ToolError:
        """The error with secrets masked in its message and facts."""
        return error.saying(self.text(error.message), self.mask_all(error.facts))

    def change(self, change: Change) -> dict[str, Any]:
        """A change for display and the journal, with secrets masked in its outputs.

        The sources stay unchanged, or undoing the change would damage them.
        """
        value = change.to_json()
        for side in ("before", "after"):
            if state := value[side]:
                value[side] = {**state, "outputs": self.mask_all(state["outputs"])}
        return value


def map_strings(
    value: Any, change: Callable[[str], str], *, but: Collection[str] = (), keys: bool = False
) -> Any:
    """A JSON value with `change` applied to all strings, except in the fields `but`; with `keys`
    also to the names of fields.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            change(key) if keys else key: item
            if key in but and isinstance(item, str)
            else map_strings(item, change, but=but, keys=keys)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [map_strings(item, change, but=but, keys=keys) for item in value]
    return value


def strings_in(value: Any) -> Iterator[str]:
    """All strings of a JSON value, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in value.values() for text in strings_in(item))
    elif isinstance(value, Sequence):
        yield from (text for item in value for text in strings_in(item))


def _runs(places: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """Merge the ranges of `size` characters at these places: (start, end) of each."""
    start = end = -1
    for place in places:
        if place > end and end >= 0:
            yield start, end
        start = place if place > end else start
        end = place + size
    if end >= 0:
        yield start, end
