"""The content of notebook files: whether we can change it without harm, and its cell ids.

Pure functions; parsing holds a thread for a while, so callers do it off the event loop.
"""

from __future__ import annotations

import hashlib
import json
import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, cast, get_args

import nbformat

from jupyter_agent import foreign
from jupyter_agent.document.cell import CellType, version_of
from jupyter_agent.document.identities import Naming, match_cells
from jupyter_agent.document.values import EXACT, FIRST_WITH_IDS

DEEPEST = 200
"""Levels of nesting; copying takes several of Python's 1000 frames for each."""

_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_CONFLICT = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
_HIGHEST_MINOR = 999
"""Of a format. The newest one is 5."""
_SHORT_ID = re.compile(r"[0-9a-f]{8}")


class Unusable(Exception):
    """The file is not a notebook that we can change without harm; the text says why."""


class NoJson(Unusable):
    """The file is empty or was cut off."""


def parse(text: str) -> dict[str, Any]:
    """A notebook file's JSON in format 4, with lines joined and ids as in the file.

    Raises Unusable, NoJson.
    """
    content = _json(text)
    if not isinstance(content, dict):
        raise Unusable("it is not a JSON object")
    major, minor = content.get("nbformat"), content.setdefault("nbformat_minor", 0)
    if type(major) is not int or not _is_minor(minor):
        raise Unusable("it does not say which notebook format it has")
    if major > 4:
        raise Unusable(f"it has the notebook format {major}, and the newest known one is 4")
    refuse_unwritable(content, text)
    if major == 4:
        _fill_defaults(content)
        refuse_odd(content)
    try:
        versions = cast("Any", nbformat).versions
        notebook = versions[major].to_notebook_json(content, minor=minor)
        if major < 4:
            notebook = nbformat.convert(notebook, 4)  # type: ignore[no-untyped-call]
            notebook["nbformat_minor"] = FIRST_WITH_IDS
            for cell in notebook["cells"]:
                cell.pop("id", None)  # random ids of the conversion
            refuse_odd(notebook)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        RecursionError,
        nbformat.ValidationError,
    ) as error:
        raise Unusable(f"it is not a valid notebook of format {major} ({error!r:.80})") from error
    return cast("dict[str, Any]", plain(notebook))


_ABSENT: Mapping[str, Mapping[str, Any]] = {
    "stream": {"name": "stdout", "text": ""},
    "error": {"ename": "", "evalue": "", "traceback": []},
    "display_data": {"data": {}, "metadata": {}},
    "execute_result": {"data": {}, "metadata": {}, "execution_count": None},
}
"""Jupyter's defaults for outputs that lack these fields."""


def _fill_defaults(content: dict[str, Any]) -> None:
    """Add the required fields that Jupyter reads as empty if they are missing."""
    content.setdefault("metadata", {})
    cells = content.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        if not isinstance(cell, dict):
            continue
        cell.setdefault("source", "")
        if cell.get("cell_type") != "code":
            continue
        cell.setdefault("execution_count", None)
        outputs = cell.setdefault("outputs", [])
        for output in outputs if isinstance(outputs, list) else ():
            kind = output.get("output_type") if isinstance(output, dict) else None
            for key, empty in _ABSENT.get(kind, {}).items() if isinstance(kind, str) else ():
                output.setdefault(key, copy(empty))


def matches(text: str, content: Mapping[str, Any]) -> bool:
    """Whether a file's JSON is this notebook, as `parse` would return it. If so, this takes a tenth
    of the time of parsing.
    """
    try:
        return _same(json.loads(text), content)
    except (ValueError, RecursionError):
        return False


