"""The interface shared by all places that can hold a notebook's live document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jupyter_ydoc import YNotebook
from pycrdt import Map

from jupyter_agent.document.cell import CarrierName
from jupyter_agent.document.crdt import RUN, SharedCells
from jupyter_agent.document.values import as_json, as_shared
from jupyter_agent.errors import Busy


@dataclass(frozen=True)
class SaveResult:
    """Whether the live document's content is on disk."""

    saved: bool
    note: str = ""
    """Sentences for the reader of the result; empty if there is nothing to say."""


@dataclass(frozen=True)
class Place:
    """The user's position in an open notebook."""

    cell_id: str | None
    editing: bool
    """The user is typing in that cell (it has the cursor)."""


class CarrierGone(Busy):
    """The document is no longer here and nothing was changed. Another carrier may have it."""


class Carrier(Protocol):
    """One place that can hold a live document. Its methods are called under the notebook's lock."""

    @property
    def name(self) -> CarrierName: ...

    @property
    def path(self) -> str:
        """Relative to the root of the contents manager; changes when the notebook is renamed in its
        tab.
        """

    @property
    def cells(self) -> SharedCells:
        """The document; `refresh` and `confirm` may replace it."""

    @property
    def metadata(self) -> dict[str, object]:
        """The notebook's own metadata."""

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        """Set these keys of the notebook's own metadata, or remove them if the value is None. The
        next `save` or `confirm` saves the change.
        """

    @property
    def writable(self) -> bool: ...

    @property
    def place(self) -> Place | None:
        """The user's position when the document was last refreshed; None if no user is known to be
        in the notebook.
        """

    async def is_live(self) -> bool:
        """Whether `cells` is as others have it, apart from changes still on their way here."""

    async def is_current(self) -> bool:
        """Whether `refresh` would find nothing new, so that neither a refresh nor the choice of
        another carrier is needed. Raises the same errors as `refresh`.
        """

    async def refresh(self) -> None:
        """Load everything typed or saved up to now.

        Raises NotebookNotFound, UnreadableNotebook or Busy; the Busy is a CarrierGone if another
        carrier may have the document by now.
        """

    async def confirm(self) -> SaveResult:
        """Make sure that our transactions are in the live document, and that it is saved or will
        be.

        Raises Busy, Conflict or another ToolError if they are not, NotConfirmed if that is unknown.
        """

    async def save(self) -> SaveResult:
        """Like `confirm`, for the outputs of a run."""

    async def trust(self, cell_id: str) -> None:
        """The user approved this cell's run: its outputs may be shown like those of a cell they ran
        themselves.
        """

    async def begin(self, *, removes: bool) -> None:
        """Called before each edit: `withdraw` takes back what happens from now on.

        `removes`: the edit may delete, move or retype a cell, so this is the time for work that
        would hold up the event loop.
        """

    async def withdraw(self) -> None:
        """Called when an operation has failed and its transactions were taken back: take back all
        its other effects too, including those still on their way.
        """

    def note_rename(self, path: str) -> None:
        """The notebook was renamed to this path."""

    async def close(self) -> None:
        """Release the document."""


def metadata_of(document: YNotebook) -> dict[str, Any]:
    """The metadata of a shared notebook as JSON."""
    meta: Map[Any] = document.ydoc.get("meta", type=Map)
    metadata = as_json((meta.to_py() or {}).get("metadata"))
    return metadata if isinstance(metadata, dict) else {}


def write_metadata(cells: SharedCells, items: Mapping[str, Any]) -> None:
    """Set these keys of a shared notebook's metadata; None removes a key."""
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
    others = {key: item for key, item in metadata.items() if key not in items}
    return {**others, **{key: item for key, item in items.items() if item is not None}}
