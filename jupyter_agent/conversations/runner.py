"""Turns belong to the server: one task each, followed by any number of clients or by none."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal
from weakref import WeakValueDictionary

from jupyter_server.utils import check_pid

from jupyter_agent.agent.approval import Answer
from jupyter_agent.agent.budget import Limits, Meter
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.ending import Ending, stopped
from jupyter_agent.agent.permissions import Mode, Policy, Rule
from jupyter_agent.agent.prompt import Instructions, facts, system
from jupyter_agent.agent.turn import Turn, run_turn
from jupyter_agent.conversations.attachments import Attachment, attached_text, content
from jupyter_agent.conversations.compaction import compact_after, open_transcript
from jupyter_agent.conversations.instructions import describe, find_instructions
from jupyter_agent.conversations.live import Books, LiveTurn
from jupyter_agent.conversations.log import TurnLog
from jupyter_agent.conversations.requests import Recorded, leaves_machine
from jupyter_agent.conversations.store import NewTurn, TurnRecord
from jupyter_agent.conversations.undo import undo_turn
from jupyter_agent.errors import RequestError, ToolError
from jupyter_agent.events import Event, Notice, TurnFailed, TurnStarted, Usage
from jupyter_agent.models.base import Model
from jupyter_agent.models.registry import Models
from jupyter_agent.workspace.news import News, read_news
from jupyter_agent.workspace.reads import Reads
from jupyter_agent.workspace.runs import Run
from jupyter_agent.workspace.workspace import Authorize, Rooms, Workspace

log = logging.getLogger(__name__)

INTERNAL = (
    "Something went wrong inside the assistant; the server's log has the details. "
    "Nothing in your notebooks was lost. You can ask again."
)
DRAIN_SECONDS = 5.0


def new_id(kind: str) -> str:
    """An opaque id with 128 random bits; `kind` only helps people who read logs."""
    return f"{kind}_{secrets.token_hex(16)}"


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """What a user asks, and within which bounds."""

    owner: str
    authorize: Authorize
    conversation_id: str
    question: Mapping[str, Any]
    """The user's UIMessage, with its id."""
    model: str | None = None
    notebook: str | None = None
    mode: Mode = "ask"
    allow: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)
    attachments: Sequence[Attachment] = ()
    instructions: str = ""
    """What the user wants of every answer."""
    client: str | None = None
    on_approval: Literal["hold", "end"] = "hold"
    idempotency_key: str | None = None
    replaces_from: str | None = None
    """Id of a stored question: that turn and all after it are replaced by this one."""
    undo_replaced: bool = False
    """Whether what the replaced turns did to notebooks is taken back first."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the administrator decided for all turns."""

    max_mode: Mode = "auto"
    rules: Sequence[Rule] = ()


