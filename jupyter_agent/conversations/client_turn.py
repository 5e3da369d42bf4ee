"""The turn of an agent of others or a script: its steps are the calls of the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from jupyter_agent.agent import permissions
from jupyter_agent.agent.attempt import Audit, CallOutcome, ToolCall
from jupyter_agent.agent.calls import news_notice
from jupyter_agent.agent.permissions import Decision
from jupyter_agent.agent.turn import Ending, Stop
from jupyter_agent.conversations.authors import NewsAuthors
from jupyter_agent.conversations.caller import Caller, CallerTurn, ClientHost, Outcome, digest
from jupyter_agent.conversations.client_questions import ClientQuestions, Form
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.request import new_id
from jupyter_agent.errors import (
    CallsSpent,
    NotPermitted,
    RequestError,
    StoreUnavailable,
    ToolError,
)
from jupyter_agent.events import (
    CallFailed,
    CallOutput,
    CallReady,
    Event,
    TurnAborted,
    TurnFinished,
    Usage,
)
from jupyter_agent.legible import ModelText
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import ModelResult, Progress
from jupyter_agent.workspace.workspace import Authorize, Workspace

PAUSE_S = 600.0
"""Seconds without a call after which the next call starts another turn."""
REST_S = 2.0
"""Seconds without a call after which a turn no longer counts as running; another call resumes it.
"""
_LEAVE_S = 1.0
"""Seconds that a stopped turn waits for its calls after their runs were interrupted."""
_STOPPED = "The user stopped this. Ask them before you continue."

log = logging.getLogger(__name__)


class ClientTurn:
    """A turn whose steps come from a client: it runs while calls do, and rests between them."""

    def __init__(self, host: ClientHost, caller: Caller, live: LiveTurn, work: Workspace) -> None:
        self._host = host
        self._caller = caller
        self._live = live
        self._work = work
        self._dispatcher = host.dispatcher.with_record(self._record)
        self._questions = ClientQuestions(
            live,
            self._dispatcher,
            title=caller.title_of(live.record.request["notebook"]),
            seconds=host.approval_seconds,
            has_page=lambda: host.has_page(caller.owner),
            when_answered=self._rest_soon,
        )
        self._recorded: set[str] = set()
        self._entered = 0
        self._left = asyncio.Event()
        """Set while no call runs."""
        self._made = 0
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._last_call = host.clock()
        self._shift = asyncio.Lock()
        """Held while it starts to run or to rest."""
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._stopped = False

    @property
    def id(self) -> str:
        return self._live.record.id

    @property
    def has_calls(self) -> bool:
        return self._entered > 0

    @property
    def is_working(self) -> bool:
        """Whether it runs or waits for an answer."""
        return self._live.task is not None and not self._live.task.done()

    @property
    def is_over(self) -> bool:
        """Whether the next call starts another turn."""
        if self._stopped or self._ended:
            return True
        paused = self._host.clock() - self._last_call
        return not self.has_calls and paused >= PAUSE_S

    # -- running and resting

    async def enter(self) -> None:
        """Note that a call starts."""
        async with self._shift:
            self._idle.clear()
            if self._timer is not None:
                self._timer.cancel()
            if not self.is_working:
                self._live.stop = Stop()
                self._live.stop.set_action(self._stop)
                self._host.runner.enter(self._live)
                self._live.task = asyncio.create_task(self._run())
            self._entered += 1
            self._left.clear()
        self._last_call = self._host.clock()

    def leave(self) -> None:
        """Note that a call has ended."""
        self._entered -= 1
        if self._entered == 0:
            self._left.set()
        self._last_call = self._host.clock()
        self._rest_soon()

    async def end(self) -> None:
        """End the turn; calls that still run are cancelled."""
        rested = not self.is_working
        self._ended = True
        self._give_up()
        if self._live.task is not None:
            await asyncio.wait([self._live.task])
        if rested and not self._stopped:
            await self._store_end()

    def _rest_soon(self) -> None:
        if self._entered == 0:
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(REST_S, self._idle.set)

    def _stop(self) -> None:
        """A person or the server stops the turn; if nothing of it runs or waits, it is done."""
        runs = self._host.services.runs.of_turn(self.id)
        runs_code = any(run.ended is None for run in runs)
        self._stopped = bool(self._entered or self._live.questions or runs_code)
        self._ended = True
        self._give_up()

    def _give_up(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._idle.set()

    async def _run(self) -> None:
        """Run until the turn rests."""
        while True:
            await self._idle.wait()
            async with self._shift:
                given_up = self._stopped or self._ended
                if given_up:
                    await asyncio.gather(*self._tasks, return_exceptions=True)
                    await self._questions.withdraw()
                if not given_up and (self._entered or self._live.questions):
                    self._idle.clear()
                    continue
                if self._timer is not None:
                    self._timer.cancel()
                await self._rest()
                return

    async def _rest(self) -> None:
        usage = Usage()
        event: TurnFinished | TurnAborted = (
            TurnAborted()
            if self._stopped
            else TurnFinished(
                finish_reason="stop", stop_reason="end_turn", steps=self._made, usage=usage
            )
        )
        runner, live, unended = self._host.runner, self._live, False
        try:
            if self._stopped:
                await self._host.services.runs.interrupt_turn(self.id)
                with suppress(TimeoutError):  # calls that ran code log its changes
                    async with asyncio.timeout(_LEAVE_S):
                        await self._left.wait()
            try:
                await runner.run_journal.settle(live)
            finally:
                await live.end(
                    Ending(
                        state="stopped" if self._stopped else "done",
                        event=event,
                        stop_reason="stopped" if self._stopped else "end_turn",
                        usage=usage,
                        steps=self._made,
                    )
                )
        except StoreUnavailable as error:
            log.error("The end of turn %s is not in the store: %s", self.id, error)
            unended = self._stopped or self._ended  # else the end is stored with the next call
        finally:
            await live.close()
            runner.leave(live, unended=unended)

    async def _store_end(self) -> None:
        """Store what could not be stored when the turn came to rest."""
        try:
            await self._live.append()
        except StoreUnavailable as error:
            log.error("The end of turn %s is not in the store: %s", self.id, error)
            self._host.runner.leave(self._live, unended=True)

    # -- a call

    async def call(
        self,
        tool: str,
        input: Mapping[str, Any],
        authorize: Authorize,
        call_id: str,
        form: Form | None,
        progress: Progress | None,
    ) -> Outcome:
        work = replace(self._work, authorize=authorize)
        task = asyncio.create_task(self._call(tool, input, work, call_id, form, progress))
        self._tasks.add(task)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await surely(asyncio.wait([task]))
            raise
        finally:
            self._tasks.discard(task)
        if task.cancelled():
            raise NotPermitted(_STOPPED if self._stopped else "The turn has ended.")
        return task.result()

    async def _call(
        self,
        tool: str,
        input: Mapping[str, Any],
        work: Workspace,
        call_id: str,
        form: Form | None,
        progress: Progress | None,
    ) -> Outcome:
        key = digest([tool, input])
        pending, ready = self._questions.about(key), list[Event]()
        if pending is not None:
            call_id = pending.approval.call_id  # the same call, made again to get its answer
        else:
            self._count()
            ready.append(CallReady(call_id=call_id, tool=tool, input=input))
        await self._store_call(*ready)

        async def report(output: Mapping[str, Any]) -> None:
            event = CallOutput(call_id=call_id, output=output, preliminary=True)
            await self._live.show(event)
            if progress is not None:
                await progress(output)

        try:
            call = self._dispatcher.parse(tool, input, work, call_id=call_id)
            result = await self._attempt(key, call, work, form, report)
        except ToolError as error:
            pending = self._questions.about(key)
            if call_id in self._recorded:
                await self._questions.drop(key, call_id)
            elif pending is None or pending.approval.call_id != call_id:
                failed = CallFailed(call_id=call_id, error=error.message)
                await self._live.append(failed)
            raise
        news = await self._news(work)
        return Outcome(
            text=result.text,
            facts=await work.facts_for_model(result.facts),
            turn_id=self.id,
            images=result.images,
            news=news,
        )

    async def _attempt(
        self, key: str, call: ToolCall, work: Workspace, form: Form | None, report: Progress
    ) -> ModelResult:
        policy, question = self._live.policy, None
        async with self._dispatcher.attempt(call, work, policy) as attempt:
            ruling, pending = attempt.ruling, self._questions.about(key)
            if not ruling.asks and pending is None:
                return await attempt.run(report)
            if ruling.asks and pending is None and self._questions.can_ask(form):
                question = await attempt.question()
        if pending is not None and not ruling.asks:  # it has been allowed in another way since
            await self._questions.drop(key, pending.approval.call_id)
            return await self._attempt(key, call, work, form, report)
        if pending is None:
            if question is None:
                raise await self._questions.refuse_unasked(ruling, work)
            pending = await self._questions.ask(key, ruling, question)
        approval = await self._questions.require_approval(key, pending, ruling, work, form)
        async with self._dispatcher.attempt(call, work, policy) as attempt:
            return await attempt.run(report, approved=approval.question)

    @asynccontextmanager
    async def acting(
        self, work: Workspace, path: str, tool: str, input: Mapping[str, Any]
    ) -> AsyncIterator[CallerTurn]:
        call_id, act = new_id("call"), CallerTurn(turn_id=self.id, stop=self._live.stop)
        await self._store_call(CallReady(call_id=call_id, tool=tool, input=input))
        outcome: CallOutcome = "done"
        why = ModelText("")
        try:
            yield act
        except (ToolError, RequestError) as error:
            outcome, why = "failed", work.redact(error.message)
            raise
        except asyncio.CancelledError:  # the server ends
            outcome = "stopped"
            raise
        finally:
            identity = await self._host.services.identities.of(path)
            returned = replace(act.result, changes=act.changes)
            result = ModelResult.of(returned, work.services.redactor)
            audit = Audit(
                work=replace(work, turn_id=self.id),
                call_id=call_id,
                act=permissions.Act(tool=tool, action="edit", notebook=identity.name),
                input=input,
                decision=Decision(verdict="run", reason="Its user called the route."),
                outcome=outcome,
                why=why,
                result=result if outcome == "done" else None,
                changes=act.changes,
            )
            try:
                await surely(self._record(audit))
            except StoreUnavailable as error:  # the action is done: the caller gets its outcome
                log.error("`%s` is not in the journal: %s", tool, error)

    def _count(self) -> None:
        if self._made >= self._host.max_calls:
            raise CallsSpent(
                f"This turn has made the {self._made} calls that it may make. Tell the user the "
                "results and the remaining work; if they want you to continue, call `begin_turn`."
            )
        self._made += 1

    async def _store_call(self, *ready: Event) -> None:
        """Store a call before it acts. Raises StoreUnavailable, or NotPermitted for a turn that was
        stopped in the meantime.
        """
        if self._stopped or self._ended:
            raise NotPermitted(_STOPPED)
        await self._live.begin_call(*ready)

    async def _record(self, audit: Audit) -> None:
        """Log the outcome of a call."""
        assert audit.call_id is not None
        self._recorded.add(audit.call_id)
        await self._live.append(audit)

    async def _news(self, work: Workspace) -> list[ModelText]:
        texts = []
        conversation = self._live.record.conversation_id
        authors = NewsAuthors(self._host.runner.stores.journal, work.user, conversation)
        for news in await work.news():
            who = await authors(news)
            texts.append(work.redact(f"{news.text}\n{who}".rstrip()))
            await self._live.append(news_notice(news, self._caller.name))
        return texts
