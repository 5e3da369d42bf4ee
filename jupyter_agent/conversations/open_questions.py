"""The questions of a running turn that wait for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import (
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import UTC, datetime

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.permissions import Grant
from jupyter_agent.events import Notice


class OpenQuestions:
    """Questions by id, each with the future of its answer, until they are dropped."""

    def __init__(self) -> None:
        self._questions: dict[str, tuple[Approval, asyncio.Future[Answer]]] = {}

    def add(self, approvals: Sequence[Approval]) -> None:
        """Add questions that are in the log."""
        loop = asyncio.get_running_loop()
        self._questions |= {approval.id: (approval, loop.create_future()) for approval in approvals}

    def drop(self, ids: Iterable[str]) -> None:
        """Remove questions whose answers are read."""
        for id in ids:
            self._questions.pop(id, None)

    def question(self, id: str) -> Approval:
        """The question with this id."""
        return self._questions[id][0]

    def waiting(self) -> list[Approval]:
        """The questions without an answer, whether or not they have expired."""
        return [approval for approval, answer in self._questions.values() if not answer.done()]

    def answerable(self) -> list[Approval]:
        """Those that have not expired."""
        now = datetime.now(UTC)
        return [approval for approval in self.waiting() if approval.expires > now]

    def close(self, id: str, answer: Answer | None) -> None:
        """Give the question its answer, if it is waited for; None if it gets none."""
        _, waiting = self._questions.get(id, (None, None))
        if waiting is None:
            return
        if answer is None:
            waiting.cancel()
        else:
            waiting.set_result(answer)

    async def wait(self, approvals: Sequence[Approval]) -> None:
        """Wait until these questions are answered, or all have expired."""
        latest = max(approval.expires for approval in approvals)
        seconds = (latest - datetime.now(UTC)).total_seconds()
        futures = [self._questions[approval.id][1] for approval in approvals]
        await asyncio.wait(futures, timeout=max(seconds, 0))

    def answers(self, ids: Collection[str]) -> Mapping[str, Answer]:
        """The answers to these closed questions, without those that got none."""
        futures = {id: self._questions[id][1] for id in ids}
        return {id: each.result() for id, each in futures.items() if not each.cancelled()}


def grants_from(approval: Approval, answer: Answer) -> Sequence[Grant]:
    """The grants for the conversation that an answer gives."""
    if answer.remember != "conversation" or approval.notebook is None:
        return ()
    return [Grant(tool=approval.tool, notebook=approval.notebook, kernel=approval.kernel)]


def answered_notice(answers: Mapping[str, Answer]) -> Notice:
    """The event for these answers, by the ids of their questions."""
    given = [
        {"id": id, "approved": answer.approved}
        | ({"reason": answer.reason} if answer.reason else {})
        for id, answer in answers.items()
    ]
    return Notice(kind="answered", text="", facts={"approvals": given})
