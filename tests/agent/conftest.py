"""Turns with tiny tools: everything that the loop needs, without notebooks and kernels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import pytest
from jupyter_server.services.contents.manager import ContentsManager

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.attempt import Audit
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.history import MessageAdded, Transcript
from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.loop import Ending, Turn, run_turn
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.agent.turn import Entry, events_of
from jupyter_agent.document.cell import Cell, CellState, Change, version_of
from jupyter_agent.errors import CellNotFound
from jupyter_agent.events import Event
from jupyter_agent.models.base import Message, Model
from jupyter_agent.models.facts import Facts
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Question, Result, Tool
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.paths import Identities
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.workspace import Services, Workspace
from tests.fakes import check_messages


async def as_it_is(path: str) -> str:
    return path


SECRET = "sk-secret-0123"


class Desk(Services):
    """The state of the tiny tools: cells by id, a log, and events that a test waits for."""

    identities = Identities(ContentsManager(), as_it_is)
    redactor = Redactor(lambda: [SECRET])

    def __init__(self) -> None:
        self.cells = {"a": "x = 1", "b": "y = 2"}
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.reached: dict[str, asyncio.Event] = {}
        self.kernel = "k:0"
        self.trusted: list[bool] = []

    def __eq__(self, other: object) -> bool:
        return self is other

    async def wait(self, name: str) -> None:
        """Wait at a gate that a test opens."""
        self.reached.setdefault(name, asyncio.Event()).set()
        await self.gates.setdefault(name, asyncio.Event()).wait()


def desk_of(nb: Lease) -> Desk:
    return cast(Desk, nb.work.services)


def source_of(nb: Lease, cell_id: str) -> str:
    cells = desk_of(nb).cells
    if cell_id not in cells:
        raise CellNotFound(cell_id, list(cells))
    return cells[cell_id]


def shown_of(nb: Lease, cell_id: str) -> str:
    """The source that a person sees: as it will be after the earlier questions of the round."""
    foreseen = nb.work.pending_cells.get((nb.path, cell_id))
    return foreseen.source if foreseen else source_of(nb, cell_id)


class TinyTool(Tool):
    effect: ClassVar[Effect] = "read"
    action: ClassVar[Action] = "read"
    needs: ClassVar[Sequence[Need]] = (("read", "contents"),)


class Look(TinyTool):
    """Show a cell."""

    name: ClassVar[str] = "look"
    cell_id: str

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        source = source_of(nb, self.cell_id)
        desk_of(nb).log.append(f"look {self.cell_id}")
        return Result(text=source)


class Linger(TinyTool):
    """Wait until a test opens the gate."""

    name: ClassVar[str] = "linger"
    gate: str

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        await desk_of(nb).wait(self.gate)
        return Result(text=f"{self.gate} was opened")


class Write(TinyTool):
    """Set the text of a cell."""

    name: ClassVar[str] = "write"
    effect: ClassVar[Effect] = "edit"
    action: ClassVar[Action] = "edit"
    needs: ClassVar[Sequence[Need]] = (("write", "contents"),)
    cell_id: str
    source: str

    async def question(self, nb: Lease) -> Question:
        before = shown_of(nb, self.cell_id)
        return Question(
            notebook=nb.path,
            cell_id=self.cell_id,
            diff=f"-{before}\n+{self.source}",
            cells={self.cell_id: version_of("code", before)},
            after={self.cell_id: Cell(id=self.cell_id, index=0, type="code", source=self.source)},
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        before = source_of(nb, self.cell_id)
        desk_of(nb).cells[self.cell_id] = self.source
        desk_of(nb).log.append(f"write {self.cell_id}")
        change = Change(
            notebook=nb.path,
            cell_id=self.cell_id,
            kind="update",
            before=_state(before),
            after=_state(self.source),
        )
        return Result(text=f"Wrote {self.cell_id}.", facts={"saved": True}, changes=[change])


class Execute(TinyTool):
    """Run a cell."""

    name: ClassVar[str] = "execute"
    effect: ClassVar[Effect] = "run"
    action: ClassVar[Action] = "run"
    needs: ClassVar[Sequence[Need]] = (("execute", "kernels"),)
    cell_id: str

    async def question(self, nb: Lease) -> Question:
        source = shown_of(nb, self.cell_id)
        return Question(
            notebook=nb.path,
            cell_id=self.cell_id,
            code=source,
            cells={self.cell_id: version_of("code", source)},
            kernel=desk_of(nb).kernel,
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        source = source_of(nb, self.cell_id)
        desk_of(nb).log.append(f"run {source}")
        desk_of(nb).kernel = desk_of(nb).kernel or "k:0"
        desk_of(nb).trusted.append(nb.work.approved is not None)
        if progress is not None:
            await progress({"text": "...", "status": "running"})
        return Result(text=f"ran {source}", facts={"status": "ok"})


class Restart(TinyTool):
    """Restart the kernel."""

    name: ClassVar[str] = "restart"
    effect: ClassVar[Effect] = "run"
    action: ClassVar[Action] = "restart"
    needs: ClassVar[Sequence[Need]] = (("write", "kernels"),)

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        desk_of(nb).log.append("restart")
        return Result(text="restarted")


class Crash(TinyTool):
    """Has a bug."""

    __module__ = "jupyter_agent.tools.crash"  # our own
    name: ClassVar[str] = "crash"

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        raise ZeroDivisionError("our own bug")


class Say(TinyTool):
    """Return a text, and the image if one is given."""

    name: ClassVar[str] = "say"
    text: str
    image: str = ""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        return Result(text=self.text, images=[("image/png", self.image)] if self.image else [])


TOOLBOX = Toolbox([Look, Linger, Write, Execute, Restart, Crash, Say])


def _state(source: str) -> CellState:
    return CellState(
        type="code", source=source, metadata={}, index=0, outputs=[], execution_count=None
    )


class Gate(asyncio.Event):
    """A point where a scripted reply waits; reports when it is reached."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Any:
        self.reached.set()
        return await super().wait()


