"""What our tools are with those of a harness that works in a page: one entry for each.

By intent, as `counterparts` are. An entry yields the calls of one reply after the other, and gets
what they answered.
"""

from __future__ import annotations

import posixpath
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from nbeval.check import read
from nbeval.counterparts import MANY_CELLS, runs, showing
from nbeval.person import Person
from nbeval.score import Snapshot
from nbeval.script import Script, beginning

Input: TypeAlias = Mapping[str, Any]
Call: TypeAlias = tuple[str, Input]

_WAIT_S = 60
_GROWS_S = 5
_LOOK_S = 0.05
_PANELS = "[...jupyterapp.shell.widgets('main')].filter(one => one.context)"
_KERNEL = f"() => {_PANELS}[0].sessionContext.session.kernel.id"
_CELLS = f"""path => {{
  const panel = {_PANELS}.find(one => one.context.path === path);
  return panel && Array.from(panel.content.model?.cells ?? [],
    cell => [cell.id, cell.type, cell.sharedModel.getSource()]);
}}"""


class Together(NamedTuple):
    """The calls of one reply."""

    calls: Sequence[Call]
    wait: float | None = None
    """The next reply of the script is taken after so many seconds, with what the person does before
    it."""
    joins: bool = False
    """Whether calls that the model wants at once can follow in the same reply: these move no cell,
    and nothing has to be known of what they answer."""


NewCell: TypeAlias = tuple[str, str]
"""Its kind and its text."""
Steps: TypeAlias = Generator[Together, Sequence[str], None]


@dataclass(frozen=True)
class Cell:
    """A cell as it is in the page."""

    id: str
    """As it is known in the page."""
    name: str
    """The id of the cell that it was in the beginning, which a script calls it by."""
    at: int
    kind: str
    source: str


class Hands(ABC):
    """The calls with which a harness does something. `notebook` is a path."""

    first: Sequence[Call] = ()
    """What its instructions want a model to call before all else."""
    opens_notebooks = True
    """Whether its tools reach notebooks that are not in front."""
    any_order: Collection[str] | None = None
    """Tools whose calls may be in one reply though they are made at the same time; None if calls
    are made one after the other."""
    reads_file: Collection[str] = ()
    """Tools that answer from the notebook's file."""
    rereads = False
    """Whether its instructions want a notebook to be read right before each edit."""
    addresses_places = False
    """Whether a cell that is inserted can be run in the same reply."""

    @abstractmethod
    def read(self, desk: Desk, notebook: str, names: Collection[str] | None) -> Steps:
        """Those cells, by default all; `desk` notes what they say."""

    def outputs(self, notebook: str, cell: Cell) -> Sequence[Call]:
        """Empty if `read` shows them."""
        return ()

    @abstractmethod
    def write(self, notebook: str, cell: Cell, source: str) -> Sequence[Call]: ...

    @abstractmethod
    def insert(
        self, notebook: str, cells: Sequence[Cell], at: int, new: Sequence[NewCell]
    ) -> Sequence[Call]:
        """One below the other, the first at that place among `cells`, which are all there are."""

    @abstractmethod
    def delete(self, notebook: str, cell: Cell) -> Sequence[Call]: ...

    @abstractmethod
    def run(self, notebook: str, cell: Cell) -> Sequence[Call]:
        """With what it shows."""

    def save(self, notebook: str) -> Sequence[Call]:
        """Empty if that happens by itself."""
        return ()

    @abstractmethod
    def execute(self, desk: Desk, code: str) -> Steps:
        """Code in the kernel of the notebook in front, which is in no cell afterwards."""

    @abstractmethod
    def list_files(self, desk: Desk, folder: str) -> Steps: ...

    @abstractmethod
    def read_file(self, desk: Desk, input: Input) -> Steps: ...

    @abstractmethod
    def has_failed(self, tool: str, answer: str) -> bool: ...

    def is_to_repeat(self, answer: str) -> bool:
        """Whether a model makes the call again if nothing runs."""
        return False


