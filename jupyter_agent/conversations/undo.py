"""Undoes a turn's changes in all its notebooks without touching people's later edits, or marks them
as reviewed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from jupyter_agent.agent.blocks import INVALID_INPUT
from jupyter_agent.conversations.audit import AuditEntry
from jupyter_agent.conversations.changes import (
    ChangesEntry,
    ChangesInConflict,
    ChangesReviewed,
    ChangesUndone,
    JournalEntry,
)
from jupyter_agent.conversations.database import is_here
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.turn_stores import TurnStores
from jupyter_agent.document.cell import Change
from jupyter_agent.document.undo import IN_USE, UndoOutcome, undo
from jupyter_agent.errors import CellInUse, Conflict, Locked, NotebookNotFound, ToolError
from jupyter_agent.legible import pluralize, quoted, quoted_id
from jupyter_agent.tasks import surely
from jupyter_agent.tools.sources import server_of
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.workspace import READ, WRITE, Workspace

_REACHED = ("done", "failed", "stopped")
"""Outcomes of calls that may have reached an MCP server."""

_KERNELS = "What ran in a kernel is not undone: variables and files keep what the turn did to them."

_HELP: Mapping[type[ToolError], str] = {
    Locked: "Undo again once it can be written.",
    NotebookNotFound: "If it was moved, move it back and undo again; copies from before each turn "
    "are kept (`GET api/agent/notebooks/{path}/recovery`).",
}
"""What helps after a notebook could not be changed."""
_ANOTHER_IN_USE = {
    "typing": "Someone began to type in another cell at the same moment. Undo again.",
    "running": "Someone is running another cell that the undo would replace. Undo again after it.",
}

CellKey: TypeAlias = tuple[str, str]
"""(path of the notebook, cell id)"""


@dataclass(frozen=True, kw_only=True)
class UndoneTurn:
    """The undone changes and those that stay."""

    undone: Sequence[Change]
    conflicts: Sequence[Mapping[str, Any]]
    remarks: Sequence[str] = ()
    """See `UndoOutcome`; also sentences on calls whose effect is unknown."""
    effects: Sequence[str] = ()
    """Sentences on other effects that stay: notebooks that it created, and those on MCP servers."""
    nothing: str = ""
    """Why there was nothing to undo; empty if there was something."""
    ran: bool = False
    """Whether the turn ran code, whose effects in the kernel stay."""

    @property
    def remainders(self) -> Sequence[str]:
        """What stays besides the conflicts, as sentences."""
        return [*self.remarks, *self.effects]

    @property
    def message(self) -> str:
        """The outcome in sentences for people."""
        undone = f"{pluralize(len(self.undone), 'change')} undone."
        whole = not (self.nothing or self.conflicts or self.remarks)
        return " ".join(
            [
                f"Nothing to undo: {self.nothing}." if self.nothing else undone,
                *(["Cells are as before."] if whole else _stays(self.conflicts)),
                *([_KERNELS] if self.ran else []),
                *self.remainders,
            ]
        )


def _stays(conflicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Sentences on the cells that stay, and why."""
    reasons = defaultdict[tuple[str, str], list[str]](list)
    for each in conflicts:
        reasons[each["notebook"], each["why"]].append(quoted_id(each["cell_id"]))
    for (notebook, why), ids in reasons.items():
        stay = f"cell {ids[0]} stays" if len(ids) == 1 else f"cells {', '.join(ids)} stay"
        yield f"{quoted(notebook)}, {stay}: {why}"


