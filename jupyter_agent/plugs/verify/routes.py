"""Routes for verifying a notebook, and for recording that it was verified."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from pydantic import Field

from jupyter_agent.errors import InvalidInput
from jupyter_agent.plugs.verify.verification import Verification, verify
from jupyter_agent.plugs.verify.write import record, unrecord, update
from jupyter_agent.server.answers.base import AnswerModel
from jupyter_agent.server.base import operation
from jupyter_agent.server.notebooks import Body, DocumentHandler
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.workspace import READ, WRITE


class VerifyBody(Body):
    """How to verify: in another kernel, with other parameters, or writing the new outputs or a
    record at the end.
    """

    update: bool = False
    record: bool = False
    kernel: str | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)


class VerdictAnswer(AnswerModel):
    """The verdict on one cell of a verified notebook."""

    cell_id: str
    status: Literal["same", "close", "differs", "error", "skipped"]
    why: str


class VerificationAnswer(AnswerModel):
    """A verification."""

    ok: bool
    cells: list[VerdictAnswer]
    seconds: float
    runs: int
    at: str
    kernel: str
    packages: dict[str, str]
    hash: str


class RecordedAnswer(AnswerModel):
    """Whether the notebook's metadata record its verification."""

    recorded: bool
    saved: bool


class VerifyHandler(DocumentHandler):
    """`POST notebooks/{path}/verify`"""

    _verifying: asyncio.Task[Verification] | None = None
    _left = False

    @operation("execute", "kernels", body=VerifyBody, gives=VerificationAnswer)
    async def post(self, path: str, body: VerifyBody) -> None:
        """Runs a copy of the notebook from the top in a fresh kernel and compares the outputs.

        With `update` the new outputs are written if no cell failed. With `record` the notebook's
        metadata then say that it was verified, or no longer do. Closing the connection stops it.
        """
        if (body.update or body.record) and body.parameters:
            raise InvalidInput("Outputs made with other parameters are not those of the notebook.")
        try:
            writes = body.update or body.record
            needs = (WRITE if writes else READ, ("write", "kernels"))
            async with lease(self.work, path, *needs) as nb:
                verifying = verify(nb, kernel=body.kernel, parameters=body.parameters)
                self._verifying = asyncio.ensure_future(verifying)
                done = await self._verifying
                answer = done.describe()
                if body.update:
                    saved = await update(nb, done)
                    answer |= {"updated": True, "saved": saved.saved}
                if body.record:
                    saved = await (record(nb) if done.ok else unrecord(nb))
                    answer |= {"recorded": done.ok, "saved": saved.saved}
                self.answer(answer)
        except asyncio.CancelledError:
            if not self._left:
                raise

    def on_connection_close(self) -> None:
        """Stops the verification: the client has gone."""
        self._left = True
        if self._verifying is not None:
            self._verifying.cancel()
        super().on_connection_close()


class VerifiedHandler(DocumentHandler):
    """`notebooks/{path}/verified`"""

    @operation("write", "contents", gives=RecordedAnswer)
    async def put(self, path: str) -> None:
        """Records this server's last verification in the notebook."""
        async with lease(self.work, path, WRITE) as nb:
            await nb.read()
            saved = await record(nb)
        self.answer({"recorded": True, "saved": saved.saved})

    @operation("write", "contents", answers=204)
    async def delete(self, path: str) -> None:
        """Forgets the last verification, here and in the notebook."""
        async with lease(self.work, path, WRITE) as nb:
            await nb.read()
            await unrecord(nb)
            self.services.verified.forget(nb.path)
        self.answer_nothing()
