"""Finds, starts and ends the kernels of notebooks, and fresh kernels for one purpose."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async
from jupyter_server.gateway.managers import GatewayMappingKernelManager
from tornado.web import HTTPError

from jupyter_agent.errors import KernelNotInstalled, KernelUnavailable
from jupyter_agent.kernel.kernel import START_FAILURES, Kernel
from jupyter_agent.legible import with_names_quoted
from jupyter_agent.tasks import begin

log = logging.getLogger(__name__)

_KERNEL_FAILURES = (OSError, RuntimeError, ValueError, KeyError, HTTPError)
"""Errors of kernel provisioners and gateways when a kernel does not start or is gone."""
_INTERRUPT_GRACE_S = 1.0
"""Seconds for code to end after its interrupt, before its kernel is killed."""
_SESSION_GRACE_S = 5.0
"""Seconds after which a kernel that was started without a session is assumed to get none."""
_RACE_PAUSE_S = 0.3
"""Seconds in which a page that also found no session will have started its kernel."""
_CHOOSE = (
    "Install that one, choose one of these in the notebook's menu (Kernel, Change Kernel), or name "
    "one: as `kernel` for calls that take one, such as `restart_kernel`, as `name` for `POST "
    "notebooks/{path}/kernel`, with `--kernel` for `jupyter agent verify`."
)


class Kernels:
    """The kernels of this server's notebooks: each notebook's own, shared with the person."""

    def __init__(
        self,
        session_manager: Any,
        kernel_manager: Any,
        kernel_spec_manager: Any,
        *,
        start_timeout: float = 60,
        follow: Callable[[str], str] = lambda path: path,
    ) -> None:
        """`follow` returns the present path of a notebook that once had a path."""
        self._sessions = session_manager
        self._manager = kernel_manager
        self._specs = kernel_spec_manager
        self._start_timeout = start_timeout
        self._follow = follow
        self._moving = asyncio.Lock()
        """Held while sessions get the new paths of their notebooks."""
        self._kernels: dict[str, Kernel] = {}
        self._starting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._ours = set[str]()
        """Ids of the sessions that we started."""
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Kernel id -> the task that shuts it down."""
        # Not Jupyter's context: its receive limit dropped a third of a flood of outputs.
        self._context = zmq.asyncio.Context()
        self._context.setsockopt(zmq.RCVHWM, 0)

    async def find(self, path: str) -> Kernel | None:
        """The running kernel of the notebook's session, or None."""
        while True:
            session = await self._session(path)
            await self._forget_gone()
            if session is None:
                return None
            kernel_id = session["kernel"]["id"]
            if kernel_id not in self._ending:
                return self._kernel(kernel_id)
            await asyncio.wait([self._ending[kernel_id]])

    def _kernel(self, kernel_id: str) -> Kernel:
        if kernel_id not in self._kernels:
            self._kernels[kernel_id] = Kernel(
                kernel_id, self._manager, self._context, start_timeout=self._start_timeout
            )
        return self._kernels[kernel_id]

    async def get(
        self, path: str, *, name: str | None = None, user: object | None = None
    ) -> Kernel:
        """The notebook's kernel, started if none runs; then `user` may `end_unused` it.

        `name` is that of a kernelspec, by default the server's. Raises KernelNotInstalled,
        KernelUnavailable.
        """
        path = self._follow(path)
        async with self._starting[path]:
            kernel = await self.find(path)
            started: str | None = None
            if kernel is None:
                started = await self._start(path, name)
                kernel = await self.find(path)
            if kernel is None:
                raise KernelUnavailable("The kernel ended as soon as it was started.")
            if kernel.id == started:
                kernel.only_user = user
            kernel.use(user)
            return kernel

    async def attach(self, path: str, kernel_id: str, connection_file: str) -> Kernel | None:
        """The kernel that an earlier server used for this notebook, if it outlived that server; or
        None. It becomes the notebook's kernel again, unless the notebook now has another.

        Raises KernelUnavailable if its state is unknown.
        """
        # Also looks for kernels that other programs started.
        known = self._manager.list_kernel_ids()
        if kernel_id not in known:
            files = getattr(self._manager, "kernel_id_to_connection_file", {})
            matches = [each for each, file in files.items() if str(file) == connection_file]
            if not matches and not await self._attach_far(kernel_id):
                return None
            kernel_id = matches[0] if matches else kernel_id
        kernel, path = self._kernel(kernel_id), self._follow(path)
        async with self._starting[path]:
            if await self._session(path) is None:
                await self._sessions.create_session(
                    path=path,
                    name=path.rpartition("/")[2],
                    type="notebook",
                    kernel_name=kernel.name,
                    kernel_id=kernel_id,
                )
        return kernel

    async def _attach_far(self, kernel_id: str) -> bool:
        """Whether a gateway still has this kernel; if so, adds it to the kernel manager again."""
        if not isinstance(self._manager, GatewayMappingKernelManager):
            return False
        every: Any = self._manager
        try:
            await every.start_kernel(kernel_id=kernel_id)  # with an id it only looks for the kernel
        except START_FAILURES as error:
            every.remove_kernel(kernel_id)
            raise KernelUnavailable(f"The kernel's gateway cannot be reached: {error}.") from error
        one = every.get_kernel(kernel_id)
        if one.kernel is None:
            every.remove_kernel(kernel_id)
            return False
        one.kernel_name = one.kernel["name"]
        return True

    async def paths(self, kernel: Kernel) -> list[str]:
        """The paths of all notebooks that use this kernel."""
        sessions = await ensure_async(self._sessions.list_sessions())
        return [
            session["path"].strip("/")
            for session in sessions
            if session["kernel"]["id"] == kernel.id and session["type"] == "notebook"
        ]

    async def follow_rename(self, old: str, new: str) -> None:
        """A file or folder was renamed: the sessions of its notebooks get their new paths, so that
        these keep their kernels. Call it as soon as `follow` knows. A page with the notebook does
        the same.
        """
        for path in [path for path in self._starting if _is_below(path, old)]:
            self._starting.setdefault(self._follow(path), self._starting[path])
        try:
            async with self._moving:
                for session in await ensure_async(self._sessions.list_sessions()):
                    if _is_below((session["path"] or "").strip("/"), old):
                        await self._move(session)
        except _KERNEL_FAILURES as error:
            log.warning("What was renamed to %s may lose its kernel: %s", new, error)

    async def _move(self, session: Mapping[str, Any]) -> None:
        """Give the session the present path of its notebook."""
        path = session["path"].strip("/")
        if (now := self._follow(path)) != path:
            with suppress(*_KERNEL_FAILURES):  # it has ended
                name = now.rpartition("/")[2]
                await self._sessions.update_session(session["id"], path=now, name=name)

    @property
    def default_name(self) -> str:
        """The kernelspec name for notebooks without one."""
        return str(self._manager.default_kernel_name)

    async def kernelspec(self, name: str | None = None) -> dict[str, str]:
        """A notebook's `kernelspec` metadata for this kernel name, by default the server's.

        Raises KernelNotInstalled; KernelUnavailable if a gateway does not answer.
        """
        installed = await self._installed_specs()
        chosen = name or self.default_name
        found = chosen if chosen in installed else chosen.lower()  # as Jupyter looks for it
        if found not in installed:
            message = _no_kernel(chosen, "it is not installed", installed)
            if installed:
                message += f" {_CHOOSE}"
            raise KernelNotInstalled(message, installed=sorted(installed))
        spec = installed[found]["spec"]
        return {
            "name": found,
            "display_name": spec["display_name"],
            "language": spec["language"],
        }

    async def shutdown(self, path: str) -> None:
        """End the notebook's session and its kernel, if any. Raises KernelUnavailable."""
        session = await self._session(path)
        if session is not None:
            await self._shut_down(session["id"])
        await self._forget_gone()

    async def end_unused(self, path: str, user: object) -> None:
        """Shut down the kernel that `user` started, unless someone else has used it since, a page
        is connected to it or code runs in it. Requests for it in the meantime get a new kernel.
        Raises KernelUnavailable.
        """
        session = await self._session(path)
        kernel = self._kernels.get(session["kernel"]["id"]) if session else None
        if session is None or kernel is None or kernel.id in self._ending:
            return
        if kernel.only_user is not user or self._is_used(session["kernel"]):
            return
        ending = asyncio.create_task(self._shut_down(session["id"]))
        self._ending[kernel.id] = ending
        ending.add_done_callback(lambda _: self._ending.pop(kernel.id))
        await asyncio.shield(ending)
        await self._forget_gone()

    async def _shut_down(self, session_id: str) -> None:
        try:
            await ensure_async(self._sessions.delete_session(session_id))
        except START_FAILURES as error:
            raise KernelUnavailable(f"The kernel could not be shut down: {error}") from error

    async def close(self) -> None:
        """Close all our channels. The kernels belong to the server and continue."""
        for kernel in self._kernels.values():
            await kernel.close()
        self._kernels.clear()
        self._context.destroy(linger=0)

    async def _session(self, path: str) -> dict[str, Any] | None:
        """The notebook's session, or None.

        A page that starts a session while ours starts creates a second one. Then the page's
        session, which the person sees, counts, and ours ends as soon as it is unused.
        """
        async with self._moving:
            path = self._follow(path)
        if not await ensure_async(self._sessions.session_exists(path=path)):
            return None
        if not self._ours:
            try:
                only: dict[str, Any] = await ensure_async(self._sessions.get_session(path=path))
            except HTTPError as error:
                if error.status_code != 404:
                    raise
                return await self._session(path)  # renamed, or ended, at this moment
            return only
        every = await ensure_async(self._sessions.list_sessions())
        self._ours.intersection_update(session["id"] for session in every)
        sessions = [session for session in every if session["path"] == path]
        theirs = [session for session in sessions if session["id"] not in self._ours]
        for session in sessions if theirs else ():
            if session["id"] in self._ours and not self._is_used(session["kernel"]):
                await ensure_async(self._sessions.delete_session(session["id"]))
        return next(iter(theirs or sessions), None)

    def _is_used(self, model: Mapping[str, Any]) -> bool:
        """Whether a page is connected to the kernel, or our code runs in it."""
        kernel = self._kernels.get(model["id"])
        return bool(model.get("connections")) or (kernel is not None and kernel.in_use)

    async def _start(self, path: str, name: str | None) -> str:
        """Start a session and its kernel; returns the kernel's id."""
        # Check first: Jupyter keeps a kernel that fails to start as if it were starting.
        await self.kernelspec(name)
        before = set(self._manager.list_kernel_ids())
        starting = asyncio.ensure_future(
            self._sessions.create_session(
                path=path, name=path.rpartition("/")[2], type="notebook", kernel_name=name
            )
        )
        try:
            async with asyncio.timeout(self._start_timeout):
                session = await asyncio.shield(starting)
        except TimeoutError:
            starting.cancel()
            why = f"it did not start within {self._start_timeout:g} s"
        except (NoSuchKernel, *START_FAILURES) as error:
            why = str(error)
        else:
            self._ours.add(session["id"])
            await self._move(session)  # the notebook may have been renamed since
            await self._wait_for_rivals(before)
            return str(session["kernel"]["id"])
        installed = await self._installed_specs(why)
        message = _no_kernel(name or self.default_name, why, installed)
        raise KernelUnavailable(message, installed=sorted(installed))

    async def _installed_specs(self, why: str = "") -> Mapping[str, Any]:
        """The kernelspecs by name. Raises KernelUnavailable if a gateway does not answer."""
        try:
            specs: Mapping[str, Any] = await ensure_async(self._specs.get_all_specs())
        except START_FAILURES as error:
            raise KernelUnavailable(f"No kernel is available now: {why or error}") from error
        return specs

    async def _wait_for_rivals(self, before: set[str]) -> None:
        """Wait until all kernels that others started at the same time are in sessions. One of them
        may be from this notebook's page; then nothing should run in ours. Polls, since there is no
        event for new sessions.
        """
        await asyncio.sleep(_RACE_PAUSE_S)  # no delay: our kernel is not up yet anyway
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SESSION_GRACE_S):
                while True:
                    every = await ensure_async(self._sessions.list_sessions())
                    in_sessions = {session["kernel"]["id"] for session in every}
                    if not set(self._manager.list_kernel_ids()) - in_sessions - before:
                        return
                    await asyncio.sleep(0.05)

    async def _forget_gone(self) -> None:
        for kernel in list(self._kernels.values()):
            if kernel.is_gone and not kernel.in_use:  # its last code still has to notice the end
                del self._kernels[kernel.id]
                await kernel.close()


