"""Provenance: what last changed each cell of a notebook."""

from __future__ import annotations

from jupyter_agent.conversations.changes import CellText
from jupyter_agent.server.base import Authorizer, operation
from jupyter_agent.server.turns import TurnHandlerBase
from jupyter_agent.workspace.workspace import READ, Workspace


class BlameHandler(TurnHandlerBase):
    """`GET notebooks/{path}/blame`"""

    @operation("read", "contents")
    async def get(self, path: str) -> None:
        """Per cell: turn, model, time, request, whether it was reviewed and changed since."""
        await self.require("read", "agent")
        work = Workspace(services=self.services, user=self.owner, authorize=Authorizer(self))
        async with work.lease(path, READ) as nb:
            cells = [
                CellText(id=cell.id, type=cell.type, source=cell.source) for cell in await nb.read()
            ]
        found = await self.stores.journal.blame(nb.path, cells, self.owner)
        self.answer({"path": nb.path, "cells": [each.to_json() for each in found]})
