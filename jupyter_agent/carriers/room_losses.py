"""What is lost with a text that a page of a room replaced or deleted, and how it is made good."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jupyter_agent.document.cell import CellState, CellType
from jupyter_agent.document.clocks import Id
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.merge import MergeConflict, merge, text_operations, with_typing

_BREAK = "\ufdd0"
"""Between the texts of the cells that one was split into; no text has it (a noncharacter)."""


@dataclass(frozen=True)
class Piece:
    """A cell that has something of the text of a replaced one."""

    cell_id: str
    written: str
    """What the page wrote into it."""
    then: str
    """Its text then."""


@dataclass
class Letter:
    """Of a text that two know differently."""

    char: str
    seen: bool
    """In the text as the page knew it."""
    there: bool
    """In the text as everybody else knew it."""


@dataclass(frozen=True, eq=False)
class Loss:
    """What a page had not seen of a text that it replaced or deleted."""

    cell_id: str
    type: CellType
    letters: Sequence[Letter]
    """Both texts in one."""
    pieces: Sequence[Piece]
    """What the page put in its place, from top to bottom; none where the cell comes back."""
    above: Sequence[str] = ()
    """Ids of the cells above the place where it was, from top to bottom."""
    twin: Id | None = None
    """The item of a cell of the same id that goes."""

    def make_good(self, cells: SharedCells) -> Sequence[Piece]:
        """Write it into the live document. Gives the pieces as they are then."""
        if self.twin is not None and cells.ids().count(self.cell_id) > 1:
            cells.delete_twin(self.cell_id, self.twin)
        ids = cells.ids()
        if not self.pieces and self.cell_id not in ids:
            index = 1 + max((ids.index(one) for one in self.above if one in ids), default=-1)
            state = self._state(index)
            cells.insert(index, self.cell_id, state)
            return [Piece(self.cell_id, state.source, state.source)]
        settled = []
        for piece, text in zip(self.pieces, self._texts(), strict=False):
            if piece.cell_id in ids:
                both = _both(piece.then, cells.get(piece.cell_id).source, text)
                cells.write_source(piece.cell_id, both)
                settled.append(Piece(piece.cell_id, both, both))
        return settled

    def _texts(self) -> Sequence[str]:
        """What each piece has to say."""
        seen = text_of(letter for letter in self.letters if letter.seen)
        written = _BREAK.join(piece.written for piece in self.pieces)
        kept, inserted = [True] * len(seen), dict[int, str]()
        for start, end, text in text_operations(seen, written):
            kept[start:end] = [False] * (end - start)
            inserted[start] = text
        merged, place = list[str](), 0
        for letter in self.letters:
            if letter.seen:
                merged.append(inserted.get(place, ""))
                place += 1
            if letter.there and (not letter.seen or kept[place - 1]):
                merged.append(letter.char)
        return "".join([*merged, inserted.get(place, "")]).split(_BREAK)

    def _state(self, index: int) -> CellState:
        """The cell that comes back."""
        text = text_of(letter for letter in self.letters if letter.there)
        return CellState(
            type=self.type,
            source=text,
            metadata={},
            index=index,
            outputs=[],
            execution_count=None,
        )


def text_of(letters: Iterable[Letter]) -> str:
    """What they spell."""
    return "".join(letter.char for letter in letters)


def _both(before: str, now: str, text: str) -> str:
    """`text` with what was made of `before` meanwhile: by lines where that can be, since letters
    alone are easily taken for others.
    """
    try:
        return merge(before, now, text)
    except MergeConflict:
        return with_typing(text, before, now)
