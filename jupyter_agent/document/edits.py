"""Why an edit is refused, which text it produces, and whether it arrived. Stateless and
synchronous.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import nbformat

from jupyter_agent.document.carrier import Place
from jupyter_agent.document.cell import Cell, CellState, Change, ChangeKind
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.insertions import Insertions
from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.merge import (
    MergeConflict,
    Span,
    is_nearer,
    keeps_edit,
    merge,
    text_operations,
)
from jupyter_agent.document.values import json_error, nbformat_cell
from jupyter_agent.errors import (
    Busy,
    Conflict,
    InvalidInput,
    Locked,
    NotOnce,
    NotRead,
    Overtaken,
)


@dataclass(frozen=True)
class EditOutcome:
    """The result of one operation on one cell, before it is confirmed."""

    cell_id: str
    kind: ChangeKind
    before: Cell | None = None
    source: str | None = None
    """The text that the edit gave the cell, without anything typed since."""
    within: Span | None = None
    """The only part of the cell's text that was rewritten; None if all of it was."""
    merged: bool = False

    def changes(self, path: str, cells: SharedCells) -> list[Change]:
        """The changes for the journal; empty if nothing differs."""
        before = self.before.state() if self.before else None
        after = self._after(before, cells)
        if before == after:
            return []
        change = Change(
            notebook=path,
            cell_id=self.cell_id,
            kind=self.kind,
            before=before,
            after=after,
            within=self.within,
        )
        return [change]

    def _after(self, before: CellState | None, cells: SharedCells) -> CellState | None:
        if self.kind == "delete":
            return None
        now = cells.get(self.cell_id).state()
        if self.kind == "move" and before is not None:
            return replace(before, index=now.index)
        return now if self.source is None else replace(now, source=self.source)


class CellsView(Protocol):
    """Cells as an edit sees them: those of the document, or as earlier edits would leave them."""

    def ids(self) -> list[str]: ...

    def index(self, cell_id: str) -> int:
        """Raises CellNotFound."""

    def get(self, cell_id: str) -> Cell:
        """Raises CellNotFound."""


def target_index(
    cells: CellsView,
    *,
    after: str | None,
    before: str | None,
    index: int | None,
    moving: str | None = None,
) -> int:
    """The index for a new cell, or the final index of the cell `moving`; the end if nothing is
    given.
    """
    if sum(anchor is not None for anchor in (after, before, index)) > 1:
        raise InvalidInput("Give only one of `after`, `before` and `index`.")
    others = [cell_id for cell_id in cells.ids() if cell_id != moving]
    if index is not None:
        if not 0 <= index <= len(others):
            raise InvalidInput(
                f"`index` must be between 0 and {len(others)}; leave it out for the end."
            )
        return index
    anchor = after if after is not None else before
    if anchor is None:
        return len(others)
    if anchor == moving:
        raise InvalidInput(f"Cell `{moving}` cannot be moved next to itself.")
    cells.index(anchor)
    return others.index(anchor) + (after is not None)


def require_version(cells: CellsView, cell_id: str, version: str | None) -> Cell:
    """The cell, if it still has the version that the caller expects (None: any). Raises
    Conflict.
    """
    cell = cells.get(cell_id)
    if version not in (None, cell.version):
        raise Conflict(
            f"Cell `{cell_id}` has changed; nothing was done. {_current_text(cell)}",
            current=cell.describe(),
        )
    return cell


def edited_text(
    cell: Cell,
    *,
    source: str | None,
    base: str | None,
    old_string: str | None,
    new_string: str | None,
    replace_all: bool = False,
) -> str:
    """The text that an edit gives the cell; the present text if the edit does not name one.

    Raises InvalidInput for half an edit, two in one, or text that `text_for_cell` refuses.
    """
    source, base, old_string, new_string = (
        text if text is None else unify(text) for text in (source, base, old_string, new_string)
    )
    if new_string is not None and old_string is None:
        raise InvalidInput("`new_string` needs the `old_string` that it replaces.")
    if source is not None and old_string is not None:
        raise InvalidInput("Give `source`, or `old_string` and `new_string`, not both.")
    if old_string is not None:
        return text_for_cell(_replace_string(cell, old_string, new_string, replace_all))
    return cell.source if source is None else text_for_cell(_merge_source(cell, source, base))


def _replace_string(cell: Cell, old_string: str, new_string: str | None, replace_all: bool) -> str:
    if new_string is None:
        raise InvalidInput("`old_string` needs a `new_string`.")
    text = cell.source
    for start, end in reversed(_spans(cell, old_string, replace_all)):
        text = f"{text[:start]}{new_string}{text[end:]}"
    return text


