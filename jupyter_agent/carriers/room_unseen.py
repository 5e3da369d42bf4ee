"""Changes that a page had not seen when it put something else in the place of a text.

Yjs cannot move: JupyterLab moves or retypes a cell by deleting it and inserting a copy, merges
cells into a new one, and splits one by replacing its text. A page that was away, or is a moment
behind, takes away with the old text what others have changed in it meanwhile, and its copy lacks
that. It names each item that it had seen and deletes; so what it had not seen is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from jupyter_ydoc import YNotebook
from pycrdt import TransactionEvent

from jupyter_agent.carriers.room_updates import Ranges, Update, overlaps, union
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.merge import differing, nearer, with_typing

LONGEST_HISTORY = 1000
"""Changes that are kept of a cell."""

_BREAK = "\ufdd0"
"""Between the texts of the cells that one was split into; no text has it (a noncharacter)."""


class _Change(NamedTuple):
    """Of a text: `removed` at `start` was replaced by `added`."""

    start: int
    removed: str
    added: str
    brings: Ranges
    """The items of the whole transaction."""

    def undone(self, text: str) -> str:
        return text[: self.start] + self.removed + text[self.start + len(self.added) :]


@dataclass(eq=False)
class _Cell:
    """A shared map. Its copy is another one, though of the same id."""

    id: str
    text: str
    history: deque[_Change] = field(default_factory=lambda: deque(maxlen=LONGEST_HISTORY))


class _Edited(NamedTuple):
    """What one transaction did to a text."""

    before: str
    kept: int
    """Characters that it left."""
    inserted: str


class _Piece(NamedTuple):
    """A cell that has something of the text of a replaced one."""

    cell: _Cell
    written: str
    """What the page wrote into it."""
    then: str
    """Its text then."""


@dataclass(frozen=True, eq=False)
class Loss:
    """What a page had not seen of a text that it replaced."""

    pieces: Sequence[_Piece]
    """From top to bottom."""
    seen: str
    """The text as the page knew it."""
    lost: str
    """The text as everybody else knew it."""


class Unseen:
    """Follows the texts of a room's document."""

    def __init__(self, document: YNotebook, late: Callable[[], object]) -> None:
        """`late` is called when there is a loss."""
        self.losses: list[Loss] = []
        """Those that have not been made good yet."""
        self._late = late
        self._heard: list[Update] = []
        self._gone: list[_Cell] = []
        self._new: list[_Cell] = []
        self._edited: dict[_Cell, _Edited] = {}
        self._cells = [_Cell(str(cell["id"]), str(cell["source"])) for cell in document.ycells]
        document.ycells.observe_deep(self._note)
        document.ydoc.observe(self._end)

    def hear(self, update: bytes) -> None:
        """A page sends this; the document takes it in next."""
        with suppress(ValueError):  # not an update: the document refuses it itself
            self._heard.append(Update.read(update))

    def reapply(self, cells: SharedCells) -> Sequence[Loss]:
        """Make the losses good in the live document. Gives what `commit` needs once that is sure
        to stay.
        """
        losses = tuple(self.losses)
        for loss in losses:
            written = _BREAK.join(piece.written for piece in loss.pieces)
            wanted = with_typing(written, loss.seen, loss.lost).split(_BREAK)
            for piece, text in zip(loss.pieces, wanted, strict=True):
                if piece.cell.id in cells.ids():
                    now = cells.get(piece.cell.id).source
                    cells.write_source(piece.cell.id, with_typing(text, piece.then, now))
        return losses

    def commit(self, losses: Sequence[Loss]) -> None:
        """These have been made good for good."""
        self.losses = [loss for loss in self.losses if loss not in losses]

    # ---- called in the midst of a transaction: the document must not be asked

    def _note(self, events: Sequence[Any]) -> None:
        for event in events:
            match list(event.path):
                case []:
                    self._splice(event.delta)
                case [index, "source"]:
                    self._edit(self._cells[index], event.delta)
                case [index] if "source" in event.keys:
                    self._cells[index].text = str(event.keys["source"]["newValue"])
                    self._cells[index].history.clear()

    def _splice(self, delta: Sequence[Mapping[str, Any]]) -> None:
        position = 0
        for step in delta:
            if "retain" in step:
                position += step["retain"]
            elif "delete" in step:
                gone = slice(position, position + step["delete"])
                self._gone += self._cells[gone]
                del self._cells[gone]
            else:
                new = [_Cell(str(cell["id"]), str(cell["source"])) for cell in step["insert"]]
                self._cells[position:position] = new
                self._new += new
                position += len(new)

    def _edit(self, cell: _Cell, delta: Sequence[Mapping[str, Any]]) -> None:
        if cell in self._new:
            return  # that is in its text already
        rest = cell.text.encode()  # a delta counts bytes
        after, kept, inserted = [], 0, []
        for step in delta:
            if "insert" in step:
                after.append(step["insert"])
                inserted.append(step["insert"])
            elif "retain" in step:
                after.append(rest[: step["retain"]].decode())
                kept += len(after[-1])
                rest = rest[step["retain"] :]
            else:
                rest = rest[step["delete"] :]
        after.append(rest.decode())
        kept += len(after[-1])
        self._edited[cell] = _Edited(cell.text, kept, "".join(inserted))
        cell.text = "".join(after)

    def _end(self, event: TransactionEvent) -> None:
        heard, self._heard = self._heard, []
        gone, self._gone = self._gone, []
        new, self._new = self._new, []
        edited, self._edited = self._edited, {}
        if not gone and not edited:
            return
        if heard:
            page = _Page(
                reduce(union, [update.brings for update in heard]),
                reduce(union, [update.deletes for update in heard]),
                self._cells,
                new,
            )
            found = [page.lost_with(cell) for cell in gone]
            found += [page.lost_in(cell, was) for cell, was in edited.items()]
            if losses := [loss for loss in found if loss is not None]:
                self.losses += losses
                self._late()
        if edited:
            brings = Update.read(event.update).brings
            for cell, was in edited.items():
                start, old_end, new_end = differing(was.before, cell.text)
                removed, added = was.before[start:old_end], cell.text[start:new_end]
                cell.history.append(_Change(start, removed, added, brings))


