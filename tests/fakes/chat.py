"""A strict chat completions server on a real socket; it answers from Anthropic blocks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, TypeAlias

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from tests.fakes.dialects import DIALECTS, FakeDialect, whole, written_as_documented
from tests.fakes.script import FakeReply, Scripted
from tests.fakes.service import FakeService, http_service

LimitName: TypeAlias = Literal["max_tokens", "max_completion_tokens"]
_FIELDS = {
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "max_tokens",
    "max_completion_tokens", "temperature", "top_p", "stop", "seed", "reasoning_effort",
}  # fmt: skip


class ChatCompletions(FakeService):
    """Refuses what the real API refuses, else sends the next scripted reply.

    A Scripted reply with a status other than 200 is an error: its `body`, or its `error` in
    OpenAI's format.
    """

    def __init__(
        self,
        replies: Iterable[FakeReply],
        *,
        limit: LimitName | None = None,
        more_fields: Collection[str] = (),
        dialect: str | None = None,
        efforts: Sequence[str] | None = None,
    ) -> None:
        """`limit`: the only name of the token limit that it accepts; both by default.
        `more_fields`: accepted fields besides OpenAI's own. `dialect`: the service whose refusals
        and output format it copies, a name in DIALECTS. `efforts`: the levels of its model, empty
        for one that cannot think; all by default.
        """
        super().__init__(replies)
        self.dialect = DIALECTS[dialect] if dialect else FakeDialect(writes=written_as_documented)
        self.limit = limit
        self.fields = _FIELDS.union(more_fields, self.dialect.fields)
        self.url = ""
        self._efforts = efforts

    def refuses_field(self, body: Mapping[str, Any]) -> str | None:
        """The API's message about an effort that the model does not have."""
        level = body.get("reasoning_effort")
        if level is None or self._efforts is None or level in self._efforts:
            return None
        if not self._efforts:
            return "Unsupported parameter: 'reasoning_effort' is not supported with this model."
        *most, last = (f"'{each}'" for each in self._efforts)
        return (
            f"Unsupported value: 'reasoning_effort' does not support '{level}' with this model. "
            f"Supported values are: {', '.join(most)}, and {last}."
        )


@asynccontextmanager
async def serving(api: ChatCompletions) -> AsyncIterator[ChatCompletions]:
    class Completions(RequestHandler):
        async def post(self) -> None:
            body = json.loads(self.request.body)
            if wrong := _wrong_field(body, api) or _wrong(body["messages"]):
                api.refusals.append(wrong)
                self.fail(400, "invalid_request_error", wrong)
                return
            if refused := api.dialect.refuses(body):
                status, said = refused
                api.refusals.append(json.dumps(said))
                self.fail(status, "", "", body=json.dumps(said).encode())
                return
            reply = api.accept(body, self.request.headers)
            if reply.status != 200:
                self.fail(reply.status, *reply.error, headers=reply.headers, body=reply.body)
                return
            if not body.get("stream"):
                self.write(whole(reply))
                return
            self.set_header("Content-Type", "text/event-stream")
            with suppress(StreamClosedError):  # the client disconnected: `left` is set
                await self.answer(reply)

        async def answer(self, reply: Scripted) -> None:
            raw = False
            for position, chunk in enumerate(api.dialect.writes(reply)):
                if position == reply.stop_after:
                    assert reply.gate is not None, "A reply is only ever held at a gate."
                    await reply.gate.wait()
                raw = isinstance(chunk, str)
                self.write(chunk if raw else f"data: {json.dumps(chunk)}\n\n")
                await self.flush()
            await self.finish("" if raw else "data: [DONE]\n\n")

        def on_connection_close(self) -> None:
            api.left.set()

        def fail(
            self,
            status: int,
            kind: str,
            message: str,
            headers: Mapping[str, str] | None = None,
            body: bytes | None = None,
        ) -> None:
            self.set_status(status)
            for name, value in (headers or {}).items():
                self.set_header(name, value)
            error = {"message": message, "type": kind, "param": None, "code": None}
            self.set_header("Content-Type", "application/json")
            self.finish(body or json.dumps({"error": error}))

        def set_default_headers(self) -> None:
            # The real API answers pages of any origin.
            for what in ("origin", "headers", "methods"):
                self.set_header(f"access-control-allow-{what}", "*")

        def options(self) -> None:
            self.set_status(204)

    async with http_service(("/v1/chat/completions", Completions)) as address:
        api.url = f"{address}/v1"
        yield api


def _wrong_field(body: Mapping[str, Any], api: ChatCompletions) -> str | None:
    """The real API's message about unknown fields."""
    for field in body:
        if field not in api.fields:
            return f"Unrecognized request argument supplied: {field}"
    if wrong := api.refuses_field(body):
        return wrong
    given = [name for name in ("max_tokens", "max_completion_tokens") if name in body]
    if len(given) > 1:
        return "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
    if api.limit == "max_completion_tokens" and given == ["max_tokens"]:
        return (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        )
    if api.limit == "max_tokens" and given == ["max_completion_tokens"]:
        return "Unrecognized request argument supplied: max_completion_tokens"
    return None


def _is_text(content: Any) -> bool:
    """Or parts that are."""
    return isinstance(content, str) or all(part.get("type") == "text" for part in content)


def _wrong(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The real API's message about a history whose calls and tool messages do not match."""
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages[{n}]: no call of the preceding message has this tool_call_id"
            open_calls.remove(message["tool_call_id"])
            if not _is_text(message["content"]):
                return f"messages[{n}].content: tool messages are texts"
            continue
        if open_calls:
            return f"messages[{n}]: tool_calls without tool messages: {open_calls}"
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
    return f"tool_calls without tool messages: {open_calls}" if open_calls else None