async def undo_turn(
    stores: TurnStores,
    turn: TurnRecord,
    work: Workspace,
    toolbox: Toolbox,
    cells: Collection[CellKey] | None = None,
) -> UndoneTurn:
    """Undo the changes of a turn, or only those of some cells.

    A notebook that cannot be reached is a conflict of each of its cells; the others are undone.
    """
    every = await stores.journal.of_turn(turn.id)
    undone: list[Change] = []
    conflicts: list[Mapping[str, Any]] = []
    remarks: list[str] = []
    try:
        for path in sorted({entry.change.notebook for entry in _to_undo(every, cells)}):
            result = await surely(_undo_in(path, cells, stores, turn, work))
            undone += result.undone
            conflicts += result.conflicts
            remarks += result.remarks
    finally:
        stores.announce(turn.conversation_id, turn.id)
    calls = await stores.conversations.calls(turn.id)
    if cells is None:
        remarks += _unknown_calls(calls, toolbox)
    return UndoneTurn(
        undone=undone,
        conflicts=conflicts,
        remarks=remarks,
        effects=await _remaining_effects(stores, turn, work) if cells is None else (),
        nothing="" if undone or conflicts or remarks else _why_nothing(every, cells),
        ran=any(_may_have_run(call, toolbox) for call in calls),
    )


def _may_have_run(call: Mapping[str, Any], toolbox: Toolbox) -> bool:
    """Whether a call may have run code. One that was refused, or whose input is not a JSON object,
    for example because the turn was stopped before it was complete, was not executed.
    """
    input = call["input"]
    if call["state"] == "refused" or not isinstance(input, Mapping) or INVALID_INPUT in input:
        return False
    return toolbox.may_run(call["tool"], input)


def _unknown_calls(calls: Sequence[Mapping[str, Any]], toolbox: Toolbox) -> list[str]:
    """Sentences on calls that a crash of the server cut off before they were in the journal."""
    tools = [
        call["tool"]
        for call in calls
        if call["state"] == "unknown" and not toolbox.only_reads(call["tool"])
    ]
    return [
        f"The server ended in the middle of `{quoted(tool)}`: whether that took effect is unknown, "
        "and it is not undone."
        for tool in dict.fromkeys(tools)
    ]


def _to_undo(
    every: Sequence[JournalEntry], cells: Collection[CellKey] | None
) -> list[JournalEntry]:
    return [entry for entry in every if not entry.change.undone and _is_of(entry, cells)]


def _why_nothing(every: Sequence[JournalEntry], cells: Collection[CellKey] | None) -> str:
    if any(_is_of(entry, cells) for entry in every):
        return "the changes are undone already"
    return (
        "the turn did not change any cell" if not every else "the turn did not change these cells"
    )


async def keep_turn(
    stores: TurnStores, turn: TurnRecord, cells: Collection[CellKey] | None = None
) -> int:
    """Mark the changes of a turn, or those of some cells, as reviewed and kept by a person. Returns
    their number.
    """
    every = await stores.journal.of_turn(turn.id)
    entries = [entry for entry in every if _is_of(entry, cells)]
    whys = dict.fromkeys((entry.change.notebook, entry.change.cell_id) for entry in entries)
    audit = _audit(turn.owner, turn.id, "accept", "The user keeps the changes.", whys)
    reviewed = ChangesReviewed([entry.id for entry in entries])
    await stores.conversations.append(turn.id, [reviewed, *audit])
    stores.announce(turn.conversation_id, turn.id)
    return len(entries)


def _is_of(entry: JournalEntry, cells: Collection[CellKey] | None) -> bool:
    return cells is None or (entry.change.notebook, entry.change.cell_id) in cells


async def _undo_in(
    path: str,
    cells: Collection[CellKey] | None,
    stores: TurnStores,
    turn: TurnRecord,
    work: Workspace,
) -> UndoOutcome:
    """Undo the changes of these cells in one notebook and log it, before anyone else can undo
    there.
    """

    async def entries() -> list[JournalEntry]:
        every = await stores.journal.of_turn(turn.id)
        return [entry for entry in every if entry.change.notebook == path]

    async def record(result: UndoOutcome, marks: Sequence[ChangesEntry]) -> None:
        whys: dict[CellKey, str | None] = dict.fromkeys(
            (each.notebook, each.cell_id) for each in result.undone
        )
        whys |= {(each["notebook"], each["cell_id"]): str(each["why"]) for each in result.conflicts}
        audit = _audit(work.user, turn.id, "undo", "The user takes the changes back.", whys)
        await stores.conversations.append(turn.id, [*marks, *audit])

    try:
        here = _path_here(path, turn, stores.conversations.database.root)
        async with lease(work, here, WRITE) as nb:
            notebook = (await nb.take()).notebook
            made = await entries()
            wanted = _to_undo(made, cells)  # another undo may have held the notebook until now
            changes, turns = ([each.change for each in some] for some in (wanted, made))
            result = await undo(notebook, changes, turns)
            await record(result, list(_marks(wanted, result)))
    except ToolError as error:
        result = _unreachable(path, _to_undo(await entries(), cells), error)
        await record(result, ())
    return result