class Desk:
    """What a model knows in one task: it is taken to find cells where they are now, but not what is
    written in them since it read them."""

    def __init__(
        self,
        script: Script,
        root: Path,
        home: str,
        before: Snapshot,
        is_busy: Callable[[], bool],
    ) -> None:
        self.home = home
        self.root = root
        self.is_busy = is_busy
        self.language = before.language
        self.later: Sequence[Mapping[str, Any]] = ()
        """The calls of the script after this one, of our tools."""
        self.made: list[Any] = []
        """Edits that were made: a script makes them again where ours were refused."""
        self.sources: dict[str, str] = {}
        """The text of each cell as it was read or written, by its id in the page."""
        self.is_fresh = False
        """Whether nothing was called since the notebook was read."""
        self.kernels: set[str] = set()
        """Ids that the model knows."""
        self.with_outputs = before.with_outputs
        self._script = script
        self._before = before
        self.names: dict[str, str] = {}
        """The ids of cells in the beginning, by those that they have in the page."""

    def begin(self, somebody: Person) -> None:
        """Before the first question: files without ids get some in the page."""
        pairs = zip(_look(somebody, self.home) or (), self._before.notebook.cells, strict=True)
        self.names = somebody.names = {cell.id: before.id for cell, before in pairs}

    def front(self) -> str:
        """The path of the notebook that somebody asks in, which may have been renamed."""
        return posixpath.join(
            posixpath.dirname(self.home), self._script.ask(lambda somebody: somebody.notebook)
        )

    def cells(self, notebook: str) -> Sequence[Cell]:
        """In the page, or in the file where it is not open."""
        found = self._script.ask(lambda somebody: _look(somebody, notebook))
        if found is None:
            cells = enumerate(read(self.root / notebook).cells)
            found = [Cell(cell.id, cell.id, at, cell.cell_type, cell.source) for at, cell in cells]
        return [replace(cell, name=self.names.get(cell.id, cell.id)) for cell in found]

    def grown(self, notebook: str, count: int) -> Sequence[Cell]:
        """Once there are so many, which a page sees a moment later than a server, or soon."""
        end = time.monotonic() + _GROWS_S
        while len(cells := self.cells(notebook)) < count and time.monotonic() < end:
            time.sleep(_LOOK_S)
        return cells

    def find(self, notebook: str, name: str) -> Cell | None:
        """None if the cell is gone."""
        text = beginning(name)
        for cell in self.cells(notebook):
            if cell.source.startswith(text) if text is not None else cell.name == name:
                return cell
        return None

    def kernel(self) -> str:
        """The id of the one that the notebook in front has."""
        return self._script.ask(lambda somebody: str(somebody.page.evaluate(_KERNEL)))

    def note(self, cells: Iterable[Cell]) -> None:
        """They were read, or written."""
        self.sources |= {cell.id: cell.source for cell in cells}

    def rename(self, new: Cell, old: Cell) -> None:
        """A cell is there in place of another: it goes by that one's name."""
        self.names[new.id] = old.name


def _look(somebody: Person, notebook: str) -> Sequence[Cell] | None:
    """Each by the name that it has in the page; None if the notebook is not open."""
    if somebody.page.is_closed():
        return None
    cells = somebody.page.evaluate(_CELLS, notebook)
    if cells is None:
        return None
    return [Cell(id, id, at, kind, source) for at, (id, kind, source) in enumerate(cells)]


def _notebook(desk: Desk, input: Input) -> str:
    return input.get("notebook") or desk.front()


def _read(desk: Desk, hands: Hands, input: Input) -> Steps:
    """With the outputs, which a model that runs nothing has to see."""
    notebook = _notebook(desk, input)
    names = _wanted(desk, notebook, {})
    yield from _read_sources(desk, hands, notebook, names)
    if not input.get("notebook") and names is None and not any(map(runs, desk.later)):
        shown = [cell for cell in desk.cells(notebook) if cell.name in desk.with_outputs]
        if calls := [call for cell in shown for call in hands.outputs(notebook, cell)]:
            yield Together(calls)


