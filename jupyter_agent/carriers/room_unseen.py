"""Changes that a page had not seen when it put something else in the place of a text.

Yjs cannot move: JupyterLab moves or retypes a cell by deleting it and inserting a copy, merges
cells into a new one, and splits one by replacing its text. A page that was away, or is a moment
behind, takes away with the old text what others have changed in it meanwhile, and its copy lacks
that. It names each item that it had seen and deletes; so what it had not seen is known. A cell that
it just deletes comes back if somebody else typed in it meanwhile.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from jupyter_ydoc import YNotebook
from pycrdt import Map, TransactionEvent

from jupyter_agent.carriers.room_late import Taken
from jupyter_agent.carriers.room_losses import Letter, Loss, Piece, text_of
from jupyter_agent.carriers.room_updates import Ranges, Update, includes, overlaps, union
from jupyter_agent.document.cell import CellType
from jupyter_agent.document.clocks import Id, item_at
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.merge import common, nearer

LONGEST_HISTORY = 1000
"""Changes that are kept of a cell."""

MOST_COPIES = 20
"""New cells of one update that are compared with one that it took away."""

MOST_TAKEN = 100
"""Cells that are remembered after a page took them away."""


class _Step(NamedTuple):
    """Of a text: `removed` at `start` was replaced by `added`."""

    start: int
    removed: str
    added: str

    def undone(self, text: str) -> str:
        return text[: self.start] + self.removed + text[self.start + len(self.added) :]


class _Change(NamedTuple):
    """What one transaction did to a text."""

    steps: Sequence[_Step]
    """From left to right; each in the text after those before it."""
    brings: Ranges
    """The items of the whole transaction."""
    typed: bool
    """By somebody in a page."""

    @property
    def added(self) -> int:
        """How many characters."""
        return sum(len(step.added) for step in self.steps)

    def undone(self, text: str) -> str:
        return reduce(lambda now, step: step.undone(now), reversed(self.steps), text)


@dataclass(eq=False)
class _Cell:
    """A shared map. Its copy is another one, though of the same id."""

    id: str
    type: CellType
    text: str
    item: Id | None = None
    """Of the shared map; None while nobody asked."""
    before: Sequence[_Change] = ()
    """What happened to the one that it is a copy of."""
    history: deque[_Change] = field(default_factory=lambda: deque(maxlen=LONGEST_HISTORY))


class Unseen:
    """Follows the texts of a room's document."""

    def __init__(self, document: YNotebook, late: Callable[[], object]) -> None:
        """`late` is called when there is a loss."""
        self._losses: list[Loss] = []
        """Those that have not been made good yet."""
        self._late = late
        self._document = document
        self._going: dict[_Cell, Taken] = {}
        """What the newest update takes away."""
        self._taken: deque[Taken] = deque(maxlen=MOST_TAKEN)
        self._heard: list[Update] = []
        self._gone: list[tuple[_Cell, Sequence[_Cell]]] = []
        """In this transaction, with the cells above each."""
        self._new: list[_Cell] = []
        self._edited: dict[_Cell, Sequence[_Step]] = {}
        self._cells = [_cell(cell) for cell in document.ycells]
        document.ycells.observe_deep(self._note)
        document.ydoc.observe(self._end)

    def hear(self, update: bytes) -> None:
        """A page sends this; the document takes it in next, unless it has it."""
        try:
            read = Update.read(update)
        except ValueError:
            return  # not an update: the document refuses it itself
        self._heard.append(read)
        if any([taken.take_in(read) for taken in self._taken]):
            self._late()
        self._going = {}
        if sum(end - start for ranges in read.deletes.values() for start, end in ranges) > 3:
            self._going = dict(self._take(read.deletes))

    @property
    def pending(self) -> bool:
        """Whether there are losses that have not been made good."""
        return bool(self._losses) or any(taken.loss is not None for taken in self._taken)

    def reapply(self, cells: SharedCells) -> None:
        """Make the losses good in the live document."""
        losses, self._losses = self._losses, []
        for loss in losses:
            loss.make_good(cells)
        for taken in self._taken:
            if (late := taken.loss) is not None:
                taken.settled(late.make_good(cells))

    def _lose(self, losses: Sequence[Loss | None]) -> None:
        if found := [loss for loss in losses if loss is not None]:
            self._losses += found
            self._late()

    def _take(self, deletes: Ranges) -> Iterator[tuple[_Cell, Taken]]:
        shared = self._document.ycells
        for index, cell in enumerate(self._cells):
            if cell.item is None:
                cell.item = item_at(shared, index)
            if includes(deletes, cell.item):
                yield cell, Taken(cell.id, cell.type, shared[index]["source"])

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
                above = self._cells[:position]
                gone = slice(position, position + step["delete"])
                self._gone += [(cell, above) for cell in self._cells[gone]]
                del self._cells[gone]
            else:
                new = [_cell(cell) for cell in step["insert"]]
                self._cells[position:position] = new
                self._new += new
                position += len(new)

    def _edit(self, cell: _Cell, delta: Sequence[Mapping[str, Any]]) -> None:
        if cell in self._new:
            return  # that is in its text already
        done, rest = "", cell.text.encode()  # a delta counts bytes
        steps = list[_Step]()
        for step in delta:
            if "insert" in step:
                steps.append(_Step(len(done), "", step["insert"]))
                done += step["insert"]
                continue
            length = step.get("retain") or step["delete"]
            passed, rest = rest[:length].decode(), rest[length:]
            if "retain" in step:
                done += passed
            else:
                steps.append(_Step(len(done), passed, ""))
        self._edited[cell] = steps
        cell.text = done + rest.decode()

    def _inherit(self, gone: _Cell) -> None:
        """A copy of a cell, which may be older than its end, has been through what that was."""
        for cell in self._cells:
            if cell.id == gone.id and cell.text == gone.text and not cell.history:
                cell.before = [*gone.before, *gone.history][-LONGEST_HISTORY:]

    def _end(self, event: TransactionEvent) -> None:
        heard, self._heard = self._heard, []
        gone, self._gone = self._gone, []
        new, self._new = self._new, []
        edited, self._edited = self._edited, {}
        if not (gone or edited or (new and heard)):
            return
        done = Update.read(event.update)
        heard = [update for update in heard if update.is_in(done)]
        if heard:
            page = _Page(
                reduce(union, [update.brings for update in heard]),
                reduce(union, [update.deletes for update in heard]),
                self._cells,
                new,
            )
            for cell, above in gone:
                if taken := self._going.get(cell):
                    taken.pieces, taken.above = page.in_place_of(cell), [one.id for one in above]
                    self._taken.append(taken)
            self._lose([page.lost_with(cell, above) for cell, above in gone])
            self._lose([page.lost_beside(copy) for copy in new])
            self._lose([page.lost_in(cell, steps) for cell, steps in edited.items()])
        for cell, _ in gone:
            self._inherit(cell)
        for cell, steps in edited.items():
            cell.history.append(_Change(steps, done.brings, bool(heard)))


