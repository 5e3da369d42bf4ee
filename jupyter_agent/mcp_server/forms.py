"""Approvals as forms of MCP's elicitation, and the user's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.legible import legible, quoted, quoted_id
from jupyter_agent.words import Phrasebook, fill, show_id

ALLOW, ALWAYS, DECLINE = "Allow", "Always allow in this notebook", "Decline"
_SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {
            "type": "string",
            "title": "Allow this?",
            "enum": [ALLOW, ALWAYS, DECLINE],
        },
        "reason": {
            "type": "string",
            "title": "What to do instead",
            "description": "The agent reads this if you decline",
        },
    },
    "required": ["answer"],
}
_ODD = "This text has characters that are invisible or change how it is shown; see it in full."


class InputRequired(Exception):
    """The client has to ask its user first and repeat the call with the answer."""

    def __init__(self, approval: Approval) -> None:
        super().__init__(approval.id)
        self.approval = approval


class Asks(Protocol):
    """Sends a request to the client and returns its result."""

    async def __call__(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]: ...


class RepeatedCallForm:
    """Since 2026-07-28: the call ends with the question and is repeated with the answer."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        """`params` are the parameters of the call."""
        self._state = params.get("requestState")
        responses = params.get("inputResponses")
        self._responses = responses if isinstance(responses, Mapping) else {}

    async def answer(self, approval: Approval) -> Answer:
        """Raises InputRequired if the call comes without the answer."""
        given = self._responses.get(_KEY) if self._state == approval.id else None
        if not isinstance(given, Mapping):
            raise InputRequired(approval)
        return answer_of(given)


_KEY = "approval"


def input_required(client: str, approval: Approval, phrases: Phrasebook) -> dict[str, Any]:
    """The result of a call that needs an answer first. The state is the question's id: it cannot
    be guessed, the question knows its owner, call and code, and is answered only once.
    """
    request = {"method": "elicitation/create", "params": form(client, approval, phrases)}
    return {
        "resultType": "input_required",
        "inputRequests": {_KEY: request},
        "requestState": approval.id,
    }


class StreamedForm:
    """Before 2026-07-28: our request on the stream of the call's answer."""

    def __init__(self, client: str, ask: Asks, phrases: Phrasebook) -> None:
        self._client = client
        self._ask = ask
        self._phrases = phrases

    async def answer(self, approval: Approval) -> Answer:
        """The user's answer."""
        params = form(self._client, approval, self._phrases)
        return answer_of(await self._ask("elicitation/create", params))


def form(client: str, approval: Approval, phrases: Phrasebook) -> dict[str, Any]:
    """The parameters of `elicitation/create`."""
    return {
        "mode": "form",
        "message": "\n\n".join(_message(client, approval, phrases)),
        "requestedSchema": _SCHEMA,
    }


def answer_of(result: Mapping[str, Any]) -> Answer:
    """The user's answer: yes only if they chose it."""
    content = result.get("content")
    content = content if isinstance(content, Mapping) else {}
    chosen = content.get("answer") if result.get("action") == "accept" else None
    if chosen in (ALLOW, ALWAYS):
        return Answer(approved=True, remember="conversation" if chosen == ALWAYS else None)
    reason = content.get("reason")
    return Answer(approved=False, reason=reason if isinstance(reason, str) else "")


def can_show(capabilities: Any) -> bool:
    """Whether a client with these capabilities can show forms."""
    has = capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None
    return isinstance(has, Mapping) and (not has or "form" in has)


def _message(client: str, approval: Approval, phrases: Phrasebook) -> Iterator[str]:
    tool, given, question = approval.tool, approval.input, approval.question
    notebook = quoted(question.notebook) if question.notebook else "a notebook"
    wish = phrases.todo(tool, given, lambda cell_id: f"cell `{show_id(cell_id)}`", notebook)
    yield f"{client} wants to {wish[:1].lower()}{wish[1:]}."
    if question.facts:
        facts = ", ".join(map(fill, question.facts))
        yield f"{facts[:1].upper()}{facts[1:]}."
    if question.diff is not None:
        yield from _fenced_text(question.diff, "diff")
    if question.codes:
        for cell_id, code in question.codes.items():
            yield f"Cell `{quoted_id(cell_id)}` would run:"
            yield from _fenced_text(code, "")
    elif question.code is not None:
        yield from _fenced_text(question.code, "")
    if question.loads:
        yield f"As soon as it is shown, it would load {', '.join(question.loads)}."


def _fenced_text(text: str, language: str) -> Iterator[str]:
    """A text verbatim, in a fence that it cannot close."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield f"{fence}{language}\n{text.rstrip()}\n{fence}"
    if legible(text) != text:
        yield _ODD
