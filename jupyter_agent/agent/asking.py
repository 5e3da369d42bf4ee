"""Which questions of a step are put together, and which of them are one for a person.

The edits of a step are one question with all their diffs, and a run of what they change belongs to
it ("Edit and run"): it is bound to the text that the edits will leave. What an earlier question may
change in a way that nobody can foresee is asked about after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from jupyter_agent.agent.dispatch import Prepared
from jupyter_agent.document.cell import Cell
from jupyter_agent.tools.base import Question


@dataclass
class Round:
    """The questions that are put at once."""

    asked: dict[str, tuple[Prepared, Question]] = field(default_factory=dict)
    """By call id, in order."""
    _edits: str = field(default_factory=lambda: uuid4().hex)

    @property
    def foreseen(self) -> Mapping[tuple[str, str], Cell]:
        """(path, cell id) -> the cell as it will be once all that was asked so far is allowed."""
        return {
            (question.notebook, cell_id): cell
            for _, question in self.asked.values()
            if question.notebook is not None
            for cell_id, cell in question.after.items()
        }

    def must_wait_for_answer(self, question: Question) -> bool:
        """Whether an earlier question may change what this one shows."""
        foreseen = self.foreseen
        for prepared, earlier in self.asked.values():
            if earlier.notebook is None or earlier.notebook != question.notebook:
                continue
            if prepared.act.action == "restart" and question.kernel:
                return True
            if prepared.tool.effect != "edit":
                continue
            if question.whole and not earlier.after:
                return True  # a cell comes or goes, or they change places
            for cell_id in earlier.cells.keys() & question.cells.keys():
                cell = foreseen.get((earlier.notebook, cell_id))
                if cell is None or cell.version != question.cells[cell_id]:
                    return True
        return False

    def rests_on(self, question: Question) -> set[str]:
        """Ids of the earlier calls whose edits this question takes as done."""
        return {
            call_id
            for call_id, (_, earlier) in self.asked.items()
            if earlier.notebook == question.notebook
            and question.cells.keys() & earlier.after.keys()
        }

    def add(self, call_id: str, prepared: Prepared, question: Question) -> str:
        """Puts the question; gives the id of the group that it belongs to."""
        together = prepared.tool.effect == "edit" or bool(self.rests_on(question))
        self.asked[call_id] = (prepared, question)
        return f"group_{self._edits if together else uuid4().hex}"
