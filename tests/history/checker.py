"""Decides from a history whether a notebook kept everyone's edits.

People, an agent and other programs write *tokens*: words that occur once in the world. The history
records who wrote which, which actions may remove tokens, and the answers to the agent. From that
follows how often each token has to be in the notebook at the end; `faults` compares this with the
actual end. Nothing here knows the product, and only reasons in the history count: a token that
vanished without a reason is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

TOKEN = re.compile(r"W[EGNQTU]{6}W")
"""In JupyterLab's command mode these letters do nothing."""

KEEPING = frozenset(
    {
        "type", "complete", "insert", "split", "merge", "move", "retype", "run", "save", "copy",
        "rename", "rejoin",
    }
)  # fmt: skip
"""Actions of people that neither remove nor double a token."""
CUTTING = frozenset({"cut", "delete"})
"""Removes the contents of the named cells."""
LOADING = frozenset({"reload", "reopen", "revert", "restore"})
"""Replaces the document by a file: unsaved edits are given up."""
UNDOING = frozenset({"undo", "redo"})
"""Removes and restores the same person's edits."""
KINDS = KEEPING | CUTTING | LOADING | UNDOING | {"paste"}

Outcome = Literal["done", "refused", "unknown"]


@dataclass(frozen=True)
class Typed:
    """All keys of the token were pressed, with the focus in a cell. `sure` is False if something in
    front of the notebook may have received them."""

    at: float
    who: str
    token: str
    sure: bool = True


@dataclass(frozen=True)
class Moved:
    """A page's own transactions changed how often a token is in a cell."""

    token: str
    cell: str
    by: int


@dataclass(frozen=True)
class Did:
    """An action of a person, with the changes of their page, not of the agent, during it."""

    begin: float
    end: float
    who: str
    kind: str
    cells: frozenset[str] = frozenset()
    """The cells that `CUTTING` was aimed at."""
    moved: tuple[Moved, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    """Cell id -> type, for cells whose type was changed."""
    file: Mapping[str, int] = field(default_factory=dict)
    """How often each token was in the file of `LOADING` before it started."""
    before: Mapping[str, int] = field(default_factory=dict)
    """How often each token was in the page then: only those can be given up."""
    after: Mapping[str, int] | None = None
    """How often each token was in the page after loading; None if no one looked."""


@dataclass(frozen=True)
class Edit:
    """An edit by the agent. `done` is a promise; `unknown` is not."""

    begin: float
    end: float
    who: str
    kind: str
    outcome: Outcome
    adds: tuple[str, ...] = ()
    removes: Mapping[str, int] = field(default_factory=dict)
    """Tokens in the text that the agent had read but not in its new text."""
    types: Mapping[str, str] = field(default_factory=dict)
    saved: bool = True
    """False: the answer said that the edit is not in the file yet."""
    cell: str = ""
    """The id of the edited or inserted cell; empty if unknown."""


@dataclass(frozen=True)
class Wrote:
    """Another program wrote the file."""

    at: float
    who: str
    adds: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """Someone was asked or told which tokens cannot all be kept."""

    at: float
    tokens: frozenset[str]
    how: str


@dataclass(frozen=True)
class Question:
    """JupyterLab asked "File Changed: revert or overwrite?"."""

    at: float
    who: str


Event: TypeAlias = Typed | Did | Edit | Wrote | Told | Question


@dataclass(frozen=True)
class Cell:
    """A cell at the end."""

    id: str
    type: str
    source: str


@dataclass(frozen=True)
class End:
    """The state of each place once everything is quiet: the pages, the server and the disk."""

    places: Mapping[str, Sequence[Cell]]


@dataclass(frozen=True)
class Fault:
    """A violation."""

    kind: Literal[
        "lost", "doubled", "returned", "stray", "differs", "type", "same id", "question", "history"
    ]
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}: {self.text}"


def faults(events: Iterable[Event], end: End, *, alone: bool = True) -> list[Fault]:
    """The violations in that end of that history. `alone`: only the agent and one page write the
    file, so no question about it may come up.
    """
    ordered = sorted(events, key=_when)
    found = [*_invalid(ordered, end), *_differences(end), *_same_ids(end)]
    if alone:
        found += [
            Fault("question", event.who, f"was asked about a changed file at {event.at:.1f}")
            for event in ordered
            if isinstance(event, Question)
        ]
    expected = expectations(ordered)
    for place, cells in end.places.items():
        found += _wrong_counts(expected, place, cells)
        found += _wrong_types(ordered, place, cells)
    return _once(found)


