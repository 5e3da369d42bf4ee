"""What an edit wrote, found again in the document by its items: the text alone cannot tell one
"x = 1" from another that somebody typed beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pycrdt import Assoc, StickyIndex, Text

from jupyter_agent.document.cell import Change
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.merge import text_operations


@dataclass(frozen=True)
class _Piece:
    text: str
    start: dict[str, Any]
    end: dict[str, Any]
    """Both places as JSON, which hold in each replica."""

    def is_in(self, source: Text) -> bool:
        first = StickyIndex.from_json(self.start, source)
        last = StickyIndex.from_json(self.end, source)
        with source.doc.transaction() as transaction:
            start, end = first.get_index(transaction), last.get_index(transaction)
        between = iter(str(source).encode()[start:end].decode(errors="replace"))
        return all(letter in between for letter in self.text)  # others may type in the midst


class Insertions:
    """The texts that changes inserted, taken when they have just been made."""

    def __init__(self, cells: SharedCells, changes: Sequence[Change]) -> None:
        self._pieces = {
            change.cell_id: list(_pieces(cells.shared(change.cell_id)["source"], change))
            for change in changes
            if change.before is not None
            and change.after is not None
            and change.cell_id in cells.ids()
        }

    def are_in(self, cells: SharedCells, cell_id: str) -> bool:
        """Whether all that was inserted in that cell is there, whatever is around it by now. False
        where nothing was, or the cell was replaced since.
        """
        pieces = self._pieces.get(cell_id)
        if not pieces:
            return False
        source: Text = cells.shared(cell_id)["source"]
        return all(piece.is_in(source) for piece in pieces)


def _pieces(source: Text, change: Change) -> Iterator[_Piece]:
    assert change.before is not None
    assert change.after is not None
    after = change.after.source
    if str(source) != after:
        return
    grown = 0
    for start, end, text in reversed(list(text_operations(change.before.source, after))):
        if text:
            first = len(after[: start + grown].encode())
            last = first + len(text.encode())
            yield _Piece(
                text,
                source.sticky_index(first, Assoc.AFTER).to_json(),
                source.sticky_index(last, Assoc.BEFORE).to_json(),
            )
        grown += len(text) - (end - start)
