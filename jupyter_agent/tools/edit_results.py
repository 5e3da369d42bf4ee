"""What is said about edits: the question before them, their result, and their diff."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jupyter_agent.document.cell import Cell, version_of
from jupyter_agent.document.edit_result import Edit
from jupyter_agent.document.merge import LARGEST_MATCH, differing_ranges
from jupyter_agent.errors import NotebookNotFound
from jupyter_agent.legible import quoted_id
from jupyter_agent.text.notebook import whole
from jupyter_agent.tools.base import (
    CellDiff,
    Progress,
    Question,
    Result,
    stale_sentence,
)
from jupyter_agent.tools.run import run_written, wait_until_saved
from jupyter_agent.tools.run_results import results_of
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.snapshot import Snapshot


def is_runnable(cell: Cell) -> bool:
    """Whether running the cell does anything."""
    return cell.type == "code" and bool(cell.source.strip())


async def question_about(
    nb: Lease,
    edits: Sequence[CellDiff],
    codes: Sequence[Cell],
    *,
    run: bool,
    cells: Sequence[Cell] = (),
    after: Sequence[Cell] = (),
) -> Question:
    """The question for edits of several cells, now `cells`, and for a run of the result."""
    started: tuple[str, ...] = ()
    if run:
        with suppress(NotebookNotFound):  # an earlier question of the group may create it
            started = await nb.kernel.clusters([cell.source for cell in codes])
    return Question(
        notebook=nb.path,
        cell_id=edits[0].cell_id if len(edits) == 1 else None,
        cell_type=edits[0].cell_type if len(edits) == 1 else None,
        diff="\n".join(each.diff for each in edits),
        edits=edits,
        code="\n\n".join(cell.source for cell in codes) if run else None,
        cells={cell.id: cell.version for cell in cells},
        after={cell.id: cell for cell in after},
        clusters=started,
    )


async def edits_result(
    nb: Lease, edits: Sequence[Edit], verb: str, *, run: bool, progress: Progress | None
) -> Result:
    """The result of edits that are in the live document, and of the run of these cells."""
    await nb.release()
    saved = edits[0].saved
    cells = [edit.cell for edit in edits if edit.cell is not None]
    merges = _merges(nb, await nb.read(), cells)
    versions = {
        edit.cell.id: _edit_version(edit)
        for edit in edits
        if edit.cell is not None and is_runnable(edit.cell)
    }
    runs, note = await run_written(nb, versions, progress) if run else ([], "")
    names = ", ".join(
        f"`{quoted_id(cell.id)}`{_extent(edit)}" for edit, cell in zip(edits, cells, strict=True)
    )
    what = "cell" if len(cells) == 1 else "cells"
    head = " ".join(filter(None, [f"{verb} {what} {names}.", saved.note]))
    await wait_until_saved(runs)
    result = await results_of(runs, nb.work, note) if runs else Result(text=note)
    stale = await nb.newly_stale()
    ids = [cell.id for cell in cells]
    facts: dict[str, Any] = {
        "saved": saved.saved,
        "notebook": nb.path,
        **({"cell_id": ids[0]} if len(ids) == 1 else {}),
        "cell_ids": ids,
        "stale": stale,
        **({"not_run": note} if note else {}),
    }
    named = stale_sentence(stale if run else [cell_id for cell_id in stale if cell_id not in ids])
    text = [head, merges, result.text]
    return replace(
        result,
        text="\n".join(filter(None, ["\n\n".join(filter(None, text)), named])),
        facts={**facts, **result.facts},
        changes=[*(change for edit in edits for change in edit.changes), *result.changes],
    )


def _merges(nb: Lease, now: Snapshot, cells: Sequence[Cell]) -> str:
    """The cells that differ from what the edits alone would give, with their text."""
    texts = []
    for cell in cells:
        if nb.work.reads.source(nb.path, cell.id) in (None, cell.source):
            continue
        shown = now.view.cell(cell)
        text = nb.work.fence.around(shown.source)
        texts.append(
            f"Someone typed in `{quoted_id(cell.id)}` at the same time; the merged text is:\n{text}"
        )
        nb.remember([shown] if whole(shown) else [])
    return "\n\n".join(texts)


def _edit_version(edit: Edit) -> str:
    """The version the edit gave the cell, without what someone typed at the same moment."""
    assert edit.cell is not None
    after = edit.changes[0].after if edit.changes else None
    return version_of(after.type, after.source) if after else edit.cell.version


def _extent(edit: Edit) -> str:
    """The size of the change; the position of a new cell."""
    assert edit.cell is not None
    if not edit.changes:
        return " (was like that already)"
    change = edit.changes[0]
    if change.kind == "outputs":
        return ""
    if change.before is None:
        return f" (position {edit.cell.index + 1})"
    plus, minus = count(change.before.source, edit.cell.source)
    retyped = f", now {edit.cell.type}" if edit.cell.type != change.before.type else ""
    return f" (+{plus} -{minus}{retyped})"


def cell_diff(cell: Cell, after: Cell) -> str:
    """The change of a cell, for a person who decides about it."""
    retyped = [f"type: {cell.type} -> {after.type}"] if after.type != cell.type else []
    lines = [*retyped, *tags_diff(cell.tags, after.tags), diff(cell.source, after.source)]
    return "\n".join(filter(None, lines))


def tags_diff(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """A line about the tags if they differ."""
    if set(before) == set(after):
        return []
    return [f"tags: {', '.join(before) or 'none'} -> {', '.join(after) or 'none'}"]


async def edit_result(text: str, nb: Lease, edit: Edit) -> Result:
    """The result of an edit of one cell that is in the live document, with the cells it made
    stale.
    """
    await nb.release()
    stale = await nb.newly_stale() if edit.changes else []
    cell_id = edit.changes[0].cell_id if edit.changes else edit.cell and edit.cell.id
    facts = {
        "saved": edit.saved.saved,
        "notebook": nb.path,
        "cell_id": cell_id,
        "stale": stale,
    }
    notes = [text, edit.saved.note, stale_sentence([other for other in stale if other != cell_id])]
    return Result(text=" ".join(filter(None, notes)), facts=facts, changes=edit.changes)


def diff(before: str, after: str) -> str:
    """A unified diff of two cell texts, without file names."""
    lines = difflib.unified_diff(_lines(before), _lines(after), n=2, lineterm="")
    return "\n".join(list(lines)[2:])


def count(before: str, after: str) -> tuple[int, int]:
    """Numbers of added and removed lines."""
    ranges = list(differing_ranges(_lines(before), _lines(after), LARGEST_MATCH))
    return sum(m - k for _, _, k, m in ranges), sum(j - i for i, j, _, _ in ranges)


def _lines(text: str) -> list[str]:
    """Not `splitlines`: changing a carriage return or a Unicode line end is a change, too."""
    return text.split("\n") if text else []
