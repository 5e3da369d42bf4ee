"""Provenance: what last changed each cell of a notebook."""

from __future__ import annotations

from jupyter_agent.conversations.changes import CellText
from jupyter_agent.server.base import Authorizer, operation
from jupyter_agent.server.turns import TurnHandlerBase
from jupyter_agent.workspace.workspace import Workspace


class BlameHandler(TurnHandlerBase):
    """`GET notebooks/{path}/blame`"""

    @operation("read", "contents")
    async def get(self, path: str) -> None:
        """Per cell: turn, model, time, request, whether it was reviewed and changed since."""
        await self.require("read", "agent")
        work = Workspace(rooms=self.rooms, user=self.owner, authorize=Authorizer(self))
        notebook = await work.notebook(path)
        cells = [
            CellText(id=cell.id, type=cell.type, source=cell.source)
            for cell in await notebook.read()
        ]
        found = await self.stores.journal.blame(notebook.path, cells, self.owner)
        self.answer({"path": notebook.path, "cells": [each.to_json() for each in found]})
