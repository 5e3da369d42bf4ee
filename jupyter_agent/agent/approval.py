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
    """The notebook's name in rules; people see the name in the question."""
    kernel: str | None = None
    """Which life of the kernel would run the code, empty if no kernel is running; None if the call
    runs no code. For an MCP tool, a hash of its definition."""
    group: str
    """Shared by calls that form one question to a person, such as an edit and its run."""
    rests_on: frozenset[str] = frozenset()
    """Ids of the calls in the same round whose edits it assumes to be done."""
    binding: str
    """Hash of everything that the answer is given for; the call only acts if it is unchanged."""
    expires: datetime
    """UTC; a question without an answer by then counts as denied."""

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
        if self.question.facts:
            described["facts"] = self.question.facts
        if self.question.clusters:
            described["clusters"] = list(self.question.clusters)
        return described

    @property
    def events(self) -> tuple[Notice, ApprovalRequested]:
        """The events that show the question."""
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
    """The question about a call, open for so many seconds."""
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
"""`conversation`: allow the same tool in that notebook for the rest of the conversation (`Grant`);
`turn`: allow edits for the rest of the turn, as in mode `edit`."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A person's answer to one question."""

    approved: bool
    reason: str = ""
    remember: Remember | None = None
    """For how long similar calls are allowed; None allows this call only."""


@dataclass(kw_only=True)
class Round:
    """The questions that are asked together.

    The edits of a step are one question with all their diffs, and a run of the edited cells belongs
    to it ("Edit and run"): it is bound to the text that the edits will leave.
    """

    seconds: float
    """How long they stay open."""
    asked: dict[str, tuple[Ruling, Approval]] = field(default_factory=dict)
    """The questions by call id."""
    _edits: str = field(default_factory=lambda: uuid4().hex)

    @property
    def foreseen(self) -> Mapping[tuple[str, str], Cell]:
        """(path, cell id) -> the cell as it will be if all questions so far are approved."""
        return {
            (approval.question.notebook, cell_id): cell
            for _, approval in self.asked.values()
            if approval.question.notebook is not None
            for cell_id, cell in approval.question.after.items()
        }

    def add(self, ruling: Ruling, question: Question) -> None:
        """Add the question, unless an earlier one may change what it shows; it is then made again
        once that one is answered.
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
                return True  # cells are added, removed or moved
            for cell_id in earlier.cells.keys() & question.cells.keys():
                cell = foreseen.get((earlier.notebook, cell_id))
                if cell is None or cell.version != question.cells[cell_id]:
                    return True
        return False

    def _rests_on(self, question: Question) -> frozenset[str]:
        """Ids of the earlier calls whose edits this question assumes to be done."""
        return frozenset(
            call_id
            for call_id, (_, approval) in self.asked.items()
            if approval.question.notebook == question.notebook
            and question.cells.keys() & approval.question.after.keys()
        )
