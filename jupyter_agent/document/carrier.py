"""What the places where a notebook's live document can be have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jupyter_ydoc import YNotebook
from pycrdt import Map

from jupyter_agent.document.cell import CarrierName
from jupyter_agent.document.crdt import RUN, SharedCells, as_json, as_shared
from jupyter_agent.errors import Busy


@dataclass(frozen=True)
class Saved:
    """Whether what is in the live document is on disk."""

    saved: bool
    note: str = ""
    """What the reader of the result has to know, as sentences; empty for nothing."""


@dataclass(frozen=True)
class Place:
    """Where the person is in an open notebook."""

    cell_id: str | None
    editing: bool
    """They type in that cell (it has the cursor)."""


class CarrierGone(Busy):
    """The document is not here any more; nothing was changed. Another carrier may have it."""


class Carrier(Protocol):
    """One place where a live document can be. Its methods are called under the notebook's lock."""

    @property
    def name(self) -> CarrierName: ...

    @property
    def path(self) -> str:
        """Relative to the root of the contents manager; changes when the notebook is renamed in
        its tab.
        """

    @property
    def cells(self) -> SharedCells:
        """The document; `refresh` and `confirm` may replace it."""

    @property
    def metadata(self) -> dict[str, object]:
        """The notebook's own metadata."""

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        """Give these keys of the notebook's own metadata these values, or take them out where the
        value is None; the next `save` or `confirm` saves that.
        """

    @property
    def writable(self) -> bool: ...

    @property
    def place(self) -> Place | None:
        """Where the person was when the document was last refreshed; None if nobody looks at
        it.
        """

    async def is_live(self) -> bool:
        """Whether `cells` is as others have it, but for what is still on its way here."""

    async def is_current(self) -> bool:
        """Whether `refresh` would find nothing new and need not be called, nor another carrier be
        chosen. Raises as `refresh` does.
        """

    async def refresh(self) -> None:
        """Take in everything that was typed or saved up to now.

        Raises NotebookNotFound, UnreadableNotebook or Busy, which is CarrierGone where another
        carrier may have the document by now.
        """

    async def confirm(self) -> Saved:
        """Make sure that our transactions are in the live document, and that it is saved or will
        be.

        Raises Busy, Conflict or another ToolError when they are not, NotConfirmed where that is
        unknown.
        """

    async def save(self) -> Saved:
        """As `confirm`, for outputs of a run."""

    async def trust(self, cell_id: str) -> None:
        """A person approved this cell's run: its outputs may be shown as those of a cell they
        ran themselves.
        """

    async def begin(self, *, removes: bool) -> None:
        """Called before each edit: what `withdraw` would take back is what is done from now on.

        `removes`: it may delete, move or retype a cell; time for what would hold up the event loop.
        """

    async def withdraw(self) -> None:
        """Called when an operation has failed, after its transactions were taken back: take back
        whatever else it did, also where that is only on its way.
        """

    def moved(self, path: str) -> None:
        """The notebook was renamed."""

    async def close(self) -> None:
        """Let go of the document."""


def metadata_of(document: YNotebook) -> dict[str, Any]:
    """The metadata of a shared notebook, as JSON."""
    meta: Map[Any] = document.ydoc.get("meta", type=Map)
    metadata = as_json((meta.to_py() or {}).get("metadata"))
    return metadata if isinstance(metadata, dict) else {}


def write_metadata(cells: SharedCells, items: Mapping[str, Any]) -> None:
    """Change these keys of the metadata of a shared notebook."""
    meta: Map[Any] = cells.document.ydoc.get("meta", type=Map)
    with cells.transaction(RUN):
        if not isinstance(meta.get("metadata"), Map):
            meta["metadata"] = Map()
        for key, item in items.items():
            if item is not None:
                meta["metadata"][key] = as_shared(item)
            elif key in meta["metadata"]:
                del meta["metadata"][key]


def with_items(metadata: Mapping[str, Any], items: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata after `Carrier.write_metadata`."""
    kept = {key: item for key, item in metadata.items() if key not in items}
    return {**kept, **{key: item for key, item in items.items() if item is not None}}
