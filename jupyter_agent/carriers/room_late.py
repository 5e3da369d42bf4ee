"""Keys for a cell that a page has just taken away: somebody else pressed them before they saw that.

In the live document they are gone with the cell. So of a cell that a page is about to delete, or to
put a copy in the place of, the items of its text are kept: keys that come later name the one on
their left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pycrdt import Assoc, Text

from jupyter_agent.carriers.room_losses import Letter, Loss, Piece
from jupyter_agent.carriers.room_updates import Inserted, Update, includes
from jupyter_agent.document.cell import CellType
from jupyter_agent.document.clocks import Id, ids, units


@dataclass
class _Key:
    char: str
    first: Id
    """Of its first UTF-16 unit."""
    is_late: bool = False

    @property
    def last(self) -> Id:
        client, clock = self.first
        return client, clock + units(self.char) - 1


class Taken:
    """A cell that a page takes away."""

    def __init__(self, cell_id: str, type: CellType, source: Text) -> None:
        """`source` is still alive."""
        self._cell_id = cell_id
        self._type = type
        self._keys = [
            _Key(char, first) for char, first in zip(str(source), ids(source), strict=True)
        ]
        self._text = _id(source.sticky_index(0, Assoc.BEFORE).to_json()["type"])
        self.pieces: Sequence[Piece] = ()
        """What the page put in its place."""
        self.above: Sequence[str] = ()
        """Ids of the cells above it."""

    def take_in(self, update: Update) -> bool:
        """Whether an update types into it."""
        known = len(self._keys)
        knows = includes(update.deletes, self._text)  # so all keys are deleted, erased or not
        for inserted in update.inserted:
            place = self._place(inserted)
            if place is not None and (knows or not includes(update.deletes, inserted.id)):
                self._insert(place, inserted)
        return len(self._keys) > known

    @property
    def loss(self) -> Loss | None:
        """The keys that came since it was `settled`."""
        if not any(key.is_late for key in self._keys):
            return None
        letters = [Letter(key.char, seen=not key.is_late, there=True) for key in self._keys]
        return Loss(self._cell_id, self._type, letters, self.pieces, self.above)

    def settled(self, pieces: Sequence[Piece]) -> None:
        """These have all keys now."""
        self.pieces = pieces
        for key in self._keys:
            key.is_late = False

    def _insert(self, place: int, inserted: Inserted) -> None:
        known = {key.first: number for number, key in enumerate(self._keys)}
        for key in _spelled(inserted):  # a page tells some of it twice
            if key.first in known:
                place = known[key.first] + 1
            else:
                self._keys.insert(place, key)
                place += 1

    def _place(self, inserted: Inserted) -> int | None:
        for number, key in enumerate(self._keys):
            if key.last == inserted.left:
                return number + 1
            if key.first == inserted.right:
                return number
        return 0 if inserted.parent == self._text else None


def _spelled(inserted: Inserted) -> Iterator[_Key]:
    client, clock = inserted.id
    for char in inserted.text:
        yield _Key(char, (client, clock), is_late=True)
        clock += units(char)


def _id(json: dict[str, int]) -> Id:
    return json["client"], json["clock"]
