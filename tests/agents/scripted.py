"""A Messages API for other agents: it answers each question of a person with steps of a script,
counts the requests, and checks that conversations are valid.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_agent.models.base import Block
from jupyter_agent.models.replay import replay
from tests.fakes import check_messages, says

HANDLE = "{handle}"
_RUN = re.compile(r"run_id\W+([0-9a-f]{32})")


@dataclass
class Scripted:
    """The remaining steps, and the requests of the conversation that were answered with them.

    A step whose `run_id` is HANDLE is about the run named by the last result.
    """

    url: str
    steps: list[Block] = field(default_factory=list)
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    made: int = 0

    def answer(self, body: Mapping[str, Any]) -> Sequence[Block]:
        if not body.get("tools"):
            return [says("Done")]  # a title, or another request outside the conversation
        # Claude Code puts messages of role `system` between the others.
        check_messages([each for each in body["messages"] if each["role"] != "system"])
        self.requests.append(body)
        if not self.steps:
            return [says("Done.")]
        step = self.steps.pop(0)
        if step["input"].get("run_id") == HANDLE:
            handles = _RUN.findall(json.dumps(body["messages"][-1]))
            step = {**step, "input": {**step["input"], "run_id": handles[-1]}}
        self.made += 1
        return [{"type": "tool_use", "id": f"toolu_{self.made:04}", **step}]


class _Messages(RequestHandler):
    def initialize(self, script: Scripted) -> None:
        self._script = script

    def post(self) -> None:
        body = json.loads(self.request.body)
        chars = len(self.request.body) // 4
        usage = {"input_tokens": chars, "output_tokens": 1}
        self.set_header("Content-Type", "text/event-stream")
        for event in replay(self._script.answer(body), usage=usage):
            if event["type"] == "message_start":
                event = {
                    **event,
                    "message": {"id": "msg_1", "model": "scripted", **event["message"]},
                }
            self.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")


class _Counted(RequestHandler):
    def post(self) -> None:
        self.finish({"input_tokens": len(self.request.body) // 4})


@contextmanager
def scripted() -> Iterator[Scripted]:
    """Serves it on the loopback, in a thread of its own."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    serving: threading.Event = threading.Event()
    script = Scripted("")

    async def serve() -> None:
        routes = [
            (r"/v1/messages/count_tokens", _Counted),
            (r"/v1/messages", _Messages, {"script": script}),
        ]
        sockets = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(Application(routes))
        server.add_sockets(sockets)
        script.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        serving.set()
        await stop.wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    serving.wait()
    try:
        yield script
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