def _is_below(path: str, folder: str) -> bool:
    """Whether the path is the file or folder, or in it."""
    return f"{path}/".startswith(f"{folder}/")


def _no_kernel(name: str, why: str, installed: Mapping[str, Any]) -> str:
    choices = f"Installed: {', '.join(sorted(installed))}."
    if not installed:
        choices = "None is installed: `pip install ipykernel` in Jupyter's environment adds Python."
    return with_names_quoted(f"No kernel `{name}`: {why}. {choices}", [name])


class FreshKernels:
    """Starts kernels outside of sessions, and makes sure that each of them ends."""

    def __init__(
        self, session_manager: Any, kernel_manager: Any, *, start_timeout: float = 60
    ) -> None:
        self._sessions = session_manager
        self._manager = kernel_manager
        self._start_timeout = start_timeout
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def kernel(self, path: str, name: str) -> AsyncIterator[Kernel]:
        """A new kernel of the kernelspec `name`, in the folder and environment of the notebook at
        `path`, but without a session.

        It is always shut down at the end of the block; code that still runs then is interrupted
        first. Raises KernelUnavailable.
        """
        starting = asyncio.ensure_future(self._start(path, name))
        kernel: Kernel | None = None
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.RCVHWM, 0)  # as for the kernels of sessions: no output is lost
        try:
            kernel_id = await self._wait_started(starting, name)
            kernel = Kernel(kernel_id, self._manager, context, start_timeout=self._start_timeout)
            yield kernel
        finally:
            ending = begin(self._end(starting, kernel, context), self._ending)
            if kernel is not None:  # a kernel that is still starting will end later
                await asyncio.shield(ending)

    async def close(self) -> None:
        """Wait until the last of them has ended."""
        await asyncio.gather(*self._ending)

    async def _start(self, path: str, name: str) -> str:
        # Same as the session manager: folder and environment of the notebook.
        contents = self._sessions.contents_manager
        folder = await ensure_async(contents.get_kernel_path(path=path))
        environment = self._sessions.get_kernel_env(path, path.rpartition("/")[2])
        kernel_id = await ensure_async(
            self._manager.start_kernel(path=folder, kernel_name=name, env=environment)
        )
        return str(kernel_id)

    async def _wait_started(self, starting: asyncio.Future[str], name: str) -> str:
        try:
            async with asyncio.timeout(self._start_timeout):
                return await asyncio.shield(starting)
        except TimeoutError:
            why = f"it did not start within {self._start_timeout:g} s"
        except _KERNEL_FAILURES as error:
            why = str(error)
        message = with_names_quoted(f"No fresh kernel `{name}`: {why}.", [name])
        raise KernelUnavailable(message)

    async def _end(
        self, starting: asyncio.Future[str], kernel: Kernel | None, context: zmq.asyncio.Context
    ) -> None:
        with suppress(*_KERNEL_FAILURES):
            kernel_id = await starting
            stopped = kernel is not None and kernel.in_use
            if kernel is not None:
                await self._leave(kernel)
            if kernel_id in self._manager:
                await ensure_async(self._manager.shutdown_kernel(kernel_id, now=stopped))
        context.destroy(linger=0)

    @staticmethod
    async def _leave(kernel: Kernel) -> None:
        """Interrupt running code, so that its `finally` blocks run, and close our channels."""
        if kernel.in_use:
            with suppress(KernelUnavailable, TimeoutError):
                await kernel.interrupt()
                async with (
                    asyncio.timeout(_INTERRUPT_GRACE_S),
                    kernel.queue,
                ):  # it holds the queue to its end
                    pass
        await kernel.close()
