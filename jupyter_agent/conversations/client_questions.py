"""The questions of a client's turn, which the client's form or the panel answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from jupyter_agent.agent.approval import Answer, Approval, approval_of
from jupyter_agent.agent.attempt import Ruling
from jupyter_agent.agent.calls import UNANSWERED, decline_text
from jupyter_agent.agent.dispatch import NOBODY_TO_ASK, Dispatcher
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.request import new_id
from jupyter_agent.errors import (
    Conflict,
    NeedsApproval,
    NotPermitted,
    StoreUnavailable,
)
from jupyter_agent.legible import quoted
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import Question
from jupyter_agent.workspace.workspace import Workspace

PANEL_S = 45.0
"""Seconds that a call waits for an answer in the panel: most clients give up after 60."""


class Form(Protocol):
    """How a client shows a question to its user."""

    async def answer(self, approval: Approval) -> Answer:
        """The user's answer. May raise to end the request, so that the client can ask first."""


class OpenQuestion:
    """A question about a call, until the call is made again and gets the answer."""

    def __init__(self, live: LiveTurn, approval: Approval) -> None:
        self.approval = approval
        self._waiting = asyncio.create_task(self._wait(live))

    async def _wait(self, live: LiveTurn) -> Answer:
        answers = await live.wait((self.approval,))
        return answers.get(self.approval.id, UNANSWERED)

    @property
    def has_answer(self) -> bool:
        return self._waiting.done()

    async def answer(self) -> Answer:
        """The answer, from a form or the panel. Cancelling the wait leaves the question open."""
        return await asyncio.shield(self._waiting)

    def when_answered(self, act: Callable[[], object]) -> None:
        self._waiting.add_done_callback(lambda _: act())


class ClientQuestions:
    """The questions of one turn that are still open."""

    def __init__(
        self,
        live: LiveTurn,
        dispatcher: Dispatcher,
        *,
        title: str,
        seconds: float,
        has_page: Callable[[], bool],
        when_answered: Callable[[], object],
    ) -> None:
        """`title`: of the conversation, as the panel shows it; `seconds` until a question expires;
        `has_page`: whether the panel is open somewhere.
        """
        self._live = live
        self._dispatcher = dispatcher
        self._title = title
        self._seconds = seconds
        self._has_page = has_page
        self._when_answered = when_answered
        self._open: dict[str, OpenQuestion] = {}
        self._asking = asyncio.Lock()

    def about(self, key: str) -> OpenQuestion | None:
        """The open question about a call; `key`: a hash of its tool and input."""
        return self._open.get(key)

    async def withdraw(self) -> None:
        """Withdraw all."""
        with suppress(StoreUnavailable):  # stored questions expire with the turn
            await self._live.withdraw()
        self._open.clear()

    async def drop(self, key: str, call_id: str) -> None:
        """Withdraw the call's question, if there is one: the call has failed or needs no answer."""
        pending = self._open.get(key)
        if pending is not None and pending.approval.call_id == call_id:
            del self._open[key]
            await self._live.withdraw([pending.approval.id])

    def can_ask(self, form: Form | None) -> bool:
        """Whether a person can be asked."""
        return form is not None or self._has_page()

    async def require_approval(
        self, key: str, pending: OpenQuestion, ruling: Ruling, work: Workspace, form: Form | None
    ) -> Approval:
        """The question that a person approved. Raises ToolError if they did not."""
        answer = await self._answer(pending, form)
        if answer is None:
            raise NeedsApproval(
                f"The user has not answered yet whether `{ruling.call.tool.name}` may do this. The "
                f"question waits in the assistant's panel of JupyterLab, in the conversation "
                f"{quoted(self._title)}. Ask them to answer there, then call again with the same "
                "input: nothing is asked twice."
            )
        if self._open.get(key) is not pending:
            raise Conflict("The same call was made twice: the other one has the answer.")
        del self._open[key]
        if not answer.approved:
            reason = decline_text(answer)
            await self._dispatcher.decline(ruling, work, reason)
            raise NotPermitted(reason)
        return pending.approval

    async def ask(self, key: str, ruling: Ruling, question: Question) -> OpenQuestion:
        """The question about the call; of two equal calls at once, only one asks."""
        async with self._asking:
            asked = self._open.get(key)
            if asked is None:
                asked = await surely(self._ask(key, ruling, question))
            return asked

    async def _ask(self, key: str, ruling: Ruling, question: Question) -> OpenQuestion:
        seconds, group = self._seconds, new_id("group")
        approval = approval_of(ruling, question, seconds=seconds, group=group)
        await self._live.append(approval)
        self._open[key] = pending = OpenQuestion(self._live, approval)
        pending.when_answered(self._when_answered)
        return pending

    async def _answer(self, pending: OpenQuestion, form: Form | None) -> Answer | None:
        """The answer, from the client's form or the panel, whichever comes first; None if none
        comes within `PANEL_S`.
        """
        if form is None:
            with suppress(TimeoutError):
                return await asyncio.wait_for(pending.answer(), PANEL_S)
            return None
        if pending.has_answer:
            return await pending.answer()
        from_form = asyncio.create_task(form.answer(pending.approval))
        from_panel = asyncio.create_task(pending.answer())
        try:
            await asyncio.wait({from_form, from_panel}, return_when=asyncio.FIRST_COMPLETED)
            if not from_panel.done():
                await self._live.answer({pending.approval.id: from_form.result()})
            return await from_panel
        finally:
            from_panel.cancel()
            if not from_form.cancel() and not from_form.cancelled():
                from_form.exception()  # the other answer counts

    async def refuse_unasked(self, ruling: Ruling, work: Workspace) -> NeedsApproval:
        """Decline a call that needs an answer when no one can be asked; returns the error."""
        names = [names[0] for names in ruling.act.powers] or [ruling.call.tool.name]
        how = (
            "Ask the user to open the notebook in JupyterLab, which asks them, and call "
            f"again; or to add `allow={','.join(names)}` or a freer `mode` to the address of "
            "this MCP server."
        )
        if ruling.act.loads:
            how = f"Leave that out. {NOBODY_TO_ASK}"
        why = (
            f"{ruling.decision.reason} Nobody can be asked now: this client shows no forms, and "
            f"no notebook is open in JupyterLab. {how}"
        )
        await self._dispatcher.decline(ruling, work, why)
        return NeedsApproval(why)
