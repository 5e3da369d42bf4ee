"""Questions to a person and their answers, and which calls of a step share one question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from jupyter_agent.agent.attempt import Ruling
from jupyter_agent.document.cell import Cell
from jupyter_agent.events import ApprovalRequested, Notice
from jupyter_agent.tools.base import Question


@dataclass(frozen=True, kw_only=True)
class Approval:
    """One question: may this call act?"""

    id: str
    call_id: str
    tool: str
    input: Mapping[str, Any]
    question: Question
    notebook: str | None
    """What rules know its notebook by; to people it is named as in the question."""
    kernel: str | None = None
    """The kernel that code would run in, in which of its lives; empty while none runs, None for
    what runs none there. Of a tool of another server: what that is, as a hash."""
    group: str
    """The same for those that are one question to a person, such as an edit and its run."""
    rests_on: frozenset[str] = frozenset()
    """Ids of the calls, asked about with it, whose edits it takes as done."""
    binding: str
    """What the answer is given for; if it is another when the call acts, it does not act."""
    expires: datetime
    """UTC; unanswered by then it counts as denied."""

    def describe(self) -> dict[str, Any]:
        """docs/api.md's approval object."""
        described: dict[str, Any] = {
            "id": self.id,
            "group": self.group,
            "call_id": self.call_id,
            "tool": self.tool,
            "input": dict(self.input),
            "notebook": self.question.notebook,
            "cell_id": self.question.cell_id,
            "expires": self.expires.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        if self.question.code is not None:
            described["code"] = self.question.code
        if self.question.codes:
            described["cells"] = [
                {"cell_id": cell_id, "code": code} for cell_id, code in self.question.codes.items()
            ]
        if self.question.edits:
            described["edits"] = [
                {"cell_id": each.cell_id, "cell_type": each.cell_type, "diff": each.diff}
                for each in self.question.edits
            ]
        if self.question.diff is not None:
            described["diff"] = self.question.diff
        if self.question.cell_type is not None:
            described["cell_type"] = self.question.cell_type
        if self.question.kernelspec:
            described["kernel"] = self.question.kernelspec
        if self.question.loads:
            described["loads"] = list(self.question.loads)
        if self.question.server is not None:
            described["server"] = self.question.server
            described["server_tool"] = self.question.remote_tool
        if self.question.clusters:
            described["clusters"] = list(self.question.clusters)
        return described

    @property
    def events(self) -> tuple[Notice, ApprovalRequested]:
        """How the question is shown."""
        described = self.describe()
        text = f"`{self.tool}` waits for your answer."
        if self.question.loads:
            text = f"{text} It would load {', '.join(self.question.loads)}."
        return (
            Notice(kind="approval", text=text, facts={"approval": described}),
            ApprovalRequested(approval_id=self.id, call_id=self.call_id, approval=described),
        )


def approval_of(
    ruling: Ruling,
    question: Question,
    *,
    seconds: float,
    group: str,
    rests_on: frozenset[str] = frozenset(),
) -> Approval:
    """The question of a call as it is put to a person, for so many seconds."""
    call = ruling.call
    assert call.id is not None
    return Approval(
        id=f"approval_{uuid4().hex}",
        call_id=call.id,
        tool=call.tool.name,
        input=call.input,
        question=question,
        notebook=ruling.act.notebook,
        kernel=question.definition or (question.kernel if call.tool.executes else None),
        rests_on=rests_on,
        group=group,
        binding=ruling.binding(question),
        expires=datetime.now(UTC) + timedelta(seconds=seconds),
    )


Remember: TypeAlias = Literal["conversation", "turn"]
"""`conversation`: the same tool needs no answer there in that notebook (`Grant`); `turn`: edits
need none in what is left of the turn, as in mode `edit`."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a person said to one question."""

    approved: bool
    reason: str = ""
    remember: Remember | None = None
    """For how long more than this call is allowed; None: for this call only."""


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
