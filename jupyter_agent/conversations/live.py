"""A turn that runs in this server: its log, its followers and its questions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.history import MessageAdded
from jupyter_agent.agent.permissions import Grant, Policy
from jupyter_agent.agent.turn import Ending, Entry, Stop, events_of
from jupyter_agent.conversations.approvals import (
    AnswerGiven,
    GrantAdded,
    GrantBound,
    QuestionClosed,
)
from jupyter_agent.conversations.audit import EntryPoint, answer_entry, entry_of
from jupyter_agent.conversations.log import LogEntry, StateChanged, TurnEnded, TurnState, cap_event
from jupyter_agent.conversations.open_questions import OpenQuestions, answered_notice, grants_from
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.requests import SentRequest
from jupyter_agent.conversations.turn_stores import TurnStores
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import (
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
"""Seconds that the file may lag behind the events of a model or a cell that followers get."""

WITHDRAWN = Answer(approved=False, reason="The call was given up.")
"""The answer to a question that needs no answer any more."""
TOGETHER = 100
"""Most events that a follower gets at once."""


def _in_step(event: Event, before: bool) -> bool:
    """Whether a step is open after the event."""
    return isinstance(event, StepStarted) or (before and not isinstance(event, StepFinished))


class LiveTurn:
    """A running turn as clients see it: its log, its followers, its questions and answers."""

    def __init__(
        self,
        record: TurnRecord,
        stores: TurnStores,
        *,
        ends_to_ask: bool,
        entry: EntryPoint = "chat",
    ) -> None:
        """`ends_to_ask`: whether a question ends the stream; `entry`: where its calls come from,
        for the audit.
        """
        self.record = record
        self.state: TurnState = "running"
        self.policy = Policy()
        """The rules of this turn; a person may widen them while it runs."""
        self._persisted_grants: Sequence[Grant] = ()
        """The turn's grants that the file has."""
        self.task: asyncio.Task[None] | None = None
        self.stop = Stop()
        self._stores = stores
        self._ends_to_ask = ends_to_ask
        self._entry = entry
        self._events: list[Event] = []
        """Events for followers, capped in size; the store has them in full."""
        self._published = 0
        """How many of them followers may read."""
        self._in_step = False
        self._unwritten: list[LogEntry] = []
        self._stored_events = 0
        """How many events the file has."""
        self._lock = asyncio.Lock()
        """Held while something is written."""
        self._streaming_allowed = False
        """Whether the current write only has events that are already published, so that new ones
        need not wait for it."""
        self._flush: asyncio.TimerHandle | None = None
        self._flushing: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._questions = OpenQuestions()
        self._pause: asyncio.Event | None = None
        """Exists while a request to a model waits for its repetition; set it to repeat at once."""

    @property
    def ended(self) -> bool:
        return self.state not in ("running", "waiting")

    def use_policy(self, policy: Policy) -> None:
        """Set the rules of this turn, with grants that the file already has."""
        self.policy, self._persisted_grants = policy, tuple(policy.standing_grants)

    # -- writing

    async def append(self, *entries: Entry) -> None:
        """See `Log.append`."""
        await surely(self._append(entries))

    async def show(self, *entries: Entry) -> None:
        """See `Log.show`."""
        if self._lock.locked() and not self._streaming_allowed:
            await surely(self._show_next(entries))
        else:
            self._show(entries)

    async def send(self, requests: Sequence[SentRequest]) -> None:
        """Store all events shown so far, and the requests that go to a model next.

        Raises StoreUnavailable; the requests must not be sent then.
        """
        await surely(self._write(requests, keep=False))

    async def end(self, ending: Ending) -> None:
        """Store the end of the turn, then show its last events and close its questions.

        Raises StoreUnavailable if it cannot be stored; followers see the end even then.
        """
        await surely(self._end(ending))

    async def begin_call(self, *entries: Event) -> None:
        """Store the first events of a client's call before it acts. An ended turn runs again, and
        every page reads it. Raises StoreUnavailable; then nothing is stored, and it stays ended.
        """
        await surely(self._begin_call(entries))

    async def close(self) -> None:
        """Wait for writes in progress."""
        if self._flush is not None:
            self._flush.cancel()
        await asyncio.gather(*self._flushing, return_exceptions=True)

    async def _begin_call(self, entries: Sequence[Event]) -> None:
        async with self._lock:
            resumes = self.ended
            state = [StateChanged("running")] if resumes else []
            await self._store([*state, *self._log_entries(entries)], keep=False)
            if resumes:
                self.state = "running"
            self._publish()
        if resumes:
            self._announce_conversation()

    async def _end(self, ending: Ending) -> None:
        async with self._lock:
            if self.ended:
                return  # a client's turn that rested, and whose next call could not be stored
            try:
                over = TurnEnded(ending.state, ending.stop_reason)
                await self._store([*ending.events, over])
            finally:
                self.state = ending.state
                for question in self._questions.waiting():
                    self._questions.close(question.id, WITHDRAWN)
                self._publish()
                self._announce()

    async def _append(self, entries: Sequence[Entry]) -> None:
        questions = [entry for entry in entries if isinstance(entry, Approval)]
        async with self._lock:
            grants = tuple(self.policy.standing_grants)
            bound = [GrantBound(each) for each in grants if each not in self._persisted_grants]
            state = [StateChanged("waiting")] if questions else []
            written = [*self._log_entries(entries), *bound, *state]
            await self._store(written, keep=not questions)  # questions are only asked once stored
            self._persisted_grants = grants
            if questions:
                self._questions.add(questions)
                self.state = "waiting"
            self._publish()
        if questions:
            self._announce_conversation()
        if any(isinstance(entry, Audit) and entry.changes for entry in entries):
            self._announce()

    def _log_entries(self, entries: Sequence[Entry]) -> Iterator[LogEntry]:
        """The entries to store: with their events, and the end of the stream if it ends to ask."""
        in_step = self._in_step
        for entry in entries:
            for event in events_of(entry):
                if isinstance(event, StepFinished) and not in_step:
                    continue  # a turn that waited has already closed its step
                in_step = _in_step(event, in_step)
                yield event
            if isinstance(entry, Audit):
                yield entry_of(entry, self._entry)
            elif isinstance(entry, Approval | MessageAdded):
                yield entry
        if self._ends_to_ask and any(isinstance(entry, Approval) for entry in entries):
            yield StepFinished()
            yield self._waiting_event()

    def _waiting_event(self) -> TurnFinished:
        steps = [event for event in self._events if isinstance(event, UsageUpdated)]
        return TurnFinished(
            finish_reason="tool-calls",
            stop_reason="tool_use",
            steps=len(steps) + 1,
            usage=steps[-1].usage if steps else Usage(),
            state="waiting",
        )

    async def _write(self, entries: Sequence[LogEntry], *, keep: bool) -> None:
        """Store and publish."""
        async with self._lock:
            await self._store(entries, keep=keep)
            self._publish()

    async def _store(self, entries: Sequence[LogEntry], *, keep: bool = True) -> None:
        """Store the entries after all unwritten ones. Call with the lock held and never cancel it,
        or entries in the file would be written twice.

        With `keep`, entries that cannot be written are written with the next ones.
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
        del self._unwritten[:waiting]  # more may have been shown during the write
        self._stored_events += sum(isinstance(entry, Event) for entry in unwritten)
        self._remember(entries)

    async def _show_next(self, entries: Sequence[Entry]) -> None:
        async with self._lock:
            self._show(entries)

    def _show(self, entries: Sequence[Entry]) -> None:
        added = list(self._log_entries(entries))
        if added:
            self._unwritten += added
            self._remember(added)
            self._publish()
            self._flush_later()

    def _remember(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            if isinstance(entry, Event):
                self._events.append(cap_event(entry))
                self._in_step = _in_step(entry, self._in_step)

    def _publish(self) -> None:
        self._published = len(self._events)
        self._changed.set()
        self._changed = asyncio.Event()

    def _announce(self) -> None:
        self._stores.announce(self.record.conversation_id, self.record.id)

    def _announce_conversation(self) -> None:
        """Make pages read all of it, since they may know the turn as ended."""
        self._stores.announce(self.record.conversation_id)

    def _flush_later(self) -> None:
        if self._flush is None:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(STREAM_LAG_S, self._start_flush)

    def _start_flush(self) -> None:
        self._flush = None
        begin(self._flush_now(), self._flushing)

    async def _flush_now(self) -> None:
        async with self._lock:
            self._streaming_allowed = True
            try:
                await self._store([])
            except StoreUnavailable:
                pass  # the events are written with the next ones
            finally:
                self._streaming_allowed = False

    # -- following

    async def follow(self, after: int = 0) -> AsyncIterator[Sequence[tuple[int, Event]]]:
        """Numbered events after number `after`, as they come, in batches of at most `TOGETHER` so
        that other tasks get to run.

        Ends with the turn, or when a turn with `on_approval: "end"` waits for an answer. A slow
        reader costs nothing: each reads from the turn's own list.
        """
        position = after
        while True:
            changed = self._changed
            ready: list[tuple[int, Event]] = []
            while position < self._published and len(ready) < TOGETHER:
                event = self._events[position]
                position += 1
                if isinstance(event, TurnFinished) and event.state:
                    if position < self._published or self.state != "waiting":
                        continue  # already answered: for this reader the stream continues
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
        """The events published so far."""
        return self._events[: self._published]

    @property
    def last_seq(self) -> int:
        """The number of the last published event."""
        return self._published

    async def wait_while_running(self, seconds: float | None = None) -> None:
        """Wait until the turn is over or waits for a person, for at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.state == "running":
                    await self._changed.wait()

    # -- waiting for a model service

    async def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until `retry_now`."""
        self._pause = pause = asyncio.Event()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await pause.wait()
        finally:
            self._pause = None

    async def retry_now(self) -> bool:
        """End the pause before a request is repeated; False if there is no pause."""
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
        """The questions that wait for an answer."""
        return self._questions.answerable()

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """The answers to these questions, which are in the log; those that expire are missing."""
        ids = [approval.id for approval in approvals]
        try:
            await self._questions.wait(approvals)
            await surely(self._close(ids, None))
            return self._questions.answers(ids)
        finally:
            self._questions.drop(ids)

    async def withdraw(self, ids: Collection[str] | None = None) -> None:
        """Close open questions that need no answer any more; without `ids`, all of them."""
        await surely(self._close(ids, WITHDRAWN))

    async def _close(self, ids: Collection[str] | None, answer: Answer | None) -> None:
        """Close those of the questions that are still open. Their waiters get this answer; without
        an answer, the question counts as expired.
        """
        async with self._lock:
            waiting = [question.id for question in self._questions.waiting()]
            closed = [id for id in waiting if ids is None or id in ids]
            if not closed:
                return
            entries = [QuestionClosed(id) for id in closed]
            state = self._state_without(closed)
            try:
                await self._store([*entries, StateChanged(state)])
            finally:
                self.state = state
                for id in closed:
                    self._questions.close(id, answer)
            self._publish()

    def _state_without(self, ids: Collection[str]) -> TurnState:
        """The turn's state once these questions are closed."""
        left = any(approval.id not in ids for approval in self.questions)
        return "waiting" if left else "running"

    async def answer(self, answers: Mapping[str, Answer]) -> bool:
        """Store answers by the ids of their questions, before any call acts on them.

        All or none: False if one of the questions is not open.
        """
        return await surely(self._store_answers(answers))

    async def _store_answers(self, answers: Mapping[str, Answer]) -> bool:
        async with self._lock:
            if not answers.keys() <= {approval.id for approval in self.questions}:
                return False
            state = self._state_without(answers.keys())
            entries: list[LogEntry] = [answered_notice(answers), StateChanged(state)]
            for id, answer in answers.items():
                question = self._questions.question(id)
                entries += [
                    AnswerGiven(id, answer),
                    answer_entry(self.record.id, self.record.owner, question, answer),
                    *map(GrantAdded, grants_from(question, answer)),
                ]
            await self._store(entries, keep=False)
            for id, answer in answers.items():
                self._widen_policy(self._questions.question(id), answer)
                self._questions.close(id, answer)
            self.state = state
            self._publish()
            return True

    def _widen_policy(self, approval: Approval, answer: Answer) -> None:
        """Allow what the answer allows beyond its call, before the turn continues."""
        if answer.remember == "turn":
            self.policy.relax_to_edit()
        for grant in grants_from(approval, answer):
            self.policy.grant(grant.tool, grant.notebook, grant.kernel)
            self._persisted_grants = tuple(self.policy.standing_grants)