def _spans(cell: Cell, old_string: str, replace_all: bool) -> list[Span]:
    """The places of the text in the cell: verbatim, or else ignoring the kind of spaces, which look
    alike. Raises NotOnce if the text does not occur or, unless all are to be replaced, occurs more
    than once, counting overlaps.
    """
    starts = _starts(cell.source, old_string) or _starts(
        cell.source.translate(_SPACES), old_string.translate(_SPACES)
    )
    if len(starts) == 1 or (replace_all and starts):
        spans = [(starts[0], starts[0] + len(old_string))]
        for start in starts[1:]:
            if start >= spans[-1][1]:
                spans.append((start, start + len(old_string)))
        return spans
    if not old_string:
        raise NotOnce(
            f"`old_string` is empty, so cell `{cell.id}` was not changed. "
            f"Give the whole text as `source` instead. {_current_text(cell)}",
            current=cell.describe(),
        )
    occurrence = f"occurs {len(starts)} times"
    if starts:
        places = [_position(cell.source, start) for start in starts[:_PLACES]]
        occurrence += f" ({'; '.join(places)}{'; ...' if len(starts) > _PLACES else ''})"
    else:
        occurrence = f"does not occur{_invisible_difference(cell.source, old_string)}"
    wanted = (
        "occur" if replace_all else "occur once (or give `replace_all`)" if starts else "occur once"
    )
    raise NotOnce(
        f"`old_string` {occurrence} in cell `{cell.id}` and must {wanted}; nothing was changed. "
        f"{_current_text(cell)}",
        current=cell.describe(),
    )


_PLACES = 5
"""Places listed in a refusal."""
_SPACES = dict.fromkeys(map(ord, "\u00a0\u1680\u202f\u205f\u3000"), " ") | dict.fromkeys(
    range(0x2000, 0x200B), " "
)
"""Maps each kind of space to the usual one."""


def _starts(text: str, sought: str) -> list[int]:
    """The start of each occurrence: `aba` occurs twice in `ababa`."""
    if not sought:
        return []
    starts, start = [], text.find(sought)
    while start >= 0:
        starts.append(start)
        start = text.find(sought, start + 1)
    return starts


