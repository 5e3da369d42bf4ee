"""Finds out who made the changes that a model gets as news: other turns, by model or agent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from jupyter_agent.conversations.changes import Author, CellText, Journal
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.legible import quoted, quoted_id
from jupyter_agent.workspace.reads import News


class NewsAuthors:
    """Looks up who changed cells since a conversation read them."""

    def __init__(self, journal: Journal, owner: str, conversation_id: str) -> None:
        self._journal = journal
        self._owner = owner
        self._conversation_id = conversation_id

    async def __call__(self, news: News) -> str:
        """`By Codex: `b2`.` for cells that models and other agents changed last; empty for changes
        by a person or another program.
        """
        try:
            authors = await self._authors(news)
        except StoreUnavailable:  # the news itself still goes out, without names
            return ""
        by: dict[str, list[str]] = defaultdict(list)
        for cell_id, author in authors.items():
            if author.model and author.conversation_id != self._conversation_id:
                by[author.model].append(f"`{quoted_id(cell_id)}`")
        return " ".join(f"By {quoted(model)}: {', '.join(ids)}." for model, ids in by.items())

    async def _authors(self, news: News) -> Mapping[str, Author]:
        """Authors by cell id.

        `News.turns` names turns of this server, whose calls may still run and enter the journal
        later; the journal has turns of other servers and from before a restart.
        """
        turns = await self._journal.authors(sorted({*news.turns.values()}))
        authors = {id: turns[turn] for id, turn in news.turns.items() if turn in turns}
        others = [
            CellText(id=cell.id, type=cell.type, source=cell.source)
            for cell in news.cells
            if cell.id not in authors
        ]
        if others:
            for each in await self._journal.blame(news.notebook, others, self._owner):
                if not each.changed_since:
                    authors[each.cell_id] = Author(each.conversation_id, each.model)
        return authors