def _wanted(desk: Desk, notebook: str, input: Input) -> Collection[str] | None:
    """Of many cells those that this call or later ones address; None for all."""
    if len(desk.cells(notebook)) <= MANY_CELLS:
        return None
    inputs = [input, *(call["input"] for call in desk.later)]
    return {name for each in inputs for name in _addressed(each)}


def _read_sources(desk: Desk, hands: Hands, notebook: str, names: Collection[str] | None) -> Steps:
    yield from hands.read(desk, notebook, names)
    desk.is_fresh = True


def _addressed(input: Input) -> Iterable[str]:
    for each in (input, *input.get("edits", ())):
        yield from filter(None, (each.get(key) for key in ("cell_id", "after", "before")))
    yield from input.get("cell_ids") or ()


def _read_cells(desk: Desk, hands: Hands, input: Input) -> Steps:
    yield from _read_sources(desk, hands, _notebook(desk, input), input["cell_ids"])


def _create_cells(desk: Desk, hands: Hands, input: Input) -> Steps:
    notebook = _notebook(desk, input)
    cells = desk.cells(notebook)
    at = _gap(desk, notebook, input, len(cells))
    new = [(cell.get("type", "code"), cell["source"]) for cell in input["cells"]]
    calls = list(hands.insert(notebook, cells, at, new))
    code = [at + n for n, (kind, text) in enumerate(new) if kind == "code" and text.strip()]
    run = bool(input.get("run")) and bool(code)
    if run and hands.addresses_places:
        places = [Cell("", "", place, "code", "") for place in code]
        calls += [call for cell in places for call in hands.run(notebook, cell)]
    yield Together(calls)
    there = desk.grown(notebook, len(cells) + len(new))
    desk.note(cell for cell in there if (cell.kind, cell.source) in new)
    if run and not hands.addresses_places:
        made = [cell for cell in there if cell.at in code]
        yield Together([call for cell in made for call in hands.run(notebook, cell)])


def _gap(desk: Desk, notebook: str, input: Input, end: int) -> int:
    """The place that a new cell gets."""
    for key, below in (("after", 1), ("before", 0)):
        if name := input.get(key):
            cell = desk.find(notebook, name)
            return end if cell is None else cell.at + below
    return end


def _edit_cells(desk: Desk, hands: Hands, input: Input) -> Steps:
    """All in one reply. An edit of a cell that is gone, or of a text that was not there, is not
    made, and nothing is run then: a model that looks sees that."""
    notebook = _notebook(desk, input)
    edits = [edit for edit in input["edits"] if (input.get("notebook"), edit) not in desk.made]
    found = [desk.find(notebook, edit["cell_id"]) for edit in edits]
    unread = any(cell is None or cell.id not in desk.sources for cell in found)
    if unread or (hands.rereads and not desk.is_fresh):
        yield from _read_sources(desk, hands, notebook, _wanted(desk, notebook, input))
    texts: dict[str, str] = {}
    cells: dict[str, Cell] = {}
    refused = False
    for edit in edits:
        cell = desk.find(notebook, edit["cell_id"])
        before = None if cell is None else texts.get(cell.id, desk.sources.get(cell.id))
        after = None if before is None else _edited(before, edit)
        if cell is None or after is None:
            refused = True
            continue
        cells[cell.id], texts[cell.id] = cell, after
        desk.made.append((input.get("notebook"), edit))
    calls = [call for id, cell in cells.items() for call in hands.write(notebook, cell, texts[id])]
    if input.get("run") and not refused:
        names = [edit["cell_id"] for edit in input["edits"]]
        code = {c.at: c for c in (desk.find(notebook, name) for name in names) if c is not None}
        calls += [call for at in sorted(code) for call in _run(hands, notebook, code[at])]
    if calls and input.get("notebook"):
        calls += hands.save(notebook)  # the one in front is saved by whoever asks
    desk.note(replace(cell, source=texts[cell.id]) for cell in cells.values())
    if calls:
        yield Together(calls, joins=True)
    there = desk.cells(notebook)
    for now, cell in ((there[cell.at], cell) for cell in cells.values() if cell.at < len(there)):
        desk.note([replace(now, source=texts[cell.id])])
        if now.id != cell.id:
            desk.rename(now, cell)


