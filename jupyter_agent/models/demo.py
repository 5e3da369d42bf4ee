"""`demo:tour`: a scripted model that needs no key and no network.

It drives the real loop and the real tools, so that a newcomer sees the whole product, and it says
wherever it speaks that it is a script. Given the same conversation it does the same.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence

from jupyter_agent.models import tour
from jupyter_agent.models.base import Block, Message, ModelEvent, ModelRequest
from jupyter_agent.models.replay import replay

_FENCED = re.compile(r"^<(\w+)>\n(.*?)\n</\1>$", re.MULTILINE | re.DOTALL)
"""Data in a result, between the marks of the turn."""
_FENCE = re.compile(
    r"""^[ ]{0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n
    (?P<code>.*?)
    ^[ ]{0,3}(?P=fence)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


class DemoModel:
    """The tour as a Model."""

    id = "demo:tour"
    host = ""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """What the script says and does next, seen from the results so far."""
        question, answers = _turn(request.messages)
        move = _move(question, answers, toured=_toured(request.messages))
        content: list[Block] = []
        if move.text:
            said = move.text if answers else f"{tour.SCRIPTED} {move.text}"
            content.append({"type": "text", "text": said})
        if move.call is not None and request.tool_choice != "none":
            name, input = move.call
            call_id = f"toolu_demo_{_number_of_calls(request.messages)}"
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": dict(input)})
        elif move.call is not None:
            content.append({"type": "text", "text": tour.OUT_OF_STEPS})
        for event in replay(content):
            yield event


def _move(question: str, answers: Sequence[tour.TourAnswer], *, toured: bool) -> tour.TourStep:
    if answers and answers[-1].is_error:
        return tour.after_refusal(answers[-1])
    fenced = _FENCE.search(question)
    if fenced is not None:
        code = fenced["code"].removesuffix("\n")
        return tour.insert(code, markdown=fenced["language"] in ("markdown", "md"), done=answers)
    asked = question.casefold()
    if "run all" in asked:
        return tour.run_all(answers)
    if "undo" in asked:
        return tour.TourStep(text=tour.UNDO)
    if "explain" in asked:
        return tour.explain(answers)
    if toured and "tour" not in asked:
        return tour.TourStep(text=tour.MENU)
    return tour.guide(answers, tour.COMMANDS if "command line" in asked else tour.PANEL)


def _turn(messages: Sequence[Message]) -> tuple[str, list[tour.TourAnswer]]:
    """What the person asked last, and the calls answered since."""
    question = ""
    calls: dict[str, Block] = {}
    answers: list[tour.TourAnswer] = []
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                answers.append(_answer(calls[block["tool_use_id"]], block))
            elif block["type"] == "text" and message["role"] == "user":
                question, answers = block["text"], []
    return question, answers


def _answer(call: Block, result: Block) -> tour.TourAnswer:
    texts = (part["text"] for part in result["content"] if part["type"] == "text")
    return tour.TourAnswer(
        tool=call["name"],
        input=call["input"],
        text=_FENCED.sub(r"\2", "\n".join(texts)),
        is_error=bool(result.get("is_error")),
    )


def _number_of_calls(messages: Sequence[Message]) -> int:
    return sum(block["type"] == "tool_use" for message in messages for block in message["content"])


def _toured(messages: Sequence[Message]) -> bool:
    """Whether an earlier turn gave the tour: the one that runs must be able to go on."""
    turns = [
        n
        for n, message in enumerate(messages)
        if message["role"] == "user"
        and any(block["type"] == "text" for block in message["content"])
    ]
    return any(
        block["type"] == "tool_use" and tour.TITLE in str(block["input"])
        for message in messages[: turns[-1] if turns else 0]
        for block in message["content"]
    )
