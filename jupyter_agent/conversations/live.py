"""A turn that runs in this server: what happens in it is stored, then told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Grant, Policy
from jupyter_agent.agent.turn import Ending, Moment, Stop
from jupyter_agent.conversations.approvals import ApprovalStore, RuleStore
from jupyter_agent.conversations.audit import AuditLog, EntryPoint, answer_entry, entry_of
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.instructions import TrustStore
from jupyter_agent.conversations.log import Batch, TurnState, capped
from jupyter_agent.conversations.requests import RequestStore, SentRequest
from jupyter_agent.conversations.store import ConversationStore, TurnRecord
from jupyter_agent.conversations.usage import UsageStore
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import (
    CallInvalid,
    CallReady,
    CellsChanged,
    Event,
    Notice,
    StepFinished,
    StepStarted,
    TurnFinished,
    Usage,
    UsageUpdated,
)
from jupyter_agent.tasks import begin, surely

STREAM_LAG_S = 0.25
"""How long the file may lag behind what followers were told of what a model or a cell writes."""

WITHDRAWN = Answer(approved=False, reason="The call was given up.")
"""To a question that nobody needs an answer to any more."""
TOGETHER = 100
"""Events that a follower is given at once at most."""
_STEP = (StepStarted, StepFinished)


class Announce(Protocol):
    """Tells every open page to read again what it shows of a conversation, or of one turn of it."""

    def __call__(self, conversation_id: str, turn_id: str | None = None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class TurnStores:
    """What a running turn is written into, and how pages learn that there is more."""

    conversations: ConversationStore
    journal: Journal
    approvals: ApprovalStore
    requests: RequestStore
    rules: RuleStore
    trust: TrustStore
    usage: UsageStore
    audit: AuditLog
    announce: Announce


class LiveTurn:
    """The outside of a running turn: moments in, followers out, questions and their answers."""

    def __init__(
        self,
        record: TurnRecord,
        stores: TurnStores,
        *,
        ends_to_ask: bool,
        entry: EntryPoint = "chat",
    ) -> None:
        """`entry`: by which door its calls come, for the audit."""
        self.record = record
        self.state: TurnState = "running"
        self.policy = Policy()
        """What holds in this turn; a person may widen it while it runs."""
        self._kept: Sequence[Grant] = ()
        """What the file has of its grants."""
        self.task: asyncio.Task[None] | None = None
        self.stop = Stop()
        self._stores = stores
        self._ends_to_ask = ends_to_ask
        self._entry = entry
        self._events: list[Event] = []
        """For followers; the store has them whole."""
        self._told = 0
        """How many of them followers may have."""
        self._unwritten = Batch()
        self._lock = asyncio.Lock()
        """Held while something is written."""
        self._passable = False
        """What is written was told before: what is streamed meanwhile need not wait for it."""
        self._flush: asyncio.TimerHandle | None = None
        self._flushing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._questions: dict[str, tuple[Approval, asyncio.Future[Answer]]] = {}
        self._pause: asyncio.Event | None = None
        """There while a request to a model waits to be repeated; set to repeat it now."""
        self._answering: set[str] = set()
        """Questions whose answers are just being written."""

    @property
    def ended(self) -> bool:
        return self.state not in ("running", "waiting")

    def under(self, policy: Policy) -> None:
        """What holds in this turn, with the grants that the file has."""
        self.policy, self._kept = policy, tuple(policy.grants)

    # -- writing, then telling

    async def append(self, moment: Moment) -> None:
        """Writes a moment, then tells its events; what is streamed is told first.

        Raises StoreUnavailable; then nothing is told, and it is written with what follows.
        """
        if moment.streamed and self._passable:
            self._stream(moment)
            return
        async with self._lock:
            if moment.streamed:
                self._stream(moment)
                return
            if moment.questions:
                self._put(moment.questions)
            batch = Batch(
                messages=moment.messages,
                audit=tuple(entry_of(audit, self._entry) for audit in moment.audits),
                asked=moment.questions,
                bound=tuple(grant for grant in self.policy.grants if grant not in self._kept),
                state="waiting" if moment.questions else None,
            )
            self._kept = tuple(self.policy.grants)
            await self._write(batch, self._shown(moment))
            if moment.questions:
                self.state = "waiting"
            self._wake()
        if any(isinstance(event, CellsChanged) for event in moment.events):
            self._announce()

    async def send(self, requests: Sequence[SentRequest]) -> None:
        """Writes what was told before, and what goes to a model next, if anything does. Raises
        StoreUnavailable.
        """
        async with self._lock:
            await self._write(Batch(requests=tuple(requests)), (), keep=False)

    async def end(self, ending: Ending) -> None:
        """The last events; the file says that the turn is over before anybody is told.

        Where it cannot, followers are told all the same. Raises StoreUnavailable then.
        """
        async with self._lock:
            try:
                over = Batch(state=ending.state, stop_reason=ending.stop_reason)
                await self._write(over, ending.events)
            finally:
                self.state = ending.state
                self._wake()
                self._announce()

    async def resume(self) -> None:
        """A turn that has ended works again: its client makes another call. Raises
        StoreUnavailable.
        """
        async with self._lock:
            await self._write(Batch(state="running"), (), keep=False)
            self.state = "running"
            self._wake()

    async def close(self) -> None:
        """Waits for what is still being written."""
        if self._flush is not None:
            self._flush.cancel()
        await asyncio.gather(*self._flushing, return_exceptions=True)

    def _shown(self, moment: Moment) -> list[Event]:
        """Its events, and the end of the stream where it ends to ask."""
        if not moment.questions and not any(isinstance(each, _STEP) for each in moment.events):
            return list(moment.events)
        steps = (each for each in reversed(self._events) if isinstance(each, _STEP))
        is_open = isinstance(next(steps, None), StepStarted)
        events: list[Event] = []
        for event in moment.events:
            if isinstance(event, StepFinished) and not is_open:
                continue  # a turn that waited closed its step already
            if isinstance(event, _STEP):
                is_open = isinstance(event, StepStarted)
            events.append(event)
        if moment.questions and self._ends_to_ask:
            events += [StepFinished(), self._waiting()]
        return events

    def _waiting(self) -> TurnFinished:
        steps = [event for event in self._events if isinstance(event, UsageUpdated)]
        return TurnFinished(
            finish_reason="tool-calls",
            stop_reason="tool_use",
            steps=len(steps) + 1,
            usage=steps[-1].usage if steps else Usage(),
            state="waiting",
        )

    async def _write(self, batch: Batch, events: Sequence[Event], *, keep: bool = True) -> None:
        """Within the lock. What cannot be written is kept to be written with what follows. A stop
        in the middle waits for the end: what is in the file is never written again.
        """
        await surely(self._store(batch, events, keep=keep))

    async def _store(self, batch: Batch, events: Sequence[Event], *, keep: bool) -> None:
        numbered = tuple(enumerate(events, start=len(self._events) + 1))
        batch = self._unwritten + replace(batch, events=numbered)
        try:
            await self._stores.conversations.append(self.record.id, batch)
        except StoreUnavailable:
            if keep:
                self._unwritten = batch
                self._events += map(capped, events)
            raise
        self._unwritten = Batch()
        self._events += map(capped, events)
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None

    def _stream(self, moment: Moment) -> None:
        """Tells events before they are written."""
        events = self._shown(moment)
        numbered = tuple(enumerate(events, start=len(self._events) + 1))
        self._unwritten += Batch(events=numbered, messages=moment.messages)
        self._events += map(capped, events)
        self._wake()
        self._flush_later()

    def _wake(self) -> None:
        self._told = len(self._events)
        self._changed.set()
        self._changed = asyncio.Event()

    def _announce(self) -> None:
        self._stores.announce(self.record.conversation_id, self.record.id)

    def _flush_later(self) -> None:
        if self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(STREAM_LAG_S, self._start_flush)

    def _start_flush(self) -> None:
        self._flush = None
        begin(self._flush_now(), self._flushing)

    async def _flush_now(self) -> None:
        async with self._lock:
            batch, self._unwritten = self._unwritten, Batch()
            if batch == Batch():
                return
            self._passable = True
            try:
                await self._stores.conversations.append(self.record.id, batch)
            except StoreUnavailable:  # what comes next is written with it
                self._unwritten = batch + self._unwritten
            finally:
                self._passable = False

    # -- following

    async def follow(self, after: int = 0) -> AsyncIterator[Sequence[tuple[int, Event]]]:
        """Events with their numbers from the one after `after` on, as they come: all that are
        there by then together, up to so many that somebody else has a turn.

        Ends with the turn, or where one waits that ends its stream to ask (`on_approval: "end"`).
        A reader that is slow costs nothing: each reads from the turn's own list.
        """
        position = after
        while True:
            changed = self._changed
            ready: list[tuple[int, Event]] = []
            while position < self._told and len(ready) < TOGETHER:
                event = self._events[position]
                position += 1
                if isinstance(event, TurnFinished) and event.state:
                    if position < self._told or self.state != "waiting":
                        continue  # answered meanwhile: for this reader the stream continues
                    yield [*ready, (position, event)]
                    return
                ready.append((position, event))
            if ready:
                yield ready
                continue
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

    # -- waiting for a model service

    async def pause(self, seconds: float) -> None:
        """Returns after so many seconds, or when a person does not want to wait any longer."""
        self._pause = pause = asyncio.Event()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await pause.wait()
        finally:
            self._pause = None

    async def retry_now(self) -> bool:
        """Ends the pause before a request is repeated; False where there is none."""
        pause, self._pause = self._pause, None
        if pause is None:
            return False
        try:
            async with self._lock:
                await self._write(Batch(), [Notice(kind="retry-now", text="")], keep=False)
                self._wake()
        finally:
            pause.set()
        return True

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

    def _put(self, approvals: Sequence[Approval]) -> None:
        loop = asyncio.get_running_loop()
        self._questions |= {approval.id: (approval, loop.create_future()) for approval in approvals}

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """The answers to these questions, which were put; what expires is missing in them."""
        asked = {approval.id: self._questions[approval.id][1] for approval in approvals}
        try:
            latest = max(approval.expires for approval in approvals)
            seconds = (latest - datetime.now(UTC)).total_seconds()
            await asyncio.wait(asked.values(), timeout=max(seconds, 0))
            given = {id: answer for id, answer in asked.items() if answer.done()}
            if expired := tuple(id for id in asked if id not in given):
                async with self._lock:
                    await self._expire(expired)
            return {id: answer.result() for id, answer in given.items()}
        finally:
            for id in asked:
                self._questions.pop(id, None)

    async def withdraw(self, ids: Collection[str] | None = None) -> None:
        """Closes open questions, all of them without `ids`: nobody waits for their answers now."""
        async with self._lock:
            chosen = [each.id for each in self.questions if ids is None or each.id in ids]
            if chosen:
                await self._expire(chosen)
            for id in chosen:
                self._questions[id][1].set_result(WITHDRAWN)

    async def _expire(self, ids: Sequence[str]) -> None:
        """Within the lock."""
        left = {approval.id for approval in self.questions} - set(ids)
        state: TurnState = "waiting" if left else "running"
        await self._write(Batch(expired=tuple(ids), state=state), ())
        self.state = state
        self._wake()

    async def answer(self, answers: Mapping[str, Answer]) -> bool:
        """Takes answers by the ids of their questions; they are in the file before anything acts.

        All or none: False where one of them is not (or no longer) open.
        """
        open_ids = {approval.id for approval in self.questions} - self._answering
        if not answers.keys() <= open_ids:
            return False
        self._answering |= answers.keys()
        try:
            await surely(self._take(answers))
        finally:
            self._answering -= answers.keys()
        return True

    async def _take(self, answers: Mapping[str, Answer]) -> None:
        questions = {id: self._questions[id] for id in answers}
        asked = {id: approval for id, (approval, _) in questions.items()}
        given = [
            {"id": id, "approved": answer.approved}
            | ({"reason": answer.reason} if answer.reason else {})
            for id, answer in answers.items()
        ]
        notice = Notice(kind="answered", text="", facts={"approvals": given})
        async with self._lock:
            left = {approval.id for approval in self.questions} - answers.keys()
            state: TurnState = "waiting" if left else "running"
            batch = Batch(
                answers=answers,
                audit=tuple(
                    answer_entry(self.record.id, self.record.owner, asked[id], answer)
                    for id, answer in answers.items()
                ),
                allowed=tuple(
                    Grant(tool=asked[id].tool, notebook=notebook, kernel=asked[id].kernel)
                    for id, answer in answers.items()
                    if answer.remember == "conversation" and (notebook := asked[id].notebook)
                ),
                state=state,
            )
            await self._write(batch, [notice], keep=False)
            for id, (approval, future) in questions.items():
                if not future.done():
                    self._allow_more(approval, answers[id])
                    future.set_result(answers[id])
            self.state = state
            self._wake()

    def _allow_more(self, approval: Approval, answer: Answer) -> None:
        """What an answer allows besides its call, before the turn continues."""
        notebook = approval.notebook
        if answer.remember == "turn":
            self.policy.edit_freely()
        elif answer.remember == "conversation" and notebook is not None:
            self.policy.grant(approval.tool, notebook, approval.kernel)
            self._kept = tuple(self.policy.grants)


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

    def hear(self, events: Iterable[Event]) -> None:
        """More events of the turn; the usage is the last thing that a step tells."""
        for event in events:
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