@dataclass(frozen=True)
class _Page:
    """What a page did in one transaction, and the cells after it."""

    brings: Ranges
    deletes: Ranges
    cells: Sequence[_Cell]
    new: Sequence[_Cell]
    """Those that it made."""

    def lost_with(self, cell: _Cell, above: Sequence[_Cell]) -> Loss | None:
        """With a cell that it took away."""
        unseen, letters, pieces = self._replaced(cell)
        is_typed = any(change.typed and change.added for change in unseen)
        is_blank = not text_of(letter for letter in letters if letter.seen).strip()
        if not unseen or not (pieces or is_typed or is_blank):
            return None
        return Loss(cell.id, cell.type, letters, pieces, [one.id for one in above])

    def lost_beside(self, copy: _Cell) -> Loss | None:
        """By a copy of a cell that somebody else has put another in the place of: both are there,
        and theirs goes.
        """
        for twin in self.cells:
            if twin.id == copy.id and twin not in self.new:
                changes = [*twin.before, *twin.history]  # it has not seen the twin at all
                _, letters = self._unseen(changes, twin.text, copy.text)
                letters = letters or [Letter(char, seen=True, there=True) for char in twin.text]
                piece = Piece(copy.id, copy.text, copy.text)
                return Loss(copy.id, copy.type, letters, [piece], twin=twin.item)
        return None

    def in_place_of(self, cell: _Cell) -> Sequence[Piece]:
        """What it put in the place of a cell that it took away."""
        return self._replaced(cell)[2]

    def _replaced(self, cell: _Cell) -> tuple[Sequence[_Change], Sequence[Letter], Sequence[Piece]]:
        """What it had not seen of a cell that it took away, that as letters, and what it put there
        instead.
        """
        copies = [copy for copy in self.new if copy.id == cell.id]
        if not copies:
            alike = {copy: common(cell.text, copy.text) for copy in self.new[:MOST_COPIES]}
            copies = sorted(alike, key=lambda copy: alike[copy])[-1:]
        unseen, letters = self._unseen(
            list(cell.history), cell.text, copies[0].text if copies else ""
        )
        seen = text_of(letter for letter in letters if letter.seen) if unseen else cell.text
        pieces = [
            piece
            for copy in copies
            if copy.id == cell.id or common(seen, copy.text) > len(seen) / 2
            for piece in self._pieces(copy, copy.text, seen)
        ]
        return unseen, letters, pieces

    def lost_in(self, cell: _Cell, steps: Sequence[_Step]) -> Loss | None:
        """In a text that it replaced: it deleted all of it that it had seen."""
        if sum(len(step.removed) for step in steps) < 2:
            return None  # a key
        before = _Change(steps, {}, True).undone(cell.text)
        written = "".join(step.added for step in steps)
        left = _left(cell.history, before, steps)
        if not left:
            return None
        unseen, letters = self._unseen(list(cell.history), before, written)
        if any(cell.history[number] not in unseen for number in left):
            return None
        seen = text_of(letter for letter in letters if letter.seen)
        return Loss(cell.id, cell.type, letters, self._pieces(cell, written, seen))

    def _pieces(self, cell: _Cell, written: str, seen: str) -> Sequence[Piece]:
        """The cell, after those above that it was split into."""
        pieces = [Piece(cell.id, written, cell.text)]
        for above in reversed(self.cells[: self.cells.index(cell)]):
            if above not in self.new or above.text.strip() not in seen:
                break
            pieces.insert(0, Piece(above.id, above.text, above.text))
        return pieces

    def _unseen(
        self, changes: Sequence[_Change], text: str, written: str
    ) -> tuple[Sequence[_Change], Sequence[Letter]]:
        """What the page had not seen of what led to `text`, and both texts in one."""
        surely = [overlaps(change.brings, self.deletes) for change in changes]
        # A page is sent the changes of others in the order in which they were made.
        others = [
            sure and not change.brings.keys() <= self.brings.keys()
            for sure, change in zip(surely, changes, strict=True)
        ]
        first = len(others) - others[::-1].index(True) if True in others else 0
        texts = [text]
        for change in reversed(changes[first:]):
            texts.append(change.undone(texts[-1]))
        unseen, letters = list[_Change](), list[Letter]()
        for sure, change in zip(surely[first:], changes[first:], strict=True):
            before, after = texts.pop(), texts[-1]
            known = sure
            if not sure and not change.added and not unseen:  # its items tell nothing
                known = nearer(after, before, written)
            if not known:
                letters = letters or [Letter(char, seen=True, there=True) for char in before]
                unseen.append(change)
            if unseen:
                for step in change.steps:
                    _weave(letters, step, known=known)
        return unseen, letters


