"""The assistant for scripts and notebook cells: each call blocks until it is done, inside a running
event loop, too.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import quote

from jupyter_agent.choices import Mode, Share
from jupyter_agent.client.chat import Chat
from jupyter_agent.client.door import Door, raising
from jupyter_agent.client.runs import CellRuns, is_live, name_client
from jupyter_agent.client.turn import Approve, SyncTurn
from jupyter_agent.document.cell import Cell, CellType, Change, Output
from jupyter_agent.errors import InvalidInput
from jupyter_agent.text.outputs import output_text

if TYPE_CHECKING:
    pass

CellName: TypeAlias = str | Cell
"""A cell's id, or a cell that was read: with that, an edit is refused (`Conflict`) if the text has
changed since."""

_ALL = 10_000_000
"""Characters of outputs, in effect unlimited."""


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """The result of running a cell."""

    run_id: str
    cell_id: str
    status: str
    """`ok`, `error`, `timeout`, `interrupted`, `died`, `restarted` or `deleted`."""
    execution_count: int | None
    outputs: Sequence[Output]
    """As in nbformat 4."""
    seconds: float
    saved: bool
    """Whether the outputs are saved."""
    note: str = ""
    """Anything else to know, such as why they are not saved, or may be incomplete."""

    @property
    def ok(self) -> bool:
        """Whether all of its code ran without an error."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """The outputs as text; for an error its name, message and relevant frames."""
        return output_text(self.outputs, limit=_ALL, rows=None)


@dataclass(frozen=True, kw_only=True)
class UndoResult:
    """What an undo took back, and what it left because people changed it since."""

    changes: Sequence[Change]
    conflicts: Sequence[Mapping[str, Any]]
    """With `notebook`, `cell_id`, `why` and `current`, the cell as it is now."""
    message: str


class SyncNotebook:
    """The live notebook, unsaved typing of people included: read, edit and run it as yourself."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._name = name_client("Python")
        """The author of this agent's edits and runs in the journal; unique."""
        self._undone: set[str] = set()
        """Ids of turns."""

    @property
    def path(self) -> Path:
        """The notebook's file."""
        return self._door.notebook

    def cells(self) -> list[Cell]:
        """The cells as they are now, with outputs."""
        return [_cell(each) for each in self._door.ask("GET", self._door.route())["cells"]]

    def cell(self, cell_id: str) -> Cell:
        """One cell as it is now. Raises CellNotFound."""
        return _cell(self._door.ask("GET", self._door.route("cells", _id(cell_id))))

    def stale(self) -> dict[str, str]:
        """Why outputs are out of date, by cell id."""
        cells = self._door.ask("GET", f"{self._door.route()}?outputs=none")["cells"]
        return {each["id"]: each["stale_why"] for each in cells if each["stale"]}

    def text(self, *, focus: str | None = None) -> str:
        """The notebook as a model reads it; for a large one, mostly the cells around `focus`."""
        around = f"&focus={quote(focus, '')}" if focus else ""
        return str(self._door.ask("GET", f"{self._door.route()}?format=text{around}"))

    def insert(
        self,
        source: str,
        *,
        type: CellType = "code",
        after: CellName | None = None,
        before: CellName | None = None,
        index: int | None = None,
    ) -> Cell:
        """Inserts a cell, at the end if no position is given; `index` starts at 0."""
        body = {"source": source, "type": type, **_place(after, before, index)}
        return _cell(self._door.ask("POST", self._edits("cells"), body))

    def edit(
        self,
        cell: CellName,
        source: str | None = None,
        *,
        old_string: str | None = None,
        new_string: str | None = None,
        type: CellType | None = None,
    ) -> Cell:
        """Gives a cell the text `source`, or replaces `old_string`, which has to occur once in it,
        by `new_string`; returns the cell afterwards.

        Raises Conflict, NotOnce, CellNotFound, InvalidInput, Locked, Busy, NotConfirmed.
        """
        given = {
            "source": source,
            "old_string": old_string,
            "new_string": new_string,
            "type": type,
        }
        body = {name: value for name, value in given.items() if value is not None}
        route = self._edits("cells", _id(cell))
        return _cell(self._door.ask("PATCH", route, body, _version(cell)))

    def delete(self, cell: CellName) -> None:
        """Deletes a cell. Raises Conflict, CellNotFound, Locked, Busy, NotConfirmed."""
        self._door.ask("DELETE", self._edits("cells", _id(cell)), None, _version(cell))

    def move(
        self,
        cell: CellName,
        *,
        after: CellName | None = None,
        before: CellName | None = None,
        index: int | None = None,
    ) -> Cell:
        """Moves a cell; `index` starts at 0, not counting the cell itself."""
        route = self._edits("cells", _id(cell), "move")
        return _cell(self._door.ask("POST", route, _place(after, before, index), _version(cell)))

    def undo(self) -> UndoResult:
        """Takes back this agent's own edits and runs, without those of a model: texts, outputs and
        execution counts. Later changes by people stay and are conflicts. Raises InvalidInput if
        there is nothing to undo.
        """
        server = self._door.server
        turns = self._door.ask("GET", f"turns?notebook={quote(server.path(self.path))}")["turns"]
        ids = [turn["id"] for turn in turns if turn["client"] == self._name]
        answers = [
            self._door.ask("POST", f"turns/{id}/undo", {}) for id in ids if id not in self._undone
        ]
        self._undone.update(ids)
        if not answers:
            raise InvalidInput("This agent has not edited or run anything since the last undo.")
        return _undone(answers)

    def _edits(self, *more: str) -> str:
        return f"{self._door.route(*more)}?by={quote(self._name)}"

    def run(
        self,
        *cells: CellName,
        keep_going: bool = False,
        timeout: float | None = None,
        keep_kernel: bool = True,
    ) -> list[CellResult]:
        """Runs cells in this order, all code cells if none are named, up to the first that fails
        unless `keep_going` is set or the cell is tagged `raises-exception`. The outputs are in the
        notebook afterwards.

        After `timeout` seconds a cell is interrupted; Ctrl-C interrupts it, too. With
        `keep_kernel=False` a kernel started by this call is shut down, unless someone else uses
        it. If the agent had to start a server, the kernel is a new one and stops when the agent is
        closed.
        """
        runs = self.begin(cells, keep_going, timeout, keep_kernel)
        try:
            return self.ended(runs)
        except KeyboardInterrupt:
            runs.interrupt()
            raise

    def begin(
        self, cells: Sequence[CellName], keep_going: bool, timeout: float | None, keep_kernel: bool
    ) -> CellRuns:
        """Runs that are not requested until iterated over."""
        if cells:
            chosen = [_id(cell) for cell in cells]
        else:
            every = self.cells()
            chosen = [cell.id for cell in every if cell.type == "code" and cell.source.strip()]
        return CellRuns(
            self._door.server,
            self._door.notebook,
            chosen,
            by=self._name,
            keep_going=keep_going,
            timeout=timeout,
            keep_kernel=keep_kernel,
        )

    def ended(self, runs: CellRuns) -> list[CellResult]:
        """Runs the cells and returns their results."""
        with raising("notebooks"):
            return [_result(run) for run in runs if not is_live(run)]

    def interrupt(self) -> None:
        """Interrupts the notebook's kernel."""
        self._door.ask("POST", self._door.route("kernel"), {"action": "interrupt"})

    def restart(self) -> None:
        """Restarts the notebook's kernel: its variables are lost."""
        self._door.ask("POST", self._door.route("kernel"), {"action": "restart"})

    def verify(self) -> dict[str, Any]:
        """Runs a copy from the top in a kernel of its own and compares the outputs. Returns the
        answer of `POST notebooks/{path}/verify`, with `ok`.
        """
        answer: dict[str, Any] = self._door.ask("POST", self._door.route("verify"), {})
        return answer


