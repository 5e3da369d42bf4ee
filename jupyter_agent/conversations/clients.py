"""Agents of others and scripts that call our tools. Each client has its own conversations, and its
calls form turns of these, which are followed, asked about, journalled and undone like ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from jupyter_agent.agent.permissions import Policy
from jupyter_agent.choices import MODES
from jupyter_agent.conversations.caller import Caller, CallerTurn, ClientHost, Outcome, digest
from jupyter_agent.conversations.client_questions import Form
from jupyter_agent.conversations.client_turn import ClientTurn
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.liveness import started_event
from jupyter_agent.conversations.records import NewTurn
from jupyter_agent.conversations.request import new_id
from jupyter_agent.conversations.undo import UndoneTurn
from jupyter_agent.errors import (
    Busy,
    InvalidInput,
    NotPermitted,
    ToolError,
)
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import Progress
from jupyter_agent.workspace.workspace import Authorize, Workspace

_MOST_CLIENTS = 200
"""Clients that are remembered; a forgotten one starts a turn with its next call and has to read
notebooks again."""
_MOST_OF_A_GOAL = 300


class Clients:
    """The clients of a server, and their current turns."""

    def __init__(self, host: ClientHost) -> None:
        self.host = host
        self._clients: dict[str, _Client] = {}

    async def call(
        self,
        caller: Caller,
        authorize: Authorize,
        tool: str,
        input: Mapping[str, Any],
        *,
        call_id: str,
        form: Form | None,
        progress: Progress | None = None,
    ) -> Outcome:
        """Do a call in the client's turn. Raises ToolError, StoreUnavailable, and the exceptions of
        `form`.
        """
        notebook = input.get("notebook")
        path = caller.options.notebook or (notebook if isinstance(notebook, str) else None)
        async with self._client(caller).working(path, authorize) as turn:
            return await turn.call(tool, input, authorize, call_id, form, progress)

    @asynccontextmanager
    async def acting(
        self, caller: Caller, work: Workspace, path: str, tool: str, input: Mapping[str, Any]
    ) -> AsyncIterator[CallerTurn]:
        """The caller's turn, for one action of the caller itself on a notebook.

        No mode or question applies. The action is journalled as a call of that name, even if it
        raises ToolError.
        """
        async with (
            self._client(caller).working(path, work.authorize) as turn,
            turn.acting(work, path, tool, input) as act,
        ):
            yield act

    async def end_if_idle(self, turn_id: str) -> None:
        """End a script's turn that only waits for another edit."""
        for client in list(self._clients.values()):
            await client.end_if_idle(turn_id)

    async def readable(self, caller: Caller, authorize: Authorize) -> list[str]:
        """Paths of the open notebooks that the client may read."""
        work = Workspace(services=self.host.services, user=caller.owner, authorize=authorize)
        policy = self.host.runner.access.policy(caller.person, caller.options)
        paths = []
        for notebook in self.host.services.notebooks.open():
            input = {"notebook": notebook["path"]}
            with suppress(ToolError):
                dispatcher = self.host.dispatcher.without_record()
                call = dispatcher.parse("get_notebook_state", input, work)
                async with dispatcher.attempt(call, work, policy) as attempt:
                    if not attempt.ruling.asks:
                        paths.append(str(notebook["path"]))
        return paths

    async def begin_turn(self, caller: Caller, goal: str) -> None:
        """Start another turn with the next call; people see it with this goal as its question."""
        client = self._client(caller)
        await client.end_turn()
        client.goal = " ".join(goal.split())[:_MOST_OF_A_GOAL]

    async def end_turn(self, caller: Caller) -> str | None:
        """End the client's turn and return its id; None if no turn is open."""
        return await self._client(caller).end_turn()

    async def undo_turn(
        self, caller: Caller, authorize: Authorize, turn_id: str | None
    ) -> UndoneTurn:
        """Undo the cell changes of the client's last turn, or an earlier one. Raises ToolError."""
        return await self._client(caller).undo(authorize, turn_id)

    def _client(self, caller: Caller) -> _Client:
        key = caller.key
        self._clients[key] = client = self._clients.pop(key, None) or _Client(self.host, caller)
        client.caller = caller
        for old in list(self._clients)[:-_MOST_CLIENTS]:
            if not self._clients[old].is_working:
                del self._clients[old]
        return client