def _edited(text: str, edit: Input) -> str | None:
    """None if the old text is not there exactly once."""
    if edit.get("source") is not None:
        return str(edit["source"])
    old, new = edit["old_string"], edit.get("new_string") or ""
    found = text.count(old)
    return text.replace(old, new) if found == 1 or found and edit.get("replace_all") else None


def _run(hands: Hands, notebook: str, cell: Cell) -> Sequence[Call]:
    return hands.run(notebook, cell) if cell.kind == "code" else ()


def _delete_cell(desk: Desk, hands: Hands, input: Input) -> Steps:
    notebook = _notebook(desk, input)
    if cell := desk.find(notebook, input["cell_id"]):
        yield Together(hands.delete(notebook, cell))


def _move_cell(desk: Desk, hands: Hands, input: Input) -> Steps:
    """A new cell with its text in its new place."""
    notebook = _notebook(desk, input)
    cell = desk.find(notebook, input["cell_id"])
    if cell is None:
        return
    others = [each for each in desk.cells(notebook) if each.id != cell.id]
    to = _gap(desk, notebook, input, len(others) + 1)
    to -= cell.at < to
    text = desk.sources.get(cell.id, cell.source)
    insert = hands.insert(notebook, others, to, [(cell.kind, text)])
    yield Together([*hands.delete(notebook, cell), *insert])
    for now in desk.grown(notebook, len(others) + 1)[to : to + 1]:
        desk.note([now])
        desk.rename(now, cell)


def _run_cell(desk: Desk, hands: Hands, input: Input) -> Steps:
    notebook = _notebook(desk, input)
    if cell := desk.find(notebook, input["cell_id"]):
        waits = [call["name"] for call in desk.later[:1]] == ["wait_for_run"]
        wait = input.get("wait", _WAIT_S) if waits else None
        desk.is_fresh = False
        yield Together(_run(hands, notebook, cell), wait, joins=not waits)


def _run_cells(desk: Desk, hands: Hands, input: Input) -> Steps:
    notebook, names = _notebook(desk, input), input.get("cell_ids")
    found = [desk.find(notebook, name) for name in names] if names else desk.cells(notebook)
    cells = [cell for cell in found if cell is not None and cell.source.strip()]
    desk.is_fresh = False
    yield Together([call for cell in cells for call in _run(hands, notebook, cell)], joins=True)


def _run_code(desk: Desk, hands: Hands, input: Input) -> Steps:
    yield from hands.execute(desk, input["code"])


def _inspect_variables(desk: Desk, hands: Hands, input: Input) -> Steps:
    yield from hands.execute(desk, showing(input.get("names")))


def _list_files(desk: Desk, hands: Hands, input: Input) -> Steps:
    yield from hands.list_files(desk, input.get("path") or "")


def _read_file(desk: Desk, hands: Hands, input: Input) -> Steps:
    yield from hands.read_file(desk, input)


STEPS: Mapping[str, Callable[[Desk, Hands, Input], Steps] | None] = {
    "get_notebook_state": _read,
    "read_cells": _read_cells,
    "search_notebook": _read,
    "create_cell": lambda desk, hands, input: _create_cells(
        desk, hands, {**input, "cells": [input]}
    ),
    "create_cells": _create_cells,
    "update_cell": lambda desk, hands, input: _edit_cells(desk, hands, {**input, "edits": [input]}),
    "edit_cells": _edit_cells,
    "delete_cell": _delete_cell,
    "move_cell": _move_cell,
    "run_cell": _run_cell,
    "run_cells": _run_cells,
    "run_code": _run_code,
    # The call that runs the cell has waited.
    "wait_for_run": None,
    # To run the notebook itself from the top would change the person's outputs and variables.
    "verify_notebook": None,
    "inspect_variables": _inspect_variables,
    "list_files": _list_files,
    "read_file": _read_file,
    "write_plan": None,
}
"""Ours that are not here cannot be played."""
