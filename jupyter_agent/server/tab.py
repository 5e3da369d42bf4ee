"""The websocket between an open notebook and its replica on the server (the tab bridge)."""

from __future__ import annotations

import json
import logging
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_agent.carriers.tab_link import OddFrame, TabGone, TabLink, Tabs
from jupyter_agent.server.base import MEBIBYTE, REQUESTS, limit_body, page_of
from jupyter_agent.server.in_flight import InFlightRequests
from jupyter_agent.server.people import Authorizer

log = logging.getLogger(__name__)

BEFORE_ATTACHED = 64 * MEBIBYTE
"""Bytes of a frame, unpacked, from a page that was not yet asked for its document."""
LEAVING = (1000, 1001)
"""A page closes its socket with these codes (RFC 6455, 7.4.1) when the notebook or the browser tab
is closed. A lost connection has no code."""


@web.stream_request_body
class TabHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """`GET tab`: one connection for each notebook that is open in a browser tab."""

    auth_resource = "contents"
    link: TabLink | None = None

    def initialize(self, tabs: Tabs) -> None:
        self.tabs = tabs

    @property
    def max_message_size(self) -> int:
        """Bytes, unpacked; Tornado's 10 MiB would cut off big notebooks, more would let a page fill
        the server's memory."""
        return 256 * MEBIBYTE

    async def prepare(self) -> None:  # type: ignore[override]  # as in JupyterHandler
        """Refuses a body, which no websocket request has."""
        limit_body(self, 0)
        await super().prepare()

    def get_compression_options(self) -> dict[str, Any]:
        return {"compression_level": 1}

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Upgrades; the tab's edits go through here, so its user must be allowed to write."""
        requests: InFlightRequests = self.settings[REQUESTS]
        with requests.track(self._going_away):
            if not await Authorizer(self)("write", "contents"):
                raise web.HTTPError(403)
            await super().get(*args, **kwargs)

    def open(self, *args: str, **kwargs: str) -> None:
        super().open(*args, **kwargs)
        self._expect(False)
        self.set_nodelay(True)  # else each barrier waits 40 ms for Nagle's algorithm

    def on_message(self, message: str | bytes) -> None:
        if self.link is not None:
            self._take(self.link, message)
            return
        try:
            hello = json.loads(message)
            hello["client"] = page_of(self, hello["client"])
            self.link = TabLink(
                self._send,
                hello,
                self.tabs.timeouts,
                expect=self._expect,
                hang_up=self._hang_up,
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("Invalid hello from a tab: %s", error)
            self.close(1002, "hello expected")
            return
        self.tabs.add(self.link)

    def _take(self, link: TabLink, message: str | bytes) -> None:
        if link.closed:  # in flight when we closed the connection
            return
        try:
            link.receive(message)
            self.tabs.store_unsaved()
        except OddFrame as odd:
            log.warning("A tab sent something odd; its connection is closed: %s", odd)
            link.refuse(odd.reason)

    def on_close(self) -> None:
        if self.link is not None:
            self.link.closed_by_user = self.close_code in LEAVING
            self.tabs.discard(self.link)
            self.link.close()
        super().on_close()

    def _hang_up(self, reason: str) -> None:
        self.close(1002, reason)

    def _expect(self, document: bool) -> None:
        """Raises the frame limit while a document is expected. Tornado has one limit per socket,
        and copies it for decompression.
        """
        connection = self.ws_connection
        most = self.max_message_size if document else BEFORE_ATTACHED
        for holder in (
            getattr(connection, "params", None),
            getattr(connection, "_decompressor", None),
        ):
            for name in ("max_message_size", "_max_message_size"):
                if hasattr(holder, name):
                    setattr(holder, name, most)

    def _going_away(self) -> None:
        self.close(1001, "the server is stopping")

    def _send(self, message: str | bytes) -> None:
        try:
            future = self.write_message(message, binary=isinstance(message, bytes))
        except WebSocketClosedError:
            raise TabGone("The tab closed its connection.") from None
        # A lost frame is not an error by itself: the barrier shows what did not arrive.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
