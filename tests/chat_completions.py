"""A strict chat completions server on a real socket; it answers from Anthropic blocks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_agent.models.base import Block
from jupyter_agent.testing.script import Script, Scripted


class ChatCompletions:
    """Refuses histories that the real API refuses, and else sends the next scripted reply."""

    def __init__(self, replies: Iterable[Sequence[Block]]) -> None:
        self.script = Script(replies)
        self.requests: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.url = ""


@asynccontextmanager
async def serving(api: ChatCompletions) -> AsyncIterator[ChatCompletions]:
    class Completions(RequestHandler):
        def post(self) -> None:
            body = json.loads(self.request.body)
            if wrong := _wrong(body["messages"]):
                api.refusals.append(wrong)
                self.set_status(400)
                self.finish({"error": {"type": "invalid_request_error", "message": wrong}})
                return
            api.requests.append(body)
            reply = api.script.next()
            assert reply is not None, "The script is over."
            self.set_header("Content-Type", "text/event-stream")
            for chunk in _chunks(reply):
                self.write(f"data: {json.dumps(chunk)}\n\n")
            self.finish("data: [DONE]\n\n")

    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/v1/chat/completions", Completions)]))
    server.add_sockets(sockets)
    api.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/v1"
    try:
        yield api
    finally:
        server.stop()
        await server.close_all_connections()


def _wrong(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """What the real API says of a history whose calls and tool messages do not fit."""
    open_calls: list[str] = []
    for n, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return f"messages[{n}]: no call of the preceding message has this tool_call_id"
            open_calls.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                return f"messages[{n}].content: tool messages are texts"
            continue
        if open_calls:
            return f"messages[{n}]: tool_calls without tool messages: {open_calls}"
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
        for call in message.get("tool_calls", ()):
            json.loads(call["function"]["arguments"])
    return f"tool_calls without tool messages: {open_calls}" if open_calls else None


def _chunks(reply: Scripted) -> Iterator[dict[str, Any]]:
    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [choice]}  # fmt: skip

    slot = 0
    for block in reply.blocks:
        match block["type"]:
            case "thinking":
                yield chunk({"reasoning_content": block["thinking"]})
            case "text":
                yield chunk({"content": block["text"]})
            case "tool_use":
                text = json.dumps(block["input"])
                first = {"name": block["name"], "arguments": text[:5]}
                call = {"index": slot, "id": block["id"], "type": "function", "function": first}
                yield chunk({"tool_calls": [call]})
                rest = {"index": slot, "function": {"arguments": text[5:]}}
                yield chunk({"tool_calls": [rest]})
                slot += 1
    yield chunk({}, "tool_calls" if slot else "stop")
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    yield {**chunk({}), "choices": [], "usage": usage}