@dataclass
class Expected:
    """The minimum and maximum number of a token, with the reasons."""

    low: int = 0
    high: int = 0
    author: str = ""
    brought: set[str] = field(default_factory=set)
    """The people who made a copy of it."""
    why: list[str] = field(default_factory=list)
    arrived: Edit | None = None
    """The edit that wrote it, if someone removed it before the answer."""

    def born(self, author: str, *, sure: bool, at: float) -> None:
        self.author = author
        self.low, self.high = (1 if sure else self.low), max(self.high, 1)
        self.note(at, f"written by {author}" + ("" if sure else ", perhaps"))

    def shift(self, by: int, why: str, at: float) -> None:
        self.low, self.high = max(self.low + by, 0), max(self.high + by, 0)
        self.note(at, why)

    def maybe_fewer(self, by: int, why: str, at: float) -> None:
        self.low = max(self.low - by, 0)
        self.note(at, why)

    def note(self, at: float, why: str) -> None:
        self.why.append(f"{at:.1f} {why} -> {self.low}..{self.high}")


def expectations(events: Iterable[Event]) -> dict[str, Expected]:
    """The expectations for each token, from the events in the order of their ends."""
    found: dict[str, Expected] = {}
    ordered = sorted(events, key=_when)
    edits = [event for event in ordered if isinstance(event, Edit)]
    dids = [event for event in ordered if isinstance(event, Did)]
    for event in ordered:
        match event:
            case Typed():
                found.setdefault(event.token, Expected()).born(
                    event.who, sure=event.sure, at=event.at
                )
            case Wrote():
                for token in event.adds:
                    found.setdefault(token, Expected()).born(event.who, sure=True, at=event.at)
            case Edit():
                _edited(found, event, dids)
            case Did() if event.kind in LOADING:
                _loaded(found, event, edits)
            case Did():
                _arrived(found, event, edits)
                _done(found, event)
            case Told():
                for token in event.tokens & found.keys():
                    found[token].maybe_fewer(found[token].low, f"told: {event.how}", event.at)
                    found[token].high = max(found[token].high, 1)
    return found


def tokens(text: str) -> Counter[str]:
    """How often each token is in the text."""
    return Counter(TOKEN.findall(text))


def tokens_of(cells: Iterable[Cell]) -> Counter[str]:
    """How often each token is in the cells; words do not span cells."""
    return tokens("\0".join(cell.source for cell in cells))


def _when(event: Event) -> float:
    return event.end if isinstance(event, (Did, Edit)) else event.at


def _edited(found: dict[str, Expected], edit: Edit, dids: Sequence[Did]) -> None:
    if edit.outcome == "refused":
        for token in edit.adds:
            found.setdefault(token, Expected()).shift(0, f"refused to {edit.who}", edit.end)
        return
    for token in edit.adds:
        expected = found.setdefault(token, Expected())
        if expected.arrived is not edit:
            sure = edit.outcome == "done" and not _overtaken(edit, dids)
            expected.born(edit.who, sure=sure, at=edit.end)
    for token, times in edit.removes.items():
        if token in found:
            if edit.outcome == "done":
                found[token].shift(-times, f"removed by {edit.who}: {edit.kind}", edit.end)
            else:
                found[token].maybe_fewer(times, f"perhaps removed by {edit.who}", edit.end)


def _overtaken(edit: Edit, dids: Sequence[Did]) -> bool:
    """Whether a person removed the cell, or loaded a file, after the edit arrived and before its
    answer. The answer to one edit comes once it is known to have arrived; that to a turn may come
    long after.
    """
    at_once = [did for did in dids if did.begin < edit.end and did.end > edit.begin]
    return any(
        (did.kind in CUTTING and edit.cell in did.cells)
        or (did.kind in LOADING and edit.kind == "turn")
        for did in at_once
    )


def _arrived(found: dict[str, Expected], did: Did, edits: Sequence[Edit]) -> None:
    """An edit that a page moves had arrived, even if the agent has no answer yet."""
    moved = {moved.token for moved in did.moved} - found.keys()
    for edit in edits:
        if edit.begin < did.end < edit.end and edit.outcome != "refused":
            for token in moved.intersection(edit.adds):
                found[token] = Expected(arrived=edit)
                found[token].born(edit.who, sure=True, at=did.begin)


def _done(found: dict[str, Expected], did: Did) -> None:
    """Counts the changes of the person's own page as far as their action explains them."""
    if did.kind in KEEPING:
        return
    net, aimed = Counter[str](), Counter[str]()
    for moved in did.moved:
        net[moved.token] += moved.by
        if moved.by < 0 and moved.cell in did.cells:
            aimed[moved.token] -= moved.by
    for token, by in net.items():
        if (expected := found.get(token)) is None:
            continue
        why = f"{did.who}: {did.kind}"
        if by > 0 and did.kind in UNDOING | {"paste"}:
            expected.brought.add(did.who)
            expected.shift(by, why, did.end)
        elif by < 0 and did.kind in CUTTING and aimed[token]:
            expected.shift(-min(-by, aimed[token]), why, did.end)
        elif by < 0 and did.kind in UNDOING and did.who in {expected.author, *expected.brought}:
            expected.shift(by, why, did.end)


