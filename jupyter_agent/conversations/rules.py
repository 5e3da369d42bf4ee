"""What people answered with "always allow here": a tool, in a notebook, in a conversation."""

from __future__ import annotations

from glob import escape

from jupyter_agent.agent.permissions import Rule
from jupyter_agent.conversations.database import Database, now


class RuleStore:
    """The rules of every conversation; the administrator's are not among them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, owner: str, conversation_id: str) -> list[tuple[str, str]]:
        """(tool, path of the notebook) of each."""
        rows = await self._database.rows(
            "SELECT tool, notebook FROM rules WHERE owner = ? AND conversation_id = ?"
            " ORDER BY tool, notebook",
            owner,
            conversation_id,
        )
        return [(row["tool"], row["notebook"]) for row in rows]

    async def add(self, owner: str, conversation_id: str, tool: str, notebook: str) -> None:
        """From now on this tool needs no answer for this notebook in this conversation."""
        await self._database.execute(
            "INSERT INTO rules (owner, conversation_id, tool, notebook, made)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            owner,
            conversation_id,
            tool,
            notebook,
            now(),
        )

    async def forget(self, owner: str, conversation_id: str) -> None:
        """Asks again from now on."""
        await self._database.execute(
            "DELETE FROM rules WHERE owner = ? AND conversation_id = ?", owner, conversation_id
        )


def allowing(tool: str, notebook: str) -> Rule:
    """The rule for exactly that tool and that notebook."""
    return Rule(verdict="allow", tool=escape(tool), notebook=escape(notebook))