def _same(stored: Any, value: Any) -> bool:
    """Whether a file's value equals a notebook's: text may be a list of lines in the file."""
    match value:
        case dict():
            return (
                isinstance(stored, dict)
                and stored.keys() == value.keys()
                and all(_same(stored[key], item) for key, item in value.items())
            )
        case list():
            return (
                isinstance(stored, list)
                and len(stored) == len(value)
                and all(map(_same, stored, value))
            )
        case str() if isinstance(stored, list):
            return all(isinstance(line, str) for line in stored) and "".join(stored) == value
    return type(stored) is type(value) and bool(stored == value)


def is_cut_off(data: bytes) -> bool:
    """Whether it is only the start of some JSON, as left by a save that was killed: files broken by
    people or their tools look different.
    """
    try:
        text = getincrementaldecoder("utf-8")().decode(data)  # half a character may be at the end
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :].rstrip()
        in_string = error.msg.startswith(("Unterminated string", "Invalid \\u"))
        return in_string or any(word.startswith(rest) for word in _WORDS)
    except (ValueError, RecursionError):
        return False
    return False


def is_notebook(data: bytes) -> bool:
    """Whether we can work on it."""
    try:
        parse(data.decode())
    except (UnicodeDecodeError, Unusable):
        return False
    return True


def plain(value: Any) -> Any:
    """A copy in plain dicts and lists. Python's garbage collector tracks each of nbformat's own
    objects, but a dict only if it holds other objects: with 10,000 cells that is noticeable.
    """
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
    return value


def _json(text: str) -> Any:
    if not text.strip():
        raise NoJson("it is empty")
    if text.startswith("\ufeff"):
        raise NoJson("it starts with a byte order mark; save it as UTF-8 without one")
    try:
        return json.loads(text)
    except RecursionError:
        raise NoJson(str(foreign.too_deep(DEEPEST))) from None
    except ValueError as error:
        if _CONFLICT.search(text):
            raise NoJson("it has merge conflict markers (<<<<<<<); resolve them first") from None
        raise NoJson(f"it is not valid JSON ({error!s:.120})") from None


def refuse_unwritable(content: Mapping[str, Any], text: str | None = None) -> None:
    """Raises Unusable for content that cannot be copied or saved. `text` is its JSON."""
    try:
        foreign.refuse_deep(content, DEEPEST)
    except ValueError as error:
        raise Unusable(str(error)) from None
    if text is None or _HALF.search(text):
        try:
            json.dumps(content, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Unusable("it has half a character in it (a lone surrogate)") from None


def refuse_odd(content: Mapping[str, Any]) -> None:
    """Raises Unusable unless it has the shape of format 4 as far as we rely on it."""
    if content.get("nbformat") != 4 or not _is_minor(content.get("nbformat_minor", 0)):
        raise Unusable("it is not a notebook of format 4")
    if not isinstance(content.get("metadata", {}), dict):
        raise Unusable("its metadata is not a JSON object")
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise Unusable("it has no list of cells")
    for number, cell in enumerate(cells, 1):
        if why := _odd_cell(cell):
            raise Unusable(f"cell {number} {why}")


def _is_minor(value: object) -> bool:
    return type(value) is int and abs(value) <= _HIGHEST_MINOR


def _odd_cell(cell: Any) -> str:
    """The cell's error; empty if it is valid."""
    if not isinstance(cell, dict):
        return "is not a JSON object"
    if cell.get("cell_type") not in get_args(CellType):
        return "has an unknown type"
    if not _is_text(cell.get("source")):
        return "has no text"
    if not isinstance(cell.get("metadata"), dict):
        return "has no metadata"
    attached = cell.get("attachments") or {}
    if not isinstance(attached, dict) or not all(
        isinstance(data, dict) and all(map(_is_text, data.values())) for data in attached.values()
    ):
        return "has malformed attachments"
    if cell["cell_type"] == "code":
        if not _is_count(cell.get("execution_count")):
            return "has a malformed execution count"
        outputs = cell.get("outputs")
        if not isinstance(outputs, list) or not all(_is_output(output) for output in outputs):
            return "has malformed outputs"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(line, str) for line in value)
    )


