"""A turn that runs in this server: its log, who follows it, and what it asks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.agent.permissions import Grant, Policy
from jupyter_agent.agent.turn import Ending, Entry, Log, Stop, events_of
from jupyter_agent.conversations.approvals import (
    AnswerGiven,
    ApprovalStore,
    GrantAdded,
    GrantBound,
    QuestionClosed,
    RuleStore,
)
from jupyter_agent.conversations.audit import AuditLog, EntryPoint, answer_entry, entry_of
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.instructions import TrustStore
from jupyter_agent.conversations.log import LogEntry, StateChanged, TurnEnded, TurnState, capped
from jupyter_agent.conversations.requests import RequestStore, SentRequest
from jupyter_agent.conversations.store import ConversationStore, TurnRecord
from jupyter_agent.conversations.usage import UsageStore
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import (
    CallInvalid,
    CallReady,
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
"""How long the file may lag behind what followers were shown of what a model or a cell writes."""

WITHDRAWN = Answer(approved=False, reason="The call was given up.")
"""To a question that nobody needs an answer to any more."""
TOGETHER = 100
"""Events that a follower is given at once at most."""


def _in_step(event: Event, before: bool) -> bool:
    """Whether a step is open after the event."""
    return isinstance(event, StepStarted) or (before and not isinstance(event, StepFinished))


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

    @classmethod
    def on(cls, database: Database, announce: Announce) -> TurnStores:
        """All in one file."""
        return cls(
            conversations=ConversationStore(database),
            journal=Journal(database),
            approvals=ApprovalStore(database),
            requests=RequestStore(database),
            rules=RuleStore(database),
            trust=TrustStore(database),
            usage=UsageStore(database),
            audit=AuditLog(database),
            announce=announce,
        )


class LiveTurn:
    """The outside of a running turn: its log in, followers out, questions and their answers."""

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
        self._door = entry
        self._events: list[Event] = []
        """For followers; the store has them whole."""
        self._shown = 0
        """How many of them followers may have."""
        self._in_step = False
        self._unwritten: list[LogEntry] = []
        self._stored_events = 0
        """How many events the file has."""
        self._lock = asyncio.Lock()
        """Held while something is written."""
        self._passable = False
        """What is written was shown before: what is shown meanwhile need not wait for it."""
        self._flush: asyncio.TimerHandle | None = None
        self._flushing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._questions: dict[str, tuple[Approval, asyncio.Future[Answer]]] = {}
        self._pause: asyncio.Event | None = None
        """There while a request to a model waits to be repeated; set to repeat it now."""

    @property
    def ended(self) -> bool:
        return self.state not in ("running", "waiting")

    def under(self, policy: Policy) -> None:
        """What holds in this turn, with the grants that the file has."""
        self.policy, self._kept = policy, tuple(policy.standing_grants)

    # -- writing

    async def append(self, *entries: Entry) -> None:
        """As `Log.append`."""
        await surely(self._append(entries))

    async def show(self, *entries: Entry) -> None:
        """As `Log.show`."""
        if self._lock.locked() and not self._passable:
            await surely(self._show_next(entries))
        else:
            self._show(entries)

    async def send(self, requests: Sequence[SentRequest]) -> None:
        """Stores what was shown before, and what goes to a model next, if anything does. Raises
        StoreUnavailable; it is not sent then.
        """
        await surely(self._write(requests, keep=False))

    async def end(self, ending: Ending) -> None:
        """The last events; the file says that the turn is over before anybody is shown it. No
        question is open from then on.

        Where it cannot, followers are shown it all the same. Raises StoreUnavailable then.
        """
        await surely(self._end(ending))

    async def resume(self) -> None:
        """A turn that has ended works again: its client makes another call. Raises
        StoreUnavailable.
        """
        await surely(self._write([StateChanged("running")], keep=False, state="running"))

    async def close(self) -> None:
        """Waits for what is still being written."""
        if self._flush is not None:
            self._flush.cancel()
        await asyncio.gather(*self._flushing, return_exceptions=True)

    async def _end(self, ending: Ending) -> None:
        async with self._lock:
            try:
                over = TurnEnded(ending.state, ending.stop_reason)
                await self._store([*ending.events, over])
            finally:
                self.state = ending.state
                for _, answer in self._open_questions():
                    answer.set_result(WITHDRAWN)
                self._wake()
                self._announce()

    async def _append(self, entries: Sequence[Entry]) -> None:
        questions = [entry for entry in entries if isinstance(entry, Approval)]
        async with self._lock:
            grants = tuple(self.policy.standing_grants)
            bound = [GrantBound(each) for each in grants if each not in self._kept]
            state = [StateChanged("waiting")] if questions else []
            written = [*self._log_entries(entries), *bound, *state]
            await self._store(written, keep=not questions)  # one that is not stored is not put
            self._kept = grants
            if questions:
                self._put(questions)
                self.state = "waiting"
            self._wake()
        if any(isinstance(entry, Audit) and entry.changes for entry in entries):
            self._announce()

    def _log_entries(self, entries: Sequence[Entry]) -> Iterator[LogEntry]:
        """As they are stored: with the events that are shown of them, and the end of the stream
        where it ends to ask.
        """
        in_step = self._in_step
        for entry in entries:
            for event in events_of(entry):
                if isinstance(event, StepFinished) and not in_step:
                    continue  # a turn that waited closed its step already
                in_step = _in_step(event, in_step)
                yield event
            if isinstance(entry, Audit):
                yield entry_of(entry, self._door)
            elif isinstance(entry, Approval | MessageAdded):
                yield entry
        if self._ends_to_ask and any(isinstance(entry, Approval) for entry in entries):
            yield StepFinished()
            yield self._waiting()

    def _waiting(self) -> TurnFinished:
        steps = [event for event in self._events if isinstance(event, UsageUpdated)]
        return TurnFinished(
            finish_reason="tool-calls",
            stop_reason="tool_use",
            steps=len(steps) + 1,
            usage=steps[-1].usage if steps else Usage(),
            state="waiting",
        )

    async def _write(
        self, entries: Sequence[LogEntry], *, keep: bool, state: TurnState | None = None
    ) -> None:
        """`state`: the turn's, once that is stored."""
        async with self._lock:
            await self._store(entries, keep=keep)
            self.state = state or self.state
            self._wake()

    async def _store(self, entries: Sequence[LogEntry], *, keep: bool = True) -> None:
        """Within the lock, and to its end: what is in the file is never written again. What cannot
        be written is written with what follows, if it is to be kept.
        """
        waiting = len(self._unwritten)
        if not waiting and not entries:
            return
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None
        unwritten = [*self._unwritten, *entries]
        try:
            await self._stores.conversations.append(
                self.record.id, unwritten, after=self._stored_events
            )
        except StoreUnavailable:
            if keep:
                self._unwritten += entries
                self._remember(entries)
            raise
        del self._unwritten[:waiting]  # more may have been shown meanwhile
        self._stored_events += sum(isinstance(entry, Event) for entry in unwritten)
        self._remember(entries)

    async def _show_next(self, entries: Sequence[Entry]) -> None:
        async with self._lock:
            self._show(entries)

    def _show(self, entries: Sequence[Entry]) -> None:
        shown = list(self._log_entries(entries))
        if shown:
            self._unwritten += shown
            self._remember(shown)
            self._wake()
            self._flush_later()

    def _remember(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            if isinstance(entry, Event):
                self._events.append(capped(entry))
                self._in_step = _in_step(entry, self._in_step)

    def _wake(self) -> None:
        self._shown = len(self._events)
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
            self._passable = True
            try:
                await self._store([])
            except StoreUnavailable:
                pass  # it is written with what comes next
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
            while position < self._shown and len(ready) < TOGETHER:
                event = self._events[position]
                position += 1
                if isinstance(event, TurnFinished) and event.state:
                    if position < self._shown or self.state != "waiting":
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
        """What was shown so far."""
        return self._events[: self._shown]

    @property
    def last_seq(self) -> int:
        """The number of the last event that was shown."""
        return self._shown

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
            await surely(self._write([Notice(kind="retry-now", text="")], keep=False))
        finally:
            pause.set()
        return True

    # -- asking

    @property
    def questions(self) -> list[Approval]:
        """What a person is asked now."""
        now = datetime.now(UTC)
        return [approval for approval, _ in self._open_questions() if approval.expires > now]

    def _open_questions(self) -> list[tuple[Approval, asyncio.Future[Answer]]]:
        return [each for each in self._questions.values() if not each[1].done()]

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
            await surely(self._close(asked, None))
            return {id: answer.result() for id, answer in asked.items() if not answer.cancelled()}
        finally:
            for id in asked:
                self._questions.pop(id, None)

    async def withdraw(self, ids: Collection[str] | None = None) -> None:
        """Closes open questions, all of them without `ids`: nobody waits for their answers now."""
        await surely(self._close(self._questions if ids is None else ids, WITHDRAWN))

    async def _close(self, ids: Collection[str], answer: Answer | None) -> None:
        """Nobody can answer those of the questions that are still open; who waits for them gets
        this answer, or none.
        """
        async with self._lock:
            closed = [each for each in self._open_questions() if each[0].id in ids]
            if not closed:
                return
            entries = [QuestionClosed(approval.id) for approval, _ in closed]
            state = self._state_without(ids)
            try:
                await self._store([*entries, StateChanged(state)])
            finally:
                self.state = state
                for _, waiting in closed:
                    if answer is None:
                        waiting.cancel()
                    else:
                        waiting.set_result(answer)
            self._wake()

    def _state_without(self, ids: Collection[str]) -> TurnState:
        """Whether the turn still waits once these questions are closed."""
        left = any(approval.id not in ids for approval in self.questions)
        return "waiting" if left else "running"

    async def answer(self, answers: Mapping[str, Answer]) -> bool:
        """Takes answers by the ids of their questions; they are in the file before anything acts.

        All or none: False where one of them is not (or no longer) open.
        """
        return await surely(self._take(answers))

    async def _take(self, answers: Mapping[str, Answer]) -> bool:
        given = [
            {"id": id, "approved": answer.approved}
            | ({"reason": answer.reason} if answer.reason else {})
            for id, answer in answers.items()
        ]
        notice = Notice(kind="answered", text="", facts={"approvals": given})
        async with self._lock:
            if not answers.keys() <= {approval.id for approval in self.questions}:
                return False
            state = self._state_without(answers.keys())
            entries: list[LogEntry] = [notice, StateChanged(state)]
            for id, answer in answers.items():
                question = self._questions[id][0]
                entries += [
                    AnswerGiven(id, answer),
                    answer_entry(self.record.id, self.record.owner, question, answer),
                    *map(GrantAdded, _granted(question, answer)),
                ]
            await self._store(entries, keep=False)
            for id, answer in answers.items():
                question, waiting = self._questions[id]
                self._allow_more(question, answer)
                waiting.set_result(answer)
            self.state = state
            self._wake()
            return True

    def _allow_more(self, approval: Approval, answer: Answer) -> None:
        """What an answer allows besides its call, before the turn continues."""
        if answer.remember == "turn":
            self.policy.relax_to_edit()
        for grant in _granted(approval, answer):
            self.policy.grant(grant.tool, grant.notebook, grant.kernel)
            self._kept = tuple(self.policy.standing_grants)


def _granted(approval: Approval, answer: Answer) -> Sequence[Grant]:
    """What needs no answer in the conversation from now on."""
    if answer.remember != "conversation" or approval.notebook is None:
        return ()
    return [Grant(tool=approval.tool, notebook=approval.notebook, kernel=approval.kernel)]


class ServerLog:
    """Passes on a turn's log, and has the server's log say how much and how long, never what
    anybody wrote.
    """

    def __init__(
        self,
        turn: Log,
        log: logging.Logger,
        turn_id: str,
        max_steps: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turn = turn
        self._log = log
        self._turn_id = turn_id
        self._max_steps = max_steps
        self._clock = clock
        self._began = clock()
        self._step_began: float | None = None
        self._steps = 0
        self._calls: dict[str, str] = {}
        """Tools of the step's calls, by id."""

    async def append(self, *entries: Entry) -> None:
        """As `Log.append`."""
        self._hear(entries)
        await self._turn.append(*entries)

    async def show(self, *entries: Entry) -> None:
        """As `Log.show`."""
        self._hear(entries)
        await self._turn.show(*entries)

    def _hear(self, entries: Iterable[Entry]) -> None:
        for entry in entries:  # the usage is the last of a step
            match entry:
                case StepStarted() if self._step_began is None:
                    self._step_began = self._clock()
                case CallReady() | CallInvalid():
                    self._calls[entry.call_id] = entry.tool
                case UsageUpdated():
                    self._end_step(entry.step)

    def end(self, ending: Ending) -> None:
        """The turn is over."""
        self._log.info(
            "Turn %s is %s after %d steps: %s; %s, %.1f s",
            self._turn_id,
            ending.state,
            ending.steps,
            ending.log_reason,
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
