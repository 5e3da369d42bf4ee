"""What people read about calls: templates that a tool brings, which every door fills in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

from jupyter_agent.legible import clip, quoted, quoted_id

Text: TypeAlias = str | tuple[str, str]
"""A template; a pair for one and for several."""
Icon: TypeAlias = Literal[
    "add",
    "code",
    "delete",
    "edit",
    "file",
    "list",
    "look",
    "move",
    "refresh",
    "run",
    "search",
    "stop",
    "tool",
]
CellNamer: TypeAlias = Callable[[str], str]

_PLACEHOLDER = re.compile(r"\{(\w+)(?:\|([^}]*))?\}")
_LISTED = 6
"""Cells listed on a line."""
_MOST_OF_AN_ID = 70
"""Characters; those of nbformat have at most 64."""


@dataclass(frozen=True)
class Words:
    """What people read about a call, in templates.

    A placeholder may have a default, as in `{names|the variables}`:

    - `{cells}`: the cells that the call changes, or that its input names in `cell_id`, `cell_ids`
      or `edits`; `{ran}`: those that it ran, or names.
    - `{place}`: where its input puts a cell by `after` or `before`, as in " below cell 3"; the
      default is for a complete input that names no place.
    - `{notebook}`: its notebook, if that has to be named.
    - `{count}`: the number of items in the field `counts`; a pair is for one and for several.
    - Others: that field of the input.
    """

    todo: Text
    """What it would do: "Edit {cells}"."""
    doing: Text
    """"Editing {cells}"."""
    done: Text
    """"{cells} edited"."""
    scope: str = ""
    """What one allows by "always": "edit any cells"."""
    given: str = ""
    """The field that an input must have for these words; the tool's next ones are for others."""
    counts: str = ""
    """The field with the list that `{count}` counts."""

    def __post_init__(self) -> None:
        """Raises TypeError for anything that is not text: plugs write these."""
        for text in (self.todo, self.doing, self.done):
            parts = (text,) if isinstance(text, str) else text
            if len(parts) not in (1, 2) or not all(isinstance(one, str) and one for one in parts):
                raise TypeError(f"{text!r} is neither a text nor a pair of texts")
        for name in ("scope", "given", "counts"):
            if not isinstance(getattr(self, name), str):
                raise TypeError(f"`{name}` of words is not a text")

    def describe(self) -> dict[str, Any]:
        """As `GET tools` lists them: without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}

    def fits(self, input: Mapping[str, Any]) -> bool:
        """Whether these are the words for a call with that input."""
        return not self.given or bool(input.get(self.given))


def phrase(text: Text, **values: int | str) -> dict[str, Any]:
    """Words with values, for people: "{done} of {count} done". `count` chooses from a pair."""
    return {"text": text, "values": values}


def fill(phrase: Mapping[str, Any], show: Callable[[str], str] = quoted) -> str:
    """A phrase as text; `show` makes its values harmless."""
    values = phrase["values"]
    template = _choose(phrase["text"], values.get("count", 1))
    return _PLACEHOLDER.sub(lambda match: show(str(values.get(match[1], ""))), template)


def show_id(cell_id: str) -> str:
    """A cell's id for people: `quoted_id`, cut if it is longer than ids are."""
    return clip(quoted_id(cell_id), _MOST_OF_AN_ID)


class Phrasebook:
    """The words for tools by their names."""

    def __init__(self, tools: Iterable[Mapping[str, Any]]) -> None:
        """`tools`: as `GET tools` lists them."""
        self._tools: dict[str, Mapping[str, Any]] = {}
        for tool in tools:
            for name in (tool["name"], *tool.get("former_names", ())):
                self._tools.setdefault(name, tool)

    def todo(self, tool: str, input: Any, cell: CellNamer, notebook: str = "") -> str:
        """What a call would do: `Edit cell 3 (b2)`. The input comes from a model and may be
        anything; `notebook` is given if it has to be named.
        """
        given = input if isinstance(input, Mapping) else {}
        words = self._words(tool, given)
        if words is not None:
            text = _fill_words(words, given, cell, notebook)
            named = "{notebook" in str(words.todo) or not self._tools[tool]["names_notebook"]
            return text if named or not notebook else f"{text} in {notebook}"
        server, _, remote = tool.removeprefix("mcp__").partition("__")
        if tool.startswith("mcp__") and remote:
            return f"Call {quoted(remote)} on {quoted(server)}"
        cells = _several(named_cells(given), cell)
        place = f" in {notebook}" if notebook else ""
        return f"Use {quoted(tool)}{f' on {cells}' if cells else ''}{place}"

    def shows_result(self, tool: str) -> bool:
        """Whether people want to read what the call returned."""
        return tool.startswith("mcp__") or bool(self._tools.get(tool, {}).get("shows_result"))

    def _words(self, tool: str, input: Mapping[str, Any]) -> Words | None:
        names = [field.name for field in fields(Words)]  # a newer server may list more
        listed = self._tools.get(tool, {}).get("words", ())
        every = (Words(**{name: each[name] for name in names if name in each}) for each in listed)
        return next((words for words in every if words.fits(input)), None)


def named_cells(input: Mapping[str, Any]) -> list[str]:
    """The cells that an input names, in order."""
    edits = [each.get("cell_id") for each in _list(input.get("edits")) if isinstance(each, Mapping)]
    ids = [input.get("cell_id"), *_list(input.get("cell_ids")), *edits]
    return list(dict.fromkeys(each for each in ids if each and isinstance(each, str)))


def _fill_words(words: Words, input: Mapping[str, Any], cell: CellNamer, notebook: str) -> str:
    count = len(_list(input.get(words.counts))) or 1

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2] or ""
        match name:
            case "cells" | "ran":
                if input.get("cell_ids") == []:
                    return "no cells"
                return _several(named_cells(input), cell) or default or "a cell"
            case "place":
                return _place(input, cell) or default
            case "notebook":
                return notebook or default
            case "count":
                return str(count)
        found = input.get(name)
        if found is None:
            return default
        return (
            quoted(", ".join(map(str, found) if isinstance(found, list) else [str(found)]))
            or default
        )

    filled = _PLACEHOLDER.sub(value, _choose(words.todo, count))
    return filled[:1].upper() + filled[1:]


def _choose(text: Text, count: Any) -> str:
    """The template for so many."""
    return text if isinstance(text, str) else text[count != 1]


def _several(ids: Sequence[str], cell: CellNamer) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(map(cell, ids[:_LISTED])) + more


def _place(input: Mapping[str, Any], cell: CellNamer) -> str:
    for field, side in (("after", "below"), ("before", "above")):
        if isinstance(other := input.get(field), str) and other:
            return f" {side} {cell(other)}"
    return ""


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []
