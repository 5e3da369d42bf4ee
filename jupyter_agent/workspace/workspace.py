"""The notebooks and kernels that one turn (or one request) may touch, for one owner."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import (
    Awaitable,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from jupyter_agent.analysis.stale import Executions
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.choices import SHARES, Share, WhileAway
from jupyter_agent.document.cell import Cell
from jupyter_agent.document.notebook import (
    Notebook,
)
from jupyter_agent.errors import (
    InvalidInput,
    NotebookNotFound,
    NotPermitted,
    ToolError,
)
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import FreshKernels, Kernels
from jupyter_agent.legible import ModelText, quoted, with_names_quoted
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.workspace.files import Files
from jupyter_agent.workspace.hidden_cells import HiddenCells
from jupyter_agent.workspace.paths import Identities, Lookup
from jupyter_agent.workspace.reads import News, Reads, news_of
from jupyter_agent.workspace.redactor import Redactor, strings_in
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.verified import Verified
from jupyter_agent.workspace.visibility import View, notebook_share, strictest

_PATIENCE_S = 1.0
"""Seconds that `news` waits for edits of others in progress, whose author is known once they are
confirmed. An edit that waits for an absent page is reported without its author.
"""

Authorize: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Asks Jupyter's authorizer: (action, resource) -> whether the user is allowed."""
Need: TypeAlias = tuple[str, str]
"""An (action, resource) for Jupyter's authorizer, e.g. ("write", "contents")."""
READ: Need = ("read", "contents")
WRITE: Need = ("write", "contents")


