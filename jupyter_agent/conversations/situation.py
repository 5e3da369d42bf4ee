"""What the model is told of the notebook, the kernel and the day when a turn begins."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from jupyter_agent.agent.prompt import facts
from jupyter_agent.conversations.request import TurnRequest
from jupyter_agent.errors import ToolError
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.visibility import KEPT_BACK, Share
from jupyter_agent.workspace.workspace import READ, Workspace

log = logging.getLogger(__name__)


async def situation(
    work: Workspace,
    request: TurnRequest,
    share: Share,
    verdicts: Sequence[str] = (),
) -> str:
    """What holds in this turn; `verdicts` say what became of the model's own changes."""
    kernel = place = None
    news: Sequence[News] = ()
    if request.notebook:
        try:
            async with work.lease(None, READ) as nb:
                await nb.read()
                place = nb.place
                news = await work.news()
                kernel = await nb.kernel()
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
    return work.told(told)
