"""Runs whose end wakes the conversation that started them, where a person wants that."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from typing import Literal, TypeAlias

from jupyter_agent.agent.limits import Limits
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.conversations.request import TurnRequest, new_id
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.store import TurnRecord
from jupyter_agent.errors import ModelError, RequestError, StoreUnavailable
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.workspace.runs import Run
from jupyter_agent.workspace.workspace import Authorize

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Seconds for which a conversation has to be quiet: a person's own next question goes first."""

Wish: TypeAlias = Literal["wanted", "off", "done"]


class WakeStore:
    """The runs whose end somebody wants to be told of; each is told once, by one server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def state(self, run_id: str) -> Wish | None:
        """What is wanted of a run; None where nobody ever wanted anything."""
        row = await self._database.row("SELECT state FROM wakes WHERE run_id = ?", run_id)
        return row["state"] if row else None

    async def want(self, run_id: str, turn: TurnRecord) -> None:
        """Its end is to be told, unless it was."""
        await self._database.execute(
            "INSERT INTO wakes (run_id, owner, conversation_id, state, made)"
            " VALUES (?, ?, ?, 'wanted', ?)"
            " ON CONFLICT DO UPDATE SET state = 'wanted' WHERE state = 'off'",
            run_id,
            turn.owner,
            turn.conversation_id,
            now(),
        )

    async def drop(self, run_id: str) -> None:
        """Its end is not to be told any more."""
        await self._change(run_id, "wanted", "off")

    async def take(self, run_id: str) -> bool:
        """Whether its end is to be told now, by whom asks: True at most once."""
        return await self._change(run_id, "wanted", "done")

    async def give_back(self, run_id: str) -> None:
        """Its end could not be told yet."""
        await self._change(run_id, "done", "wanted")

    async def _change(self, run_id: str, before: Wish, after: Wish) -> bool:
        def write(db: sqlite3.Connection) -> bool:
            changed = db.execute(
                "UPDATE wakes SET state = ? WHERE run_id = ? AND state = ?", (after, run_id, before)
            )
            return changed.rowcount == 1

        return await self._database.run(write)


class Wakes:
    """Waits for runs to end, and starts a turn of their conversation then.

    It acts as the person who wanted it: after a restart of the server, whom nobody can tell again,
    it does so only once they have said it again.
    """

    def __init__(self, store: WakeStore, runner: TurnRunner, *, pause: float = PAUSE_S) -> None:
        self._store = store
        self._runner = runner
        self._pause = pause
        self._waiting: dict[str, asyncio.Task[None]] = {}

    async def wanted(self, run: Run) -> bool:
        """Whether the end of the run is to be told."""
        return run.turn_id is not None and await self._store.state(run.id) == "wanted"

    async def want(self, run: Run, authorize: Authorize, limits: Limits) -> None:
        """Has the end of a run told, under what holds in its conversation by then.

        Raises RequestError 400 for a run of no conversation, 409 for one that has ended or was
        told, 404 where its conversation is gone.
        """
        if run.turn_id is None:
            message = "No conversation started this run, so there is none to wake."
            raise RequestError(400, "no_conversation", message)
        turn = await self._runner.stores.conversations.turn(run.turn_id)
        if turn is None:
            raise RequestError(404, "not_found", "The conversation of this run is gone.")
        state = await self._store.state(run.id)
        if state == "done" or (run.ended is not None and state != "wanted"):
            message = "This run has ended: `GET runs/{run_id}` has its outcome."
            raise RequestError(409, "run_ended", message)
        await self._store.want(run.id, turn)
        if run.id not in self._waiting:
            task = asyncio.create_task(self._wake_after(run, turn, authorize, limits))
            self._waiting[run.id] = task
            task.add_done_callback(lambda _: self._waiting.pop(run.id, None))

    async def drop(self, run: Run) -> None:
        """Has nothing told of its end."""
        await self._store.drop(run.id)
        if (task := self._waiting.pop(run.id, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        """Tells nothing more; what is wanted stays in the store."""
        for task in (waiting := list(self._waiting.values())):
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def _wake_after(
        self, run: Run, turn: TurnRecord, authorize: Authorize, limits: Limits
    ) -> None:
        try:
            await run.wait(saved=False)
            while True:
                await self._quiet(turn)
                if not await self._store.take(run.id):
                    return
                try:
                    await self._start(run, turn, authorize, limits)
                except RequestError as error:
                    if error.reason != "turn_running":
                        raise
                    await self._store.give_back(run.id)
                else:
                    return
        except (RequestError, ModelError, StoreUnavailable) as error:
            log.warning("The end of run %s wakes nobody: %s", run.id, error)

    async def _quiet(self, turn: TurnRecord) -> None:
        """Returns when no turn of the conversation has run for a moment."""
        while True:
            live = self._runner.live_in(turn.owner, turn.conversation_id)
            if live is not None and live.task is not None:
                await asyncio.wait([live.task])
            await asyncio.sleep(self._pause)
            if self._runner.live_in(turn.owner, turn.conversation_id) is None:
                return

    async def _start(
        self, run: Run, turn: TurnRecord, authorize: Authorize, limits: Limits
    ) -> None:
        """What the last turn might do, this one may; what was allowed only in it is asked again."""
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
            "parts": [{"type": "text", "text": _words(run)}],
            "metadata": {
                "notebook": last["notebook"],
                "context": [],
                "ended": {**ended, "notebook": run.notebook_path, "seconds": run.seconds},
            },
        }
        await self._runner.start(
            TurnRequest(
                owner=turn.owner,
                authorize=authorize,
                conversation_id=turn.conversation_id,
                question=question,
                model=last["model"],
                fallback_model=last.get("fallback_model") or "",
                effort=last.get("effort"),
                notebook=last["notebook"],
                mode=last["mode"],
                share=last.get("share", "all"),
                limits=limits,
            )
        )


def _words(run: Run) -> str:
    """What the model is told: which run ended, and how; what it left is behind its tools."""
    where = f"cell `{quoted_id(run.cell_id)}`" if run.cell_id is not None else "code in no cell"
    return (
        f"A run that you started has ended: {where} in {quoted(run.notebook_path)}, status "
        f"{run.status}, after {run.seconds:.0f} s (run `{run.id}`). I asked to be told. Look at "
        "what came of it and tell me in short; go on only with what I had asked for."
    )
