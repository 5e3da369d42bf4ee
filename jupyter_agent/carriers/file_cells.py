"""Cells between a file's JSON and the values of the document: as unchanged as possible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from operator import is_
from typing import Any, cast

from jupyter_agent.carriers.nbformat_file import as_stored
from jupyter_agent.document.carrier import with_items
from jupyter_agent.document.merge import MergeConflict
from jupyter_agent.document.merge_cells import merge_cell
from jupyter_agent.document.values import are_same, as_json, as_shared

OF_RUN = frozenset({"outputs", "execution_count"})
"""Keys of a cell that a run writes."""
BATCH = 50
"""Cells handled between two breaks for the event loop."""


def content_of(
    values: Sequence[Mapping[str, Any]],
    loaded: Mapping[str, Any],
    clean: Mapping[str, Mapping[str, Any]],
    metadata: Mapping[str, Any],
) -> Mapping[str, Any]:
    """The notebook's JSON with these values of the document and these keys in its metadata;
    `loaded` itself if nothing differs. `clean` are the values that equal the file's. Slow with much
    output.
    """
    file = {cell["id"]: cell for cell in loaded["cells"]}
    cells = []
    for value in values:
        cell, was = file.get(value["id"]), clean.get(value["id"])
        if cell is not None and was is not None:
            cells.append(cell if was is value else _patch_cell(cell, was, value))
        else:
            cells.append(patch(cell, without_state(value)))
    same = len(cells) == len(loaded["cells"]) and all(
        a is b for a, b in zip(cells, loaded["cells"], strict=True)
    )
    changed: dict[str, Any] = {} if same else {"cells": cells}
    if not all(has_metadata(loaded, key, item) for key, item in metadata.items()):
        changed["metadata"] = with_items(loaded["metadata"], metadata)
    return {**loaded, **changed} if changed else loaded


def has_metadata(content: Mapping[str, Any], key: str, item: Any) -> bool:
    """Whether the notebook's metadata has this value; for None, whether it lacks the key."""
    if item is None:
        return key not in content["metadata"]
    return key in content["metadata"] and bool(content["metadata"][key] == item)


def rebase(
    old: Mapping[str, Any], mine: Mapping[str, Any], new: Mapping[str, Any], *, running: bool
) -> Mapping[str, Any]:
    """The file's new cell, plus what the document's has beyond the file's old one. The outputs of a
    running cell come from its run, and are newer than the file.
    """
    if running:
        new = {**new, **{key: old[key] for key in OF_RUN & old.keys()}}
    try:
        return merge_cell(old, mine, new)
    except MergeConflict:
        return merge_cell(old, {**mine, "source": old["source"]}, new)


def rebuild(
    old: Mapping[str, Any] | None, value: Mapping[str, Any] | None, new: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The cell of a new document: like `rebase`, if there was one of this type."""
    if old is None or value is None:
        return new
    if not new["cell_type"] == old["cell_type"] == value["cell_type"]:
        return new
    if new == old:
        return value
    state = {key: value[key] for key in value if key == "execution_state"}
    return {
        **rebase(old, patch(old, without_state(value)), new, running=is_running(value)),
        **state,
    }


def is_running(value: Mapping[str, Any]) -> bool:
    return bool(value.get("execution_state") == "running")


def clears_unseen(old: Mapping[str, Any], mine: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether outputs were cleared here that are not those of the file now."""
    was, here, there = (cell.get("outputs", []) for cell in (old, mine, new))
    return not here and was != [] and there not in (was, [])


def without_state(value: Mapping[str, Any]) -> dict[str, Any]:
    """A cell of the document without the keys that no file has."""
    return {key: item for key, item in value.items() if key != "execution_state"}


def _patch_cell(
    loaded: Mapping[str, Any], was: Mapping[str, Any], value: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Like `patch`; `was` is the document's value that equals `loaded`. Outputs that are still
    the same objects are not compared.
    """
    file, old, new = loaded.get("outputs"), was.get("outputs"), value.get("outputs")
    now = without_state(value)
    if not file or not old or not new or len(file) != len(old):
        return cast("Mapping[str, Any]", patch(loaded, now))
    outputs = [
        stored if then is output else patch(stored, output)
        for output, then, stored in zip_longest(new, old, file)
    ][: len(new)]
    bare = {key: item for key, item in loaded.items() if key != "outputs"}
    rest = patch(bare, {key: item for key, item in now.items() if key != "outputs"})
    if len(outputs) == len(file) and all(map(is_, outputs, file)):
        outputs = file
        if rest is bare:
            return loaded
    return {**rest, "outputs": outputs}


def patch(loaded: Any, now: Any) -> Any:
    """`loaded` changed to `now`, a value of the document; `loaded` itself if both are equal."""
    if isinstance(loaded, Mapping) and isinstance(now, Mapping):
        kept = [key for key in loaded if key in now] + [key for key in now if key not in loaded]
        merged = {key: patch(loaded.get(key), now[key]) for key in kept}
        same = len(merged) == len(loaded) and all(merged[key] is loaded.get(key) for key in merged)
        return loaded if same else merged
    return loaded if are_same(as_shared(loaded), now) else as_json(now)


def count_parts(content: Mapping[str, Any]) -> int:
    """The number of its cells and outputs."""
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    return len(content["cells"]) + sum(len(cell["outputs"]) for cell in code)


def changed_cells(
    old: Mapping[str, Mapping[str, Any]], cells: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The cells that differ from the old ones with their ids. Slow for a large notebook."""
    return [cell for cell in cells if cell != old.get(cell["id"])]


def text_of(content: Mapping[str, Any]) -> str:
    return json.dumps(as_stored(content), ensure_ascii=False, indent=1, sort_keys=True)


async def clean_values(
    values: Sequence[Mapping[str, Any]], cells: Sequence[Mapping[str, Any]], known: Collection[str]
) -> dict[str, Any]:
    """The document's values, except for `known` ones, that equal the file's cells."""
    file = {cell["id"]: cell for cell in cells}
    unchanged = {}
    for number, value in enumerate(values):
        cell = file.get(value["id"])
        if value["id"] in known or cell is None:
            continue
        if patch(cell, without_state(value)) is cell:
            unchanged[value["id"]] = value
        if number % BATCH == 0:
            await asyncio.sleep(0)
    return unchanged


def same_cells(
    values: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    now: Sequence[Mapping[str, Any]],
) -> bool:
    """Whether the file still has the cells of the document, by id, type and order."""
    shape = [(cell["id"], cell["cell_type"]) for cell in now]
    shared = [(value["id"], value["cell_type"]) for value in values]
    return shape == shared == [(cell["id"], cell["cell_type"]) for cell in before]
