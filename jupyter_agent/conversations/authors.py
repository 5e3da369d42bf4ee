"""Who made the changes that a model gets as news: other turns, by their model or agent."""

from __future__ import annotations

from collections import defaultdict

from jupyter_agent.conversations.changes import CellText, Journal
from jupyter_agent.errors import StoreUnavailable, ToolError
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.workspace import READ, Workspace


class NewsAuthors:
    """Looks up who changed cells since a conversation read them."""

    def __init__(self, journal: Journal, work: Workspace, conversation_id: str) -> None:
        self._journal = journal
        self._work = work
        self._conversation_id = conversation_id

    async def __call__(self, news: News) -> str:
        """`By Codex: `b2`.` for what models and other agents changed last; empty for the rest: a
        person, or another program.
        """
        if not news.cell_ids:
            return ""
        try:
            async with self._work.lease(news.notebook, READ) as nb:
                cells = [
                    CellText(id=cell.id, type=cell.type, source=cell.source)
                    for cell in await nb.look()
                    if cell.id in news.cell_ids
                ]
            found = await self._journal.blame(nb.path, cells, self._work.user)
        except (ToolError, StoreUnavailable):  # the news itself still goes out, without names
            return ""
        by: dict[str, list[str]] = defaultdict(list)
        for each in found:
            own = each.conversation_id == self._conversation_id
            if each.model and not each.changed_since and not own:
                by[each.model].append(f"`{quoted_id(each.cell_id)}`")
        return " ".join(f"By {quoted(model)}: {', '.join(ids)}." for model, ids in by.items())
