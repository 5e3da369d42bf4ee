"""A turn that runs in this server: its events are numbered, stored, then told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.agent.turn import Ending
from jupyter_agent.conversations.approvals import ApprovalStore, RuleStore, allowing
from jupyter_agent.conversations.audit import AuditLog
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.log import capped
from jupyter_agent.conversations.requests import RequestStore
from jupyter_agent.conversations.store import ConversationStore, TurnRecord, TurnState
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import (
    CallInputDelta,
    CallInvalid,
    CallReady,
    CellsChanged,
    Event,
    Notice,
    StepFinished,
    StepStarted,
    TextDelta,
    ThinkingDelta,
    TurnFinished,
    Usage,
    UsageUpdated,
)

DELTAS_LAG = 0.25
"""Seconds that the file may lag behind what followers were told; deltas only."""


class Announce(Protocol):
    """Tells every open page to read again what it shows of a conversation, or of one turn of it."""

    def __call__(self, conversation_id: str, turn_id: str | None = None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Books:
    """What a running turn is written into, and how pages learn that there is more."""

    store: ConversationStore
    journal: Journal
    approvals: ApprovalStore
    requests: RequestStore
    rules: RuleStore
    audit: AuditLog
    announce: Announce


class LiveTurn:
    """The outside of a running turn: events in, followers out, questions and their answers."""

    def __init__(self, record: TurnRecord, books: Books, *, ends_to_ask: bool) -> None:
        self.record = record
        self.state: TurnState = "running"
        self.policy = Policy()
        """What holds in this turn; a person may widen it while it runs."""
        self.task: asyncio.Task[None] | None = None
        self.loop: asyncio.Task[Ending] | None = None
        """The part of the task that a stop cancels."""
        self.stopping = False
        self._books = books
        self._ends_to_ask = ends_to_ask
        self._events: list[Event] = []
        """What followers are told."""
        self._unwritten: list[tuple[int, Event]] = []
        """With their numbers, and whole: the journal keeps all of what they say."""
        self._told = 0
        self._lock = asyncio.Lock()
        self._flush: asyncio.TimerHandle | None = None
        self._flushing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._questions: dict[str, tuple[Approval, asyncio.Future[Answer]]] = {}
        self._answering: set[str] = set()
        """Questions whose answers are just written."""
        self._steps = 0
        self._step_open = False
        self._usage = Usage()

    @property
    def ended(self) -> bool:
        return self.state not in ("running", "waiting")

    # -- telling

    async def tell(self, event: Event) -> None:
        """Adds an event. All but deltas are in the file before followers get them.

        A stop cancels the loop; an event that is being written then still arrives, once.
        """
        if (
            isinstance(event, TextDelta | ThinkingDelta | CallInputDelta)
            and not self._lock.locked()
        ):
            self._add(event)
            self._wake()
            self._flush_later()
        else:
            await asyncio.shield(self._background(self._tell(event)))

    async def end(self, state: TurnState, event: Event, stop_reason: str, steps: int) -> None:
        """The last event; the file says that the turn is over before anybody is told.

        Where it cannot, followers are told all the same. Raises StoreUnavailable then.
        """
        async with self._lock:
            self._add(event)
            try:
                await self._books.store.end(
                    self.record.id,
                    state=state,
                    stop_reason=stop_reason,
                    steps=steps,
                    usage=self._usage,
                    events=self._unwritten,
                )
                self._unwritten = []
            finally:
                self.state = state
                self._wake()
                self._books.announce(self.record.conversation_id, self.record.id)

    async def _tell(self, event: Event) -> None:
        async with self._lock:
            if isinstance(event, StepStarted):
                self._step_open = True
                self._steps += 1
            elif isinstance(event, StepFinished):
                if not self._step_open:  # a turn that waited has closed its step already
                    return
                self._step_open = False
            elif isinstance(event, UsageUpdated):
                self._usage = event.usage
            self._add(event)
            if not isinstance(event, TextDelta | ThinkingDelta | CallInputDelta):
                await self._write()
            self._wake()
            if isinstance(event, CellsChanged):
                self._books.announce(self.record.conversation_id, self.record.id)
        self._flush_later()

    async def _write(self) -> None:
        """Within the lock: meanwhile nothing is added."""
        if self._unwritten:
            await self._books.store.add_events(self.record.id, self._unwritten)
            self._unwritten = []

    def _add(self, event: Event) -> None:
        self._events.append(capped(event))
        self._unwritten.append((len(self._events), event))

    def _wake(self) -> None:
        self._told = len(self._events)
        self._changed.set()
        self._changed = asyncio.Event()

    def _flush_later(self) -> None:
        if self._flush is None and self._unwritten:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(DELTAS_LAG, self._start_flush)

    def _start_flush(self) -> None:
        self._flush = None
        self._background(self._flush_now())

    async def _flush_now(self) -> None:
        async with self._lock:
            with contextlib.suppress(StoreUnavailable):  # what comes next is written with it
                await self._write()

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)
        return task

    async def close(self) -> None:
        """Waits for what is still being written."""
        if self._flush is not None:
            self._flush.cancel()
        await asyncio.gather(*self._flushing, return_exceptions=True)

    # -- following

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, Event]]:
        """Events with their numbers from the one after `after` on, as they come.

        Ends with the turn, or where one waits that ends its stream to ask (`on_approval: "end"`).
        A reader that is slow costs nothing: each reads from the turn's own list.
        """
        position = after
        while True:
            changed = self._changed
            while position < self._told:
                event = self._events[position]
                position += 1
                if isinstance(event, TurnFinished) and event.waiting:
                    if position < self._told or self.state != "waiting":
                        continue  # answered meanwhile: for this reader the stream just goes on
                    yield position, event
                    return
                yield position, event
            if self.ended and position >= len(self._events):
                return
            await changed.wait()

    @property
    def events(self) -> Sequence[Event]:
        """What was told so far."""
        return self._events[: self._told]

    @property
    def last_seq(self) -> int:
        """The number of the last event that was told."""
        return self._told

    async def settled(self, seconds: float | None = None) -> None:
        """Returns when the turn is over or waits for a person, or after so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.state == "running":
                    await self._changed.wait()

    # -- asking

    @property
    def questions(self) -> list[Approval]:
        """What a person is asked now."""
        now = datetime.now(UTC)
        return [
            approval
            for approval, answer in self._questions.values()
            if not answer.done() and approval.expires > now
        ]

    async def ask(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """Puts questions to a person and waits for all answers; what expires is missing in them."""
        await self._books.approvals.add(self.record.id, approvals)
        loop = asyncio.get_running_loop()
        self._questions = {approval.id: (approval, loop.create_future()) for approval in approvals}
        try:
            await self._turn_to("waiting")
            for approval in approvals:
                described = approval.describe()
                text = f"`{approval.tool}` waits for your answer."
                await self.tell(Notice(kind="approval", text=text, facts={"approval": described}))
                await self.tell(approval.event())
            if self._ends_to_ask:
                await self.tell(StepFinished())
                await self.tell(self._waiting())
            futures = [answer for _, answer in self._questions.values()]
            latest = max(approval.expires for approval in approvals)
            seconds = (latest - datetime.now(UTC)).total_seconds()
            await asyncio.wait(futures, timeout=max(seconds, 0))
            await self._turn_to("running")
            given = {id: answer for id, (_, answer) in self._questions.items() if answer.done()}
            await self._books.approvals.expire([id for id in self._questions if id not in given])
            return {id: answer.result() for id, answer in given.items()}
        finally:
            self._questions = {}

    async def answer(self, answers: Mapping[str, Answer]) -> list[Approval] | None:
        """Takes answers by the ids of their questions; they are in the file before anything acts.

        All or none: None where one of them is not (or no longer) open.
        """
        asked = [self._questions.get(approval_id) for approval_id in answers]
        open_ids = {approval.id for approval in self.questions} - self._answering
        if not answers.keys() <= open_ids:
            return None
        self._answering |= answers.keys()
        try:
            await self._books.approvals.answer(answers)
            for question, answer in zip(asked, answers.values(), strict=True):
                assert question is not None
                if not question[1].done():
                    self._allow_more(question[0], answer)
                    question[1].set_result(answer)
        finally:
            self._answering -= answers.keys()
        if not self.questions:
            self.state = "running"
        given = [
            {"id": id, "approved": answer.approved}
            | ({"reason": answer.reason} if answer.reason else {})
            for id, answer in answers.items()
        ]
        await self.tell(Notice(kind="answered", text="", facts={"approvals": given}))
        return [question[0] for question in asked if question is not None]

    def _allow_more(self, approval: Approval, answer: Answer) -> None:
        """What an answer allows besides its call, before the turn goes on."""
        notebook = approval.question.notebook
        if answer.remember == "turn":
            self.policy.edit_freely()
        elif answer.remember == "conversation" and notebook is not None:
            self.policy.rules = [*self.policy.rules, allowing(approval.tool, notebook)]

    def _waiting(self) -> TurnFinished:
        return TurnFinished(
            finish_reason="tool-calls",
            stop_reason="tool_use",
            steps=self._steps,
            usage=self._usage,
            waiting=True,
        )

    async def _turn_to(self, state: TurnState) -> None:
        self.state = state
        await self._books.store.set_state(self.record.id, state)
        self._wake()


class TurnLog:
    """Listens to a turn's events. It says how much and how long, never what anybody wrote."""

    def __init__(
        self,
        log: logging.Logger,
        turn_id: str,
        max_steps: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._turn_id = turn_id
        self._max_steps = max_steps
        self._clock = clock
        self._began = clock()
        self._step_began: float | None = None
        self._steps = 0
        self._calls: dict[str, str] = {}
        """Tools of the step's calls, by id."""

    def hear(self, event: Event) -> None:
        """One more event of the turn; the usage is the last thing that a step tells."""
        match event:
            case StepStarted() if self._step_began is None:
                self._step_began = self._clock()
            case CallReady() | CallInvalid():
                self._calls[event.call_id] = event.tool
            case UsageUpdated():
                self._end_step(event.step)

    def end(self, ending: Ending) -> None:
        """The turn is over."""
        self._log.info(
            "Turn %s is %s after %d steps: %s; %s, %.1f s",
            self._turn_id,
            ending.state,
            ending.steps,
            ending.why,
            _amount(ending.usage),
            self._clock() - self._began,
        )

    def _end_step(self, usage: Usage) -> None:
        self._steps += 1
        now = self._clock()
        began = now if self._step_began is None else self._step_began
        tools = f" ({', '.join(self._calls.values())})" if self._calls else ""
        self._log.info(
            "Turn %s step %d of %d: %d calls%s, %s, %.1f s",
            self._turn_id,
            self._steps,
            self._max_steps,
            len(self._calls),
            tools,
            _amount(usage),
            now - began,
        )
        self._step_began, self._calls = None, {}


def _amount(usage: Usage) -> str:
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cost = "" if usage.cost is None else f", cost {usage.cost:.4f}"
    cached = f"{usage.cache_read_tokens} cached" if usage.cache_read_tokens else "none cached"
    return f"{read} tokens in ({cached}), {usage.output_tokens} out{cost}"
