"""Wakes a conversation when a run that it started ends, if a person asked for that."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from typing import Literal, TypeAlias

from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.options import TurnOptions, options_after
from jupyter_agent.agent.people import Person
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.request import TurnRequest, new_id
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.errors import ModelError, RequestError, StoreUnavailable
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.workspace import Authorize

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Seconds for which a conversation has to be idle: a person's own next question goes first."""

WakeState: TypeAlias = Literal["wanted", "off", "done"]


class WakeStore:
    """The wake-ups at the end of runs: each happens once, on one server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def state(self, run_id: str) -> WakeState | None:
        """The state of a run's wake-up, or None if there never was one."""
        row = await self._database.row("SELECT state FROM wakes WHERE run_id = ?", run_id)
        return row["state"] if row else None

    async def schedule(self, run_id: str, turn: TurnRecord) -> None:
        """Schedule a wake-up, unless it has already happened."""
        await self._database.execute(
            "INSERT INTO wakes (run_id, owner, conversation_id, state, made)"
            " VALUES (?, ?, ?, 'wanted', ?)"
            " ON CONFLICT DO UPDATE SET state = 'wanted' WHERE state = 'off'",
            run_id,
            turn.owner,
            turn.conversation_id,
            now(),
        )

    async def cancel(self, run_id: str) -> None:
        """Cancel the wake-up."""
        await self._change(run_id, "wanted", "off")

    async def claim(self, run_id: str) -> bool:
        """Claim the wake-up for the caller: True at most once."""
        return await self._change(run_id, "wanted", "done")

    async def release(self, run_id: str) -> None:
        """Release a claim that could not be carried out yet."""
        await self._change(run_id, "done", "wanted")

    async def _change(self, run_id: str, before: WakeState, after: WakeState) -> bool:
        def write(db: sqlite3.Connection) -> bool:
            changed = db.execute(
                "UPDATE wakes SET state = ? WHERE run_id = ? AND state = ?", (after, run_id, before)
            )
            return changed.rowcount == 1

        return await self._database.run(write)


class Wakes:
    """Starts a turn of a run's conversation when the run ends.

    A wake-up acts with the rights of the person who scheduled it. These do not survive a restart of
    the server; after one, it waits until that person schedules it again.
    """

    def __init__(self, store: WakeStore, runner: TurnRunner, *, pause: float = PAUSE_S) -> None:
        self._store = store
        self._runner = runner
        self._pause = pause
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def is_scheduled(self, run: Run) -> bool:
        """Whether the run will wake its conversation."""
        return run.turn_id is not None and await self._store.state(run.id) == "wanted"

    async def schedule(
        self, run: Run, person: Person, authorize: Authorize, limits: Limits
    ) -> None:
        """Schedule a wake-up; its turn takes over the options of the conversation's last turn.

        Raises RequestError 400 for a run without a conversation, 404 if the conversation was
        deleted, 409 if the run has ended.
        """
        if run.turn_id is None:
            message = "This run was not started by a conversation that it could wake."
            raise RequestError(400, "no_conversation", message)
        turn = await self._runner.stores.conversations.turn(run.turn_id)
        if turn is None:
            raise RequestError(404, "not_found", "The conversation of this run is gone.")
        state = await self._store.state(run.id)
        if state == "done" or (run.ended is not None and state != "wanted"):
            message = "This run has ended: `GET runs/{run_id}` has its outcome."
            raise RequestError(409, "run_ended", message)
        await self._store.schedule(run.id, turn)
        if run.id not in self._waiting:
            task = asyncio.create_task(self._wake_after(run, turn, person, authorize, limits))
            self._waiting[run.id] = task
            task.add_done_callback(lambda _: self._waiting.pop(run.id, None))

    async def cancel(self, run: Run) -> None:
        """Cancel a run's wake-up."""
        await self._store.cancel(run.id)
        if (task := self._waiting.pop(run.id, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop waiting; the wake-ups stay in the store."""
        for task in (waiting := list(self._waiting.values())):
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _wake_after(
        self, run: Run, turn: TurnRecord, person: Person, authorize: Authorize, limits: Limits
    ) -> None:
        try:
            await run.wait(saved=False)
            while True:
                await self._wait_until_idle(turn)
                if not await self._store.claim(run.id):
                    return
                try:
                    await self._start(run, turn, person, authorize, limits)
                except RequestError as error:
                    if error.reason != "turn_running":
                        raise
                    await self._store.release(run.id)
                else:
                    return
        except (RequestError, ModelError, StoreUnavailable) as error:
            log.warning("The end of run %s woke no conversation: %s", run.id, error)

    async def _wait_until_idle(self, turn: TurnRecord) -> None:
        """Returns when the conversation has been idle for `pause` seconds."""
        while True:
            live = self._runner.live_in(turn.owner, turn.conversation_id)
            if live is not None and live.task is not None:
                await asyncio.wait([live.task])
            await asyncio.sleep(self._pause)
            if self._runner.live_in(turn.owner, turn.conversation_id) is None:
                return

    async def _start(
        self, run: Run, turn: TurnRecord, person: Person, authorize: Authorize, limits: Limits
    ) -> None:
        """Start a turn with the options of the last one, but without its own permissions."""
        if not await authorize("write", "agent"):
            raise RequestError(403, "forbidden", "You may not start turns any more.")
        turns = await self._runner.stores.conversations.turns(turn.owner, turn.conversation_id)
        if not turns:
            raise RequestError(404, "not_found", "The conversation of this run is gone.")
        last = turns[-1].request
        ended = {"run_id": run.id, "cell_id": run.cell_id, "status": run.status}
        question = {
            "id": new_id("u"),
            "role": "user",
            "parts": [{"type": "text", "text": _question_text(run)}],
            "metadata": {
                "notebook": last["notebook"],
                "context": [],
                "ended": {**ended, "notebook": run.notebook_path, "seconds": run.seconds},
            },
        }
        await self._runner.start(
            TurnRequest(
                person=person,
                authorize=authorize,
                conversation_id=turn.conversation_id,
                question=question,
                options=TurnOptions(**options_after(last)),
                limits=limits,
            )
        )


def _question_text(run: Run) -> str:
    """The message to the model: which run ended, and how. It reads the outputs with its tools."""
    where = f"cell `{quoted_id(run.cell_id)}`" if run.cell_id is not None else "code in no cell"
    return (
        f"A run that you started has ended: {where} in {quoted(run.notebook_path)}, status "
        f"{run.status}, after {run.seconds:.0f} s (run `{run.id}`). I asked for a report. Look at "
        "its results and summarise them; continue only with my earlier request."
    )
