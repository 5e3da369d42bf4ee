"""Whether a notebook works from the top, over REST."""

from __future__ import annotations

import asyncio

from jupyter_agent.server.base import operation
from jupyter_agent.server.notebooks import DocumentHandler
from jupyter_agent.workspace.verify import Verification, verify
from jupyter_agent.workspace.workspace import READ


class VerifyHandler(DocumentHandler):
    """`POST notebooks/{path}/verify`"""

    _verifying: asyncio.Task[Verification] | None = None
    _left = False

    @operation("execute", "kernels")
    async def post(self, path: str) -> None:
        """Runs a copy of the notebook from the top in a fresh kernel and compares the outputs.

        A client that goes away stops it.
        """
        try:
            async with self.work.lease(path, READ, ("write", "kernels")) as nb:
                self._verifying = asyncio.ensure_future(verify(nb))
                self.answer((await self._verifying).describe())
        except asyncio.CancelledError:
            if not self._left:
                raise

    def on_connection_close(self) -> None:
        """Nobody waits for the answer any more."""
        self._left = True
        if self._verifying is not None:
            self._verifying.cancel()
        super().on_connection_close()
