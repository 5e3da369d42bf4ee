"""A network connection to a gateway that can be slow, cut and restored."""

from __future__ import annotations

import asyncio
import urllib.request
from contextlib import suppress

from tests.waiting import until


async def up(url: str) -> None:
    """Wait until the gateway answers."""

    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{url}/api"):
            return True
        return False

    await until(answers)


class Line:
    """Forwards TCP connections to a local port, each chunk delayed by `delay` seconds."""

    def __init__(self, port: int) -> None:
        self.delay = 0.0
        self.port = 0
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers = set[asyncio.StreamWriter]()
        self._tasks = set[asyncio.Task[None]]()

    async def open(self) -> None:
        """Restore the connection, on the same port as before."""
        self._server = await asyncio.start_server(self._passed, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for ways in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass(*ways))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(piece)
                await writer.drain()
        writer.close()
