"""Turns: inspect, undo and accept what they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

from jupyter_agent.conversations.changes import CellText, JournalEntry
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.log import TurnState
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.undo import CellKey, keep_turn
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Event, UsageUpdated
from jupyter_agent.server import wire
from jupyter_agent.server.answers.conversations import (
    ChangeAnswer,
    PendingAnswer,
    RequestAnswer,
    ReviewedAnswer,
    TurnAnswer,
    TurnListAnswer,
    TurnStateAnswer,
    UndoneAnswer,
)
from jupyter_agent.server.answers.notebooks import BlameAnswer
from jupyter_agent.server.base import AgentHandler, operation
from jupyter_agent.server.people import Authorizer
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.paths import Identities
from jupyter_agent.workspace.workspace import READ, Services, Workspace

OUTPUTS = ("full", "none")


class NamedCell(BaseModel):
    """A cell of a notebook."""

    model_config = ConfigDict(extra="forbid")

    notebook: str
    cell_id: str


class CellsBody(BaseModel):
    """Some cells; all of the turn if the field is missing: a typo must not mean all."""

    model_config = ConfigDict(extra="forbid")

    cells: list[NamedCell] | None = None

    async def names(self, identities: Identities) -> set[CellKey] | None:
        if self.cells is None:
            return None
        return {(await identities.path(cell.notebook), cell.cell_id) for cell in self.cells}


class TurnHandlerBase(AgentHandler):
    """Base of the turn routes."""

    def initialize(self, runner: TurnRunner, services: Services, clients: Clients) -> None:
        self.runner = runner
        self.clients = clients
        self.services = services
        self.stores = runner.stores

    async def ready(self) -> None:
        await self.runner.recover()

    async def find_turn(self, turn_id: str) -> TurnRecord:
        """The turn. Raises RequestError 404 if it is not the user's."""
        turn = await self.stores.conversations.turn(turn_id)
        if turn is None or turn.owner != self.owner:
            raise RequestError(404, "not_found", f"No turn `{turn_id}`.")
        return turn

    def changes_json(self, entries: Sequence[JournalEntry]) -> list[dict[str, Any]]:
        """Changes with or without outputs, as the query asks: outputs may be large."""
        whole = self.choice("outputs", OUTPUTS) == "full"
        changes = [entry.change.to_json() for entry in entries]
        for change in changes if not whole else ():
            for side in ("before", "after"):
                if change[side] is not None:
                    change[side]["outputs"] = []
        return changes


class TurnListHandler(TurnHandlerBase):
    """`GET turns`"""

    @operation(
        "read",
        query={"notebook": str, "conversation": str, "state": get_args(TurnState), "page": int},
        gives=TurnListAnswer,
    )
    async def get(self) -> None:
        """Lists the user's turns, newest first, without their messages and changes."""
        notebook = self.get_query_argument("notebook", None)
        turns, next_page = await self.stores.conversations.turn_list(
            self.owner,
            notebook=notebook and await self.services.identities.path(notebook),
            conversation_id=self.get_query_argument("conversation", None),
            state=self.choice("state", ("", *get_args(TurnState))) or None,
            page=self.number("page", 1),
        )
        self.answer({"turns": turns, "next_page": next_page})


class StopHandler(TurnHandlerBase):
    """`POST turns/{id}/stop`"""

    @operation("write", gives=TurnStateAnswer)
    async def post(self, turn_id: str) -> None:
        """Stops a running turn and its run; answers once it has stopped."""
        await self.find_turn(turn_id)
        live = self.runner.live(turn_id)
        if live is not None:
            await self.runner.stop(live)
        turn = await self.find_turn(turn_id)
        self.answer({"turn_id": turn.id, "state": turn.state})


