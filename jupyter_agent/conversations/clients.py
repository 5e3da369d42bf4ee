"""Agents of others and scripts that call our tools. Each client has its own conversations, and its
calls form turns of these, which are followed, asked about, journalled and undone like ours.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import posixpath
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from jupyter_agent.agent import permissions
from jupyter_agent.agent.approval import Answer, Approval, approval_of
from jupyter_agent.agent.attempt import Audit, CallOutcome, Ruling, ToolCall
from jupyter_agent.agent.calls import UNANSWERED, decline_text, news_notice
from jupyter_agent.agent.dispatch import NOBODY_TO_ASK, Dispatcher
from jupyter_agent.agent.options import CallOptions
from jupyter_agent.agent.people import Person
from jupyter_agent.agent.permissions import Decision, Policy
from jupyter_agent.agent.turn import Ending, Stop
from jupyter_agent.choices import MODES
from jupyter_agent.conversations.audit import EntryPoint
from jupyter_agent.conversations.authors import NewsAuthors
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.liveness import started_event
from jupyter_agent.conversations.request import new_id
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.store import NewTurn
from jupyter_agent.conversations.undo import UndoneTurn, undo_turn
from jupyter_agent.document.cell import Change
from jupyter_agent.errors import (
    Busy,
    CallsSpent,
    Conflict,
    InvalidInput,
    NeedsApproval,
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
from jupyter_agent.legible import ModelText, clip, legible, quoted
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import ModelResult, Progress, Question, Result
from jupyter_agent.workspace.workspace import Authorize, Services, Workspace

PAUSE_S = 600.0
"""Seconds without a call after which the next call starts another turn."""
REST_S = 2.0
"""Seconds without a call after which a turn no longer counts as running; another call resumes it.
"""
PANEL_S = 45.0
"""Seconds that a call waits for an answer in the panel: most clients give up after 60."""
_MOST_CLIENTS = 200
"""Clients that are remembered; a forgotten one starts a turn with its next call and has to read
notebooks again."""
_MOST_OF_A_GOAL = 300
_MOST_OF_A_NAME = 60
_STOPPED = "The user stopped this. Ask them before you continue."

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who calls, and with which options. Calls with the same `key` belong to the same client, even
    if the person's groups have changed."""

    person: Person
    name: str
    """As shown to people, such as `Claude Code`."""
    session: str
    """Distinguishes clients with that name; empty if nothing does."""
    options: CallOptions = CallOptions()
    entry: EntryPoint = "mcp"
    """How its calls come in, for the audit."""

    @property
    def owner(self) -> str:
        """The owner of the client's turns."""
        return self.person.name

    @property
    def key(self) -> str:
        """A hash of everything but the groups and the entry."""
        own = {"name": self.name, "session": self.session, "owner": self.owner}
        return _digest({**self.options.model_dump(), **own, "allow": sorted(self.options.allow)})


class Form(Protocol):
    """How a client shows a question to its user."""

    async def answer(self, approval: Approval) -> Answer:
        """The user's answer. May raise to end the request, so that the client can ask first."""


@dataclass(kw_only=True)
class CallerTurn:
    """An action of the caller itself in its turn; the caller fills in the results."""

    turn_id: str
    stop: Stop
    """A person's request to stop the action."""
    result: Result = Result(text="Done.")
    changes: Sequence[Change] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a call, fit for the client's model."""

    text: ModelText
    facts: Mapping[str, Any]
    turn_id: str
    images: Sequence[tuple[str, str]] = ()
    """(media type, base64) pairs."""
    news: Sequence[ModelText] = ()
    """What others have changed since in the notebooks that the client has read."""