class TurnRunner:
    """Starts turns, keeps them while they run, and lets clients find them again."""

    def __init__(
        self,
        books: Books,
        models: Models,
        dispatcher: Dispatcher,
        rooms: Rooms,
        rules: Rules,
        log: logging.Logger = log,
    ) -> None:
        self.books = books
        self.log = log
        self._models = models
        self._dispatcher = dispatcher
        self._rooms = rooms
        self._rules = rules
        self._live: dict[str, LiveTurn] = {}
        self._starting: set[tuple[str, str]] = set()
        self._reads: dict[tuple[str, str], Reads] = {}
        self._keys: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._recovery: asyncio.Task[None] | None = None
        self._outliving: set[asyncio.Task[None]] = set()

    # -- finding

    def live(self, turn_id: str) -> LiveTurn | None:
        """The turn, where it runs in this server."""
        return self._live.get(turn_id)

    def live_in(self, owner: str, conversation_id: str) -> LiveTurn | None:
        """The turn of a conversation that runs or waits now."""
        for turn in self._live.values():
            if (turn.record.owner, turn.record.conversation_id) == (owner, conversation_id):
                return turn
        return None

    @property
    def running(self) -> list[LiveTurn]:
        """All turns of this server that are not over."""
        return list(self._live.values())

    def reads(self, owner: str, conversation_id: str) -> Reads:
        """What a conversation has read; forgotten when the server stops."""
        return self._reads.setdefault((owner, conversation_id), Reads())

    def policy(self, mode: Mode, allow: frozenset[str]) -> Policy:
        """What a caller may do with this mode, below the administrator's ceiling."""
        return Policy(
            mode=mode, max_mode=self._rules.max_mode, allow=allow, rules=self._rules.rules
        )

    # -- starting

    def keyed(self, owner: str, key: str | None) -> asyncio.Lock:
        """Held while a request starts a turn: one repeated meanwhile then finds that turn."""
        return self._keys.setdefault((owner, key or new_id("k")), asyncio.Lock())

    async def start(self, request: TurnRequest) -> LiveTurn:
        """Starts a turn; its question is in the file when this returns.

        Raises RequestError 409 where a turn of the conversation runs, 400 for an unknown model,
        ModelError where the model has no key.
        """
        with self._alone(request.owner, request.conversation_id):
            return await self._start(request)

    async def compact(self, last: TurnRecord, model: str) -> Usage | None:
        """Summarises a conversation up to its last turn; None where there is nothing to.

        Raises RequestError 409 where a turn of it runs, ModelError.
        """
        with self._alone(last.owner, last.conversation_id):
            asked = self._models.get(model)
            return await compact_after(self.books.store, last, asked, self._models.facts(model))

    @contextmanager
    def _alone(self, owner: str, conversation_id: str) -> Iterator[None]:
        key = (owner, conversation_id)
        if key in self._starting or self.live_in(*key) is not None:
            message = "A turn of this conversation is running. Wait for it, or stop it first."
            raise RequestError(409, "turn_running", message)
        self._starting.add(key)
        try:
            yield
        finally:
            self._starting.discard(key)

    async def _start(self, request: TurnRequest) -> LiveTurn:
        model = self._models.get(request.model)
        turn_id = new_id("t")
        work = Workspace(
            rooms=self._rooms,
            user=request.owner,
            authorize=request.authorize,
            home=request.notebook,
            client=request.client,
            turn_id=turn_id,
            reads=self.reads(request.owner, request.conversation_id),
        )
        instructions = await find_instructions(work, request.instructions, self._models.mask)
        await self._begin(request, model, turn_id, work, instructions)
        record = await self.books.store.turn(turn_id)
        assert record is not None
        live = LiveTurn(record, self.books, ends_to_ask=request.on_approval == "end")
        self._live[turn_id] = live
        live.task = asyncio.create_task(self._run(live, request, model, work, instructions))
        return live

    async def _begin(
        self,
        request: TurnRequest,
        model: Model,
        turn_id: str,
        work: Workspace,
        instructions: Sequence[Instructions],
    ) -> None:
        if request.replaces_from is not None and request.undo_replaced:
            await self._undo_from(request, request.replaces_from, work)
        parts = request.question["parts"]
        attached = await attached_text(request.attachments, work)
        await self.books.store.begin(
            NewTurn(
                id=turn_id,
                owner=request.owner,
                conversation_id=request.conversation_id,
                question_id=request.question["id"],
                question=request.question,
                answer_id=new_id("m"),
                request={
                    "model": model.id,
                    "notebook": request.notebook,
                    "mode": request.mode,
                    "allow": sorted(request.allow),
                    "instructions": describe(instructions),
                },
                model=model.id,
                notebook=request.notebook,
                title=_title(parts),
                content=content(parts, attached),
                idempotency_key=request.idempotency_key,
                replaces_from=request.replaces_from,
            )
        )

    async def _undo_from(self, request: TurnRequest, question_id: str, work: Workspace) -> None:
        turns = await self.books.store.turns(request.owner, request.conversation_id)
        first = next(n for n, turn in enumerate(turns) if turn.question_id == question_id)
        for turn in reversed(turns[first:]):
            await undo_turn(self.books.journal, turn.id, work)

    # -- running

    async def _run(
        self,
        live: LiveTurn,
        request: TurnRequest,
        model: Model,
        work: Workspace,
        instructions: Sequence[Instructions],
    ) -> None:
        record, store = live.record, self.books.store
        turn_log = TurnLog(self.log, record.id, request.limits.max_steps)

        async def tell(event: Event) -> None:
            await live.tell(event)
            turn_log.hear(event)

        try:
            await live.tell(_started(record))
            if notice := await self._first_sending(record.owner, model):
                await live.tell(notice)
            granted = await store.rules(record.owner, record.conversation_id)
            policy = self.policy(request.mode, request.allow | frozenset(granted))
            live.policy = policy
            transcript = await open_transcript(store, record)
            await transcript.situate(await self._facts(work, request))
            ending = await _until_stopped(
                live,
                Turn(
                    model=Recorded(model, self.books.requests, record.id),
                    transcript=transcript,
                    dispatcher=self._dispatcher,
                    work=work,
                    policy=policy,
                    system=system(instructions),
                    emit=tell,
                    ask=live.ask,
                    limits=request.limits,
                    facts=self._models.facts(model.id),
                ),
            )
            turn_log.end(ending)
            if ending.state == "stopped":
                await self._rooms.runs.interrupt_turn(record.id)
            await self._settle(live)
            await live.end(ending.state, ending.event, ending.stop_reason, ending.steps)
        except Exception:  # the outermost edge of a turn: a bug ends it, and everybody is told
            self.log.exception("Turn %s failed: a bug of ours", record.id)
            await live.end("failed", TurnFailed(error=INTERNAL), "internal_error", 0)
        finally:
            await live.close()
            del self._live[record.id]

    async def _first_sending(self, owner: str, model: Model) -> Notice | None:
        """Who gets what, told when something is sent there for the first time."""
        if not leaves_machine(model.host) or await self.books.requests.sent_to(owner, model.host):
            return None
        return Notice(
            kind="provider",
            text=f"Your question, and the cells, outputs and files that the assistant reads for "
            f"it, are sent to {model.host}, for the model {model.id}.",
            facts={"host": model.host},
        )

    async def _settle(self, live: LiveTurn) -> None:
        """What the turn's runs changed is in the journal, also where no call reported it."""
        for run in self._rooms.runs.of_turn(live.record.id):
            if run.ended is None:
                self._outliving.add(task := asyncio.create_task(self._journal(live, run)))
                task.add_done_callback(self._outliving.discard)
            else:
                await self._journal(live, run)

    async def _journal(self, live: LiveTurn, run: Run) -> None:
        await run.wait()
        changes = [change.to_json() for change in run.report()]
        await self.books.journal.add(live.record.id, run.id, changes)

    async def _facts(self, work: Workspace, request: TurnRequest) -> str:
        """What holds in this turn."""
        kernel = place = None
        news: Sequence[News] = ()
        if request.notebook:
            try:
                notebook = await work.notebook()
                await notebook.read()
                place = notebook.place
                news = await read_news(work)
                kernel = await self._rooms.kernels.find(notebook.path)
            except ToolError as error:  # the model finds out by its tools, as it does later
                self.log.info("The notebook of the turn is not at hand: %s", error)
        return facts(
            mode=request.mode,
            today=datetime.now(UTC).date(),
            notebook=request.notebook,
            kernel=f"{kernel.name} ({kernel.language}), {kernel.state}" if kernel else None,
            active_cell=place.cell_id if place else None,
            changes=[self._models.mask(each.text) for each in news],
        )

    # -- stopping and answering

    async def stop(self, live: LiveTurn) -> None:
        """Stops the turn and returns when it has stopped; stopping twice is stopping once."""
        assert live.task is not None
        if not live.stopping:
            live.stopping = True
            if live.loop is not None:
                live.loop.cancel()
        await asyncio.wait([live.task])

    async def answer(
        self, live: LiveTurn, approval_id: str, answer: Answer, *, remember: bool
    ) -> None:
        """Answers a question of a turn. Raises RequestError 404, or 409 for one that is closed."""
        approval = await live.answer(approval_id, answer)
        if approval is None:
            state = await self.books.approvals.state(live.record.id, approval_id)
            if state is None:
                raise RequestError(404, "not_found", "This turn asked no such question.")
            message = "That question is answered or expired already."
            raise RequestError(409, "approval_closed", message)
        if remember and answer.approved:
            record = live.record
            await self.books.store.add_rule(record.owner, record.conversation_id, approval.tool)
            live.policy.allow |= {approval.tool}

    # -- the server's life

    async def recovered(self) -> None:
        """Returns once the turns that a crash cut off are `interrupted`; nothing is run again."""
        if self._recovery is None:
            self._recovery = asyncio.create_task(self._recover())
        await asyncio.shield(self._recovery)

    async def _recover(self) -> None:
        for server, record in await self.books.store.live_turns():
            if server != os.getpid() and check_pid(server):
                continue  # another server with the same store runs it
            await self._interrupt(record)

    async def _interrupt(self, record: TurnRecord) -> None:
        store = self.books.store
        await (await open_transcript(store, record)).finish()
        seq = await store.last_seq(record.id)
        events: list[Event] = [] if seq else [_started(record)]
        error = "The server stopped during this turn. Nothing was run again; you can ask again."
        events.append(TurnFailed(error=error))
        await store.add_events(record.id, list(enumerate(events, start=seq + 1)))
        await store.end(
            record.id,
            state="interrupted",
            stop_reason="interrupted",
            steps=record.steps,
            usage=Usage(),
        )

    async def close(self) -> None:
        """Stops all turns, each with a valid history, within a few seconds."""
        stops = [asyncio.create_task(self.stop(turn)) for turn in self._live.values()]
        if stops:
            await asyncio.wait(stops, timeout=DRAIN_SECONDS)


async def _until_stopped(live: LiveTurn, turn: Turn) -> Ending:
    """Runs the loop. A stop cancels it, and nothing of what comes before or after it."""
    if not live.stopping:
        live.loop = asyncio.create_task(run_turn(turn))
        with suppress(asyncio.CancelledError):  # stopped before its first step
            return await live.loop
    return stopped(Meter(turn.limits, turn.facts))


def _started(turn: TurnRecord) -> TurnStarted:
    return TurnStarted(
        message_id=turn.answer_id,
        conversation_id=turn.conversation_id,
        turn_id=turn.id,
        model=turn.request["model"],
        notebook=turn.request["notebook"],
    )


def _title(parts: Sequence[Mapping[str, Any]]) -> str:
    text = " ".join(part["text"] for part in parts if part["type"] == "text")
    words = " ".join(text.split())
    return (words if len(words) <= 60 else f"{words[:59].rstrip()}…") or "Conversation"