def _left(history: Sequence[_Change], before: str, steps: Sequence[_Step]) -> set[int]:
    """The changes of which all letters are left that `before` had, where nothing else is; none
    where some of another is left, too.
    """
    text = before
    for change in reversed(history):
        text = change.undone(text)
    oldest, page = -1, len(history)
    letters = [oldest] * len(text)
    for number, change in enumerate(history):
        for step in change.steps:
            letters[step.start : step.start + len(step.removed)] = [number] * len(step.added)
    had = Counter(letters)
    for step in steps:
        letters[step.start : step.start + len(step.removed)] = [page] * len(step.added)
    left = Counter(letter for letter in letters if letter != page)
    if oldest in left or any(had[number] > count for number, count in left.items()):
        return set()
    return set(left)


def _weave(letters: list[Letter], step: _Step, *, known: bool) -> None:
    places = [place for place, letter in enumerate(letters) if letter.there]
    for place in places[step.start : step.start + len(step.removed)]:
        letters[place].there = False
        letters[place].seen &= not known
    place = places[step.start] if step.start < len(places) else len(letters)
    letters[place:place] = [Letter(char, seen=known, there=True) for char in step.added]


def _cell(shared: Map[Any]) -> _Cell:
    return _Cell(str(shared["id"]), shared["cell_type"], str(shared["source"]))
