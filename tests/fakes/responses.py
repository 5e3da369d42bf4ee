"""OpenAI's Responses API on a real socket: strict about items, answering from Anthropic blocks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.web import RequestHandler

from tests.fakes.script import FakeReply, Scripted
from tests.fakes.service import FakeService, http_service

_FIELDS = {
    "model", "input", "instructions", "stream", "store", "include", "tools", "tool_choice",
    "max_output_tokens", "reasoning", "temperature", "text", "truncation",
}  # fmt: skip


class Responses(FakeService):
    """Refuses what the real API refuses, else sends the next scripted reply."""

    def __init__(self, replies: Iterable[FakeReply], *, without: Collection[str] = ()) -> None:
        """`without`: fields that it refuses, like servers with a partial implementation."""
        super().__init__(replies)
        self.fields = _FIELDS.difference(without)
        self.url = ""
        self.expired: set[str] = set()
        """Ids of expired containers."""


@asynccontextmanager
async def serving(api: Responses) -> AsyncIterator[Responses]:
    """Serves the API at `api.url`."""

    class Create(RequestHandler):
        async def post(self) -> None:
            body = json.loads(self.request.body)
            if wrong := _wrong(body, api.fields) or _expired_container(body, api.expired):
                api.refusals.append(wrong)
                self.set_status(400)
                self.finish({"error": {"message": wrong, "type": "invalid_request_error"}})
                return
            reply = api.accept(body, self.request.headers)
            self.set_header("Content-Type", "text/event-stream")
            with suppress(StreamClosedError):
                for position, event in enumerate(events(reply)):
                    if position == reply.stop_after and reply.gate is not None:
                        await reply.gate.wait()
                    self.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")
                    await self.flush()
                await self.finish()

    async with http_service(("/v1/responses", Create)) as address:
        api.url = f"{address}/v1"
        yield api


def _seal(id: str, thought: str) -> str:
    return hashlib.sha256(f"{id} {thought}".encode()).hexdigest()


def _expired_container(body: Mapping[str, Any], expired: Collection[str]) -> str | None:
    """Source: https://github.com/pydantic/pydantic-ai/issues/7461."""
    named = (item.get("container_id") for item in body["input"])
    return next((f"Expected container_id: {id}" for id in named if id in expired), None)


_SERVED = {"web_search_call": "web_search", "code_interpreter_call": "code_interpreter"}
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def _wrong(body: Mapping[str, Any], fields: Collection[str]) -> str | None:
    """The real API's message about a request that it refuses."""
    level = body.get("reasoning", {}).get("effort", "low")
    if level not in _EFFORTS:
        listed = f"{', '.join(map(repr, _EFFORTS[:-1]))}, and {_EFFORTS[-1]!r}"
        return f"Invalid value: '{level}'. Supported values are: {listed}. (reasoning.effort)"
    for field in body:
        if field not in fields:
            return f"Unsupported parameter: '{field}' is not supported with this model."
    if body.get("store") is not False:
        return "Zero data retention: store must be false."
    tools = {tool["type"] for tool in body.get("tools", ())}
    for tool in tools - {"function", *_SERVED.values()}:
        return f"Invalid value: '{tool}'. Supported values are: 'function', 'web_search', ..."
    open_calls: list[str] = []
    thought: str | None = None
    for n, item in enumerate(body["input"]):
        kind = item.get("type")
        if thought is not None and kind not in ("function_call", "message", *_SERVED):
            return f"Item '{thought}' of type 'reasoning' was provided without its following item."
        thought = None
        if kind == "reasoning":
            text = "".join(part["text"] for part in item["summary"])
            if item.get("encrypted_content") != _seal(item["id"], text):
                return f"The encrypted content for item {item['id']} could not be verified."
            thought = item["id"]
        elif kind == "function_call":
            json.loads(item["arguments"])
            open_calls.append(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                return (
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            open_calls.remove(item["call_id"])
        elif item.get("role") == "user" and open_calls:
            return f"No tool output found for function call {open_calls[0]}."
        elif kind in _SERVED:
            if not {"id", "status"} <= item.keys() or _SERVED[kind] not in tools:
                return f"Invalid value: 'input[{n}]'."
        elif kind != "message":
            return f"Invalid value: 'input[{n}].type'."
    return f"No tool output found for function call {open_calls[0]}." if open_calls else None


def _service_call_events(place: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A call by the service itself, whose result is not sent."""
    item: dict[str, Any] = {"id": f"ws_{place}", "type": "web_search_call", "status": "in_progress"}
    done: dict[str, Any] = {**item, "action": {"type": "search", **block["input"]}}
    if block["name"] == "code_execution":
        item |= {"id": f"ci_{place}", "type": "code_interpreter_call"}
        logs = [{"type": "logs", "logs": "42"}]
        done = {**item, "code": block["input"]["code"], "container_id": "cntr_1", "outputs": logs}
    yield {"type": "response.output_item.added", "output_index": place, "item": item}
    yield {
        "type": "response.output_item.done",
        "output_index": place,
        "item": {**done, "status": "completed"},
    }


def events(reply: Scripted) -> Iterator[dict[str, Any]]:
    """A reply as a stream of the API's events."""
    yield {"type": "response.created", "response": {"status": "in_progress", "output": []}}
    for place, block in enumerate(reply.blocks):
        match block["type"]:
            case "thinking":
                id = f"rs_{len(block['thinking'])}"
                item = {"type": "reasoning", "id": id, "summary": []}
                part = {"type": "summary_text", "text": block["thinking"]}
                sealed = _seal(id, block["thinking"])
                done = {**item, "summary": [part], "encrypted_content": sealed}
                kind, text = "reasoning_summary_text", block["thinking"]
            case "text":
                item = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
                done = {**item, "content": [{"type": "output_text", "text": block["text"]}]}
                kind, text = "output_text", block["text"]
            case "server_tool_use":
                yield from _service_call_events(place, block)
                continue
            case _:
                call = {"call_id": block["id"], "name": block["name"]}
                item = {"type": "function_call", "id": "fc_1", "arguments": "", **call}
                kind, text = "function_call_arguments", json.dumps(block["input"])
                done = {**item, "arguments": text}
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
        for at in range(0, len(text), 7):
            piece = {"output_index": place, "delta": text[at : at + 7]}
            yield {"type": f"response.{kind}.delta", **piece}
        yield {"type": "response.output_item.done", "output_index": place, "item": done}
    usage = {
        "input_tokens": 100,
        "output_tokens": 10,
        "input_tokens_details": {"cached_tokens": 40},
    }
    yield {"type": "response.completed", "response": {"status": "completed", "usage": usage}}
