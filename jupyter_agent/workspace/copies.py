"""Withholds hidden cells in what other programs return: they may have read a notebook's file.

Their texts may be a notebook, have one in a string, or quote lines of one, in the spelling of JSON
or HTML. A text with a hidden cell in a format that cannot be read is withheld as a whole.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.carriers.nbformat_file import DEEPEST
from jupyter_agent.legible import legible
from jupyter_agent.text.notebook import HIDDEN

QUOTED = "(not shared with you: it comes from a hidden cell)"
_UNREADABLE = "(not shared with you: it has a hidden cell in a format that cannot be read)"
_SHOWN = ("id", "index", "cell_type", "type")
"""The fields of a hidden cell that are shown."""
LEAST = 8
"""Shorter lines and literals of hidden cells reveal nothing by themselves."""
_TAGGED = re.compile(rf"tags\W{{0,12}}(?:\w{{1,40}}\W{{1,12}}){{0,5}}{HIDDEN}")
"""The tag in the metadata of a cell, in any format."""
_LETTER = re.compile(r"\\u([0-9a-fA-F]{4})")
"""A JSON escape of a character, the only other spelling of letters."""
_SLASHES = re.compile(r"\\{2,}")
_BLANK = re.compile(r"\\[bfnrt]")


def without_hidden_cells(value: Any, fragments: Collection[str]) -> Any:
    """A text or JSON value without cells that are tagged as hidden and without quotes of these
    fragments of hidden cells; a value without either is unchanged.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return _Filter(text, fragments).value(value)
    except RecursionError:  # JSON in JSON in JSON ...
        return _UNREADABLE


class _Filter:
    def __init__(self, whole: str, fragments: Collection[str]) -> None:
        plain = _plain(whole)
        spelled = {_plain(fragment) for fragment in fragments}
        self._present = [each for each in spelled if len(each) >= LEAST and each in plain]
        self._is_needed = self._concerns(plain)

    def value(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping() if is_tagged(value) or is_tagged(value.get("metadata")):
                shown = {key: value[key] for key in _SHOWN if isinstance(value.get(key), str | int)}
                return {**shown, "source": QUOTED}
            case Mapping():
                return {self._text(key): self.value(item) for key, item in value.items()}
            case list():
                return [self.value(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        if not self._is_needed:
            return text
        if (shown := self._json(text)) is not None:
            return shown
        lines = text.split("\n")
        in_json = [self._json(line) for line in lines] if len(lines) > 1 else [None]
        pairs = list(zip(lines, in_json, strict=True))
        if _TAGGED.search(_plain("\n".join(line for line, shown in pairs if shown is None))):
            return _UNREADABLE
        return "\n".join(self._line(line) if shown is None else shown for line, shown in pairs)

    def _json(self, text: str) -> str | None:
        """The text without hidden cells if it is a list or mapping in JSON that has some, or that
        has nothing to do with them; otherwise None.
        """
        if text.lstrip()[:1] not in ("{", "["):
            return None
        try:
            value = foreign.parse(text, DEEPEST, constants=True)
        except ValueError:
            return None
        shown = self.value(value)
        if shown != value:
            return json.dumps(shown, ensure_ascii=False)
        return None if self._concerns(_plain(text)) else text  # a name twice: only one is read

    def _concerns(self, plain: str) -> bool:
        return HIDDEN in plain or self._quotes(plain)

    def _quotes(self, plain: str) -> bool:
        return any(fragment in plain for fragment in self._present)

    def _line(self, line: str) -> str:
        return QUOTED if self._quotes(_plain(line)) else line


def is_tagged(metadata: Any) -> bool:
    """Whether a value is the metadata of a hidden cell."""
    tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
    return isinstance(tags, Sequence) and HIDDEN in tags


def without_letter_escapes(text: str) -> str:
    """A text with the characters that JSON escapes by their number."""
    return _LETTER.sub(lambda found: chr(int(found[1], 16)), text)


def _plain(text: str) -> str:
    """The text without the escapes of JSON and HTML, and with single blanks."""
    text = without_letter_escapes(text)
    text = _BLANK.sub(" ", _SLASHES.sub(r"\\", text)).replace("\\", "")
    text = legible(html.unescape(text))
    return " ".join(text.split())