class _Client:
    """One client and its current turn."""

    def __init__(self, host: ClientHost, caller: Caller) -> None:
        self._host = host
        self.caller = caller
        """The caller of the latest call: groups may change."""
        self._turn: ClientTurn | None = None
        self._changing = asyncio.Lock()
        self._last_turn: str | None = None
        self.goal = ""

    @property
    def is_working(self) -> bool:
        return self._turn is not None and self._turn.is_working

    @asynccontextmanager
    async def working(self, path: str | None, authorize: Authorize) -> AsyncIterator[ClientTurn]:
        """The turn that a call belongs to; it counts as running inside the context."""
        entered: list[ClientTurn] = []
        try:
            async with self._changing:
                await surely(self._enter(path, authorize, entered))
            yield entered[0]
        finally:
            for turn in entered:
                turn.leave()

    async def _enter(
        self, path: str | None, authorize: Authorize, entered: list[ClientTurn]
    ) -> None:
        turn = self._turn
        if turn is not None and (turn.is_over or await self._is_deleted(turn)):
            await self._end()
            turn = None
        if turn is None:
            turn = self._turn = await self._begin(path, authorize)
            self._last_turn = turn.id
        await turn.enter()
        entered.append(turn)

    async def _is_deleted(self, turn: ClientTurn) -> bool:
        """Whether a person deleted the conversation while the turn rested."""
        conversations = self._host.runner.stores.conversations
        return not turn.is_working and await conversations.turn(turn.id) is None

    async def end_turn(self) -> str | None:
        async with self._changing:
            self._refuse_while_calling()
            return await self._end()

    async def end_if_idle(self, turn_id: str) -> None:
        async with self._changing:
            turn = self._turn
            if turn is None or turn.id != turn_id or turn.has_calls:
                return
            if self.caller.entry != "mcp":  # turns over MCP rest by themselves and may resume
                await self._end()

    def _refuse_while_calling(self) -> None:
        if self._turn is not None and self._turn.has_calls:
            raise Busy("A call of this turn still runs. Wait for its end.")

    async def _end(self) -> str | None:
        turn, self._turn = self._turn, None
        if turn is None:
            return None
        await turn.end()
        return turn.id

    async def undo(self, authorize: Authorize, turn_id: str | None) -> UndoneTurn:
        async with self._changing:
            self._refuse_while_calling()
            await self._end()
            chosen = turn_id or self._last_turn
            stores, services = self._host.runner.stores, self._host.services
            record = await stores.conversations.turn(chosen) if chosen else None
            if record is None or record.owner != self.caller.owner:
                raise InvalidInput("There is no such turn. Results have a `turn_id`: name that.")
            if record.request.get("client") != self.caller.name:
                raise NotPermitted(
                    f"That turn does not belong to {self.caller.name}: only the user can undo it."
                )
            if min(self.caller.options.mode, self._policy().max_mode, key=MODES.index) == "read":
                raise NotPermitted("Mode `read` forbids `undo_turn`.")
            if any(entry.change.reviewed for entry in await stores.journal.of_turn(record.id)):
                raise NotPermitted(
                    "The user has kept changes of that turn: only they can undo it now."
                )
            if self._host.runner.live(record.id) is not None:
                raise Busy("That turn still runs. Wait for its end, then undo.")
            work = Workspace(services=services, user=self.caller.owner, authorize=authorize)
            return await self._host.runner.run_journal.undo(record, work)

    def _policy(self) -> Policy:
        return self._host.runner.access.policy(self.caller.person, self.caller.options)

    async def _begin(self, path: str | None, authorize: Authorize) -> ClientTurn:
        host, caller = self._host, self.caller
        identity = await host.services.identities.of(path) if path else None
        notebook = identity.path if identity else None
        runner, turn_id = host.runner, new_id("t")
        await runner.recover()  # ends a turn whose end could not be stored
        root = runner.stores.conversations.database.root
        work = runner.access.workspace(
            caller.owner,
            authorize,
            await caller.options.on_path(host.services.identities),
            f"mcp_{caller.key}",
            turn_id=turn_id,
        )
        goal, self.goal = self.goal, ""
        text = goal or (f"{caller.name} works in {notebook}." if notebook else caller.name)
        opening = await runner.stores.conversations.begin(
            NewTurn(
                id=turn_id,
                owner=caller.owner,
                conversation_id=f"mcp_{digest([root, caller.key, notebook])[:24]}",
                question_id=new_id("u"),
                question={
                    "id": new_id("u"),
                    "role": "user",
                    "parts": [{"type": "text", "text": text}],
                },
                answer_id=new_id("m"),
                request=caller.options.record(
                    model=caller.name,
                    client=caller.name,
                    notebook=notebook,
                    share=work.share,
                    instructions=[],
                ),
                model=caller.name,
                notebook=notebook,
                title=caller.title_of(notebook),
                content=[{"type": "text", "text": text}],
                server=host.server_id,
            )
        )
        live = LiveTurn(opening.turn, runner.stores, ends_to_ask=False, entry=caller.entry)
        policy = self._policy()
        policy.standing_grants = list(opening.grants)
        if identity is not None:
            # The turn is about this notebook, so its first change there is not one elsewhere.
            policy.changed_notebooks.add(identity.name)
        live.use_policy(policy)
        await live.show(started_event(opening.turn))
        runner.stores.announce(opening.turn.conversation_id, turn_id)
        return ClientTurn(host, caller, live, work)
