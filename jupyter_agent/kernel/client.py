"""Our own channels to one kernel process, which route each message to its request."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.session import Session
from websocket import WebSocketBadStatusException, WebSocketException

from jupyter_agent.kernel import scratch
from jupyter_agent.kernel.channels import (
    CHANNELS,
    FROM_THREADS,
    ConnectionEnd,
    End,
    Inbox,
    KernelGone,
    KernelMessage,
    Numbering,
    Received,
    from_queue,
    from_socket,
    is_greeting,
    start_channels,
)
from jupyter_agent.kernel.outputs import language_info_of
from jupyter_agent.kernel.widgets import Widgets

log = logging.getLogger(__name__)

_GREETING_S = 5.0
"""Seconds in which an idle kernel answers on shell."""
_WAKE_S = 0.3
"""Seconds after which a kernel is woken that may have left a request unread."""
_MAX_WAKE_S = 60.0
"""Longest pause between two wake-up messages: a busy kernel answers all of them once it is free."""
_WIDGET_S = 2.0
"""Seconds for a kernel to process the state of a widget."""
_KEEP_S = 5.0
"""Seconds for a kernel to process `scratch.keep_results`."""
_MAX_LATE_REQUESTS = 100
"""Requests whose late messages are still delivered."""


class Connection:
    """Channels to one kernel process, until it ends."""

    def __init__(
        self,
        client: Any,
        receive: Callable[[Any], Awaitable[list[KernelMessage]]],
        on_end: Callable[[End], None],
    ) -> None:
        self.ended: asyncio.Future[ConnectionEnd] = asyncio.get_running_loop().create_future()
        self.language_info: Mapping[str, Any] | None = None
        """From the kernel's `kernel_info_reply`; None until it arrives."""
        self._client = client
        self._receive = receive
        self._on_end = on_end
        self._inboxes: dict[str, Inbox] = {}
        self._numbering = Numbering()
        self._late: OrderedDict[str, Callable[[Received], None]] = OrderedDict()
        self._running: dict[str, float] = {}
        self._announced = set[str]()
        """Running requests whose code the kernel sent to all its clients (`execute_input`)."""
        self._last_code = ""
        """The last request whose code was announced."""
        self._probes: dict[str, asyncio.Event] = {}
        self._handled: dict[str, asyncio.Event] = {}
        """Message id -> set once the kernel has processed the message."""
        self._unanswered = set[str]()
        """Requests on shell without any response from the kernel yet."""
        self._waking: asyncio.TimerHandle | None = None
        self._wake_up = ""
        """The id of the last message that was only sent to wake the kernel."""
        self._replied = False
        """Whether the kernel has sent a reply since then, and may have left requests unread."""
        self._has_subshells = False
        self.widgets = Widgets()
        self._iopub_ready = asyncio.Event()
        self._answered = asyncio.Event()
        self._free = asyncio.Event()
        self._opened = time.monotonic()
        self._greeting = ""
        self._greeted = False
        self._greeted_at = 0.0
        self._patience = _GREETING_S
        self._before_greeting: set[str] = set()
        self._settled = False
        self._keeps_results = False
        self._readers = [asyncio.create_task(self._read(name)) for name in CHANNELS]
        for reader in self._readers:
            reader.add_done_callback(self._reader_ended)

    @classmethod
    async def open(
        cls, manager: Any, context: zmq.asyncio.Context, *, on_end: Callable[[End], None]
    ) -> Connection:
        """Connect to the kernel of a `jupyter_client` manager; usable after `wait_ready`.

        `on_end` is called when the kernel's own messages announce its end. Raises KernelGone if a
        gateway has no such kernel, other ConnectionErrors if it refuses the connection.
        """
        try:
            client = manager.client_factory(parent=manager)
        except TypeError:  # a gateway's client needs more arguments, and has a websocket
            client = manager.client(session=Session(parent=manager))
            try:
                await asyncio.to_thread(asyncio.run, start_channels(client))  # its websocket blocks
            except WebSocketBadStatusException as error:  # its message contains cookies
                if error.status_code == HTTPStatus.NOT_FOUND:
                    raise KernelGone("it no longer has this kernel") from error
                raise ConnectionError(f"it answered {error.status_code}") from error
            except (OSError, WebSocketException) as error:
                raise ConnectionError(str(error)) from error
            # Its timeout is for the start of a kernel: a cell may be silent for longer.
            client.channel_socket.settimeout(None)
            return cls(client, from_queue, on_end)
        client.context = context
        client.load_connection_info(manager.get_connection_info())
        await start_channels(client)
        return cls(client, from_socket, on_end)

    async def wait_ready(self, *, busy: bool) -> bool:
        """True once the kernel answers and its outputs reach us, False if it ends before that.

        A `busy` kernel only has to answer on the control channel.
        """
        answered = self._answered if busy else self._free
        self._greet()
        pause = 0.05
        while not (answered.is_set() and self._iopub_ready.is_set()):
            # The status message with each answer shows whether iopub is connected: subscribing
            # takes a moment, and messages sent before are lost.
            greeting = self._client.session.msg("kernel_info_request")
            self._send(self._client.control_channel, greeting)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await answered.wait()
                    await self._iopub_ready.wait()
            pause = min(2 * pause, 1.0)
            self._greet_again()
            if self.ended.done():
                return False
        return True

    @property
    def busy_since(self) -> float | None:
        """When the running code started (`time.monotonic`), whoever sent it; or None."""
        if self._running:
            return min(self._running.values())
        return None if self._free.is_set() else self._opened

    @property
    def runs_silently(self) -> bool:
        """Whether the kernel runs only silent requests. It announces code of people to its clients
        (`execute_input`), but not the silent requests of extensions:
        https://jupyter-client.readthedocs.io/en/stable/messaging.html#execute
        """
        return bool(self._running) and self._announced.isdisjoint(self._running)

    @property
    def is_free(self) -> bool:
        """Whether nothing runs."""
        return self._free.is_set()

    async def wait_free(self) -> None:
        """Wait until nothing runs: a person's own cells go first."""
        if not self._free.is_set():
            self._greet()  # if an `idle` was lost, the answer still comes
        while not self._free.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_GREETING_S):
                    await self._free.wait()
            self._greet_again()

    @contextmanager
    def request(
        self, kind: str, content: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Iterator[Inbox]:
        """Send a request on shell; within the block its answers go to the inbox."""
        message = self._client.session.msg(kind, dict(content), metadata=dict(metadata or {}))
        with self.following(Inbox(message["header"]["msg_id"])) as inbox:
            self._send_on_shell(message)
            yield inbox

    @contextmanager
    def following(self, inbox: Inbox) -> Iterator[Inbox]:
        """Within the block, deliver messages about the inbox's request to it. If the request was
        sent through an earlier connection, its outputs arrive but its reply does not.
        """
        self._inboxes[inbox.request_id] = inbox
        try:
            yield inbox
        finally:
            del self._inboxes[inbox.request_id]

    def probe(self) -> asyncio.Event:
        """An event that is set once all outputs that the kernel has sent so far have arrived."""
        message = self._client.session.msg("kernel_info_request")
        arrived = self._probes[message["header"]["msg_id"]] = asyncio.Event()
        self._send(self._client.control_channel, message)
        return arrived

    async def has_heartbeat(self, seconds: float) -> bool:
        """Whether the process is alive, however busy: its heartbeat has its own thread.
        https://jupyter-client.readthedocs.io/en/stable/messaging.html#heartbeat-for-kernels
        """
        heart = self._client.connect_hb()
        try:
            await heart.send(b"ping")
            return bool(await heart.poll(round(1000 * seconds)))
        finally:
            heart.close(linger=0)

    async def sync_widgets(self) -> None:
        """Send the contents of Output widgets to the kernel, where code may read them.

        One after the other: a kernel may leave the second of two requests unread (`_wake`).
        """
        for content in self.widgets.unsent():
            message = self._client.session.msg("comm_msg", dict(content))
            handled = self._handled[message["header"]["msg_id"]] = asyncio.Event()
            self._send_on_shell(message)
            with suppress(TimeoutError):
                async with asyncio.timeout(_WIDGET_S):
                    await handled.wait()

    async def ask(
        self, kind: str, content: Mapping[str, Any], *, seconds: float
    ) -> Mapping[str, Any] | None:
        """The content of the reply to `{kind}_request`; None on a timeout."""
        with self.request(f"{kind}_request", content) as inbox:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0 and not self.ended.done():
                message = await inbox.next(left)
                if message is not None and message.kind == f"{kind}_reply":
                    return message.content
        return None

    async def keep_results(self) -> None:
        """Make code outside of cells leave a person's results (`_`, `Out`) unchanged. If that
        fails, such code runs all the same.
        """
        python = self.language_info is not None and self.language_info.get("name") == "python"
        if self._keeps_results or not python or self.ended.done():
            return
        source = inspect.getsource(scratch)
        expression = f"(lambda s: (exec({source!r}, s), s['keep_results']())[1])({{}})"
        request = {
            "code": "",
            "silent": True,
            "store_history": False,
            "user_expressions": {"kept": expression},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        reply = await self.ask("execute", request, seconds=_KEEP_S)
        self._keeps_results = reply is not None and reply.get("status") == "ok"

    def on_late_message(self, request_id: str, take: Callable[[Received], None]) -> None:
        """Call `take` with messages about a request that arrive after its block: threads continue
        after their cell has ended.
        """
        self._late[request_id] = take
        if len(self._late) > _MAX_LATE_REQUESTS:
            forgotten, _ = self._late.popitem(last=False)
            self.widgets.forget(forgotten)

    def end(self, how: ConnectionEnd) -> None:
        """Mark the connection as ended; only the first call counts."""
        if not self.ended.done():
            self.ended.set_result(how)

    async def close(self) -> None:
        """Close the channels. Running requests count as ended by a restart."""
        self.end("restarted")
        if self._waking is not None:
            self._waking.cancel()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._receive is from_queue:  # it waits for the other end of its websocket
            await asyncio.to_thread(self._client.stop_channels)
        else:
            self._client.stop_channels()

    def _send(self, channel: Any, message: KernelMessage) -> None:
        """Send a message; a failure ends the connection, since no answer would come."""
        if self._receive is from_queue:  # a gateway takes messages without a channel for shell
            message = {**message, "channel": channel.channel_name}
        try:
            channel.send(message)
            if self._receive is from_socket:
                # jupyter_client bypasses pyzmq's event handling when it sends: messages that have
                # arrived would stay unread until another one arrives. https://libzmq.readthedocs.io/en/latest/zmq_getsockopt.html
                channel.socket.get(zmq.EVENTS)
        except (OSError, WebSocketException):
            log.warning("A message to a kernel could not be sent.", exc_info=True)
            self.end("broke")

    def _send_on_shell(self, message: KernelMessage) -> None:
        self._send(self._client.shell_channel, message)
        self._unanswered.add(message["header"]["msg_id"])
        self._wake_in(_WAKE_S)

    def _wake_in(self, seconds: float) -> None:
        if self._waking is not None:
            self._waking.cancel()
        self._waking = asyncio.get_running_loop().call_later(seconds, self._wake, seconds)

    def _wake(self, waited: float) -> None:
        """Wake a kernel that has left a request unread. ipykernel 7.0 to 7.3 leaves a request that
        comes while it sends a reply until the next one comes: one of our requests, or a cell that a
        person runs as our code ends.
        https://github.com/ipython/ipykernel/blob/v7.4.0/ipykernel/subshell_manager.py
        """
        self._waking = None
        if self.ended.done() or not (self._unanswered or self._replied):
            return
        message = self._client.session.msg("kernel_info_request")
        self._wake_up = message["header"]["msg_id"]
        self._replied = False
        self._send(self._client.shell_channel, message)
        # Any response to it is enough: by then the kernel has read all earlier messages.
        self._unanswered = {self._wake_up}
        self._wake_in(min(2 * waited, _MAX_WAKE_S))

    async def _read(self, name: str) -> None:
        channel = getattr(self._client, f"{name}_channel")
        while True:
            messages = await self._receive(channel)
            for message in messages:
                try:
                    self._dispatch(name, message)
                except Exception:  # one odd message must not stop other runs
                    log.exception("An invalid message of a kernel was left out.")
            # Receiving does not yield while messages wait: a flood must not block the server.
            await asyncio.sleep(0)

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        """Mark the connection as broken: without one of its readers it cannot be used."""
        if self.ended.done():
            return
        error = None if reader.cancelled() else reader.exception()
        log.error("The connection to a kernel broke.", exc_info=error)
        self.end("broke")

    def _dispatch(self, channel: str, message: Mapping[str, Any]) -> None:
        parent = message.get("parent_header") or {}
        kind, content = message["header"]["msg_type"], message["content"]
        if channel == "iopub":
            self._numbering.note(message["header"].get("msg_id"), self._inboxes.values())
        if not isinstance(content, Mapping):
            raise TypeError(f"the content of a `{kind}` is not a mapping")
        received = Received(channel, kind, content)
        if channel == "iopub":
            self._observe(kind, content, parent)
        elif kind == "kernel_info_reply":
            self._answered.set()
            self.language_info = language_info_of(content)
            self._has_subshells = "kernel subshells" in str(content.get("supported_features"))
            if parent.get("msg_id") == self._greeting:
                self._greeted = True
                for done in self._before_greeting:
                    self._running.pop(done, None)
                self._note_free()
        request_id = parent.get("msg_id", "")
        self._unanswered.discard(request_id)
        if channel == "shell" and self._has_subshells and request_id != self._wake_up:
            self._replied = True
            self._wake_in(_WAKE_S)
        if channel == "iopub":
            self.widgets.follow(kind, content, message.get("buffers") or ())
            ours = request_id in self._inboxes or request_id in self._late
            if ours and self.widgets.take(request_id, kind, content):
                return
            if kind in FROM_THREADS and is_greeting(parent, self._client.session):
                # ipykernel sends a thread's output as that of its last request, whatever that is.
                request_id = self._last_code
        if (inbox := self._inboxes.get(request_id)) is not None:
            inbox.put(received)
        elif (take := self._late.get(request_id)) is not None:
            take(received)
        elif kind == "update_display_data":
            for other in self._inboxes.values():
                other.put(received)

    def _observe(self, kind: str, content: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
        """Track what the kernel runs, for any client, and the announcement of its end."""
        if kind == "shutdown_reply":  # on request; a kernel that dies does not send it
            self._on_end("restarted")
        if kind == "execute_input":
            self._announced.intersection_update(self._running)
            self._announced.add(parent.get("msg_id", ""))
            self._last_code = parent.get("msg_id", "")
        if kind != "status":
            return
        if (probe := self._probes.pop(parent.get("msg_id", ""), None)) is not None:
            probe.set()
        state = content["execution_state"]
        if state == "idle" and (handled := self._handled.pop(parent.get("msg_id", ""), None)):
            handled.set()
        if state == "starting" and self._settled:
            self._on_end("restarted")
        elif state in ("restarting", "dead"):  # a gateway reports a kernel that died this way
            self._on_end("died")
        elif parent.get("msg_type") == "execute_request":
            if state == "busy":
                self._running[parent["msg_id"]] = time.monotonic()
            else:
                self._running.pop(parent["msg_id"], None)
            self._note_free()
        elif parent.get("session") == self._client.session.session:
            self._iopub_ready.set()
            self._settled |= parent["msg_id"] == self._greeting

    def _greet(self) -> None:
        """Send a request on shell, whose answer shows that all earlier code has ended."""
        request = self._client.session.msg("kernel_info_request")
        self._greeting = request["header"]["msg_id"]
        self._greeted = False
        self._before_greeting = set(self._running)
        self._greeted_at = time.monotonic()
        self._send_on_shell(request)

    def _greet_again(self) -> None:
        """Send the request again if its answer is overdue, which may be lost. The pause doubles: a
        kernel that was already busy when we connected answers all of them once it is free.
        """
        waited = time.monotonic() - self._greeted_at
        if not self._free.is_set() and not self._running and waited > self._patience:
            self._patience = min(2 * self._patience, 60.0)
            self._greet()

    def _note_free(self) -> None:
        if self._greeted and not self._running:
            self._free.set()
        else:
            self._free.clear()
