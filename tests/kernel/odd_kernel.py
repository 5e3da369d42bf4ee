"""A kernel that misbehaves on request; the tests start it as a process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import threading
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel
from jupyter_client.session import DELIM

KINDS = [
    *("stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"),
    *("status", "execute_input", "comm_open", "comm_msg", "comm_close", "execute_reply", "strange"),
]
FULL: dict[str, Any] = {
    "stream": {"name": "stdout", "text": "random\n"},
    "display_data": {
        "data": {"text/plain": "d", "image/png": "iVBORw0KGgo=", "application/json": {"a": [1]}},
        "metadata": {"k": {}},
        "transient": {"display_id": "d"},
    },
    "error": {"ename": "E", "evalue": "why", "traceback": ["a", "b"]},
    "clear_output": {"wait": True},
    "status": {"execution_state": "busy"},
    "execute_input": {"code": "1", "execution_count": 1},
    "comm_open": {
        "comm_id": "c",
        "target_name": "jupyter.widget",
        "data": {"state": {"_model_name": "OutputModel", "outputs": []}, "buffer_paths": [["a"]]},
    },
    "comm_msg": {"comm_id": "c", "data": {"method": "update", "state": {"msg_id": "m"}}},
    "comm_close": {"comm_id": "c", "data": {}},
}
FULL["update_display_data"] = FULL["display_data"]
FULL["execute_result"] = {**FULL["display_data"], "execution_count": 1}
STRANGE = [
    None,
    True,
    -1,
    1.5,
    float("nan"),
    "",
    "text",
    "\ud800",
    [],
    [1, None],
    {},
    {"a": {"b": 1}},
]


def _mangled(chance: random.Random, value: Any, depth: int = 0) -> Any:
    """The value with random parts missing or of another type."""
    if chance.random() < (0.05 if depth == 0 else 0.15):
        return chance.choice(STRANGE)
    if isinstance(value, dict):
        return {
            key: _mangled(chance, each, depth + 1)
            for key, each in value.items()
            if chance.random() > 0.1
        }
    if isinstance(value, list):
        return [_mangled(chance, each, depth + 1) for each in value]
    return value


class OddKernel(Kernel):  # type: ignore[misc]
    implementation = banner = "odd"
    implementation_version = "1"
    language_info = {"name": "odd", "mimetype": "text/plain", "file_extension": ".odd"}

    keeps_idle_back = False
    leaves_next = False
    left: Any = None

    async def shell_channel_thread_main(self, msg: Any) -> None:
        """Leave a request unread, as ipykernel 7.0 to 7.3 does in one of ten runs if two clients
        send requests at the same time.
        """
        if any(b"die unheard" in bytes(part) for part in msg):
            os._exit(1)
        if self.leaves_next:
            self.leaves_next, self.left = False, msg
            return
        if self.left is not None:
            left, self.left = self.left, None
            await super().shell_channel_thread_main(left)
        await super().shell_channel_thread_main(msg)

    is_slow_to_accept = False

    def pre_handler_hook(self) -> None:
        if self.is_slow_to_accept:
            heard = threading.Event()  # already busy, so an interrupt has no effect
            signal.signal(signal.SIGINT, lambda *_: heard.set())
            heard.wait(0.2)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().pre_handler_hook()

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        about = (parent or self.get_parent(channel)).get("header", {}).get("msg_type")
        if not (status == "idle" and self.keeps_idle_back) and about != "comm_msg":
            super()._publish_status(status, channel, parent)

    def _show(self, kind: str, content: dict[str, Any], parent: Any) -> None:
        self.session.send(self.iopub_socket, kind, content, parent=parent)

    async def do_execute(self, code: str, *args: Any, **options: Any) -> dict[str, Any]:
        parent = self.get_parent("shell")
        other = self.session.msg_header("execute_request")
        match code:
            case "idle is lost":
                self.keeps_idle_back = True
            case "outputs are dropped" | "the last outputs are dropped":
                self._show("stream", {"name": "stdout", "text": "first "}, parent)
                for _ in range(10):  # it was too fast for us: they never reach the socket
                    self.session.msg("stream")
                if code.startswith("the last"):
                    self.keeps_idle_back = True
                    return {"status": "ok", "execution_count": 1, "user_expressions": {}}
            case "outputs come late":
                self.keeps_idle_back = True
                asyncio.get_running_loop().call_later(0.5, self._come_late, parent)
            case "somebody else's outputs":
                self._show("stream", {"name": "stdout", "text": "theirs"}, other)
                update = {"data": {}, "metadata": {}, "transient": {"display_id": "d"}}
                self._show("update_display_data", update, other)
            case "outputs come after idle":
                asyncio.get_running_loop().call_later(
                    0.3, self._show, "stream", {"name": "stdout", "text": " later"}, parent
                )
            case "leave the next request":
                self.leaves_next = True
            case "be slow to accept":
                self.is_slow_to_accept = True
            case "wait":
                self._show("stream", {"name": "stdout", "text": "waiting"}, parent)
                threading.Event().wait()
            case "the reply is lost":
                self._lose_reply()
            case "the reply of an error is lost":
                self._lose_reply()
                self._show("error", {"ename": "E", "evalue": "why", "traceback": []}, parent)
                return {"status": "error", "ename": "E", "evalue": "why", "traceback": []}
            case "strange messages":
                self._show("strange", {"what": 1}, parent)
                self._show("clear_output", {}, parent)
                bare = {"data": {"text/plain": "bare"}, "metadata": None, "transient": None}
                self._show("display_data", bare, parent)
                self._show("update_display_data", bare, parent)
                self._show("stream", {"name": "stdlog", "text": "logged "}, parent)
                self._show("stream", {"name": "stdout"}, parent)
                self._show("error", {}, parent)
            case "a status without a state":
                self._show("status", {}, parent)
            case "malformed messages":
                self._show_malformed(parent)
            case "aborted":
                return {"status": "aborted"}
            case "a reply that says nothing":
                return {"status": 5, "payload": 5, "execution_count": "1"}
            case _ if code.startswith("random messages "):
                self._show_random(random.Random(code), parent)
        self._show("stream", {"name": "stdout", "text": "ours"}, parent)
        return {"status": "ok", "execution_count": 1, "user_expressions": {}}

    def _show_malformed(self, parent: Any) -> None:
        """Send truncated and invalid messages, and one valid one."""
        session = self.session
        header = json.dumps(session.msg_header("stream"), default=str).encode()
        bare = json.dumps({"msg_id": "bare"}).encode()
        above = json.dumps(parent["header"], default=str).encode()
        text = json.dumps({"name": "stdout", "text": "between "}).encode()
        for parts in (
            [],
            [header],
            [header, above, b"{}"],
            [b"{", above, b"{}", text],
            [b"[]", above, b"{}", text],
            [bare, above, b"{}", text],
            [header, b"[1]", b"{}", text],
            [header, above, b"{}", b"[1]"],
            [header, above, b"{}", b"\xff"],
            [header, above, b"{}", b"null"],
            [header, above, b"{}", text],
        ):
            signed = [b"stream", DELIM, session.sign(parts), *parts]
            self.iopub_socket.send_multipart(signed)
        self.iopub_socket.send_multipart([b"no message"])
        self.iopub_socket.send_multipart([b"stream", DELIM])
        self.iopub_socket.send_multipart([b"stream", DELIM, b"wrong", header, above, b"{}", text])

    def _show_random(self, chance: random.Random, parent: Any) -> None:
        """Send ten thousand messages with random parts missing or of another type, among them an
        output `ours`, but none that announces the end of this kernel.
        """
        session = self.session
        for _ in range(10_000):
            kind = chance.choice(KINDS)
            content = _mangled(chance, FULL.get(kind, {"data": {}}))
            state = content.get("execution_state") if isinstance(content, dict) else None
            if kind == "status" and isinstance(state, str):
                content = {}
            header = _mangled(chance, session.msg_header(kind)) if chance.random() < 0.1 else None
            above = _mangled(chance, parent["header"]) if chance.random() < 0.1 else None
            parts = [
                json.dumps(each, default=str).encode()
                for each in (
                    session.msg_header(kind) if header is None else header,
                    parent["header"] if above is None else above,
                    _mangled(chance, {}),
                    content,
                )
            ]
            if chance.random() < 0.02:
                parts[chance.randrange(4)] = chance.randbytes(chance.randrange(12))
            if chance.random() < 0.02:
                del parts[chance.randrange(4) :]
            signed = [kind.encode(), DELIM, session.sign(parts), *parts]
            if chance.random() < 0.02:
                signed[chance.randrange(len(signed))] = chance.randbytes(chance.randrange(40))
            self.iopub_socket.send_multipart(signed)

    def _lose_reply(self) -> None:
        send = self.session.send

        def without_reply(stream: Any, kind: Any, *args: Any, **options: Any) -> Any:
            if kind != "execute_reply":
                return send(stream, kind, *args, **options)
            self.session.send = send
            return {"content": options.get("content") or args[0]}

        self.session.send = without_reply

    def _come_late(self, parent: Any) -> None:
        self._show("stream", {"name": "stdout", "text": " late"}, parent)
        self.keeps_idle_back = False
        self._publish_status("idle", "shell", parent)


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=OddKernel)
