"""Chat: one request, one turn, one stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from jupyter_agent.agent.approval import Answer, Remember
from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.options import TurnOptions, options_after
from jupyter_agent.conversations.attachments import (
    Attachment,
)
from jupyter_agent.conversations.live import TOGETHER, LiveTurn
from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.request import TurnRequest, new_id
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.errors import ModelError, RequestError
from jupyter_agent.events import Event, TurnFinished
from jupyter_agent.server import wire
from jupyter_agent.server.answers.conversations import OutcomeAnswer, RetryAnswer, TurnStateAnswer
from jupyter_agent.server.base import MEBIBYTE, STREAM, WHILE_AWAY, operation, page_of
from jupyter_agent.server.once import ONCE, digest_of
from jupyter_agent.server.people import Authorizer
from jupyter_agent.server.questions import last_question, with_fitting_pictures
from jupyter_agent.server.sse import FrameId, StreamHandler
from jupyter_agent.workspace.workspace import Services

_ATTACHMENTS: TypeAdapter[list[Attachment]] = TypeAdapter(list[Attachment])
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]


class ChatBody(TurnOptions):
    """The body of a stock `useChat` client, plus our own fields; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    id: Id | None = None
    messages: list[dict[str, Any]] = Field(default_factory=list)
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = None
    continues: str | None = None
    """Id of the last turn, which hit a limit; options missing here default to that turn's."""
    context: list[Attachment] = Field(default_factory=list)
    stream: bool = True
    undo: bool = False
    client: str | None = None
    """Id of the user's page; its tab of a notebook is preferred."""


class ApprovalReply(BaseModel):
    """One answer to a question of a turn."""

    id: str
    approved: bool
    reason: str = ""
    remember: Remember | None = None


class ApprovalsBody(BaseModel):
    """Answers to the questions of a turn."""

    approvals: list[ApprovalReply] = Field(min_length=1)
    wait: float | None = Field(default=None, ge=0)


class TurnAnswers(StreamHandler):
    """Base of handlers that answer with a turn, as a stream or as one JSON."""

    def initialize(
        self, runner: TurnRunner, services: Services, limits: Limits, ceiling: Limits
    ) -> None:
        self.runner = runner
        self.services = services
        self.limits = limits
        self.ceiling = ceiling

    async def ready(self) -> None:
        await self.runner.recover()

    async def outcome(self, turn_id: str) -> dict[str, Any]:
        """The turn as `stream: false` answers it."""
        stores = self.runner.stores
        record = await stores.conversations.turn(turn_id)
        assert record is not None
        events = [event for _, event in await stores.conversations.events(turn_id)]
        return {
            "conversation_id": record.conversation_id,
            "turn_id": turn_id,
            "state": record.state,
            "error": wire.failure_in(events),
            "message": wire.message(record.answer_id, events),
            "usage": asdict(record.usage),
            "changes": [entry.change.to_json() for entry in await stores.journal.of_turn(turn_id)],
            "approvals": await stores.approvals.pending(turn_id),
        }

    async def replay(self, record: TurnRecord, after: int = 0) -> None:
        """Streams a finished turn from the store."""
        await self.send(record.id, self._stored_events(record, after))

    async def _stored_events(
        self, record: TurnRecord, after: int
    ) -> AsyncIterator[Sequence[tuple[int, Event]]]:
        events = await self.runner.stores.conversations.events(record.id, after)
        for start in range(0, len(events), TOGETHER):
            yield [
                (seq, event)
                for seq, event in events[start : start + TOGETHER]
                if not (isinstance(event, TurnFinished) and event.state)
            ]

    def live_in(self, conversation_id: str) -> LiveTurn | None:
        return self.runner.live_in(self.owner, conversation_id)


