"""Structural edits in a page, as `labextension/src/bridge/structure.ts` does them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_agent.document.values import shared_cell

if TYPE_CHECKING:
    from tests.notebook.browser import Tab

_OF_CODE = ("outputs", "execution_count", "execution_state")


@dataclass(eq=False)
class _Undo:
    act: Callable[[], object]
    replaces: str | None = None
    """The cell that a copy replaces; waits until the user has left it."""


@dataclass
class _Done:
    refused: str = ""
    undo: _Undo | None = None
    operation: str = ""


class StructuralEdits:
    """The page's answer to a requested edit."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self._done: dict[str, _Done] = {}
        self._put_off: list[_Undo] = []

    def carry_out(self, edit: Mapping[str, Any]) -> str:
        """Make the edit unless it was made already; the reason for refusing it, or an empty
        text.
        """
        if edit["key"] not in self._done:
            self.take_back_due()
            for done in self._done.values():
                if done.operation != edit["operation"]:
                    done.undo = None
            done = self._done[edit["key"]] = self._do(edit)
            done.operation = edit["operation"]
        return self._done[edit["key"]].refused

    def take_back(self, keys: Sequence[str]) -> None:
        """Undo the edits that were made, the last one first, and never make the others."""
        for key in reversed(keys):
            undo = self._done.get(key, _Done()).undo
            self._done[key] = _Done("withdrawn")
            if undo is not None:
                self._put_off.append(undo)
        self.take_back_due()

    def take_back_due(self) -> None:
        """Undo the edits that had to wait for the user, in cells that they have left."""
        due = [undo for undo in self._put_off if not self._is_typed_in(undo.replaces)]
        self._put_off = [undo for undo in self._put_off if undo not in due]
        for undo in due:
            undo.act()
            self._changed()

    def _do(self, edit: Mapping[str, Any]) -> _Done:
        cell_id = edit["cell"]
        if cell_id not in self._tab.ids():
            return _Done("gone")
        kinds = {"remove": self._remove, "move": self._move, "retype": self._retype}
        done = kinds[edit["kind"]](self._tab.ids().index(cell_id), edit)
        if not done.refused:
            self._changed()
        return done

    def _remove(self, at: int, edit: Mapping[str, Any]) -> _Done:
        if self._is_typed_in(edit["cell"]):
            return _Done("typing")
        former, below = self._tab.cell(edit["cell"]).to_py(), self._id_at(at + 1)
        if former["source"] != edit["source"]:
            return _Done("changed")
        self._delete(at)
        return _Done(undo=_Undo(lambda: self._insert(self._above(below), former)))

    def _retype(self, at: int, edit: Mapping[str, Any]) -> _Done:
        cell_id, type = edit["cell"], edit["type"]
        if self._is_typed_in(cell_id):
            return _Done("typing")
        if cell_id in self._tab.own_runs:
            return _Done("running")
        former = self._tab.cell(cell_id).to_py()
        gone = {*_OF_CODE, "attachments"} if type == "code" else set(_OF_CODE)
        value = {key: item for key, item in former.items() if key not in gone}
        value["metadata"] = {k: v for k, v in former["metadata"].items() if k != "trusted"}
        value["cell_type"] = type
        if type == "code":
            value |= {"outputs": [], "execution_count": None}
        self._replace(at, value, at)

        def restore() -> None:
            if cell_id in self._tab.ids():
                now = self._tab.ids().index(cell_id)
                self._replace(now, {**former, "source": self._tab.source(cell_id)}, now)

        return _Done(undo=_Undo(restore, replaces=cell_id))

    def _move(self, at: int, edit: Mapping[str, Any]) -> _Done:
        cell_id, below = edit["cell"], self._id_at(at + 1)
        index = min(edit["index"], len(self._tab.ids()) - 1)
        if self._tab.own_runs.intersection(self._copied(cell_id, index)):
            return _Done("running")
        self._move_to(cell_id, index)

        def move_back() -> None:
            if cell_id in self._tab.ids():
                now, there = self._tab.ids().index(cell_id), self._above(below)
                self._move_to(cell_id, there - (there > now))

        return _Done(undo=_Undo(move_back))

    def _move_to(self, cell_id: str, index: int) -> None:
        for one in self._copied(cell_id, index):
            start = self._tab.ids().index(one)
            to = index if one == cell_id else self._tab.ids().index(cell_id)
            self._replace(start, self._tab.cell(one).to_py(), to + (start < to))

    def _copied(self, cell_id: str, index: int) -> list[str]:
        """The cells that copies replace: the user's current one stays, and its neighbours move
        around it.
        """
        ids = self._tab.ids()
        at = ids.index(cell_id)
        if cell_id != self._tab.active_cell:
            return [cell_id] if at != index else []
        return ids[at + 1 : index + 1] if at < index else ids[index:at][::-1]

    def _replace(self, at: int, value: Mapping[str, Any], to: int) -> None:
        self._insert(to, value)
        self._delete(at + (to <= at))

    def _insert(self, at: int, value: Mapping[str, Any]) -> None:
        with self._tab.notebook.ydoc.transaction():
            self._tab.notebook.ycells.insert(at, shared_cell(value))

    def _delete(self, at: int) -> None:
        with self._tab.notebook.ydoc.transaction():
            del self._tab.notebook.ycells[at]

    def _changed(self) -> None:
        with self._tab.notebook.ydoc.transaction():
            self._tab.notebook.ystate["dirty"] = True

    def _is_typed_in(self, cell_id: str | None) -> bool:
        return cell_id is not None and self._tab.editing and self._tab.active_cell == cell_id

    def _above(self, cell_id: str | None) -> int:
        ids = self._tab.ids()
        return ids.index(cell_id) if cell_id in ids else len(ids)

    def _id_at(self, at: int) -> str | None:
        ids = self._tab.ids()
        return ids[at] if at < len(ids) else None