def _unreachable(path: str, entries: Sequence[JournalEntry], error: ToolError) -> UndoOutcome:
    conflicts = [
        {"notebook": path, "cell_id": cell_id, **_why_kept(path, cell_id, error), "current": None}
        for cell_id in dict.fromkeys(entry.change.cell_id for entry in entries)
    ]
    return UndoOutcome(undone=[], conflicts=conflicts, remarks=[])


def _why_kept(path: str, cell_id: str, error: ToolError) -> dict[str, str]:
    """The `reason` and `why` of a cell's conflict after a refusal of the whole notebook."""
    if not isinstance(error, CellInUse):
        helps = _HELP.get(type(error), "").format(path=quoted(path))
        return {"reason": "unreachable", "why": f"{error.message} {helps}".strip()}
    if cell_id == error.cell_id:
        return {"reason": error.use, "why": IN_USE[error.use]}
    return {"reason": "unreachable", "why": _ANOTHER_IN_USE[error.use]}


async def _remaining_effects(stores: TurnStores, turn: TurnRecord, work: Workspace) -> list[str]:
    """Sentences about notebooks that the turn created, which stay because people may have used
    them, and about MCP servers, whose effects we cannot undo.
    """
    entries = await stores.audit.of_turn(turn.id)
    made = [
        entry["notebook"]
        for entry in entries
        if entry["tool"] == "create_notebook" and entry["outcome"] == "done"
    ]
    asked = {
        server: None
        for entry in entries
        if entry["outcome"] in _REACHED and (server := server_of(entry["tool"])) is not None
    }
    effects = [
        f"Effects of the MCP server `{server}` stay: they cannot be undone." for server in asked
    ]
    for path in dict.fromkeys(made):
        try:
            here = _path_here(path, turn, stores.conversations.database.root)
            async with lease(work, here, READ) as nb:
                inside = "with its cells" if (await nb.read()).cells else "without cells"
                effects.append(
                    f"The turn created `{quoted(nb.path)}`: the file stays, {inside}. Delete it in "
                    "the file browser if you do not need it."
                )
        except ToolError:
            continue  # it is gone or cannot be read
    return effects


def _path_here(path: str, turn: TurnRecord, root: str | None) -> str:
    """The path relative to this server's root of a notebook of the turn, whose server may have had
    another root. Raises Conflict for one outside of this root."""
    if root is None or turn.root is None or is_here(root, turn.root):
        return path
    try:
        return Path(turn.root, path).relative_to(root).as_posix()
    except ValueError:
        raise Conflict(
            f"The turn worked in `{turn.root}`, this server in `{root}`. Start Jupyter there to "
            "take it back."
        ) from None


def _marks(entries: Sequence[JournalEntry], result: UndoOutcome) -> Iterator[ChangesEntry]:
    undone = [entry for entry in entries if replace(entry.change, undone=True) in result.undone]
    yield ChangesUndone([entry.id for entry in undone])
    for conflict in result.conflicts:
        ids = [
            entry.id
            for entry in entries
            if entry.change.cell_id == conflict["cell_id"] and entry not in undone
        ]
        yield ChangesInConflict(ids, str(conflict["why"]))


def _audit(
    owner: str, turn_id: str, tool: str, decision: str, whys: Mapping[CellKey, str | None]
) -> Iterator[AuditEntry]:
    """Entries for what a person did with the changes of these cells, and why it failed for some."""
    for (notebook, cell_id), why in whys.items():
        yield AuditEntry(
            owner=owner,
            entry="person",
            turn_id=turn_id,
            tool=tool,
            notebook=notebook,
            cell_id=cell_id,
            decision=decision,
            outcome="failed" if why else "done",
            why=why,
        )