class ChatHandler(TurnAnswers):
    """`POST chat`"""

    joins_repeated = True
    max_body_bytes = 32 * MEBIBYTE  # pictures, and a stock client sends the whole conversation

    @operation("write", body=ChatBody, query=WHILE_AWAY, gives=OutcomeAnswer, media=(STREAM,))
    async def post(self, body: ChatBody) -> None:
        """Asks a question: starts a turn and answers with its event stream."""
        key = self.idempotency_key
        if key is None:
            turn, after = await self._start(body, None)
            return await self._respond(turn, body, after)
        turns, once = self.runner.stores.conversations, self.settings[ONCE]
        digest = digest_of(body.model_dump(mode="json", exclude={"stream"}))
        async with once.serialize_repeats(self.owner, key, digest) as earlier:
            earlier_turn = await turns.turn(earlier.answer) if earlier and earlier.answer else None
            if earlier_turn is None:
                try:
                    turn, after = await self._start(body, key)
                except (RequestError, ModelError):  # no turn was started
                    await once.store.forget(self.owner, key)
                    raise
        if earlier_turn is None:
            await self._respond(turn, body, after)
        else:
            await self._join(earlier_turn, body)

    async def _start(self, body: ChatBody, key: str | None) -> tuple[LiveTurn, int]:
        """The turn that this question starts or this answer resumes, and the number of its last
        event."""
        await self.runner.access.require_tools(body.allow)
        conversation_id = body.id or new_id("c")
        if body.continues is not None:
            more = await self._continuing(body, body.continues, conversation_id)
            return await self.runner.start(await self._request(more, conversation_id, key)), 0
        if body.trigger == "submit-message" and (replies := _stock_replies(body.messages)):
            turn, after = await self._answer_of_stock(conversation_id, replies)
            if key is not None:  # a new turn stores its key itself
                await self.settings[ONCE].store.end(self.owner, key, 200, turn.record.id)
            return turn, after
        return await self.runner.start(await self._request(body, conversation_id, key)), 0

    async def _answer_of_stock(
        self, conversation_id: str, replies: Sequence[ApprovalReply]
    ) -> tuple[LiveTurn, int]:
        """Answers the open questions: a stock client also repeats its earlier answers.

        Raises RequestError 409 if none of them is open; an answer never counts as a new question.
        """
        turn = self.live_in(conversation_id)
        open_ids = {approval.id for approval in turn.questions} if turn is not None else set()
        wanted = [reply for reply in replies if reply.id in open_ids]
        if turn is None or not wanted:
            message = "No question waits for that answer: it is answered or expired. Ask again."
            raise RequestError(409, "approval_closed", message)
        after = turn.last_seq
        await self.runner.answer(turn, _answers(wanted))
        return turn, after

    async def _continuing(self, body: ChatBody, turn_id: str, conversation_id: str) -> ChatBody:
        """The body of the turn that continues an earlier one, with the same options unless it says
        otherwise.

        Raises RequestError 404 for a turn outside this conversation, 409 for one that hit no limit.
        """
        turns = self.runner.stores.conversations
        earlier = await turns.turn(turn_id)
        if earlier is None or (earlier.owner, earlier.conversation_id) != (
            self.owner,
            conversation_id,
        ):
            raise RequestError(404, "not_found", f"No turn `{turn_id}` in this conversation.")
        if not any(_at_limit(event) for _, event in await turns.events(turn_id)):
            message = "That answer did not hit a limit. Ask for the missing part instead."
            raise RequestError(409, "not_continuable", message)
        as_there = {**options_after(earlier.request), "allow": earlier.request["allow"]}
        defaults = {
            name: value for name, value in as_there.items() if name not in body.model_fields_set
        }
        messages = body.messages[-1:]
        if not messages or messages[0].get("role") != "user":
            messages = [{"role": "user", "content": "Continue."}]
        as_new = {"trigger": "submit-message", "messageId": None, "messages": messages}
        return body.model_copy(update={**defaults, **as_new})

    async def _request(self, body: ChatBody, conversation_id: str, key: str | None) -> TurnRequest:
        question, replaces = await self._question(body, conversation_id)
        notebook, attachments = _about(body, question)
        options = TurnOptions.of(body).model_copy(update={"notebook": notebook})
        return TurnRequest(
            person=self.person,
            authorize=Authorizer(self),
            conversation_id=conversation_id,
            question=question,
            options=await options.on_path(self.services.identities),
            limits=body.apply_to(self.limits, self.ceiling),
            attachments=attachments,
            client=page_of(self, body.client),
            idempotency_key=key,
            replaces_from=replaces,
            continues=body.continues,
            undo_replaced=body.undo,
        )

    async def _question(
        self, body: ChatBody, conversation_id: str
    ) -> tuple[dict[str, Any], str | None]:
        """The user's message of this turn, and the id of the stored message it replaces."""
        turns = await self.runner.stores.conversations.turns(self.owner, conversation_id)
        if body.trigger == "regenerate-message":
            last = turns[-1] if turns else None
            turn = _turn_of(turns, body.messageId) if body.messageId else last
            if turn is None:
                message = "There is no such question to ask again in this conversation."
                raise RequestError(404, "not_found", message)
            return await with_fitting_pictures(turn.question), turn.question_id
        attached = [attachment.model_dump(by_alias=True) for attachment in body.context]
        about = {"notebook": body.notebook, "context": attached}
        question = await with_fitting_pictures({**last_question(body.messages), "metadata": about})
        replaced = _turn_of(turns, body.messageId)
        return question, replaced.question_id if replaced else None

    async def _join(self, turn: TurnRecord, body: ChatBody) -> None:
        live = self.runner.live(turn.id)
        if live is not None:
            return await self._respond(live, body)
        if body.stream:
            return await self.replay(turn)
        self.answer(await self.outcome(turn.id))

    async def _respond(self, turn: LiveTurn, body: ChatBody, after: int = 0) -> None:
        if body.stream:
            await self.stream(turn, after)
        else:
            await turn.wait_while_running()
            self.answer(await self.outcome(turn.record.id))