class Clients:
    """The clients of a server, and their current turns."""

    def __init__(
        self,
        runner: TurnRunner,
        dispatcher: Dispatcher,
        services: Services,
        *,
        server_id: str,
        has_page: Callable[[str], bool],
        max_calls: int,
        approval_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`server_id`: see `Presence`; `has_page` says whether an owner has a page open;
        `max_calls`: limit for a client's turn; `clock` in seconds.
        """
        self.runner = runner
        self.dispatcher = dispatcher
        self.services = services
        self.server_id = server_id
        self.has_page = has_page
        self.max_calls = max_calls
        self.approval_seconds = approval_seconds
        self.clock = clock
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
        work = Workspace(services=self.services, user=caller.owner, authorize=authorize)
        policy = self.runner.policy(caller.person, caller.options)
        paths = []
        for notebook in self.services.notebooks.open():
            input = {"notebook": notebook["path"]}
            with suppress(ToolError):
                dispatcher = self.dispatcher.without_record()
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
        self._clients[key] = client = self._clients.pop(key, None) or _Client(self, caller)
        client.caller = caller
        for old in list(self._clients)[:-_MOST_CLIENTS]:
            if not self._clients[old].is_working:
                del self._clients[old]
        return client


class _Client:
    """One client and its current turn."""

    def __init__(self, clients: Clients, caller: Caller) -> None:
        self._clients = clients
        self.caller = caller
        """The caller of the latest call: groups may change."""
        self._turn: _Turn | None = None
        self._changing = asyncio.Lock()
        self._last_turn: str | None = None
        self.goal = ""

    @property
    def is_working(self) -> bool:
        return self._turn is not None and self._turn.is_working

    @asynccontextmanager
    async def working(self, path: str | None, authorize: Authorize) -> AsyncIterator[_Turn]:
        """The turn that a call belongs to; it counts as running inside the context."""
        entered: list[_Turn] = []
        try:
            async with self._changing:
                await surely(self._enter(path, authorize, entered))
            yield entered[0]
        finally:
            for turn in entered:
                turn.leave()

    async def _enter(self, path: str | None, authorize: Authorize, entered: list[_Turn]) -> None:
        turn = self._turn
        if turn is not None and (turn.is_over or await self._is_deleted(turn)):
            await self._end()
            turn = None
        if turn is None:
            turn = self._turn = await self._begin(path, authorize)
            self._last_turn = turn.id
        await turn.enter()
        entered.append(turn)

    async def _is_deleted(self, turn: _Turn) -> bool:
        """Whether a person deleted the conversation while the turn rested."""
        conversations = self._clients.runner.stores.conversations
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
            stores, services = self._clients.runner.stores, self._clients.services
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
            if self._clients.runner.live(record.id) is not None:
                raise Busy("That turn still runs. Wait for its end, then undo.")
            work = Workspace(services=services, user=self.caller.owner, authorize=authorize)
            return await undo_turn(stores, record, work)

    def _policy(self) -> Policy:
        return self._clients.runner.policy(self.caller.person, self.caller.options)

    async def _begin(self, path: str | None, authorize: Authorize) -> _Turn:
        clients, caller = self._clients, self.caller
        identity = await clients.services.identities.of(path) if path else None
        notebook = identity.path if identity else None
        about = posixpath.basename(notebook) if notebook else None
        runner, turn_id = clients.runner, new_id("t")
        await runner.recover()  # ends a turn whose end could not be stored
        root = runner.stores.conversations.database.root
        work = runner.workspace(
            caller.owner,
            authorize,
            await caller.options.on_path(clients.services.identities),
            f"mcp_{caller.key}",
            turn_id=turn_id,
        )
        goal, self.goal = self.goal, ""
        text = goal or (f"{caller.name} works in {notebook}." if notebook else caller.name)
        opening = await runner.stores.conversations.begin(
            NewTurn(
                id=turn_id,
                owner=caller.owner,
                conversation_id=f"mcp_{_digest([root, caller.key, notebook])[:24]}",
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
                title=f"{caller.name}, {about}" if about else caller.name,
                content=[{"type": "text", "text": text}],
                server=clients.server_id,
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
        return _Turn(clients, caller, live, work)


class _OpenQuestion:
    """A question about a call, until the call is made again and gets the answer."""

    def __init__(self, live: LiveTurn, approval: Approval) -> None:
        self.approval = approval
        self._waiting = asyncio.create_task(self._wait(live))

    async def _wait(self, live: LiveTurn) -> Answer:
        answers = await live.wait((self.approval,))
        return answers.get(self.approval.id, UNANSWERED)

    @property
    def has_answer(self) -> bool:
        return self._waiting.done()

    async def answer(self) -> Answer:
        """The answer, from a form or the panel. Cancelling the wait leaves the question open."""
        return await asyncio.shield(self._waiting)

    def when_answered(self, act: Callable[[], object]) -> None:
        self._waiting.add_done_callback(lambda _: act())


class _Turn:
    """A turn whose steps come from a client: it runs while calls do, and rests between them."""

    def __init__(self, clients: Clients, caller: Caller, live: LiveTurn, work: Workspace) -> None:
        self._clients = clients
        self._caller = caller
        self._live = live
        self._work = work
        self._dispatcher = clients.dispatcher.with_record(self._record)
        self._recorded: set[str] = set()
        self._pending: dict[str, _OpenQuestion] = {}
        """Questions by a hash of tool and input."""
        self._entered = 0
        self._made = 0
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._last_call = clients.clock()
        self._shift = asyncio.Lock()
        """Held while it starts to run or to rest."""
        self._asking = asyncio.Lock()
        """Held while a question is asked: of two equal calls at once, only one asks."""
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
        paused = self._clients.clock() - self._last_call
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
                self._clients.runner.enter(self._live)
                self._live.task = asyncio.create_task(self._run())
            self._entered += 1
        self._last_call = self._clients.clock()

    def leave(self) -> None:
        """Note that a call has ended."""
        self._entered -= 1
        self._last_call = self._clients.clock()
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
        """A person or the server stops the turn."""
        self._stopped = True
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
                    await self._withdraw()
                if not given_up and (self._entered or self._live.questions):
                    self._idle.clear()
                    continue
                if self._timer is not None:
                    self._timer.cancel()
                await self._rest()
                return

    async def _withdraw(self) -> None:
        with suppress(StoreUnavailable):  # stored questions expire with the turn
            await self._live.withdraw()
        self._pending.clear()

    async def _rest(self) -> None:
        usage = Usage()
        event: TurnFinished | TurnAborted = (
            TurnAborted()
            if self._stopped
            else TurnFinished(
                finish_reason="stop", stop_reason="end_turn", steps=self._made, usage=usage
            )
        )
        runner, live, unended = self._clients.runner, self._live, False
        try:
            if self._stopped:
                await self._clients.services.runs.interrupt_turn(self.id)
            try:
                await runner.settle(live)
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
            self._clients.runner.leave(self._live, unended=True)

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
            await surely(_wait_for(task))
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
        key = _digest([tool, input])
        pending, ready = self._pending.get(key), list[Event]()
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
            pending = self._pending.get(key)
            if call_id in self._recorded:
                await self._drop_question(key, call_id)
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
            ruling, pending = attempt.ruling, self._pending.get(key)
            if not ruling.asks and pending is None:
                return await attempt.run(report)
            if ruling.asks and pending is None and self._can_ask(form):
                question = await attempt.question()
        if pending is not None and not ruling.asks:  # it has been allowed in another way since
            await self._drop_question(key, pending.approval.call_id)
            return await self._attempt(key, call, work, form, report)
        if pending is None:
            if question is None:
                raise await self._refuse_unasked(ruling, work)
            async with self._asking:
                pending = self._pending.get(key)
                if pending is None:
                    pending = await surely(self._ask(key, ruling, question))
        approval = await self._require_approval(key, pending, ruling, work, form)
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
            identity = await self._clients.services.identities.of(path)
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
        if self._made >= self._clients.max_calls:
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
        authors = NewsAuthors(self._clients.runner.stores.journal, work.user, conversation)
        for news in await work.news():
            who = await authors(news)
            texts.append(work.redact(f"{news.text}\n{who}".rstrip()))
            await self._live.append(news_notice(news, self._caller.name))
        return texts

    # -- asking

    async def _drop_question(self, key: str, call_id: str) -> None:
        """Withdraw the call's question, if there is one: the call has failed or needs no answer."""
        pending = self._pending.get(key)
        if pending is not None and pending.approval.call_id == call_id:
            del self._pending[key]
            await self._live.withdraw([pending.approval.id])

    def _can_ask(self, form: Form | None) -> bool:
        """Whether a person can be asked."""
        return form is not None or self._clients.has_page(self._caller.owner)

    async def _require_approval(
        self, key: str, pending: _OpenQuestion, ruling: Ruling, work: Workspace, form: Form | None
    ) -> Approval:
        """The question that a person approved. Raises ToolError if they did not."""
        answer = await self._answer(pending, form)
        if answer is None:
            raise NeedsApproval(
                f"The user has not answered yet whether `{ruling.call.tool.name}` may do this. The "
                f"question waits in the assistant's panel of JupyterLab, in the conversation "
                f"{quoted(self._title)}. Ask them to answer there, then call again with the same "
                "input: nothing is asked twice."
            )
        if self._pending.get(key) is not pending:
            raise Conflict("The same call was made twice: the other one has the answer.")
        del self._pending[key]
        if not answer.approved:
            reason = decline_text(answer)
            await self._dispatcher.decline(ruling, work, reason)
            raise NotPermitted(reason)
        return pending.approval

    async def _ask(self, key: str, ruling: Ruling, question: Question) -> _OpenQuestion:
        seconds, group = self._clients.approval_seconds, new_id("group")
        approval = approval_of(ruling, question, seconds=seconds, group=group)
        await self._live.append(approval)
        self._pending[key] = pending = _OpenQuestion(self._live, approval)
        pending.when_answered(self._rest_soon)
        return pending

    async def _answer(self, pending: _OpenQuestion, form: Form | None) -> Answer | None:
        """The answer, from the client's form or the panel, whichever comes first; None if none
        comes within `PANEL_S`.
        """
        if form is None:
            with suppress(TimeoutError):
                return await asyncio.wait_for(pending.answer(), PANEL_S)
            return None
        if pending.has_answer:
            return await pending.answer()
        from_form = asyncio.create_task(form.answer(pending.approval))
        from_panel = asyncio.create_task(pending.answer())
        try:
            await asyncio.wait({from_form, from_panel}, return_when=asyncio.FIRST_COMPLETED)
            if not from_panel.done():
                await self._live.answer({pending.approval.id: from_form.result()})
            return await from_panel
        finally:
            from_panel.cancel()
            if not from_form.cancel() and not from_form.cancelled():
                from_form.exception()  # the other answer counts

    async def _refuse_unasked(self, ruling: Ruling, work: Workspace) -> NeedsApproval:
        """Decline a call that needs an answer when no one can be asked; returns the error."""
        names = [names[0] for names in ruling.act.powers] or [ruling.call.tool.name]
        how = (
            "Ask the user to open the notebook in JupyterLab, which asks them, and call "
            f"again; or to add `allow={','.join(names)}` or a freer `mode` to the address of "
            "this MCP server."
        )
        if ruling.act.loads:
            how = f"Leave that out. {NOBODY_TO_ASK}"
        why = (
            f"{ruling.decision.reason} Nobody can be asked now: this client shows no forms, and "
            f"no notebook is open in JupyterLab. {how}"
        )
        await self._dispatcher.decline(ruling, work, why)
        return NeedsApproval(why)

    @property
    def _title(self) -> str:
        notebook = self._live.record.request["notebook"]
        name = self._caller.name
        return f"{name}, {posixpath.basename(notebook)}" if notebook else name


def display_name(name: str) -> str:
    """A client's name as shown to people; may be empty."""
    return clip(" ".join(legible(name).split()), _MOST_OF_A_NAME)


async def _wait_for(task: asyncio.Task[Outcome]) -> None:
    await asyncio.wait([task])


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
