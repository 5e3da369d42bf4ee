"""Runs turns in the server: one task each, followed by any number of clients, even by none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from jupyter_agent.agent.approval import Answer
from jupyter_agent.agent.compaction import compact
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import MessageAdded, Transcript
from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.agent.loop import run_turn
from jupyter_agent.agent.people import Person
from jupyter_agent.agent.prompt import Instructions, system
from jupyter_agent.agent.turn import Ending, Fallback, Log, Turn, internal_failure_ending
from jupyter_agent.conversations.access import Access
from jupyter_agent.conversations.affordable import AffordableModels
from jupyter_agent.conversations.attachments import (
    attached_blocks,
    check_documents,
    check_pictures,
    content,
    pictures_left_out,
)
from jupyter_agent.conversations.authors import NewsAuthors
from jupyter_agent.conversations.instructions import (
    ProjectInstructions,
    describe,
    own_instructions,
)
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.liveness import InterruptedTurns, Presence, started_event
from jupyter_agent.conversations.log import UsageAdded
from jupyter_agent.conversations.preamble import NotebookReader, write_preamble
from jupyter_agent.conversations.recorded_model import RecordedModel, notices, provider_notice
from jupyter_agent.conversations.records import NewTurn, Opening, TurnRecord
from jupyter_agent.conversations.request import TurnRequest, new_id
from jupyter_agent.conversations.requests import RequestLog
from jupyter_agent.conversations.run_journal import RunJournal
from jupyter_agent.conversations.server_log import ServerLog
from jupyter_agent.conversations.turn_stores import TurnStores
from jupyter_agent.errors import RequestError, StoreUnavailable, stopping_error
from jupyter_agent.events import Notice, Usage
from jupyter_agent.models.base import Model, ServerTool
from jupyter_agent.models.registry import Models
from jupyter_agent.tasks import surely
from jupyter_agent.text.fence import Fence
from jupyter_agent.workspace.workspace import Services, Workspace

log = logging.getLogger(__name__)

INTERNAL = (
    "Something went wrong inside the assistant; the server's log has the details. "
    "Nothing in your notebooks was lost. You can ask again."
)
NO_STORE = "store_unavailable"
"""Stop reason of a turn that could not be stored."""
BEAT = 5.0
"""Seconds; cullers of hubs check less often."""
DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class _StoredTurn:
    """A turn whose question is stored."""

    request: TurnRequest
    model: Model
    fallback: Model | None
    work: Workspace
    project: ProjectInstructions
    own: Instructions | None
    opening: Opening


class TurnRunner:
    """Starts turns, holds them while they run, and lets clients find them again."""

    def __init__(
        self,
        stores: TurnStores,
        models: Models,
        affordable: AffordableModels,
        access: Access,
        run_journal: RunJournal,
        dispatcher: Dispatcher,
        services: Services,
        server_tools: tuple[ServerTool, ...],
        presence: Presence,
        log: logging.Logger = log,
        *,
        active: Callable[[], object] = bool,
        missing: Callable[[], Sequence[str]] = list,
    ) -> None:
        """`active` is called every `BEAT` seconds while a turn runs or waits for a person;
        `missing` returns sentences about tools of MCP servers that are not available."""
        self.stores = stores
        self.access = access
        self.run_journal = run_journal
        self.log = log
        self._models = models
        self.affordable = affordable
        self._dispatcher = dispatcher
        self._services = services
        self._server_tools = server_tools
        self._presence = presence
        self._active = active
        self._missing = missing
        self._live: dict[str, LiveTurn] = {}
        self._starting: dict[tuple[str, str], asyncio.Event] = {}
        """By owner and conversation; set once `live_in` finds the turn, if there will be one."""
        self._closed = False
        self._interrupted = InterruptedTurns(stores.conversations, presence)

    # -- finding

    def live(self, turn_id: str) -> LiveTurn | None:
        """The turn, if it runs in this server."""
        return self._live.get(turn_id)

    def live_in(self, owner: str, conversation_id: str) -> LiveTurn | None:
        """The turn of a conversation that runs or waits in this server, if any."""
        for turn in self._live.values():
            if (turn.record.owner, turn.record.conversation_id) == (owner, conversation_id):
                return turn
        return None

    @property
    def running(self) -> list[LiveTurn]:
        """All turns of this server that are not over."""
        return list(self._live.values())

    def enter(self, live: LiveTurn) -> None:
        """Register a running turn of an external client; its `task` ends with it."""
        self._live[live.record.id] = live

    def leave(self, live: LiveTurn, *, unended: bool = False) -> None:
        """Unregister that turn; `unended`: its end could not be stored, and `recover` has to."""
        self._live.pop(live.record.id, None)
        if unended:
            self._interrupted.add(live.record.id)

    # -- starting

    async def start(self, request: TurnRequest) -> LiveTurn:
        """Start a turn; its question is stored when this returns.

        Raises RequestError 409 if a turn of the conversation runs, here or in another server with
        this store, 400 for an unknown model, 403 for a model that the user may not use, 429 if the
        user's monthly budget is used up; ModelError if the model has no key.
        """
        with self._reserve(request.owner, request.conversation_id):
            return await surely(self._start(request))  # a turn that is stored has to run

    async def compact(self, last: TurnRecord, person: Person, model: str) -> Usage | None:
        """Summarise a conversation of the person up to its last turn.

        Returns the usage, or None if there is nothing to summarise. Raises RequestError 409 if a
        turn of it runs, 403 for a model that the person may not use, 429 if their monthly budget
        is used up, and ModelError.
        """
        with self._reserve(last.owner, last.conversation_id) as begun:
            begun.set()  # it is not a turn
            chosen = await self.affordable.get(person, model)
            home = last.request["notebook"]
            work = Workspace(
                services=self._services, user=last.owner, authorize=_deny_all, home=home
            )
            earlier = await self.stores.requests.of_turn(last.id)
            append = partial(self.stores.conversations.append, last.id)
            sent = RequestLog(self._services.redactor, append, earlier[-1] if earlier else None)
            recorded = self._record_model(chosen, sent, work)
            meter = Meter(Limits(), self._models.facts(model))
            transcript = Transcript(await self.stores.conversations.sendable(last))
            summary: Sequence[MessageAdded] = ()
            try:
                summary = await compact(transcript, recorded, Limits(), meter.spend)
            finally:
                used = UsageAdded(meter.usage)
                await self.stores.conversations.append(last.id, [*summary, used])
            return meter.usage if summary else None

    @contextmanager
    def _reserve(self, owner: str, conversation_id: str) -> Iterator[asyncio.Event]:
        if self._closed:
            raise stopping_error()
        key = (owner, conversation_id)
        if key in self._starting or self.live_in(*key) is not None:
            message = "A turn of this conversation is running. Wait for it, or stop it first."
            raise RequestError(409, "turn_running", message)
        begun = self._starting[key] = asyncio.Event()
        try:
            yield begun
        finally:
            begun.set()
            del self._starting[key]

    async def _start(self, request: TurnRequest) -> LiveTurn:
        options = request.options
        model = await self.affordable.get(request.person, options.model)
        fallback = await self.affordable.fallback(request.person, options.fallback_model, model)
        check_pictures(request.question["parts"], model.id, self._models.facts(model.id))
        reads = self._models.reads_documents(model.id)
        check_documents(request.attachments, request.question["parts"], model.id, reads)
        turn_id = new_id("t")
        work = self.access.workspace(
            request.owner,
            request.authorize,
            options,
            request.conversation_id,
            client=request.client,
            turn_id=turn_id,
            fence=Fence.random(),
        )
        project = await self.access.instructions(work, trust_all=options.trust_instructions)
        own = own_instructions(options.instructions)
        active = [*project.active, *([own] if own else [])]
        opening = await self._begin(request, model, fallback, turn_id, work, active)
        live = LiveTurn(opening.turn, self.stores, ends_to_ask=options.on_approval == "end")
        self._live[turn_id] = live
        self.stores.announce(request.conversation_id, turn_id)
        stored = _StoredTurn(request, model, fallback, work, project, own, opening)
        live.task = asyncio.create_task(self._run(live, stored))
        return live

    async def _begin(
        self,
        request: TurnRequest,
        model: Model,
        fallback: Model | None,
        turn_id: str,
        work: Workspace,
        instructions: Sequence[Instructions],
    ) -> Opening:
        if request.replaces_from is not None and request.undo_replaced:
            await self._undo_from(request, request.replaces_from, work)
        parts = request.question["parts"]
        attached = await attached_blocks(request.attachments, parts, work)
        return await self.stores.conversations.begin(
            NewTurn(
                id=turn_id,
                owner=request.owner,
                conversation_id=request.conversation_id,
                question_id=request.question["id"],
                question=request.question,
                answer_id=new_id("m"),
                request=request.options.record(
                    model=model.id,
                    fallback_model=fallback.id if fallback else None,
                    share=(await work.visibility()).share,
                    instructions=describe(instructions),
                ),
                model=model.id,
                notebook=request.options.notebook,
                title=request.title,
                content=content(parts, attached),
                server=self._presence.id,
                idempotency_key=request.idempotency_key,
                replaces_from=request.replaces_from,
                continues=request.continues,
            )
        )

    async def _undo_from(self, request: TurnRequest, question_id: str, work: Workspace) -> None:
        await work.need(("write", "contents"))
        turns = await self.stores.conversations.turns(request.owner, request.conversation_id)
        first = next(n for n, turn in enumerate(turns) if turn.question_id == question_id)
        for turn in turns[first:]:
            self.run_journal.refuse_running(turn)
        for turn in reversed(turns[first:]):
            await self.run_journal.undo(turn, work)

    # -- running

    async def _run(self, live: LiveTurn, stored: _StoredTurn) -> None:
        turn_id = live.record.id
        log = ServerLog(live, self.log, turn_id, stored.request.limits.max_steps)
        try:
            turn = await self._turn(live, log, stored)
            ending = await self._run_to_end(live, turn)
            log.end(ending)
        except StoreUnavailable as error:
            ending = self._without_store(live, error)
        except Exception:  # the outermost handler of a turn: a bug ends it, and clients learn that
            self.log.exception("Turn %s failed: internal error", turn_id)
            ending = internal_failure_ending(INTERNAL, "internal_error")
        try:
            await live.end(ending)
        except StoreUnavailable as error:  # followers have seen the end even so
            self.log.error("The end of turn %s is not in the store: %s", turn_id, error)
            self._interrupted.add(turn_id)
        except Exception:  # a bug: earlier events cannot be stored, but the end can
            self.log.exception("The end of turn %s cannot be written", turn_id)
            self._interrupted.add(turn_id)
        finally:
            await live.close()
            del self._live[turn_id]

    async def _turn(self, live: LiveTurn, log: Log, stored: _StoredTurn) -> Turn:
        """The turn for the loop. Shows its start and first notices to followers."""
        record, request, model = live.record, stored.request, stored.model
        work, opening = stored.work, stored.opening
        await live.show(started_event(record))
        policy = self.access.policy(request.person, request.options)
        policy.standing_grants = list(opening.grants)
        live.use_policy(policy)
        transcript = Transcript(opening.history)
        preamble = await write_preamble(
            work,
            request,
            record.request["share"],
            opening.verdicts,
            reader=NotebookReader(self._dispatcher, policy),
            transcript=transcript,
        )
        leading = [
            *transcript.add_facts(preamble.text, shows=preamble.shows, outline=preamble.outline),
            *stored.project.add_to(transcript, work),
        ]
        dispatcher = await self._dispatcher.with_external_tools()
        first_notices = [
            *await notices(self.stores.requests, opening, model, stored.project.notice()),
            *(Notice(kind="tools-missing", text=text) for text in self._missing()),
            *pictures_left_out(request.question["parts"]),
        ]
        await live.append(*first_notices, *leading)
        await self._models.look_up(model.id)
        sent = RequestLog(self._services.redactor, live.send)
        return Turn(
            model=self._record_model(model, sent, work),
            transcript=transcript,
            dispatcher=dispatcher,
            work=work,
            policy=policy,
            system=work.redact(system(stored.own)),
            log=log,
            answers=live,
            options=request.options,
            authors=NewsAuthors(self.stores.journal, work.user, record.conversation_id),
            limits=request.limits,
            server_tools=self._server_tools,
            facts=self._models.facts(model.id),
            fallback=await self._fallback(stored, model, sent),
            stop=live.stop,
            sleep=live.pause,
            why_exhausted=partial(self._why_exhausted, live, request.person),
        )

    async def _why_exhausted(self, live: LiveTurn, person: Person, model: Model) -> str | None:
        """As `MonthlyBudgets.why_exhausted`, including this turn's usage so far."""
        if self.affordable.budgets.applies_to(person):
            await live.send([])
        return await self.affordable.why_exhausted(person, model)

    async def _fallback(
        self, stored: _StoredTurn, model: Model, sent: RequestLog
    ) -> Fallback | None:
        other, turn = stored.fallback, stored.opening.turn
        if other is None:
            return None
        notice = None
        if other.host != model.host:
            notice = await provider_notice(self.stores.requests, turn, other)
        return Fallback(
            model=self._record_model(other, sent, stored.work),
            facts=self._models.facts(other.id),
            notices=(notice,) if notice else (),
        )

    async def _run_to_end(self, live: LiveTurn, turn: Turn) -> Ending:
        """Run the turn. A store that fails ends it."""
        beating = asyncio.create_task(self._beat())
        try:
            ending = await run_turn(turn)
        except StoreUnavailable as error:
            ending = self._without_store(live, error)
        finally:
            beating.cancel()
        if ending.state == "stopped" or ending.stop_reason == NO_STORE:
            await self._services.runs.interrupt_turn(live.record.id)
        await self.run_journal.settle(live)
        return ending

    def _without_store(self, live: LiveTurn, error: StoreUnavailable) -> Ending:
        self.log.error("Turn %s failed: %s", live.record.id, error)
        return internal_failure_ending(error.message, NO_STORE)

    async def _beat(self) -> None:
        """Report activity, since a turn may be silent for long, as while a cell runs."""
        while True:
            self._active()
            await asyncio.sleep(BEAT)

    def _record_model(self, model: Model, sent: RequestLog, work: Workspace) -> RecordedModel:
        return RecordedModel(model, sent, work.visibility, work.user)

    # -- stopping and answering

    async def stop(self, live: LiveTurn) -> None:
        """Stop the turn and wait until it has stopped. Can be called more than once."""
        assert live.task is not None
        live.stop.request()
        await asyncio.wait([live.task])

    async def stop_in(self, owner: str, conversation_id: str) -> None:
        """Stop the turn of a conversation, if one runs or is just starting."""
        if (begun := self._starting.get((owner, conversation_id))) is not None:
            await begun.wait()
        if (turn := self.live_in(owner, conversation_id)) is not None:
            await self.stop(turn)

    async def answer(self, live: LiveTurn, answers: Mapping[str, Answer]) -> None:
        """Answer questions of a turn by their ids, all or none.

        Raises RequestError 404 for a question that was not asked, 409 for a closed one.
        """
        open_ids = {approval.id for approval in live.questions}
        for approval_id in answers.keys() - open_ids:
            if await self.stores.approvals.state(live.record.id, approval_id) is None:
                raise RequestError(404, "not_found", "This turn asked no such question.")
            raise _closed_error()
        if not await live.answer(answers):
            raise _closed_error()

    # -- start and end of the server

    async def recover(self) -> None:
        """End the turns that a crash cut off as `interrupted`; nothing is run again."""
        await self._interrupted.end()

    async def close(self) -> None:
        """Stop all turns, even starting ones, each with a valid history, within a few seconds."""
        self._closed = True
        stops = [*map(self.stop, self.running), *(self.stop_in(*key) for key in self._starting)]
        if stops:
            await asyncio.wait(map(asyncio.create_task, stops), timeout=DRAIN_SECONDS)


async def _deny_all(action: str, resource: str) -> bool:
    """Authorizes nothing, for a workspace that is only used to find text that must not be sent."""
    return False


def _closed_error() -> RequestError:
    return RequestError(409, "approval_closed", "That question is already answered or expired.")
