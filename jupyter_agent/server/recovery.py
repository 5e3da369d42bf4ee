"""Copies of notebooks as they were before the assistant first wrote them in a turn."""

from __future__ import annotations

from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.errors import RequestError
from jupyter_agent.server.base import AgentHandler, operation
from jupyter_agent.workspace.workspace import Services


class RecoveryHandler(AgentHandler):
    """What both routes share."""

    def initialize(self, recovery: RecoveryCopies, services: Services) -> None:
        self.recovery = recovery
        self.identities = services.identities


class CopiesHandler(RecoveryHandler):
    """`notebooks/{path}/recovery`"""

    @operation("read", "contents")
    async def get(self, path: str) -> None:
        """The copies that are kept of a notebook, the newest first; also of one that is gone."""
        notebook = await self.identities.path(path)
        self.answer({"copies": await self.recovery.of(notebook)})


class CopyHandler(RecoveryHandler):
    """`notebooks/{path}/recovery/{copy_id}`"""

    @operation("read", "contents")
    async def get(self, path: str, copy_id: str) -> None:
        """A copy as a notebook's JSON: saved as a file it can be opened."""
        number = int(copy_id) if copy_id.isdecimal() and len(copy_id) < 19 else -1
        content = await self.recovery.content(await self.identities.path(path), number)
        if content is None:
            raise RequestError(404, "not_found", f"No copy `{copy_id}` of `{path}` is kept.")
        self.answer(content)
