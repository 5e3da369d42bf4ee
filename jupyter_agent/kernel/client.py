"""Our own channels to one kernel process: each message finds the request that it answers."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from queue import Empty
from typing import Any, Literal, NamedTuple, TypeAlias

import zmq
import zmq.asyncio
from jupyter_client.session import Session
from jupyter_core.utils import ensure_async
from websocket import WebSocketBadStatusException, WebSocketException

from jupyter_agent.kernel import scratch
from jupyter_agent.kernel.outputs import language_info_of, too_large
from jupyter_agent.kernel.widgets import Widgets

log = logging.getLogger(__name__)

End: TypeAlias = Literal["died", "restarted"]
"""How a kernel process ended: by itself, or because somebody asked (for a shutdown, too)."""
ConnectionEnd: TypeAlias = Literal["died", "restarted", "broke"]
"""How a connection ended: with the process, or it broke and the process may go on."""
_CHANNELS = ("iopub", "shell", "control")
KernelMessage: TypeAlias = dict[str, Any]
_GREETING_S = 5.0
"""Seconds in which a kernel that runs nothing answers on shell."""
_SLICE_S = 0.005
"""Seconds of reading or taking messages after which other work of the server has its turn."""
_THREAD_BYTES = 1_000_000
"""Bytes of a message's content from which on it is parsed in a thread."""
MAX_CONTENT_BYTES = 50_000_000
"""Bytes of a content that is parsed at all: that blocks every thread, and no cell can hold it."""
_WAKE_S = 0.3
"""Seconds after which a kernel is woken that may have left a request where it is."""
_MAX_WAKE_S = 60.0
"""Seconds between two such messages at most: a kernel that is busy answers all of them at its end.
"""
_WIDGET_S = 2.0
"""Seconds for a kernel to take in what a widget holds."""
_KEEP_S = 5.0
"""Seconds for a kernel to take in what keeps a person's results."""
_MAX_LATE_REQUESTS = 100
"""Requests whose late messages still find their way."""


class KernelGone(ConnectionError):
    """A gateway has no such kernel any more."""


class Received(NamedTuple):
    """A message and the channel it came on."""

    channel: str
    kind: str
    content: Mapping[str, Any]