def _position(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, character {at - text.rfind(chr(10), 0, at)}"


def _is_visible(one: str) -> bool:
    return one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf")


def _invisible_difference(text: str, sought: str) -> str:
    """Which invisible character prevents a match, and where; empty if that is not the reason."""
    shown = [(at, one) for at, one in enumerate(text) if _is_visible(one)]
    bare = "".join(one for _, one in shown).translate(_SPACES)
    wanted = "".join(filter(_is_visible, sought)).translate(_SPACES)
    start = bare.find(wanted) if wanted else -1
    if start < 0:
        return ""
    first, last = shown[start][0], shown[start + len(wanted) - 1][0]
    between = [at for at in range(first, last) if not _is_visible(text[at])]
    if not between:
        return " as given, with an invisible character,"
    at = between[0]
    name = unicodedata.name(text[at], "without a name").lower()
    return (
        f", because of an invisible character ({name}, U+{ord(text[at]):04X}) at "
        f"{_position(text, at)},"
    )


def _merge_source(cell: Cell, source: str, base: str | None) -> str:
    if base is None:
        raise NotRead(
            f"Cell `{cell.id}` was not read before this rewrite; nothing was changed. "
            f"{_current_text(cell)}",
            current=cell.describe(),
        )
    try:
        return merge(base, cell.source, source)
    except MergeConflict:
        raise Conflict(
            f"The user changed the same lines of cell `{cell.id}` since you read it; nothing was "
            f"changed. {_current_text(cell)}",
            current=cell.describe(),
        ) from None


def replaced_span(cell: Cell, old_string: str | None, text: str, replace_all: bool) -> Span | None:
    """The only part of the cell's text that is rewritten, to `text`, if the edit replaces
    `old_string`; None if several places are.
    """
    if old_string is None:
        return None
    spans = _spans(cell, unify(old_string), replace_all)
    if len(spans) > 1:
        return None
    start, end = spans[0]
    beside = text.startswith(cell.source[:start]) and text.endswith(cell.source[end:])
    return (start, end) if beside else None  # a line ending may have been made of two halves


def text_for_cell(text: str) -> str:
    r"""A caller's text as it goes into a cell: lines end with `\n`, whatever the caller's system.
    Raises InvalidInput for text that no file or browser accepts.
    """
    refuse_half_characters(text)
    return unify(text)


def refuse_half_characters(text: str | None) -> None:
    """Raises InvalidInput for text that no file or browser accepts."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise InvalidInput("The text has half a character in it (a lone surrogate).") from None


def refuse_locked(cell: Cell) -> None:
    """Raises Locked if the cell must not be changed."""
    if cell.injected:
        raise Locked(
            f"Cell `{cell.id}` must not be changed: papermill wrote it for this run. Change the "
            "cell tagged `parameters`."
        )
    if cell.locked:
        raise Locked(f"Cell `{cell.id}` must not be changed: its author locked it.")


def refuse_typed_in(cell: Cell, place: Place | None, consequence: str) -> None:
    """Raises Busy if the user is typing in the cell: they would lose what they are about to type.

    `consequence` is a sentence on the edit that was refused.
    """
    if place == Place(cell.id, editing=True):
        raise Busy(
            f"The user is typing in cell `{cell.id}` right now. {consequence}; ask them, or "
            "try later.",
            current=cell.describe(),
        )


def refuse_invalid(changes: Sequence[Change]) -> None:
    """Raises InvalidInput if a change made a valid cell, or no cell, into an invalid one."""
    for change in changes:
        if change.after is None:
            continue
        why = validation_error(change.cell_id, change.after)
        if why and not (change.before and validation_error(change.cell_id, change.before)):
            raise InvalidInput(f"Cell `{change.cell_id}` would no longer be valid: {why}")


_CHANGED = "changed it at the same moment"


def verify(
    cells: SharedCells, changes: Sequence[Change], wrote: Insertions, *, arrived: bool
) -> None:
    """Raises Overtaken unless each change is in the document now, whatever others did since.

    `arrived`: the document has the transactions that made the changes. It may also be another
    document with another history; then its text decides.
    """
    ids = set(cells.ids())
    made = changes if arrived else ()
    intact = wrote.intact(cells) if arrived else ()
    for change in changes:
        if change.after is None:
            if change.cell_id in ids:
                raise Overtaken(
                    f"Cell `{change.cell_id}` is still there although it was deleted.",
                    changes=made,
                )
        elif change.cell_id not in ids:
            raise Overtaken(
                f"Cell `{change.cell_id}` was deleted at the same moment.", changes=made
            )
        else:
            cell = cells.get(change.cell_id)
            is_there = cell.id in intact and _has_type(cell, change)
            if not is_there and not _contains(cell, change, arrived=arrived):
                where = _find_split_off(cells, cell, change)
                why = f"split it, and the edit is in cell `{where}`" if where else _CHANGED
                raise Overtaken(
                    f"The edit of cell `{cell.id}` is not in it now: someone {why}. "
                    f"{_current_text(cell)}",
                    changes=made,
                    current=cell.describe(),
                )


def _find_split_off(cells: SharedCells, cell: Cell, change: Change) -> str:
    """The id of the cell above or below that has what the change wrote; else empty. Which part of a
    split cell keeps its id depends on who splits it.
    """
    if change.before is None or change.after is None:
        return ""
    before, after = change.before.source, change.after.source
    wrote = [text for *_, text in text_operations(before, after, change.within)]
    ids = cells.ids()
    below, above = ids[cell.index + 1 : cell.index + 2], ids[max(cell.index - 1, 0) : cell.index]
    for beside in map(cells.get, (*below, *above)):
        if any(wrote) and all(text in beside.source for text in wrote):
            return beside.id
    return ""


def _contains(cell: Cell, change: Change, *, arrived: bool) -> bool:
    """Whether the cell has what the change wrote."""
    before, after = change.before, change.after
    if after is None or not _has_type(cell, change):
        return False
    if before is None or cell.source == after.source:
        return True  # only a cell that we made has an id that we made
    if not arrived and is_nearer(before.source, after.source, cell.source):
        return False
    return keeps_edit(before.source, after.source, cell.source, change.within)


def _has_type(cell: Cell, change: Change) -> bool:
    """Whether the cell has the type that the change gave it. If the change gave none, people may
    retype it.
    """
    before, after = change.before, change.after
    retyped = before is not None and after is not None and before.type != after.type
    return not retyped or (after is not None and cell.type == after.type)


def validation_error(cell_id: str, state: CellState) -> str:
    """Why the notebook format does not allow the cell; empty if it does."""
    try:
        nbformat.validate(
            nbformat_cell(cell_id, state),
            ref=f"{state.type}_cell",
            version=4,
            version_minor=5,
            relax_add_props=True,
        )
    except nbformat.ValidationError as error:
        return str(error).splitlines()[0]
    return json_error(state.metadata)


def _current_text(cell: Cell) -> str:
    return f"It now reads (version {cell.version}):\n{cell.source}"