class SyncAgent:
    """The assistant in one notebook. It works through the running Jupyter server that serves the
    notebook, including unsaved typing, or else starts a server, which stops with the agent.
    """

    def __init__(
        self,
        notebook: str | os.PathLike[str],
        *,
        model: str | None = None,
        mode: Mode = "ask",
        allow: Sequence[str] = (),
        approve: Approve | None = None,
        max_steps: int | None = None,
        share: Share = "all",
        conversation: str | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        """`model`: `provider:model`, by default the server's. `mode`: `read` changes nothing,
        `ask` asks before each change and run, `edit` only before runs, `auto` never. `approve`
        answers questions; without it they are denied. `allow`: tools that need no approval.
        `share`: what models may see. `conversation`: id of one to continue. `store`: a folder for
        a separate store, which always comes with a separate server.
        """
        self._door = Door(Path(notebook), Path(store) if store is not None else None)
        self._choices = {
            "model": model,
            "mode": mode,
            "allow": allow if isinstance(allow, str) else list(allow),
            "max_steps": max_steps,
            "share": share,
            "on_approval": None if approve else "decline",
        }
        self._approve = approve
        self._turns: list[SyncTurn] = []
        """The running ones, and the last one."""
        self.conversation_id = conversation or f"py-{secrets.token_hex(8)}"
        self.notebook = SyncNotebook(self._door)

    def open(self) -> Self:
        """As `with` does. Raises NotebookNotFound, and RequestError if no server can be used."""
        self._door.open()
        return self

    def close(self) -> None:
        """Stops running turns, and the server if it was started for this agent."""
        try:
            for turn in self._turns:
                if turn.begun and turn.state == "running":
                    turn.stop()
        finally:
            self._door.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._door.server.url

    def ask(
        self,
        prompt: str,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        allow: Sequence[str] | None = None,
        max_steps: int | None = None,
    ) -> SyncTurn:
        """Asks in the agent's conversation; missing options default to the agent's.

        Raises ModelError if the model cannot be used, RequestError, InvalidInput.
        """
        return self.turn(prompt, model=model, mode=mode, allow=allow, max_steps=max_steps).begin()

    def turn(self, prompt: str, **choices: Any) -> SyncTurn:
        """A turn that has not started."""
        if not prompt.strip():
            raise InvalidInput("Say what you want: the prompt is empty.")
        given = {name: value for name, value in choices.items() if value is not None}
        merged = {**self._choices, **given}
        if isinstance(merged["allow"], str):
            raise InvalidInput('`allow` is a list of tools, such as `allow=["run_cells"]`.')
        server = self._door.server
        body = {
            "id": self.conversation_id,
            "messages": [{"role": "user", "content": prompt}],
            "notebook": server.path(self._door.notebook),
            **{name: value for name, value in merged.items() if value is not None},
        }
        turn = SyncTurn(Chat(server, body), self.conversation_id, self._approve)
        self._turns = [*(each for each in self._turns if each.state == "running"), turn]
        return turn

    def undo(self, turn: SyncTurn | str | None = None) -> UndoResult:
        """Takes back the changes of a turn, by default the agent's last one. Later changes by
        people stay and are conflicts; kernels keep their variables.
        """
        return _undone([self._door.ask("POST", f"turns/{self._turn_id(turn)}/undo", {})])

    def keep(self, turn: SyncTurn | str | None = None) -> None:
        """Marks the changes of a turn as reviewed, by default the agent's last one."""
        self._door.ask("POST", f"turns/{self._turn_id(turn)}/accept", {})

    def changes(self) -> dict[str, list[Change]]:
        """Changes of your turns in the notebook that no one has kept or undone, by turn id; without
        outputs.
        """
        found: dict[str, list[Change]] = {}
        for each in self._door.ask("GET", self._door.route("changes")):
            found.setdefault(each["turn_id"], []).append(_change(each))
        return found

    def _turn_id(self, turn: SyncTurn | str | None) -> str:
        chosen = turn if turn is not None else self._turns[-1] if self._turns else None
        id = chosen.id if isinstance(chosen, SyncTurn) else chosen
        if id is None:
            raise InvalidInput("No question was asked yet: name the turn; `changes()` has the ids.")
        if not isinstance(id, str):
            raise InvalidInput(
                f"`{id}` does not name a turn: give its id; `changes()` has the ids."
            )
        return quote(id, "")


def _cell(value: Mapping[str, Any]) -> Cell:
    return Cell(
        id=value["id"],
        index=value["index"],
        type=value["type"],
        source=value["source"],
        metadata=value["metadata"],
        outputs=value["outputs"],
        execution_count=value["execution_count"],
    )


def _result(run: Mapping[str, Any]) -> CellResult:
    return CellResult(
        run_id=run["run_id"],
        cell_id=run["cell_id"],
        status=run["status"],
        execution_count=run["execution_count"],
        outputs=run["outputs"],
        seconds=run["seconds"],
        saved=run["saved"] is True,
        note=run.get("note", ""),
    )


def _undone(answers: Sequence[Mapping[str, Any]]) -> UndoResult:
    return UndoResult(
        changes=[_change(each) for answer in answers for each in answer["undone"]],
        conflicts=[each for answer in answers for each in answer["conflicts"]],
        message=" ".join(dict.fromkeys(answer["message"] for answer in answers)),
    )


def _change(value: Mapping[str, Any]) -> Change:
    sides = {
        name: value[name] and {"outputs": [], "execution_count": None, **value[name]}
        for name in ("before", "after")
    }
    return Change.from_json({**value, **sides})


def _id(cell: CellName) -> str:
    id = cell.id if isinstance(cell, Cell) else cell
    if not isinstance(id, str):
        raise InvalidInput(f"`{id}` does not name a cell: give its id, or one of `cells()`.")
    return id


def _version(cell: CellName) -> str | None:
    return cell.version if isinstance(cell, Cell) else None


def _place(after: CellName | None, before: CellName | None, index: int | None) -> dict[str, Any]:
    given = {
        "after": None if after is None else _id(after),
        "before": None if before is None else _id(before),
        "index": index,
    }
    return {name: value for name, value in given.items() if value is not None}