class Inbox:
    """What the kernel sends about one request, in order."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self._messages: asyncio.Queue[Received] = asyncio.Queue()
        self._taking_since = 0.0

    def put(self, message: Received) -> None:
        self._messages.put_nowait(message)

    async def next(self, seconds: float) -> Received | None:
        """The next message, or None after so many seconds of silence."""
        if not self._messages.empty():
            if time.monotonic() - self._taking_since > _SLICE_S:  # outputs pour in
                await asyncio.sleep(0)
                self._taking_since = time.monotonic()
            return self._messages.get_nowait()
        try:
            async with asyncio.timeout(seconds):
                return await self._messages.get()
        except TimeoutError:
            return None


class Connection:
    """Channels to one kernel process, until it ends."""

    def __init__(
        self,
        client: Any,
        receive: Callable[[Any], Awaitable[list[KernelMessage]]],
        told: Callable[[End], None],
    ) -> None:
        self.ended: asyncio.Future[ConnectionEnd] = asyncio.get_running_loop().create_future()
        self.language_info: Mapping[str, Any] | None = None
        """As the kernel tells it; None until then."""
        self._client = client
        self._receive = receive
        self._told = told
        self._inboxes: dict[str, Inbox] = {}
        self._late: OrderedDict[str, Callable[[Received], None]] = OrderedDict()
        self._running: dict[str, float] = {}
        self._announced = set[str]()
        """Of what runs: requests whose code the kernel told to all its clients."""
        self._probes: dict[str, asyncio.Event] = {}
        self._handled: dict[str, asyncio.Event] = {}
        """Messages of which we wait until the kernel is done with them."""
        self._unheard = set[str]()
        """Requests on shell about which the kernel has said nothing yet."""
        self._waking: asyncio.TimerHandle | None = None
        self._wake_up = ""
        """The last message that was sent only to wake the kernel."""
        self._replied = False
        """Whether the kernel has sent a reply since, and may have left what came meanwhile."""
        self._has_subshells = False
        self.widgets = Widgets()
        self._heard = asyncio.Event()
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
        self._readers = [asyncio.create_task(self._read(name)) for name in _CHANNELS]
        for reader in self._readers:
            reader.add_done_callback(self._reader_ended)

    @classmethod
    async def open(
        cls, manager: Any, context: zmq.asyncio.Context, *, told: Callable[[End], None]
    ) -> Connection:
        """Connect to the kernel of a `jupyter_client` manager; it can be used once `ready`.

        `told` is called when the kernel's own messages tell its end. Raises KernelGone where a
        gateway has no such kernel, other ConnectionErrors where it does not let us in.
        """
        try:
            client = manager.client_factory(parent=manager)
        except TypeError:  # a gateway's client wants more, and has a websocket instead of sockets
            client = manager.client(session=Session(parent=manager))
            try:
                await asyncio.to_thread(asyncio.run, _started(client))  # its websocket blocks
            except WebSocketBadStatusException as error:  # its own words have cookies in them
                if error.status_code == HTTPStatus.NOT_FOUND:
                    raise KernelGone("it has no such kernel any more") from error
                raise ConnectionError(f"it answered {error.status_code}") from error
            except (OSError, WebSocketException) as error:
                raise ConnectionError(str(error)) from error
            # Its time limit is that of a kernel's start: a cell may say nothing for longer.
            client.channel_socket.settimeout(None)
            return cls(client, from_queue, told)
        client.context = context
        client.load_connection_info(manager.get_connection_info())
        await _started(client)
        return cls(client, from_socket, told)

    async def ready(self, *, busy: bool) -> bool:
        """True once the kernel answers and its outputs reach us, False if it ends before that.

        A kernel that is known to be busy answers on control alone, or when it is free.
        """
        answered = self._answered if busy else self._free
        self._greet()
        pause = 0.05
        while not (answered.is_set() and self._heard.is_set()):
            # The status that goes with each answer shows whether iopub is connected by now:
            # subscribing takes a moment, and what is sent before is lost.
            greeting = self._client.session.msg("kernel_info_request")
            self._send(self._client.control_channel, greeting)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await answered.wait()
                    await self._heard.wait()
            pause = min(2 * pause, 1.0)
            self._greet_again()
            if self.ended.done():
                return False
        return True

    @property
    def busy_since(self) -> float | None:
        """When what runs now was begun (`time.monotonic`), whoever sent it; None when idle."""
        if self._running:
            return min(self._running.values())
        return None if self._free.is_set() else self._opened

    @property
    def runs_silently(self) -> bool:
        """Whether something runs, and all of it was sent as silent. A kernel tells its clients what
        a person runs (`execute_input`), and not what extensions ask it without showing it:
        https://jupyter-client.readthedocs.io/en/stable/messaging.html#execute
        """
        return bool(self._running) and self._announced.isdisjoint(self._running)

    async def free(self) -> None:
        """Return when nothing runs: a person's own cells go first."""
        if not self._free.is_set():
            self._greet()  # should an `idle` be lost, the answer still comes
        while not self._free.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_GREETING_S):
                    await self._free.wait()
            self._greet_again()

    @contextmanager
    def request(
        self, kind: str, content: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Iterator[Inbox]:
        """Send a request on shell; its answers go to the inbox while the block lasts."""
        message = self._client.session.msg(kind, dict(content), metadata=dict(metadata or {}))
        with self.following(Inbox(message["header"]["msg_id"])) as inbox:
            self._send_on_shell(message)
            yield inbox

    @contextmanager
    def following(self, inbox: Inbox) -> Iterator[Inbox]:
        """While the block lasts, what comes about the inbox's request goes there. It may have been
        sent through an earlier connection: then its outputs come, and its reply does not.
        """
        self._inboxes[inbox.request_id] = inbox
        try:
            yield inbox
        finally:
            del self._inboxes[inbox.request_id]

    def probe(self) -> asyncio.Event:
        """Set once everything that the kernel has shown up to now has arrived."""
        message = self._client.session.msg("kernel_info_request")
        arrived = self._probes[message["header"]["msg_id"]] = asyncio.Event()
        self._send(self._client.control_channel, message)
        return arrived

    async def beats(self, seconds: float) -> bool:
        """Whether the process is there, however busy it is: its heart is a thread of its own.
        https://jupyter-client.readthedocs.io/en/stable/messaging.html#heartbeat-for-kernels
        """
        heart = self._client.connect_hb()
        try:
            await heart.send(b"ping")
            return bool(await heart.poll(round(1000 * seconds)))
        finally:
            heart.close(linger=0)

    async def tell_widgets(self) -> None:
        """Have the kernel know what its Output widgets hold now: code may read it.

        One after the other: a kernel may leave the second of two that come at once (`_wake`).
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
        """The content of the reply to `{kind}_request`; None if none comes in time."""
        with self.request(f"{kind}_request", content) as inbox:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0 and not self.ended.done():
                message = await inbox.next(left)
                if message is not None and message.kind == f"{kind}_reply":
                    return message.content
        return None

    async def keep_results(self) -> None:
        """Have the kernel leave alone what it keeps for a person while code in no cell runs. Where
        that cannot be, such code runs all the same.
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

    def when_late(self, request_id: str, take: Callable[[Received], None]) -> None:
        """Have `take` called with what still comes about a request after its block: threads go on
        when their cell has ended.
        """
        self._late[request_id] = take
        if len(self._late) > _MAX_LATE_REQUESTS:
            forgotten, _ = self._late.popitem(last=False)
            self.widgets.forget(forgotten)

    def end(self, how: ConnectionEnd) -> None:
        """Nothing more comes of what is under way; the first word counts."""
        if not self.ended.done():
            self.ended.set_result(how)

    async def close(self) -> None:
        """Close the channels. What is still under way counts as ended by a restart."""
        self.end("restarted")
        if self._waking is not None:
            self._waking.cancel()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        if self._receive is from_queue:  # it waits for the other side of its websocket
            await asyncio.to_thread(self._client.stop_channels)
        else:
            self._client.stop_channels()

    def _send(self, channel: Any, message: KernelMessage) -> None:
        """What cannot be sent has no answer: the connection is of no use any more."""
        if self._receive is from_queue:  # a gateway takes everything for shell that says nothing
            message = {**message, "channel": channel.channel_name}
        try:
            channel.send(message)
            if self._receive is from_socket:
                # jupyter_client sends behind the back of pyzmq: what has come meanwhile would not
                # be read before something else comes. https://libzmq.readthedocs.io/en/latest/zmq_getsockopt.html
                channel.socket.get(zmq.EVENTS)
        except (OSError, WebSocketException):
            log.warning("A message to a kernel could not be sent.", exc_info=True)
            self.end("broke")

    def _send_on_shell(self, message: KernelMessage) -> None:
        self._send(self._client.shell_channel, message)
        self._unheard.add(message["header"]["msg_id"])
        self._wake_in(_WAKE_S)

    def _wake_in(self, seconds: float) -> None:
        if self._waking is not None:
            self._waking.cancel()
        self._waking = asyncio.get_running_loop().call_later(seconds, self._wake, seconds)

    def _wake(self, waited: float) -> None:
        """ipykernel 7.0 to 7.3 leaves a request that comes while it sends a reply where it is until
        another comes: ours, and a cell that a person runs as one of ours ends.
        https://github.com/ipython/ipykernel/blob/v7.4.0/ipykernel/subshell_manager.py
        """
        self._waking = None
        if self.ended.done() or not (self._unheard or self._replied):
            return
        message = self._client.session.msg("kernel_info_request")
        self._wake_up = message["header"]["msg_id"]
        self._replied = False
        self._send(self._client.shell_channel, message)
        # A word about it is enough: what was sent before it has been read by then.
        self._unheard = {self._wake_up}
        self._wake_in(min(2 * waited, _MAX_WAKE_S))

    async def _read(self, name: str) -> None:
        channel = getattr(self._client, f"{name}_channel")
        while True:
            messages = await self._receive(channel)
            for message in messages:
                try:
                    self._dispatch(name, message)
                except Exception:  # one odd message must not end what other runs wait for
                    log.exception("A message of a kernel does not fit and was left out.")
            # While messages wait, receiving does not yield: a flood must not stop the server.
            await asyncio.sleep(0)

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        """Nothing more would be heard: without one of its readers a connection is of no use."""
        if self.ended.done():
            return
        error = None if reader.cancelled() else reader.exception()
        log.error("The connection to a kernel broke.", exc_info=error)
        self.end("broke")

    def _dispatch(self, channel: str, message: Mapping[str, Any]) -> None:
        parent = message.get("parent_header") or {}
        kind, content = message["header"]["msg_type"], message["content"]
        if not isinstance(content, Mapping):
            raise TypeError(f"the content of a `{kind}` is no mapping")
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
        self._unheard.discard(request_id)
        if channel == "shell" and self._has_subshells and request_id != self._wake_up:
            self._replied = True
            self._wake_in(_WAKE_S)
        if channel == "iopub":
            self.widgets.follow(kind, content, message.get("buffers") or ())
            ours = request_id in self._inboxes or request_id in self._late
            if ours and self.widgets.take(request_id, kind, content):
                return
        if (inbox := self._inboxes.get(request_id)) is not None:
            inbox.put(received)
        elif (take := self._late.get(request_id)) is not None:
            take(received)
        elif kind == "update_display_data":
            for other in self._inboxes.values():
                other.put(received)

    def _observe(self, kind: str, content: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
        """Follow what the kernel does, for whomever: what runs, and its last words."""
        if kind == "shutdown_reply":  # somebody asked; a kernel that dies has no time for it
            self._told("restarted")
        if kind == "execute_input":
            self._announced.intersection_update(self._running)
            self._announced.add(parent.get("msg_id", ""))
        if kind != "status":
            return
        if (probe := self._probes.pop(parent.get("msg_id", ""), None)) is not None:
            probe.set()
        state = content["execution_state"]
        if state == "idle" and (handled := self._handled.pop(parent.get("msg_id", ""), None)):
            handled.set()
        if state == "starting" and self._settled:
            self._told("restarted")
        elif state in ("restarting", "dead"):  # a gateway's word for a kernel that died
            self._told("died")
        elif parent.get("msg_type") == "execute_request":
            if state == "busy":
                self._running[parent["msg_id"]] = time.monotonic()
            else:
                self._running.pop(parent["msg_id"], None)
            self._note_free()
        elif parent.get("session") == self._client.session.session:
            self._heard.set()
            self._settled |= parent["msg_id"] == self._greeting

    def _greet(self) -> None:
        """Ask something on shell: the answer shows that what ran before is done."""
        request = self._client.session.msg("kernel_info_request")
        self._greeting = request["header"]["msg_id"]
        self._greeted = False
        self._before_greeting = set(self._running)
        self._greeted_at = time.monotonic()
        self._send_on_shell(request)

    def _greet_again(self) -> None:
        """Should the answer be lost too: where nothing is known to run, it is overdue. Ever more
        rarely, as a kernel that was busy before we came answers all of them at its end.
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


async def _started(client: Any) -> None:
    channels = client.start_channels(shell=True, iopub=True, control=True, stdin=False, hb=False)
    await ensure_async(channels)


async def from_socket(channel: Any) -> list[KernelMessage]:
    """What waits in a zmq channel, in order; waits for one where there is none.

    Those that cannot be read, or are not signed by our kernel, are logged and left out.
    """
    frames = await channel.socket.recv_multipart(copy=False)
    waiting: Any = zmq.Socket.shadow(channel.socket)
    until = time.monotonic() + _SLICE_S
    messages: list[KernelMessage] = []
    while True:
        try:
            messages.append(await _read(channel.session, frames))
        except Exception:  # whatever reading raises: what a kernel sends must not end its reader
            log.exception("A message of a kernel cannot be read and was left out.")
        if time.monotonic() > until:
            return messages
        try:
            frames = waiting.recv_multipart(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return messages


async def from_queue(channel: Any) -> list[KernelMessage]:
    """What waits in a channel of a gateway, at least one message.

    It is a queue that a thread fills; waiting in it would spin. Raises ConnectionError.
    """
    while True:
        try:
            message: KernelMessage = await channel.get_msg(timeout=0)
        except Empty:
            await asyncio.sleep(0.02)
        except RuntimeError as error:
            raise ConnectionError("its websocket was closed") from error
        else:
            return [message]


async def _read(session: Any, frames: list[Any]) -> KernelMessage:
    _, parts = session.feed_identities(frames, copy=False)
    size = len(parts[4]) if len(parts) > 4 else 0
    if size < _THREAD_BYTES:
        return _deserialized(session, parts)
    if size <= MAX_CONTENT_BYTES:
        return await asyncio.to_thread(_deserialized, session, parts)
    return await asyncio.to_thread(_without_content, session, parts)


def _deserialized(session: Any, parts: list[Any]) -> KernelMessage:
    message: KernelMessage = session.deserialize(parts, copy=False)
    return message


def _without_content(session: Any, parts: list[Any]) -> KernelMessage:
    message: KernelMessage = session.deserialize(parts, content=False, copy=False)
    return {**message, "content": too_large(message["header"]["msg_type"], message["content"])}
