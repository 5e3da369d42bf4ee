"""A kernel that does what kernels should not, on request: started by the tests as a process."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel
from jupyter_client.session import DELIM


class OddKernel(Kernel):  # type: ignore[misc]
    implementation = banner = "odd"
    implementation_version = "1"
    language_info = {"name": "odd", "mimetype": "text/plain", "file_extension": ".odd"}

    keeps_idle_back = False

    def _publish_status(self, status: str, channel: str, parent: Any = None) -> None:
        if not (status == "idle" and self.keeps_idle_back):
            super()._publish_status(status, channel, parent)

    def _show(self, kind: str, content: dict[str, Any], parent: Any) -> None:
        self.session.send(self.iopub_socket, kind, content, parent=parent)

    async def do_execute(self, code: str, *args: Any, **options: Any) -> dict[str, Any]:
        parent = self.get_parent("shell")
        other = self.session.msg_header("execute_request")
        match code:
            case "idle is lost":
                self.keeps_idle_back = True
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
        self._show("stream", {"name": "stdout", "text": "ours"}, parent)
        return {"status": "ok", "execution_count": 1, "user_expressions": {}}

    def _show_malformed(self, parent: Any) -> None:
        """Messages that end too early, or are no messages at all, but for one."""
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