def _is_count(value: Any) -> bool:
    return value is None or (
        isinstance(value, int | float) and abs(value) <= EXACT  # not NaN
    )


def _is_output(output: Any) -> bool:
    if not isinstance(output, dict) or not isinstance(output.get("metadata", {}), dict):
        return False
    match output.get("output_type"):
        case "stream":
            return _is_text(output.get("text")) and isinstance(output.get("name", ""), str)
        case "error":
            return (
                isinstance(output.get("ename"), str)
                and isinstance(output.get("evalue"), str)
                and isinstance(output.get("traceback"), list)
                and _is_text(output["traceback"])
            )
        case "display_data" | "execute_result":
            return _is_bundle(output.get("data"))
        case kind:
            return isinstance(kind, str)


def _is_bundle(data: Any) -> bool:
    """Whether it is data by mimetype: text and pictures are text, or null, as Jupyter stores them
    for a kernel that sends them so; JSON may be anything.
    """
    return isinstance(data, dict) and all(
        item is None or _is_text(item)
        for kind, item in data.items()
        if kind.startswith(("text/", "image/")) and not kind.endswith("json")
    )


# ---- ids


def as_stored(content: Mapping[str, Any], own: Collection[str] = ()) -> dict[str, Any]:
    """The notebook in the form of its file: before format 4.5 cells have ids in memory only, except
    for the ids in `own`, which the file contains nevertheless.
    """
    if content["nbformat_minor"] >= FIRST_WITH_IDS:
        return dict(content)
    cells = [
        {key: item for key, item in cell.items() if key != "id" or item in own}
        for cell in content["cells"]
    ]
    return {**content, "cells": cells}


def missing_ids(cells: Iterable[Mapping[str, Any]]) -> set[int]:
    """Indices of the cells without an id of their own: without any, or with that of an earlier
    cell.
    """
    seen: set[str] = set()
    missing = set()
    for index, cell in enumerate(cells):
        cell_id = cell.get("id")
        if not isinstance(cell_id, str) or not cell_id or cell_id in seen:
            missing.add(index)
        else:
            seen.add(cell_id)
    return missing


def may_be_made_up(cells: Iterable[Mapping[str, Any]]) -> bool:
    """Whether some ids look like the random ones that nbformat gives to cells without an id."""
    return any(_SHORT_ID.fullmatch(str(cell.get("id"))) for cell in cells)


def give_ids(cells: Sequence[dict[str, Any]], without: Collection[int], former: Naming) -> None:
    """Give ids to the cells at those indices: those of the same cells in `former`, else ids that
    are reproducible for the same cells in the same order, and that no cell had before.
    """
    used = {cell["id"] for index, cell in enumerate(cells) if index not in without}
    versions = [_version(cell) for cell in cells]
    given = set[int]()
    for pair in match_cells([version for version, _ in former.cells], versions):
        _, cell_id = former.cells[pair.former]
        if pair.now in without and cell_id not in used:
            cells[pair.now]["id"] = cell_id
            used.add(cell_id)
            given.add(pair.now)
    used |= former.ids
    numbers = Counter[str]()
    for index in sorted(set(without) - given):
        version = versions[index]
        while True:
            cell_id = hashlib.sha256(f"{numbers[version]}\0{version}".encode()).hexdigest()[:8]
            numbers[version] += 1
            if cell_id not in used:
                break
        cells[index]["id"] = cell_id
        used.add(cell_id)


def naming_of(cells: Iterable[Mapping[str, Any]], former: Naming) -> Naming:
    """The naming by which `give_ids` recognizes the cells; `former` is the naming before."""
    now = [(_version(cell), cell["id"]) for cell in cells]
    return Naming(now, former.ids.difference(cell_id for _, cell_id in now))


def _version(cell: Mapping[str, Any]) -> str:
    return version_of(cell["cell_type"], cell["source"])