@dataclass(frozen=True, kw_only=True)
class Services:
    """Services that all workspaces of a server share."""

    notebooks: Notebooks
    kernels: Kernels
    runs: Runs
    files: Files
    fresh: FreshKernels
    identities: Identities
    executions: Executions = field(default_factory=Executions)
    hidden: HiddenCells = field(default_factory=HiddenCells)
    verified: Verified = field(default_factory=Verified)
    redactor: Redactor = Redactor()
    """Applied to all texts for models; see `Workspace.redact`."""
    verify_seconds: float = 600.0
    """Time limit in seconds for all cells of a notebook together when it is verified."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """All tools and notebook routes work through a workspace."""

    services: Services
    user: str
    authorize: Authorize
    home: str | None = None
    """Path of the turn's own notebook."""
    client: str | None = None
    """The page in which the user chats: its tab of a notebook is preferred."""
    turn_id: str | None = None
    call_id: str | None = None
    """The call for which a lease works; None outside of calls."""
    while_away: WhileAway = "wait"
    """What happens to edits while a page with unsaved work is away."""
    reads: Reads = field(default_factory=Reads)
    searching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a search: one at a time, however many a model requests."""
    share: Share = "all"
    """The setting of administrator and user; a notebook may be stricter."""
    fence: Fence = NO_FENCE
    """Around data in texts for the model: one per turn. Empty if a program parses the texts."""
    approved: Mapping[str, str] | None = None
    """Cell id -> version of the cells that a person saw when allowing the next action.

    Only these versions are acted on, and their outputs are trusted like the person's own.
    """

    pending_cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    """(path, cell id) -> the cell after the edits of earlier, unanswered questions.

    Only used for previews (`Lease.pending_cell`), never for actions.
    """

    def __post_init__(self) -> None:
        fence = replace(self.fence, mask=self.services.redactor.mask())
        object.__setattr__(self, "fence", fence)

    # -- notebooks and permissions

    def resolve(self, path: str | None) -> str:
        """The notebook path of a call, by default the turn's own. Raises InvalidInput if none."""
        chosen = path if path is not None else self.home
        if not chosen or "\0" in chosen:
            raise InvalidInput("Which notebook? Name its path in `notebook`.")
        return posixpath.normpath(chosen.strip("/"))

    def lookup(self) -> Lookup:
        """A resolver for the paths of one call."""
        return Lookup(self.services.identities, self.home)

    async def need(self, *needs: Need) -> None:
        """Raises NotPermitted unless the authorizer lets the user do each (action, resource)."""
        for action, resource in needs:
            if not await self.authorize(action, resource):
                raise NotPermitted(f"You are not allowed to {action} {resource} on this server.")

    async def create(
        self, path: str, kernel_name: str | None, cells: Sequence[Mapping[str, Any]] = ()
    ) -> Notebook:
        """Create a notebook. Raises Exists, KernelNotInstalled."""
        await self.need(WRITE)
        kernelspec = await self.services.kernels.kernelspec(kernel_name)
        return await self.services.notebooks.create(
            self.resolve(path), kernelspec=kernelspec, cells=cells
        )

    # -- what a model may see outside of a call

    async def visibility(self, path: str | None = None) -> View:
        """The parts of a notebook, by default the turn's own, that a model may see now; the
        strictest view if it cannot be read. Does not wait for changes from a page.
        """
        if path is None and self.home is None:
            return self._bare_view(self.share)
        try:
            notebook = await self.find(path)
        except ToolError as error:
            missing = isinstance(error, NotebookNotFound | InvalidInput)
            return self._bare_view(self.share if missing else SHARES[-1])
        return await self.visibility_of(notebook)

    async def visibility_of(self, notebook: Notebook) -> View:
        """Like `visibility`, for an open notebook."""
        try:
            return self.view(notebook, await notebook.read_live())
        except NotebookNotFound:
            return self.view(notebook, notebook.cached_cells())
        except ToolError:
            cells = notebook.cached_cells()
            return self.view(notebook, cells) if cells else self._bare_view(SHARES[-1])

    async def visibility_of_file(self, path: str, shared_as: str | None) -> View:
        """Like `visibility`, for other files: a file may be an export of a notebook, under the same
        name or another, that shows its hidden cells.
        """
        notebook = f"{posixpath.splitext(path)[0]}.ipynb"
        if await self.services.files.exists(notebook):
            await self.visibility(notebook)  # records its hidden cells
        return self._with_all_hidden(await self.visibility(shared_as))

    async def facts_for_model(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a call that a model may see: each part as the notebook allows that it names,
        by default the turn's own.
        """
        views: dict[str | None, View] = {}

        async def visible(part: Mapping[str, Any], path: str | None) -> dict[str, Any]:
            path = part["notebook"] if isinstance(part.get("notebook"), str) else path
            if path not in views:
                views[path] = await self.visibility(path)
            lists = {name: part[name] for name in ("cells", "changes") if _is_list(part.get(name))}
            shown: dict[str, Any] = views[path].facts({**part, **dict.fromkeys(lists)})
            for name, parts in lists.items():
                shown[name] = [await visible(each, path) for each in parts]
            return shown

        return await visible(facts, self.home)

    async def visibility_of_data(self) -> View:
        """Like `visibility`, for what other programs return, which may have read any notebook. Does
        not wait for a page that is open already.
        """
        view = self._bare_view(self.share)
        if self.home is not None:
            with suppress(ToolError):
                notebook = await self.find(None)
                view = self.view(notebook, notebook.cached_cells())
        return self._with_all_hidden(view)

    def _with_all_hidden(self, view: View) -> View:
        hidden = view.hidden_sources | self.services.hidden.all_sources()
        return replace(view, hidden_sources=hidden)

    def view(self, notebook: Notebook, cells: Sequence[Cell]) -> View:
        """The parts of a notebook with these cells that a model may see."""
        share = strictest(self.share, notebook_share(notebook.cached_metadata))
        hidden, path = self.services.hidden, notebook.path
        return View.of(
            share,
            cells,
            hidden.update(path, cells),
            hidden.sources_of_peers(path),
            redactor=self.services.redactor,
            fence=self.fence,
        )

    async def check_kernel_peers(self, path: str, kernel: Kernel) -> str | None:
        """Record the hidden cells of the other notebooks in this kernel. Returns the path of one
        that does not share its outputs or cannot be read, or None.
        """
        paths = await self.services.kernels.paths(kernel)
        self.services.hidden.add_to_kernel(kernel.life, [path, *paths])
        others = [other for other in paths if other != path]
        views = {other: await self.visibility(other) for other in others}
        return next((other for other in others if not views[other].outputs_shared), None)

    def redact(self, text: str) -> ModelText:
        """Mask secrets in a text for the model that is not from a notebook."""
        return self.services.redactor.text(text)

    def redact_error(self, error: ToolError, named: Any = ()) -> ToolError:
        """An error for the model: secrets are masked, and names cannot add lines. `named` is JSON
        with names in the message besides the turn's own notebook: paths, ids, ...
        """
        given = list(strings_in([self.home, named]))
        bare = [name.strip("/") for name in given]
        names = [*given, *bare, *map(posixpath.normpath, bare)]
        message = with_names_quoted(error.message, names)
        return self.services.redactor.error(error.saying(message, error.facts))

    def _bare_view(self, share: Share) -> View:
        return View(share=share, redactor=self.services.redactor, fence=self.fence)

    async def news(self) -> list[News]:
        """Changes in the open notebooks that this conversation has read, and in their kernels; each
        is reported once. Cells whose new text is included count as read, the others as never read.
        """
        if not self.reads.paths and not self.reads.kernels:
            return []
        open_paths = {opened["path"] for opened in self.services.notebooks.open()}
        found = [await self._news_of(path) for path in self.reads.paths if path in open_paths]
        found += [await self._news_of_kernel(path) for path in list(self.reads.kernels)]
        return [news for news in found if news is not None]

    async def _news_of(self, path: str) -> News | None:
        try:
            await self.need(READ)
            notebook = await self.find(path)
            cells = await notebook.read_live(patience=_PATIENCE_S)
            if not self.reads.changed_ids(path, cells):
                return None  # without computing a view
            news = news_of(self.reads, path, cells, self.view(notebook, cells))
            return news and replace(news, turns=notebook.turns_behind(news.cells))
        except ToolError:  # the next call for the notebook reports the error
            return None

    async def _news_of_kernel(self, path: str) -> News | None:
        text = await self.lost_variables(path)
        return News(notebook=path, cell_ids=[], text=text) if text else None

    async def lost_variables(self, path: str) -> str:
        """A message for the model if the kernel is no longer the one that this conversation used;
        empty if nothing was lost. Reported once.
        """
        former = self.reads.kernels.get(path)
        if former is None:
            return ""
        kernel = await self.services.kernels.find(path)
        self.reads.kernels[path] = kernel.life if kernel else ""
        if former in ("", self.reads.kernels[path]):
            return ""
        happened = "was restarted or replaced" if kernel else "ended (culled or shut down)"
        return (
            f"The kernel of {quoted(path)} {happened} since your last call: all variables are "
            "gone. Run again the cells that you need."
        )

    async def find(self, path: str | None) -> Notebook:
        """The live notebook, wherever it is open. Only for this package: others use a `lease`."""
        named = self.resolve(path)
        notebook = await self.services.notebooks.get(
            named, client=self.client, turn_id=self.turn_id, while_away=self.while_away
        )
        for known in {named, *self.reads.paths, *self.reads.kernels} - {notebook.path}:
            if known == named or await self.services.notebooks.locate(known) == notebook.path:
                self.reads.rename(known, notebook.path)
        return notebook


def _is_list(value: Any) -> bool:
    """Whether a value is a list of JSON objects."""
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)
