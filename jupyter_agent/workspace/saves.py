"""When what runs put out is saved: soon after each, and once for all that ended meanwhile."""

from __future__ import annotations

import asyncio
from functools import partial

from jupyter_agent.document.carrier import Saved
from jupyter_agent.document.notebook import Notebook

SOON = 1.0
"""Seconds within which a save begins that nobody waits for."""
LATEST = 5.0
"""The same where saves take long."""
_SHARE = 10
"""One part in so many of the time goes into saves that nobody waits for."""


class Saves:
    """The saves of one notebook's outputs. They belong to no caller: whoever leaves, they are done.

    The futures end as `Notebook.save` does.
    """

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._next: asyncio.Future[Saved] | None = None
        """Of the save that has been asked for and has not begun."""
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[Saved] | None = None
        self._pause = SOON

    def soon(self) -> asyncio.Future[Saved]:
        """A save of all that is in the document now; those who ask within a second share it."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.create_future()
            self._timer = loop.call_later(self._pause, self.hurry)
        return self._next

    def hurry(self) -> None:
        """Have the save begin at once that has been asked for, if one has."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if self._saving is None:
                self._begin()

    async def close(self) -> None:
        """Save now what is to be saved."""
        self.hurry()
        while self._saving is not None:
            await asyncio.wait([self._saving])

    def _begin(self) -> None:
        """Unless there is nothing to save, or nobody is in a hurry."""
        coming = None if self._timer is not None else self._next
        self._saving = None
        if coming is not None:
            self._next = None
            self._saving = asyncio.create_task(self._notebook.save())
            began = asyncio.get_running_loop().time()
            self._saving.add_done_callback(partial(self._ended, coming, began))

    def _ended(
        self, coming: asyncio.Future[Saved], began: float, saving: asyncio.Task[Saved]
    ) -> None:
        if saving.cancelled():
            coming.cancel()
        elif (error := saving.exception()) is not None:
            coming.set_exception(error)
        else:
            coming.set_result(saving.result())
        took = asyncio.get_running_loop().time() - began
        self._pause = min(LATEST, max(SOON, _SHARE * took))
        self._begin()