def _loaded(found: dict[str, Expected], did: Did, edits: Sequence[Edit]) -> None:
    """The contents of the file stay. Unsaved contents of the page may go: they are given up. Tokens
    in neither are lost already. After that the page's contents count, plus edits that were in
    flight.
    """
    on_their_way = [edit for edit in edits if edit.begin < did.end and edit.end > did.begin]
    moving = {token for edit in on_their_way for token in (*edit.adds, *edit.removes)}
    unsaved = {token for edit in on_their_way if not edit.saved for token in edit.adds}
    for token, expected in found.items():
        filed, had = did.file.get(token, 0), did.before.get(token, 0)
        if had >= expected.low or token in unsaved:
            expected.low = min(expected.low, filed)
        expected.high = max(expected.low, filed, 0 if did.kind == "restore" else expected.high)
        if did.after is not None and token not in moving:
            shown = did.after.get(token, 0)
            if expected.low <= shown <= expected.high:
                expected.low = expected.high = shown
        expected.note(did.end, f"{did.who}: {did.kind}, {had} in the page, {filed} in the file")


def _wrong_counts(
    expected: Mapping[str, Expected], place: str, cells: Sequence[Cell]
) -> Iterator[Fault]:
    there = tokens_of(cells)
    for token in sorted({*expected, *there}):
        count = there[token]
        if (known := expected.get(token)) is None:
            yield Fault("stray", token, f"{place} has it, and nobody is known to have written it")
            continue
        if known.low <= count <= known.high:
            continue
        text = f"{count} in {place}, expected {known.low}..{known.high}: {'; '.join(known.why)}"
        if count < known.low:
            yield Fault("lost", token, text)
        else:
            yield Fault("doubled" if known.high else "returned", token, text)


def _differences(end: End) -> Iterator[Fault]:
    """All places have the same cells, in the same order."""
    (first, wanted), *others = end.places.items()
    for place, cells in others:
        if list(cells) != list(wanted):
            yield Fault("differs", f"{first} and {place}", f"{list(wanted)} != {list(cells)}")


def _same_ids(end: End) -> Iterator[Fault]:
    for place, cells in end.places.items():
        twice = [key for key, count in Counter(cell.id for cell in cells).items() if count > 1]
        if twice:
            yield Fault("same id", place, f"more than one cell is called {twice}")


def _wrong_types(events: Sequence[Event], place: str, cells: Sequence[Cell]) -> Iterator[Fault]:
    """A cell has its last given type. Simultaneous changes may all count, and after the document
    was replaced or something was undone, no one can say.
    """
    for cell in cells:
        given = [
            event for event in events if isinstance(event, (Did, Edit)) and cell.id in event.types
        ]
        sure = [event for event in given if isinstance(event, Did) or event.outcome == "done"]
        if not sure:
            continue
        last = sure[-1]
        later = [event for event in events if isinstance(event, (Did, Edit))]
        if any(
            event.end > last.begin and (event.kind in LOADING | UNDOING | {"paste", "merge"})
            for event in later
        ):
            continue
        possible = {event.types[cell.id] for event in given if event.end >= last.begin}
        if cell.type not in possible:
            text = f"{cell.type} in {place}, but {last.who} made it {last.types[cell.id]}"
            yield Fault("type", cell.id, text)


def _invalid(events: Sequence[Event], end: End) -> Iterator[Fault]:
    """A history that is empty or inconsistent proves nothing."""
    if len(end.places) < 2:
        yield Fault("history", "end", "fewer than two places are compared")
    written = Counter(
        token
        for event in events
        for token in (
            (event.token,)
            if isinstance(event, Typed)
            else event.adds
            if isinstance(event, (Edit, Wrote))
            else ()
        )
    )
    restored = {
        token
        for event in events
        if isinstance(event, Edit) and event.kind == "undo"
        for token in event.adds
    }
    for token, count in written.items():
        if TOKEN.fullmatch(token) is None:
            yield Fault("history", token, "is no token")
        elif count > 1 and token not in restored:
            yield Fault("history", token, f"was written {count} times")
    for event in events:
        if isinstance(event, Did) and event.kind not in KINDS:
            yield Fault("history", event.kind, f"nobody knows what it may do, in {event}")


def _once(found: Iterable[Fault]) -> list[Fault]:
    """Each fault in the first place that has it: `differs` reports the others."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in found:
        first.setdefault((fault.kind, fault.what), fault)
    return list(first.values())