@dataclass(frozen=True)
class _Page:
    """What a page did in one transaction, and the cells after it."""

    brings: Ranges
    deletes: Ranges
    cells: Sequence[_Cell]
    new: Sequence[_Cell]
    """Those that it made."""

    def lost_with(self, cell: _Cell) -> Loss | None:
        """With a cell that it took away."""
        copies = [copy for copy in self.new if copy.id == cell.id]
        for copy in copies or self.new:
            seen, unseen = self._seen(cell, cell.text, copy.text)
            if unseen and (copies or seen.strip() in copy.text):
                return Loss(self._pieces(copy, copy.text, seen), seen, cell.text)
        return None

    def lost_in(self, cell: _Cell, edited: _Edited) -> Loss | None:
        """In a text that it replaced."""
        if len(edited.before) - edited.kept < 2:
            return None  # a key
        seen, unseen = self._seen(cell, edited.before, edited.inserted)
        if not unseen or edited.kept > sum(len(change.added) for change in unseen):
            return None
        return Loss(self._pieces(cell, edited.inserted, seen), seen, edited.before)

    def _pieces(self, cell: _Cell, written: str, seen: str) -> Sequence[_Piece]:
        """The cell, after those above that it was split into."""
        pieces = [_Piece(cell, written, cell.text)]
        for above in reversed(self.cells[: self.cells.index(cell)]):
            if above not in self.new or above.text.strip() not in seen:
                break
            pieces.insert(0, _Piece(above, above.text, above.text))
        return pieces

    def _seen(self, cell: _Cell, text: str, written: str) -> tuple[str, Sequence[_Change]]:
        """The text as the page knew it, and what it had not seen of what led to `text`."""
        changes = list(cell.history)
        surely = [overlaps(change.brings, self.deletes) for change in changes]
        # A page is sent the changes of others in the order in which they were made.
        others = [
            sure and not change.brings.keys() <= self.brings.keys()
            for sure, change in zip(surely, changes, strict=True)
        ]
        up_to = len(others) - others[::-1].index(True) if True in others else 0
        texts = [text]
        for change in reversed(changes):
            texts.append(change.undone(texts[-1]))
        texts.reverse()
        seen, unseen = texts[0], list[_Change]()
        for number, change in enumerate(changes):
            before, after = texts[number : number + 2]
            known = number < up_to or surely[number]
            if not known and not change.added and not unseen:  # its items tell nothing
                known = nearer(after, before, written)
            if not known:
                unseen.append(change)
            else:
                seen = with_typing(seen, before, after) if unseen else after
        return seen, unseen
