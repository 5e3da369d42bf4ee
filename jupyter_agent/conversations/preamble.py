"""What the model reads about the notebook, the kernel and the date when a turn begins."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import Transcript
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.agent.prompt import facts
from jupyter_agent.choices import Share
from jupyter_agent.conversations.request import TurnRequest
from jupyter_agent.document.carrier import Place
from jupyter_agent.errors import ToolError
from jupyter_agent.tools.base import Result
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.visibility import KEPT_BACK
from jupyter_agent.workspace.workspace import READ, Workspace

log = logging.getLogger(__name__)


_WHOLE_CHARACTERS = 16_000
"""Of a notebook that is told as a whole: some 4,000 tokens, at 4 characters each."""
_ACTIVE_CHARACTERS = 2_000
"""Of each output of the active cell, beside the outline of a longer notebook."""
_SAME = (
    "The outline is the same as when the notebook was last shown to you. Call get_notebook_state "
    "only if you do not have it any more."
)
"""The second sentence is for a turn whose history is summarised before its first step."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What holds in a turn, and the path of the notebook that is shown with it."""

    text: str
    shows: str | None = None
    outline: str = ""
    """Digest of that notebook's outline, where it is in the text, or what it says and more."""


async def situation(
    work: Workspace,
    request: TurnRequest,
    share: Share,
    verdicts: Sequence[str],
    *,
    look: Look,
    transcript: Transcript,
) -> Situation:
    """What holds in this turn; `verdicts` say what became of the model's own changes.

    The turn's notebook is part of it, by what `look` may see: whole where it is short, else its
    outline and the active cell. Only the latter where the `transcript` shows it already, and what
    changed since is among the news; an outline that is in the transcript is not sent again.
    """
    kernel = place = path = None
    shown = Shown(text="")
    news: Sequence[News] = ()
    options = request.options
    if options.notebook:
        try:
            async with lease(work, None, READ) as nb:
                place = (await nb.look(patience=None)).place
                news = await work.news()
                kernel = await nb.kernel()
                known = (
                    transcript.outline_digest(nb.path) if transcript.has_shown(nb.path) else None
                )
                shown = await look.notebook(
                    nb, share, place, known=known if nb.path in work.reads.paths else None
                )
                path = nb.path
        except ToolError as error:  # the model finds out by its tools, as it does later
            log.info("The notebook of the turn is not at hand: %s", error)
    told = facts(
        mode=options.mode,
        today=datetime.now(UTC).date(),
        notebook=options.notebook,
        kernel=f"{kernel.name} ({kernel.language}), {kernel.state}" if kernel else None,
        active_cell=place.cell_id if place else None,
        not_shared=KEPT_BACK[share],
        mark=work.fence.mark,
        attended=options.is_attended,
        changes=[*verdicts, *(each.text for each in news)],
    )
    told = work.told(told)
    if not shown.text:
        return Situation(text=told)
    text = f"{told}\n{work.fence.enclosed(shown.text)}"
    return Situation(text=text, shows=path, outline=shown.outline)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is shown of a notebook with a question, and the digest of the outline in it, if any."""

    text: str
    outline: str = ""


@dataclass(frozen=True)
class Look:
    """What the model would see if it looked itself, by the same door and the same rules."""

    dispatcher: Dispatcher
    policy: Policy

    async def notebook(
        self, nb: Lease, share: Share, place: Place | None, *, known: str | None
    ) -> Shown:
        """The turn's notebook, or its outline and the cell at this place; empty where it must not
        look.

        `known`: digest of the outline that the model has, empty where it has read the notebook and
        has none, None where it has not.
        """
        active = place.cell_id if place else None
        inputs: list[Mapping[str, Any]] = [{"outline": True}]
        if known is None:
            focus = {"focus": active} if active else {}
            inputs.append({"budget": _WHOLE_CHARACTERS, **focus})
        found = await self._read(nb, "get_notebook_state", *inputs)
        if not found:
            return Shown(text="")
        outline, *whole = found
        fence = nb.work.fence
        # The same for the same outline, which has another mark in each turn.
        digest = sha256(f"{share}\n{fence.removed(outline.text)}".encode()).hexdigest()
        if whole and not whole[0].facts["lines_only"]:
            return Shown(text=whole[0].text, outline=digest)
        parts = [fence.line(_SAME) if digest == known else outline.text]
        if active:
            given = {"cell_ids": [active], "output_chars": _ACTIVE_CHARACTERS}
            parts += [cell.text for cell in await self._read(nb, "read_cells", given)]
        return Shown(text="\n\n".join(parts), outline="" if digest == known else digest)

    async def _read(self, nb: Lease, tool: str, *inputs: Mapping[str, Any]) -> list[Result]:
        try:
            return await self.dispatcher.read(tool, inputs, nb, self.policy)
        except ToolError as error:  # the model finds out by its tools
            log.info("The notebook is not told beforehand: %s", error)
            return []