Answering = Callable[[Sequence[Approval]], Awaitable[Mapping[str, Answer]]]


@dataclass
class Bench:
    """Runs turns of one conversation and records everything that they log."""

    desk: Desk = field(default_factory=Desk)
    policy: Policy = field(default_factory=lambda: Policy(mode="auto"))
    limits: Limits = Limits()
    facts: Facts = Facts()
    history: list[Message] = field(default_factory=list)
    stored: list[Message] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    asked: list[list[Approval]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    answering: Answering | None = None
    secret: str = SECRET
    home: str | None = "home.ipynb"

    def turn(self, model: Model, question: str | None = "Please.") -> Turn:
        history = list(self.history)
        if question is not None:
            history.append({"role": "user", "content": [{"type": "text", "text": question}]})
        self.stored = list(history)
        work = Workspace(
            services=self.desk, user="local", authorize=self._authorize, home=self.home
        )
        return Turn(
            model=model,
            transcript=Transcript(history),
            dispatcher=Dispatcher(TOOLBOX, record=self._record),
            work=work,
            policy=self.policy,
            system="You are under test.",
            log=self,
            answers=self,
            limits=self.limits,
            facts=self.facts,
            sleep=self._pause,
        )

    async def run(self, model: Model, question: str | None = "Please.") -> Ending:
        turn = self.turn(model, question)
        try:
            return await run_turn(turn)
        finally:
            self.history = self.stored
            self.check_history(turn)

    async def append(self, *entries: Entry) -> None:
        """See `Log.append`."""
        await surely(self.keep(entries))

    async def show(self, *entries: Entry) -> None:
        """See `Log.show`."""
        await surely(self.keep(entries))

    async def keep(self, entries: Sequence[Entry]) -> None:
        """Records everything in lists."""
        for entry in entries:
            self.events += events_of(entry)
        self.stored += [each.message for each in entries if isinstance(each, MessageAdded)]
        self.audits += [each for each in entries if isinstance(each, Audit)]
        if asked := [each for each in entries if isinstance(each, Approval)]:
            self.asked.append(asked)

    async def wait(self, approvals: Sequence[Approval]) -> Mapping[str, Answer]:
        """A person's answers, once the questions are asked."""
        assert self.answering is not None, "Nobody was expected to be asked."
        return await self.answering(approvals)

    def check_history(self, turn: Turn) -> None:
        """The history in memory equals the stored one, and a next question could be sent."""
        stored = Transcript(self.stored).messages
        assert len(turn.transcript.messages) == len(stored)
        follow_up: Message = {"role": "user", "content": [{"type": "text", "text": "And now?"}]}
        again = Transcript([*self.stored, follow_up])
        check_messages(again.sendable(turn.model.id))

    def told(self, kind: type[Any]) -> list[Any]:
        """All events of that kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def _authorize(self, action: str, resource: str) -> bool:
        return (action, resource) not in self.forbidden

    async def _record(self, audit: Audit) -> None:
        self.audits.append(audit)

    async def _pause(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.fixture
def bench() -> Bench:
    """A bench in mode `auto`, which asks no one."""
    return Bench()


def approving(*refused: str) -> Answering:
    """A person who allows all tools except these."""

    async def answer(approvals: Iterable[Approval]) -> Mapping[str, Answer]:
        return {
            approval.id: Answer(
                approved=approval.tool not in refused,
                reason="Not today." if approval.tool in refused else "",
            )
            for approval in approvals
        }

    return answer


def with_limits(bench: Bench, **limits: Any) -> None:
    bench.limits = replace(bench.limits, **limits)
