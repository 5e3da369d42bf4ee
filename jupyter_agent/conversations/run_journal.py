"""Journals what a turn's runs change, also after the turn, and undoes turns with it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from jupyter_agent.conversations.changes import ChangesMade
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.turn_stores import TurnStores
from jupyter_agent.conversations.undo import CellKey, UndoneTurn, undo_turn
from jupyter_agent.errors import Busy, StoreUnavailable
from jupyter_agent.events import CellsChanged
from jupyter_agent.tasks import begin, surely
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.workspace import Workspace


class RunJournal:
    """Journals the changes by runs and undoes turns, for which that has to be complete."""

    def __init__(
        self, stores: TurnStores, runs: Runs, redactor: Redactor, toolbox: Toolbox
    ) -> None:
        self._stores = stores
        self._runs = runs
        self._redactor = redactor
        self._toolbox = toolbox
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle(self, live: LiveTurn) -> None:
        """Journal the changes by the runs of a turn that is about to end, including those that no
        call reported, and show them to its followers. What a run still changes is journalled when
        it ends.
        """
        for run in self._runs.of_turn(live.record.id):
            if run.ended is None:
                begin(self._add_later(live.record, run), self._tasks)
            else:
                await run.wait()
                await self._add(live.record, run, live)

    async def undo(
        self, turn: TurnRecord, work: Workspace, cells: Collection[CellKey] | None = None
    ) -> UndoneTurn:
        """Undo the changes of a turn that has ended, or only those of some cells. Raises Busy while
        one of its runs still changes its cell.
        """
        self.refuse_running(turn)
        for run in self._runs.of_turn(turn.id):
            await self._add(turn, run)
        return await undo_turn(self._stores, turn, work, self._toolbox, cells)

    def refuse_running(self, turn: TurnRecord) -> None:
        """Raises Busy if a run of the turn has not ended."""
        for run in self._runs.of_turn(turn.id):
            if run.ended is None:
                where = "outside of cells" if run.cell_id is None else f"of cell `{run.cell_id}`"
                raise Busy(
                    f"The turn cannot be undone yet: its run `{run.id}` {where} is still "
                    f"{run.status}. Interrupt the run or wait for its end, then undo.",
                    run_id=run.id,
                )

    async def _add_later(self, turn: TurnRecord, run: Run) -> None:
        await run.wait()
        await self._add(turn, run)

    async def _add(self, turn: TurnRecord, run: Run, live: LiveTurn | None = None) -> None:
        taken = run.take_changes()
        if not taken:
            return
        changes = tuple(self._redactor.change(change) for change in taken)
        path = run.notebook_path
        try:
            if live is not None:
                await live.append(CellsChanged(call_id=run.call_id, notebook=path, changes=changes))
            else:
                made = ChangesMade(call_id=run.call_id, changes=changes)
                await surely(self._stores.conversations.append(turn.id, [made]))
        except StoreUnavailable:
            run.return_changes(taken)  # for the next attempt
            raise
        self._stores.announce(turn.conversation_id, turn.id)