class ChatStreamHandler(TurnAnswers):
    """`GET chat/{id}/stream`"""

    @operation("read", also=(204,), media=(STREAM,))
    async def get(self, conversation_id: str) -> None:
        """Streams the running turn from its start or after `Last-Event-ID`; 204 if none runs. Of an
        earlier turn, the rest comes first."""
        last = FrameId.parse(self.request.headers.get("Last-Event-ID", "0"))
        if last is None:
            raise RequestError(400, "invalid_header", "Last-Event-ID has to be the id of a frame.")
        turn = self.live_in(conversation_id)
        if turn is not None and last.is_in(turn.record.id):
            return await self.stream(turn, last.number)
        store = self.runner.stores.conversations
        turns = await store.turns(self.owner, conversation_id)
        seen = next((each for each in reversed(turns) if last.is_in(each.id)), None)
        if seen is not None and last.number:
            if turn is None or last.number < await store.last_seq(seen.id):
                return await self.replay(seen, last.number)
        if turn is not None:
            return await self.stream(turn)
        self.answer_nothing()


class ChatStopHandler(TurnAnswers):
    """`POST chat/{id}/stop`"""

    @operation("write", gives=TurnStateAnswer)
    async def post(self, conversation_id: str) -> None:
        """Stops the running turn; answers once it has stopped."""
        store = self.runner.stores.conversations
        await self.runner.stop_in(self.owner, conversation_id)
        turns = await store.turns(self.owner, conversation_id)
        if not turns:
            raise RequestError(404, "not_found", f"No conversation `{conversation_id}`.")
        self.answer({"turn_id": turns[-1].id, "state": turns[-1].state})


class ChatRetryHandler(TurnAnswers):
    """`POST chat/{id}/retry`"""

    @operation("write", gives=RetryAnswer)
    async def post(self, conversation_id: str) -> None:
        """Retries a failed request to the model now, if the running turn waits to do so."""
        turn = self.live_in(conversation_id)
        retried = turn is not None and await turn.retry_now()
        turns = await self.runner.stores.conversations.turns(self.owner, conversation_id)
        if not turns:
            raise RequestError(404, "not_found", f"No conversation `{conversation_id}`.")
        self.answer({"turn_id": turns[-1].id, "state": turns[-1].state, "retried": retried})


class ChatApprovalsHandler(TurnAnswers):
    """`POST chat/{id}/approvals`"""

    @operation("write", body=ApprovalsBody, gives=TurnStateAnswer)
    async def post(self, conversation_id: str, body: ApprovalsBody) -> None:
        """Answers questions of the waiting turn: all that are sent, or none; some may be answered
        first."""
        turn = self.live_in(conversation_id)
        if turn is None:
            turns = await self.runner.stores.conversations.turns(self.owner, conversation_id)
            if not turns:
                raise RequestError(404, "not_found", f"No conversation `{conversation_id}`.")
            raise RequestError(409, "approval_closed", "That turn is over; ask again.")
        await self.runner.answer(turn, _answers(body.approvals))
        if body.wait is None:
            self.answer({"turn_id": turn.record.id, "state": turn.state})
        else:
            await turn.wait_while_running(body.wait)
            self.answer(await self.outcome(turn.record.id))


def _answers(replies: Sequence[ApprovalReply]) -> dict[str, Answer]:
    """The answers by question id. Raises RequestError for two answers to one question."""
    if len({reply.id for reply in replies}) < len(replies):
        message = "A question is answered twice. Send one answer for each `id`."
        raise RequestError(400, "invalid_body", message)
    return {
        reply.id: Answer(
            approved=reply.approved,
            reason=reply.reason,
            remember=reply.remember if reply.approved else None,
        )
        for reply in replies
    }


def _about(body: ChatBody, question: Mapping[str, Any]) -> tuple[str | None, list[Attachment]]:
    """The notebook and attachments of a turn; a question asked again keeps its own."""
    if body.trigger == "submit-message":
        return body.notebook, body.context
    metadata = question.get("metadata") or {}
    attachments = _ATTACHMENTS.validate_python(metadata.get("context") or [])
    return body.notebook or metadata.get("notebook"), body.context or attachments


def _stock_replies(messages: list[dict[str, Any]]) -> list[ApprovalReply]:
    """The answers that a stock client put into the assistant's message, if that is the last one.

    Raises RequestError for an answer that is neither yes nor no.
    """
    last = messages[-1] if messages else {}
    parts = last.get("parts")
    if last.get("role") != "assistant" or not isinstance(parts, list):
        return []
    return [
        _stock_reply(part.get("approval"))
        for part in parts
        if isinstance(part, dict) and part.get("state") == "approval-responded"
    ]


def _stock_reply(approval: Any) -> ApprovalReply:
    match approval:
        case {"id": str(id), "approved": bool(approved)}:
            return ApprovalReply(id=id, approved=approved, reason=str(approval.get("reason") or ""))
    message = "The `approval` of an answered part has an `id`, and `approved`: true or false."
    raise RequestError(400, "invalid_body", message)


def _at_limit(event: Event) -> bool:
    """Whether the turn hit a limit."""
    return isinstance(event, TurnFinished) and (event.step_limit_reached or event.budget_reached)


def _turn_of(turns: list[TurnRecord], message_id: str | None) -> TurnRecord | None:
    for turn in turns:
        if message_id is not None and message_id in (turn.question_id, turn.answer_id):
            return turn
    return None
