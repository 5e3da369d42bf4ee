"""What the model is told of the notebook, the kernel and the day when a turn begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.agent.prompt import facts
from jupyter_agent.choices import Share
from jupyter_agent.conversations.request import TurnRequest
from jupyter_agent.errors import ToolError
from jupyter_agent.tools.base import Result
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.visibility import KEPT_BACK
from jupyter_agent.workspace.workspace import READ, Workspace

log = logging.getLogger(__name__)


_WHOLE_CHARACTERS = 16_000
"""Of a notebook that is told as a whole: some 4,000 tokens, at 4 characters each."""
_ACTIVE_CHARACTERS = 2_000
"""Of each output of the active cell, beside the outline of a longer notebook."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What holds in a turn, and the path of the notebook that is shown with it."""

    text: str
    shows: str | None = None


async def situation(
    work: Workspace,
    request: TurnRequest,
    share: Share,
    verdicts: Sequence[str] = (),
    *,
    look: Look | None = None,
    shown_before: Callable[[str], bool] = lambda path: False,
) -> Situation:
    """What holds in this turn; `verdicts` say what became of the model's own changes.

    The turn's notebook is part of it, by what `look` may see: whole where it is short, else its
    outline and the active cell. Only the latter where it was `shown_before`, and what changed since
    is among the news.
    """
    kernel = place = None
    path = None
    news: Sequence[News] = ()
    if request.notebook:
        try:
            async with work.lease(None, READ) as nb:
                await nb.read()
                place = nb.place
                news = await work.news()
                kernel = await nb.kernel()
                path = nb.path
        except ToolError as error:  # the model finds out by its tools, as it does later
            log.info("The notebook of the turn is not at hand: %s", error)
    told = facts(
        mode=request.mode,
        today=datetime.now(UTC).date(),
        notebook=request.notebook,
        kernel=f"{kernel.name} ({kernel.language}), {kernel.state}" if kernel else None,
        active_cell=place.cell_id if place else None,
        kept_back=KEPT_BACK[share],
        mark=work.fence.mark,
        changes=[*verdicts, *(each.text for each in news)],
    )
    told = work.told(told)
    if look is None or path is None:
        return Situation(text=told)
    known = path in work.reads.paths and shown_before(path)
    shown = await look.notebook(place.cell_id if place else None, known=known)
    if not shown:
        return Situation(text=told)
    return Situation(text=f"{told}\n{work.fence.enclosed(shown)}", shows=path)


@dataclass(frozen=True)
class Look:
    """What the model would see if it looked itself, by the same door and the same rules."""

    dispatcher: Dispatcher
    work: Workspace
    policy: Policy

    async def notebook(self, active: str | None, *, known: bool) -> str:
        """The turn's notebook, or its outline and the active cell; empty where it must not look."""
        if not known:
            whole = await self._call(
                "get_notebook_state",
                {"budget": _WHOLE_CHARACTERS, **({"focus": active} if active else {})},
            )
            if whole is None:
                return ""
            if not whole.facts["lines_only"]:
                return whole.text
        parts = [await self._call("get_notebook_state", {"outline": True})]
        if active:
            given = {"cell_ids": [active], "output_chars": _ACTIVE_CHARACTERS}
            parts.append(await self._call("read_cells", given))
        return "\n\n".join(part.text for part in parts if part is not None)

    async def _call(self, tool: str, input: Mapping[str, Any]) -> Result | None:
        door = self.dispatcher.unrecorded()
        try:
            prepared = await door.prepare(tool, input, self.work, self.policy)
            if prepared.decision.verdict != "run":
                return None
            return await door.run(prepared, self.work, self.policy)
        except ToolError as error:  # the model finds out by its tools
            log.info("The notebook is not told beforehand: %s", error)
            return None
