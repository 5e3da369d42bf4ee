"""Which questions of a step are put together, and which of them are one for a person.

The edits of a step are one question with all their diffs, and a run of what they change belongs to
it ("Edit and run"): it is bound to the text that the edits will leave. What an earlier question may
change in a way that nobody can foresee is asked about after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from jupyter_agent.agent.approval import Approval, approval_of
from jupyter_agent.agent.attempt import Ruling
from jupyter_agent.document.cell import Cell
from jupyter_agent.tools.base import Question


@dataclass(kw_only=True)
class Round:
    """The questions that are put at once."""

    seconds: float
    """How long they wait for an answer."""
    asked: dict[str, tuple[Ruling, Approval]] = field(default_factory=dict)
    """By call id."""
    _edits: str = field(default_factory=lambda: uuid4().hex)

    @property
    def foreseen(self) -> Mapping[tuple[str, str], Cell]:
        """(path, cell id) -> the cell as it will be once all that was asked so far is allowed."""
        return {
            (approval.question.notebook, cell_id): cell
            for _, approval in self.asked.values()
            if approval.question.notebook is not None
            for cell_id, cell in approval.question.after.items()
        }

    def add(self, ruling: Ruling, question: Question) -> None:
        """Has the question put, unless an earlier one may change what it shows: it is made again
        once that has its answer.
        """
        assert ruling.call.id is not None
        if self._must_wait_for_answer(question):
            return
        rests_on = self._rests_on(question)
        together = ruling.call.tool.effect == "edit" or bool(rests_on)
        self.asked[ruling.call.id] = (
            ruling,
            approval_of(
                ruling,
                question,
                seconds=self.seconds,
                group=f"group_{self._edits if together else uuid4().hex}",
                rests_on=rests_on,
            ),
        )

    def _must_wait_for_answer(self, question: Question) -> bool:
        foreseen = self.foreseen
        for ruling, approval in self.asked.values():
            earlier = approval.question
            if earlier.notebook is None or earlier.notebook != question.notebook:
                continue
            if ruling.act.action == "restart" and question.kernel:
                return True
            if ruling.call.tool.effect != "edit":
                continue
            if question.whole and not earlier.after:
                return True  # a cell comes or goes, or they change places
            for cell_id in earlier.cells.keys() & question.cells.keys():
                cell = foreseen.get((earlier.notebook, cell_id))
                if cell is None or cell.version != question.cells[cell_id]:
                    return True
        return False

    def _rests_on(self, question: Question) -> frozenset[str]:
        """Ids of the earlier calls whose edits this question takes as done."""
        return frozenset(
            call_id
            for call_id, (_, approval) in self.asked.items()
            if approval.question.notebook == question.notebook
            and question.cells.keys() & approval.question.after.keys()
        )
