"""The text that the model reads before a question: the notebook, the kernel, the date."""

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
from jupyter_agent.legible import ModelText
from jupyter_agent.tools.base import ModelResult
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.reads import News
from jupyter_agent.workspace.visibility import KEPT_BACK
from jupyter_agent.workspace.workspace import READ, Workspace

log = logging.getLogger(__name__)


_WHOLE_CHARACTERS = 16_000
"""Most characters of a notebook that is included in full: some 4,000 tokens of 4 characters."""
_ACTIVE_CHARACTERS = 2_000
"""Characters of each output of the active cell, next to the outline of a longer notebook."""
_SAME = (
    "The outline is the same as when the notebook was last shown to you. Call get_notebook_state "
    "only if you do not have it any more."
)
"""The second sentence is for a turn whose history is summarised before its first step."""


@dataclass(frozen=True, kw_only=True)
class Preamble:
    """The facts of a turn as text, with the notebook that the text shows."""

    text: ModelText
    shows: str | None = None
    """Path of that notebook."""
    outline: str = ""
    """Digest of that notebook's outline, if the text has it or the whole notebook."""


async def write_preamble(
    work: Workspace,
    request: TurnRequest,
    share: Share,
    verdicts: Sequence[str],
    *,
    reader: NotebookReader,
    transcript: Transcript,
) -> Preamble:
    """The facts of this turn; `verdicts` say what people did with the model's earlier changes.

    They include the turn's notebook, as far as `reader` may read it: a short one in full, a longer
    one as its outline and the active cell. If the `transcript` already has the notebook, changes
    since then are among the news, and an outline that it has is not sent again.
    """
    kernel = place = path = None
    shown = NotebookText(text="")
    news: Sequence[News] = ()
    options = request.options
    if options.notebook:
        try:
            async with lease(work, None, READ) as nb:
                place = (await nb.look(patience=None)).place
                news = await work.news()
                kernel = await nb.kernel.find()
                digest = (
                    transcript.outline_digest(nb.path) if transcript.has_shown(nb.path) else None
                )
                shown = await reader.notebook(
                    nb, share, place, known=digest if nb.path in work.reads.paths else None
                )
                path = nb.path
        except ToolError as error:  # the model will get the same error from its tools
            log.info("The notebook of the turn cannot be read: %s", error)
    text = facts(
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
    if not shown.text:
        return Preamble(text=work.redact(text))
    text = f"{text}\n{work.fence.wrap(shown.text)}"
    return Preamble(text=work.redact(text), shows=path, outline=shown.outline)


@dataclass(frozen=True, kw_only=True)
class NotebookText:
    """The text of a notebook for a preamble."""

    text: str
    outline: str = ""
    """Digest of the outline in the text; empty without an outline."""


@dataclass(frozen=True)
class NotebookReader:
    """Reads notebooks with the model's own tools, under the same rules as its calls."""

    dispatcher: Dispatcher
    policy: Policy

    async def notebook(
        self, nb: Lease, share: Share, place: Place | None, *, known: str | None
    ) -> NotebookText:
        """The turn's notebook, or its outline and the cell at this place; empty if the model may
        not read it.

        `known`: digest of the outline that the model has; empty if it has read the notebook but has
        no outline, None if it has not read the notebook.
        """
        active = place.cell_id if place else None
        inputs: list[Mapping[str, Any]] = [{"outline": True}]
        if known is None:
            focus = {"focus": active} if active else {}
            inputs.append({"budget": _WHOLE_CHARACTERS, **focus})
        results = await self._read(nb, "get_notebook_state", *inputs)
        if not results:
            return NotebookText(text="")
        outline, *whole = results
        fence = nb.work.fence
        # Without the mark, which differs in each turn.
        digest = sha256(f"{share}\n{fence.strip_marks(outline.text)}".encode()).hexdigest()
        if whole and not whole[0].facts["lines_only"]:
            return NotebookText(text=whole[0].text, outline=digest)
        parts = [fence.line(_SAME) if digest == known else outline.text]
        if active:
            cell_input = {"cell_ids": [active], "output_chars": _ACTIVE_CHARACTERS}
            parts += [cell.text for cell in await self._read(nb, "read_cells", cell_input)]
        return NotebookText(text="\n\n".join(parts), outline="" if digest == known else digest)

    async def _read(self, nb: Lease, tool: str, *inputs: Mapping[str, Any]) -> list[ModelResult]:
        try:
            return await self.dispatcher.read(tool, inputs, nb, self.policy)
        except ToolError as error:  # the model will get the same error from its tools
            log.info("The notebook is left out of the preamble: %s", error)
            return []