class TurnHandler(TurnHandlerBase):
    """`GET turns/{id}`"""

    @operation("read", query={"outputs": OUTPUTS}, gives=TurnAnswer)
    async def get(self, turn_id: str) -> None:
        """Returns state, steps, usage, calls, changes, open questions and the audit of a turn."""
        turn = await self.find_turn(turn_id)
        changes = await self.stores.journal.of_turn(turn_id)
        events = [event for _, event in await self.stores.conversations.events(turn_id)]
        self.answer(
            {
                "id": turn.id,
                "conversation_id": turn.conversation_id,
                "state": turn.state,
                "stop_reason": turn.stop_reason,
                "error": wire.failure_in(events),
                "steps": turn.steps,
                "usage": asdict(turn.usage),
                "step_usage": _step_usage(events),
                "started": turn.started,
                "ended": turn.ended,
                **turn.request,
                "calls": await self.stores.conversations.calls(turn_id),
                "changes": self.changes_json(changes),
                "approvals": await self.stores.approvals.pending(turn_id),
                "audit": await self.stores.audit.of_turn(turn_id),
            }
        )


def _step_usage(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [
        {**asdict(event.step), **({"model": event.model} if event.model else {})}
        for event in events
        if isinstance(event, UsageUpdated)
    ]


class ChangesHandler(TurnHandlerBase):
    """`GET turns/{id}/changes`"""

    @operation("read", query={"outputs": OUTPUTS}, gives=list[ChangeAnswer])
    async def get(self, turn_id: str) -> None:
        """Lists every change of the turn with before and after, in order."""
        await self.find_turn(turn_id)
        self.answer(self.changes_json(await self.stores.journal.of_turn(turn_id)))


class PendingHandler(TurnHandlerBase):
    """`GET notebooks/{path}/changes`"""

    @operation("read", "contents", gives=list[PendingAnswer])
    async def get(self, path: str) -> None:
        """Lists the changes in a notebook that the user's turns made and no one has kept or taken
        back, in order; each with its `turn_id`, without outputs."""
        await self.require("read", "agent")
        notebook = await self.services.identities.path(path)
        self.answer(await self.stores.journal.pending(notebook, self.owner))


class RequestsHandler(TurnHandlerBase):
    """`GET turns/{id}/requests`"""

    @operation("read", gives=list[RequestAnswer])
    async def get(self, turn_id: str) -> None:
        """Lists the requests to the model: host, size, time and full text."""
        await self.find_turn(turn_id)
        self.answer(await self.stores.requests.of_turn(turn_id))


class UndoHandler(TurnHandlerBase):
    """`POST turns/{id}/undo`"""

    @operation("write", body=CellsBody, gives=UndoneAnswer)
    async def post(self, turn_id: str, body: CellsBody) -> None:
        """Takes the turn's changes back; later changes by people stay and are listed."""
        turn = await self.find_turn(turn_id)
        await self.require("write", "contents")
        await self.clients.end_if_idle(turn_id)
        if self.runner.live(turn_id) is not None:
            raise RequestError(409, "turn_running", "The turn is still running; stop it first.")
        work = Workspace(services=self.services, user=self.owner, authorize=Authorizer(self))
        names = await body.names(self.services.identities)
        result = await self.runner.run_journal.undo(turn, work, names)
        self.answer(
            {
                "undone": [change.to_json() for change in result.undone],
                "conflicts": list(result.conflicts),
                "remarks": list(result.remainders),
                "message": result.message,
            }
        )


class AcceptHandler(TurnHandlerBase):
    """`POST turns/{id}/accept`"""

    @operation("write", body=CellsBody, gives=ReviewedAnswer)
    async def post(self, turn_id: str, body: CellsBody) -> None:
        """Marks the turn's changes as reviewed."""
        turn = await self.find_turn(turn_id)
        names = await body.names(self.services.identities)
        self.answer({"reviewed": await keep_turn(self.stores, turn, names)})


class BlameHandler(TurnHandlerBase):
    """`GET notebooks/{path}/blame`"""

    @operation("read", "contents", gives=BlameAnswer)
    async def get(self, path: str) -> None:
        """Lists, per cell: turn, model, time, request, whether it was reviewed and changed
        since."""
        await self.require("read", "agent")
        work = Workspace(services=self.services, user=self.owner, authorize=Authorizer(self))
        async with lease(work, path, READ) as nb:
            cells = [
                CellText(id=cell.id, type=cell.type, source=cell.source)
                for cell in (await nb.read()).cells
            ]
        entries = await self.stores.journal.blame(nb.path, cells, self.owner)
        self.answer({"path": nb.path, "cells": [each.to_json() for each in entries]})
