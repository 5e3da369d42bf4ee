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
from jupyter_agent.legible import quoted, with_names_quoted
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.workspace.files import Files
from jupyter_agent.workspace.paths import Identities, Lookup
from jupyter_agent.workspace.reads import News, Reads, news_of
from jupyter_agent.workspace.redactor import Redactor, strings_in
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.verified import Verified
from jupyter_agent.workspace.visibility import HiddenCells, View, notebook_share, strictest

_PATIENCE_S = 1.0
"""How long news waits for an edit of others, whose author is known once it is confirmed. An edit
that itself waits for a page that is away is told of without its author.
"""

Authorize: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Asks Jupyter's authorizer: (action, resource) -> may the owner?"""
Need: TypeAlias = tuple[str, str]
"""What Jupyter's authorizer is asked: (action, resource), e.g. ("write", "contents")."""
READ: Need = ("read", "contents")
WRITE: Need = ("write", "contents")


@dataclass(frozen=True, kw_only=True)
class Services:
    """What all workspaces of a server share."""

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
    """What all cells of a notebook together may take when it is verified."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Everything that tools and the notebook routes do, they do through this."""

    services: Services
    user: str
    authorize: Authorize
    home: str | None = None
    """Path of the turn's own notebook."""
    client: str | None = None
    """The page from which the user talks: its tab of a notebook is preferred."""
    turn_id: str | None = None
    while_away: WhileAway = "wait"
    """What becomes of edits while a page with unsaved work is away."""
    reads: Reads = field(default_factory=Reads)
    searching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while something is searched for: however many a model wants, one at a time."""
    share: Share = "all"
    """What administrator and user let a model see; a notebook may say less."""
    fence: Fence = NO_FENCE
    """Around data in what a model reads: one per turn. Empty if programs take the texts apart."""
    approved: Mapping[str, str] | None = None
    """Cell id -> version, where a person saw these and allowed what is about to be done.

    Only those versions are acted on, and their outputs are trusted like the person's own.
    """

    pending_cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    """(path, cell id) -> the cell as it will be once what is asked before was allowed.

    Only for what a person is shown (`Lease.pending_cell`), never for what is done.
    """

    def __post_init__(self) -> None:
        fence = replace(self.fence, mask=self.services.redactor.mask())
        object.__setattr__(self, "fence", fence)

    # -- which notebook, and who may

    def resolve(self, path: str | None) -> str:
        """The path of the notebook that a call means. Raises InvalidInput where it names none."""
        chosen = path if path is not None else self.home
        if not chosen or "\0" in chosen:
            raise InvalidInput("Which notebook? Name its path in `notebook`.")
        return posixpath.normpath(chosen.strip("/"))

    def lookup(self) -> Lookup:
        """What the paths of one call mean."""
        return Lookup(self.services.identities, self.home)

    async def need(self, *needs: Need) -> None:
        """Raises NotPermitted unless the authorizer lets the user do each (action, resource)."""
        for action, resource in needs:
            if not await self.authorize(action, resource):
                raise NotPermitted(f"You are not allowed to {action} {resource} on this server.")

    async def create(
        self, path: str, kernel_name: str | None, cells: Sequence[Mapping[str, Any]] = ()
    ) -> Notebook:
        """A new notebook. Raises Exists, KernelNotInstalled."""
        await self.need(WRITE)
        kernelspec = await self.services.kernels.kernelspec(kernel_name)
        return await self.services.notebooks.create(
            self.resolve(path), kernelspec=kernelspec, cells=cells
        )

    # -- what a model may be told outside of a call

    async def visibility(self, path: str | None = None) -> View:
        """What a model may be told of a notebook now, of the turn's own without a path; the least
        where it cannot be read. Nobody is asked for what is still on its way from a page.
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
        """As `visibility`, of a notebook that is at hand."""
        try:
            return self.view(notebook, await notebook.look())
        except NotebookNotFound:
            return self.view(notebook, notebook.cells())
        except ToolError:
            known = notebook.cells()
            return self.view(notebook, known) if known else self._bare_view(SHARES[-1])

    async def visibility_of_file(self, path: str, shared_as: str | None) -> View:
        """As `visibility`, for a file that is no notebook: it may be an export of one, under its
        name or another, that shows what is hidden there.
        """
        notebook = f"{posixpath.splitext(path)[0]}.ipynb"
        if await self.services.files.exists(notebook):
            await self.visibility(notebook)  # what it hides is known then
        view = await self.visibility(shared_as)
        hidden = view.hidden_sources | self.services.hidden.all_sources()
        return replace(view, hidden_sources=hidden)

    def view(self, notebook: Notebook, cells: Sequence[Cell]) -> View:
        """What a model may be told of a notebook with these cells."""
        share = strictest(self.share, notebook_share(notebook.known_metadata))
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
        """Learns what the other notebooks in the kernel of this one hide from models. The path of
        one that keeps its outputs back, or cannot be read; None if there is none.
        """
        paths = await self.services.kernels.paths(kernel)
        self.services.hidden.add_to_kernel(kernel.life, [path, *paths])
        others = [other for other in paths if other != path]
        views = {other: await self.visibility(other) for other in others}
        return next((other for other in others if not views[other].outputs_shared), None)

    def redact(self, text: str) -> str:
        """A text that is no notebook's as a model may be told it."""
        return self.services.redactor.text(text)

    def redact_error(self, error: ToolError, named: Any = ()) -> ToolError:
        """An error as a model may be told it: no secrets, and no name adds a line. `named` is JSON
        with what it may name besides the turn's own notebook: paths, ids, ...
        """
        given = list(strings_in([self.home, named]))
        bare = [name.strip("/") for name in given]
        names = [*given, *bare, *map(posixpath.normpath, bare)]
        message = with_names_quoted(error.message, names)
        return self.services.redactor.error(error.saying(message, error.facts))

    def _bare_view(self, share: Share) -> View:
        return View(share=share, redactor=self.services.redactor, fence=self.fence)

    async def news(self) -> list[News]:
        """What changed in the open notebooks that this conversation has read, and in their kernels;
        told once. Cells whose new text is in it count as read from then on, the others as never
        read.
        """
        if not self.reads.paths and not self.reads.kernels:
            return []
        held = {opened["path"] for opened in self.services.notebooks.open()}
        told = [await self._news_of(path) for path in self.reads.paths if path in held]
        told += [await self._news_of_kernel(path) for path in list(self.reads.kernels)]
        return [news for news in told if news is not None]

    async def _news_of(self, path: str) -> News | None:
        try:
            await self.need(READ)
            notebook = await self.find(path)
            cells = await notebook.look(patience=_PATIENCE_S)
            if not self.reads.changed_ids(path, cells):
                return None  # and no view of it is needed
            news = news_of(self.reads, path, cells, self.view(notebook, cells))
            return news and replace(news, turns=notebook.turns_behind(news.cells))
        except ToolError:  # the next call that needs the notebook tells why
            return None

    async def _news_of_kernel(self, path: str) -> News | None:
        text = await self.lost_variables(path)
        return News(notebook=path, cell_ids=[], text=text) if text else None

    async def lost_variables(self, path: str) -> str:
        """What to tell of a kernel that is another one than this conversation worked with; told
        once, empty where nothing was lost.
        """
        known = self.reads.kernels.get(path)
        if known is None:
            return ""
        kernel = await self.services.kernels.find(path)
        self.reads.kernels[path] = kernel.life if kernel else ""
        if known in ("", self.reads.kernels[path]):
            return ""
        happened = "was restarted or replaced" if kernel else "ended (culled or shut down)"
        return (
            f"The kernel of {quoted(path)} {happened} since your last call: all variables are "
            "gone. Run again the cells that you need."
        )

    async def find(self, path: str | None) -> Notebook:
        """The live notebook, wherever it is open; only for this room: others get a `lease`."""
        named = self.resolve(path)
        notebook = await self.services.notebooks.get(
            named, client=self.client, turn_id=self.turn_id, while_away=self.while_away
        )
        for known in {named, *self.reads.paths, *self.reads.kernels} - {notebook.path}:
            if known == named or await self.services.notebooks.locate(known) == notebook.path:
                self.reads.rename(known, notebook.path)
        return notebook
