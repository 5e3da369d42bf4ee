"""Logs when something blocks the server's event loop, and what it was."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback


class Watchdog:
    """A thread that pings the event loop, and logs its stack if it does not answer.

    While the loop is blocked, no page, kernel or other extension is served, whatever the cause.
    """

    def __init__(self, log: logging.Logger, *, seconds: float = 1.0) -> None:
        self._log = log
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._loops_thread = threading.get_ident()
        self._answered = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="jupyter-agent-watchdog")
        self._thread.daemon = True
        self._thread.start()

    def close(self) -> None:
        """Stops the thread; call it while the loop still runs."""
        self._closed.set()
        self._answered.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._seconds):
            self._answered.clear()
            if self._closed.is_set():  # `close` is waiting for this thread, on the loop
                return
            knocked = time.monotonic()
            self._loop.call_soon_threadsafe(self._answered.set)
            if self._answered.wait(self._seconds):
                continue
            stack = self._loop_stack()
            self._answered.wait()
            if not self._closed.is_set():
                blocked = time.monotonic() - knocked
                self._log.warning("The event loop was blocked for %.1f s in:\n%s", blocked, stack)

    def _loop_stack(self) -> str:
        frame = sys._current_frames().get(self._loops_thread)
        return "".join(traceback.format_stack(frame, limit=8)) if frame else "(unknown)"
