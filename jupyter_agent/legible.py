"""Makes texts and names from outside readable: no escapes, nothing invisible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import NewType, TypeVar, cast

_ESCAPES = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # commands to the terminal: titles, links
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"  # strings for devices
    r"|\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|[ -/]*[0-~])"
)
_INVISIBLE = re.compile(
    "[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""Control, direction and tag characters: invisible, and could hide text from a person."""
CELL_ID = "[a-zA-Z0-9_-]{1,64}"
"""A cell id in nbformat.

https://nbformat.readthedocs.io/en/latest/format_description.html#cell-ids
"""
_NOT_IN_A_TOOLS_NAME = re.compile(r"[^a-zA-Z0-9_-]")
ModelText = NewType("ModelText", str)
"""A text that a model may read: without secrets, nothing invisible. Only a `Redactor` makes one of
other text; a module may make one of words that are literally in it.
"""
_Text = TypeVar("_Text", bound=str)
_QUOTED_CHARS = 200
"""Maximum length of a quoted name."""


def without_escapes(text: str) -> str:
    """The text without terminal escapes."""
    return _ESCAPES.sub("", text)


def without_invisible(text: str) -> str:
    """The text without invisible characters; tabs and line ends stay."""
    return _INVISIBLE.sub("", text)


def legible(text: str) -> str:
    """The text without terminal escapes and invisible characters."""
    return without_invisible(without_escapes(text))


def quoted(name: str) -> str:
    """A name for use in our own text: itself, or as JSON if it has line ends or unprintable
    characters. So no name adds a line, and a reader sees its end.
    """
    if name.isprintable():
        return name
    return _as_json(legible(name))


def quoted_id(cell_id: str) -> str:
    """The same for a cell's id; as JSON if it is invalid in nbformat (`is_cell_id`)."""
    return cell_id if is_cell_id(cell_id) else _as_json(legible(cell_id))


def tool_name(name: str) -> str:
    """A name with `_` for each character that services do not allow in tool names."""
    return _NOT_IN_A_TOOLS_NAME.sub("_", name)


def with_names_quoted(text: str, names: Iterable[str]) -> str:
    """Our own text with these names in the form of `quoted`."""
    for name in sorted(set(names), key=len, reverse=True):
        if name.strip() and not name.isprintable():
            text = text.replace(name, quoted(name))
    return text


def clip(text: _Text, most: int, note: str = "...", *, head: float = 1.0) -> _Text:
    """The text, or `most` characters of it with a note in place of the rest.

    `head` is the share of the beginning in what stays; the rest is from the end. `{left}` in the
    note is the number of omitted characters.
    """
    left = len(text) - most
    if left <= 0:
        return text
    kept = int(most * head)
    return cast(_Text, f"{text[:kept]}{note.format(left=left)}{text[kept + left :]}")


def as_sentence(text: str) -> str:
    """The text with a full stop at its end, since another sentence may follow."""
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def pluralize(number: int, word: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def is_cell_id(text: str) -> bool:
    """Whether it is a valid cell id in nbformat."""
    return re.fullmatch(CELL_ID, text) is not None


def _as_json(name: str) -> str:
    return "".join(
        letter if letter.isprintable() else json.dumps(letter)[1:-1]
        for letter in json.dumps(clip(name, _QUOTED_CHARS), ensure_ascii=False)
    )
