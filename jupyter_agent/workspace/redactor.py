"""Takes secrets out of texts that models read and that we store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.document.cell import Change
from jupyter_agent.errors import ToolError
from jupyter_agent.legible import legible

_PART = 12
"""Characters of a secret that tell something of it."""
_MASK = "***"
"""Stands for a secret."""


@dataclass(frozen=True)
class Redactor:
    """Takes secrets out of texts for models, and out of what we keep of them."""

    secrets: Callable[[], Collection[str]] = tuple
    """All that must not be told as things are now."""

    def text(self, text: str) -> str:
        """A text as a model may be told it: no secrets, and nothing that a person cannot see."""
        return self.mask()(legible(text))

    def mask_all(self, value: Any) -> Any:
        """The same JSON with no secret in any of its texts."""
        return map_strings(value, self.mask())

    def mask(self) -> Callable[[str], str]:
        """Takes out of a text what is secret now."""
        # What is part of another goes last, or the rest of the other would stay.
        secrets = sorted(self.secrets(), key=len, reverse=True)

        def mask(text: str) -> str:
            for secret in secrets:
                text = text.replace(secret, _MASK)
            return text

        return mask

    def mask_fragments(self, text: str) -> str:
        """A text in which whatever made it may have cut secrets short, without those parts."""
        for secret in self.secrets():
            parts = {secret[i : i + _PART] for i in range(len(secret) - _PART + 1)} or {secret}
            size = len(next(iter(parts)))
            places = [i for i in range(len(text) - size + 1) if text[i : i + size] in parts]
            for start, end in reversed(list(_runs(places, size))):
                text = f"{text[:start]}{_MASK}{text[end:]}"
        return text

    def error(self, error: ToolError) -> ToolError:
        """The error likewise."""
        return error.saying(self.text(error.message), self.mask_all(error.facts))

    def change(self, change: Change) -> dict[str, Any]:
        """A change as it is shown and journalled: no secrets in its outputs.

        Its sources stay as they are, or taking it back would damage them.
        """
        value = change.to_json()
        for side in ("before", "after"):
            if state := value[side]:
                value[side] = {**state, "outputs": self.mask_all(state["outputs"])}
        return value


def map_strings(value: Any, change: Callable[[str], str], *, but: Collection[str] = ()) -> Any:
    """The same JSON with each text in it changed; the texts of the fields `but` stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            key: item
            if key in but and isinstance(item, str)
            else map_strings(item, change, but=but)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [map_strings(item, change, but=but) for item in value]
    return value


def strings_in(value: Any) -> Iterator[str]:
    """Each text of some JSON, without the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for item in value.values() for text in strings_in(item))
    elif isinstance(value, Sequence):
        yield from (text for item in value for text in strings_in(item))


def _runs(places: Sequence[int], size: int) -> Iterator[tuple[int, int]]:
    """What so many characters at each of these places cover, from the first to the last."""
    start = end = -1
    for place in places:
        if place > end and end >= 0:
            yield start, end
        start = place if place > end else start
        end = place + size
    if end >= 0:
        yield start, end
