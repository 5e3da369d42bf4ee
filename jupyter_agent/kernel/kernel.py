"""A running kernel and our connection to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import zmq
import zmq.asyncio
from jupyter_core.utils import ensure_async
from jupyter_events import EventLogger
from tornado.web import HTTPError

from jupyter_agent.errors import Busy, KernelUnavailable
from jupyter_agent.kernel.channels import End, KernelGone
from jupyter_agent.kernel.client import Connection
from jupyter_agent.kernel.execution import Execution
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.kernel.reply import exit_of
from jupyter_agent.kernel.scratch import MARK, SCRATCH
from jupyter_agent.kernel.waiting import restart_process, wait_settled
from jupyter_agent.kernel.widgets import Widgets

log = logging.getLogger(__name__)

KernelState: TypeAlias = Literal["idle", "busy", "starting", "dead", "unknown"]
START_FAILURES = (OSError, RuntimeError, ValueError, HTTPError)
"""Errors of kernel provisioners and gateways when a kernel does not start."""
_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
_INSPECT_SECONDS = 2.0
_LOOK = 0.25
"""Seconds between two checks of a process that does not answer yet."""
_LOOK_PATIENCE_S = 2.0
"""Seconds that such a check may take: with a gateway it is a request, which may be retried."""
_EXIT_S = 15.0
"""Seconds for a kernel to exit after its code asked for that."""


class Kernel:
    """A running kernel: executes code in order of arrival, and reports the kernel's state.

    It connects on first use, and again when the process was replaced.
    """

    def __init__(
        self, kernel_id: str, manager: Any, context: zmq.asyncio.Context, *, start_timeout: float
    ) -> None:
        self.id = kernel_id
        self.queue = asyncio.Lock()
        self.only_user: object | None = None
        """The user that started it, as long as no one else has used it."""
        self._all = manager
        self._manager = manager.get_kernel(kernel_id)
        self._context = context
        self._start_timeout = start_timeout
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._restarting = asyncio.Lock()
        self._executions: set[Execution] = set()
        self._ready = self._manager.ready
        self._living = True
        self._generation = 0
        self._last_end: End = "restarted"
        self._cause = ""
        self._dies_at_start = False
        self._leaving: asyncio.Task[None] | None = None
        self._unheard_since: float | None = None
        self._ports: Any = None
        self._answered = False
        self._language_info: Mapping[str, Any] | None = None
        self._manager.add_restart_callback(self._on_death, "restart")
        self._own_interrupts = 0  # that Jupyter has not reported yet
        self._events: EventLogger | None = getattr(self._manager, "event_logger", None)
        if self._events is not None:
            self._events.add_listener(schema_id=_ACTIONS, listener=self._on_action)

    def use(self, user: object) -> None:
        """Note that `user` uses the kernel: `only_user` is cleared for anyone but its starter."""
        if self.only_user is not user:
            self.only_user = None

    @property
    def name(self) -> str:
        """Name of the kernelspec."""
        return str(self._manager.kernel_name)

    @property
    def language(self) -> str:
        """Language of the code, in lower case as in the kernelspec; empty if unknown."""
        if self.language_info is not None:
            return str(self.language_info["name"]).lower()
        spec = getattr(self._manager, "kernel_spec", None)
        return str(getattr(spec, "language", None) or "").lower()

    @property
    def language_info(self) -> Mapping[str, Any] | None:
        """The `language_info` metadata for notebooks; None until the first connection."""
        if self._connection is not None and self._connection.language_info is not None:
            self._language_info = self._connection.language_info
        return self._language_info

    @property
    def state(self) -> KernelState:
        """The state of the kernel, as far as known without a request."""
        self._look()
        if self.is_gone:
            return "dead"
        if not self._living:
            ended = self._manager.ready.done() and self._leaving is None
            return "dead" if ended else "starting"
        if self._connection is not None and not self._connection.ended.done():
            if self._connection.busy_since is None:
                return "idle"
            return "starting" if self.busy_seconds is None else "busy"
        reported = getattr(self._manager, "execution_state", None)
        return reported if reported in ("idle", "busy", "starting", "dead") else "unknown"

    @property
    def busy_seconds(self) -> float | None:
        """How long the current code has been running, whoever sent it; or None."""
        connection = self._connection
        since = connection.busy_since if connection and not connection.ended.done() else None
        if since is None or (self._connecting.locked() and not self._is_reported_busy()):
            return None  # it does not answer yet since it is starting
        return time.monotonic() - since

    @property
    def busy_silently(self) -> bool:
        """Whether it only runs silent code, such as requests of other extensions, and no cell."""
        return self._connection is not None and self._connection.runs_silently

    @property
    def widgets(self) -> Widgets:
        """The widgets that the process has announced to us."""
        return Widgets() if self._connection is None else self._connection.widgets

    @property
    def life(self) -> str:
        """Identifies the process: if it changes, all variables are lost."""
        return f"{self.id}/{self.generation}"

    @property
    def is_gone(self) -> bool:
        """Whether the kernel was shut down, culled, or died for good."""
        return self.id not in self._all

    @property
    def in_use(self) -> bool:
        """Whether our code runs or waits."""
        return bool(self._executions)

    @property
    def generation(self) -> int:
        """Number of the process: increases when it is replaced, and all variables are lost."""
        self._look()
        return self._generation

    def execute(
        self,
        code: str,
        sink: OutputSink,
        *,
        silent: bool = False,
        store_history: bool = True,
        timeout: float | None = None,
        user_expressions: Mapping[str, str] | None = None,
    ) -> Execution:
        """Queue code; `await` the result for its reply.

        It starts after all code queued earlier and the person's running cells. `timeout` is in
        seconds from that start; then the kernel is interrupted. `input()` fails at once. Without
        `store_history` a person's results (`_`, `Out`) also stay unchanged.
        """
        request = {
            "code": code,
            "silent": silent,
            "store_history": store_history and not silent,
            "user_expressions": dict(user_expressions or {}),
            "allow_stdin": False,
            # Our failure must not make the kernel drop cells that the person has queued.
            "stop_on_error": False,
        }
        metadata = {} if silent or store_history else {MARK: SCRATCH}
        return self._track(Execution(self, sink, request, metadata=metadata, timeout=timeout))

    def follow(
        self, request_id: str, sink: OutputSink, *, timeout: float | None = None
    ) -> Execution:
        """Follow code that an earlier server sent, to its end; `timeout` counts from now. Outputs
        sent while no server was connected are lost.
        """
        return self._track(Execution(self, sink, {}, timeout=timeout, sent=request_id))

    def _track(self, execution: Execution) -> Execution:
        self._executions.add(execution)
        execution.on_done(lambda: self._executions.discard(execution))
        return execution

    @property
    def connection_file(self) -> str:
        """The connection file of a kernel that another program started; else empty."""
        files = getattr(self._all, "kernel_id_to_connection_file", {})
        return str(files.get(self.id, ""))

    async def interrupt(self) -> None:
        """Interrupt the running code; ours ends as `interrupted`, as does what waits for the start
        of the kernel. Raises Busy during a start that nothing waits for.
        """
        starting = self.state == "starting"
        if starting and not self._executions:
            raise Busy("The kernel is starting: nothing runs in it yet.")
        if not starting and all(execution.began is None for execution in self._executions):
            await self.interrupt_process()
        for execution in list(self._executions):
            if execution.began is None and not starting:
                execution.on_interrupt()
            else:
                await execution.interrupt()

    async def restart(self) -> None:
        """Restart the process and wait for the new one. Raises KernelUnavailable."""
        async with self._restarting:
            await wait_settled(self._manager, self._ready, seconds=self._start_timeout)
            try:
                await restart_process(self._all, self.id)
            except START_FAILURES as error:
                raise KernelUnavailable(f"The kernel could not be restarted: {error}") from error
            self._look()
        if self._connection is not None and not self._connection.ended.done():
            self._end("restarted")  # with a gateway the manager does not report it
        await self.connect()

    async def inspect(
        self, code: str, cursor_pos: int, *, detail_level: int = 0
    ) -> Mapping[str, Any]:
        """The kernel's description of the name at the cursor: an inspect_reply's content.

        Raises Busy if the kernel does not answer within 2 s.
        """
        request = {"code": code, "cursor_pos": cursor_pos, "detail_level": detail_level}
        connection = await self.connect()
        reply = await connection.ask("inspect", request, seconds=_INSPECT_SECONDS)
        if reply is None:
            raise Busy("The kernel is busy and does not answer now. Ask when its cell has ended.")
        return reply

    async def connect(self, *, busy: bool = False) -> Connection:
        """The connection to the current process; `busy` if it is known to run something.

        Raises KernelUnavailable.
        """
        async with self._connecting:
            if self._leaving is not None:
                await asyncio.shield(self._leaving)  # code that waits may be withdrawn
            until = time.monotonic() + self._start_timeout
            while True:
                await self.check()
                if self._connection is not None and not self._connection.ended.done():
                    return self._connection
                await self._disconnect()
                self._refuse_dead()
                await self._open(until, busy)

    async def check(self) -> None:
        """Check whether the process is alive, and end the connection if not."""
        self._look()
        if not self._living:
            return
        if self.is_gone:
            self._end("restarted")
            return
        alive = await self._is_alive()
        if alive is False and self._manager.ready is self._ready:
            self._end("died")
        if alive is not None:
            self._unheard_since = None
        elif self._unheard_since is None:
            self._unheard_since = time.monotonic()
        elif time.monotonic() - self._unheard_since > self._start_timeout:
            self._unheard_since = None
            if self._connection is not None:  # it may not have noticed that the network is down
                self._connection.end("broke")

    async def _is_alive(self) -> bool | None:
        """None without an answer: a gateway may be slow or temporarily unreachable. Only the
        heartbeat shows whether a process of another program is alive.
        """
        if getattr(self._manager, "owns_kernel", True) is False and self._connection is not None:
            return await self._connection.has_heartbeat(_LOOK_PATIENCE_S) or None
        try:
            async with asyncio.timeout(_LOOK_PATIENCE_S):
                return bool(await ensure_async(self._manager.is_alive()))
        except (*START_FAILURES, TimeoutError):
            return None

    async def interrupt_process(self) -> None:
        """Interrupt the kernel, whatever it does. Raises KernelUnavailable."""
        self._own_interrupts += 1
        try:
            await ensure_async(self._all.interrupt_kernel(self.id))
        except START_FAILURES as error:
            self._own_interrupts -= 1
            raise KernelUnavailable(f"The kernel could not be interrupted: {error}") from error

    def how_it_ended(self) -> End:
        return self._last_end

    def why_it_ended(self) -> str:
        return self._cause

    def leave(self) -> None:
        """The code asked the process to exit, so it will end soon: send nothing more to it."""
        connection = self._connection
        if connection is None or not self._living:
            return
        self._living = False
        self._generation += 1
        self._last_end = "restarted"
        self._leaving = asyncio.create_task(self._await_exit(connection))

    async def _await_exit(self, connection: Connection) -> None:
        try:
            async with asyncio.timeout(_EXIT_S):
                while not (connection.ended.done() or self.is_gone):
                    if self._manager.ready is not self._ready or await self._is_alive() is False:
                        break
                    await asyncio.wait([connection.ended], timeout=_LOOK)
        except TimeoutError:
            log.warning("A kernel keeps running though its code asked it to exit.")
        finally:
            connection.end("restarted")
            self._leaving = None

    async def close(self) -> None:
        """Close our channels; the kernel continues. Our running code is no longer followed."""
        for execution in list(self._executions):
            await execution.cancel()
        self._manager.remove_restart_callback(self._on_death, "restart")
        if self._events is not None:
            self._events.remove_listener(schema_id=_ACTIONS, listener=self._on_action)
        if self._leaving is not None:
            self._leaving.cancel()
        await self._disconnect()

    def _look(self) -> None:
        """Notice a replaced process: a manager makes a new `ready` when it stops or starts one."""
        ready = self._manager.ready
        if ready is self._ready:
            return
        if self._living:  # else its end is known, and the connection is to its successor
            self._end("restarted")
        if ready.done():
            self._ready = ready
            self._living = True
            if self._connection is not None and self._ports != self._ports_now():
                self._connection.end("broke")  # it waits for a process that died while starting

    def _on_death(self) -> None:
        """The kernel manager found the process dead and is about to start another."""
        self._end("died")

    async def _on_action(self, logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
        """A kernel was started, interrupted, restarted or shut down through Jupyter."""
        about = (data.get("kernel_id"), data["action"], data.get("status"))
        if about != (self.id, "interrupt", "success"):
            return
        if self._own_interrupts:  # a gateway may report it after the code that it ended
            self._own_interrupts -= 1
            return
        for execution in self._executions:
            execution.on_interrupt()

    def _end(self, how: End) -> None:
        """The process ended. The first call counts: a death comes before the restart it causes."""
        if self._living:
            self._living = False
            # If it never answered, waiting code can run in the next process.
            silent = getattr(self._manager, "execution_state", None) == "starting"
            self._dies_at_start = how == "died" and silent and not self._answered
            self._generation += not self._dies_at_start
            self._answered = False
            self._last_end = how
            self._cause = exit_of(self._manager) if how == "died" else ""
        if self._connection is not None:
            self._connection.end(self._last_end)

    def _refuse_dead(self) -> None:
        """Raises KernelUnavailable if neither this process nor another one will answer. A gateway
        decides itself whether it starts another one.
        """
        ended = not self._living and self._leaving is None and self._manager.ready is self._ready
        is_local = self._ports_now() is not None
        if self.is_gone or (ended and is_local and not self._manager.autorestart):
            raise KernelUnavailable(self._why_gone())

    def _why_gone(self) -> str:
        if self._dies_at_start:
            cause = f": {self._cause}" if self._cause else ""
            return f"The kernel dies at its start{cause}. The server's log has its last words."
        if self.is_gone:
            return "The kernel is gone. Start it again."
        return "The kernel has ended, and Jupyter starts no other by itself. Restart it."

    def _ports_now(self) -> Any:
        """The ports of the process; None with a gateway. Its next process may have others."""
        return getattr(self._manager, "ports", None)

    def _is_reported_busy(self) -> bool:
        """Whether the manager last reported it as busy; not if it died or does not answer."""
        answers = self._living and self._unheard_since is None
        return answers and getattr(self._manager, "execution_state", None) == "busy"

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._language_info = connection.language_info or self._language_info
            await connection.close()

    async def _open(self, until: float, busy: bool) -> None:
        """Connect once the process answers. A busy kernel has no time limit."""
        try:
            connection = await Connection.open(self._manager, self._context, on_end=self._end)
        except KernelGone as error:  # culled by the gateway, which Jupyter may not notice
            self._all.remove_kernel(self.id)
            raise KernelUnavailable("The kernel is gone. Start it again.") from error
        except ConnectionError as error:
            raise KernelUnavailable(
                f"The kernel's gateway cannot be reached: {error}. Try again later."
            ) from error
        self._connection, self._ports = connection, self._ports_now()
        busy = busy or self._is_reported_busy()  # a gateway's manager may not know its state
        ready = asyncio.ensure_future(connection.wait_ready(busy=busy))
        try:
            while not ready.done():
                await asyncio.wait([ready], timeout=_LOOK)
                await self.check()
                self._refuse_dead()
                if time.monotonic() > until and not self._is_reported_busy():
                    raise KernelUnavailable(
                        f"The kernel did not answer within {self._start_timeout:g} s. Restart it."
                    )
            self._living = self._living or ready.result()
            self._answered = ready.result()
        finally:
            if not (ready.done() and ready.result()):
                ready.cancel()
                await self._disconnect()
