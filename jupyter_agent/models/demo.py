"""`demo:tour`: a scripted model that needs no key and no network.

It drives the real loop and the real tools, so that a newcomer sees the whole product, and its
answers say that they are scripted. The same conversation always leads to the same steps.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.models.base import Block, Message, ModelEvent, ModelRequest
from jupyter_agent.models.replay import replay

SCRIPTED = "(Scripted tour: no AI model answers here, and nothing leaves this computer.)"
TITLE = "# A short tour"
MENU = """\
I only know my script. I understand:

- a fenced code block: I insert it and run it as it stands
- `run all`: I run every code cell in order
- `undo`: how changes are taken back
- `explain`: what this notebook and this panel are about
- `tour`: the tour once more

For real answers choose another model in the list below the text box; a key for it is stored in \
the settings of this panel."""
UNDO = """\
Undoing is up to you, not to a model: press **Undo** below an answer to take back all that it \
changed, or at a single change. What you typed yourself since then stays. Variables in the kernel \
are unchanged."""
PANEL = """\
This panel shows what an assistant does while it does it:

- the list above has a line for each step; unfold it for the diff or the output
- **Keep** and **Undo** stand at each change, and below the answer for all of them
- below the text box you choose the mode (what needs your approval) and the model
- **Stop** ends an answer at any moment; the notebook is never left half edited

You can type in the notebook all the while: edits are merged, never overwritten."""
COMMANDS = """\
That was the loop that answers in the panel of JupyterLab too. On your own notebooks:

- `jupyter agent ask NOTEBOOK "..."` asks, with approvals in the terminal
- `jupyter agent changes NOTEBOOK` lists changes, `jupyter agent undo TURN` undoes them
- `jupyter agent doctor` says which models and keys are there

Edits are merged with your own, never overwritten."""
OUT_OF_STEPS = "The limit of this turn is reached, so the tour ends here."

_MISTAKE = "len(number)"
_CORRECTION = {"old_string": _MISTAKE, "new_string": "len(numbers)"}
_CODE = f"""\
numbers = [3, 1, 4, 1, 5, 9, 2, 6]
mean = sum(numbers) / {_MISTAKE}
print(f"The mean of {{len(numbers)}} numbers is {{mean:.2f}}")"""
_RUN_IT = "The cell is corrected, and its output is that of the mistake: run it yourself."
_INTRODUCTION = f"{TITLE}\n\nThe cell below was written, run and corrected by the scripted tour."


@dataclass(frozen=True, kw_only=True)
class TourAnswer:
    """A call of this turn and its result."""

    tool: str
    input: Mapping[str, Any]
    text: str
    is_error: bool = False

    @property
    def cell_id(self) -> str | None:
        """The first cell in the text: tools write ids in backticks."""
        match = re.search(r"[Cc]ell `([^`]+)`", self.text)
        return match[1] if match else None

    @property
    def last_cell_id(self) -> str | None:
        """The last cell in the text."""
        ids: list[str] = re.findall(r"[Cc]ell `([^`]+)`", self.text)
        return ids[-1] if ids else None


@dataclass(frozen=True, kw_only=True)
class TourStep:
    """A text, then a call; without a call the turn ends."""

    text: str = ""
    call: tuple[str, Mapping[str, Any]] | None = None


def guide(done: Sequence[TourAnswer], closing: str = PANEL) -> TourStep:
    """The tour itself: read, write, run, correct, run again, explain."""
    match len(done):
        case 0:
            return TourStep(
                text="I begin by reading the notebook.",
                call=("get_notebook_state", {"outline": True}),
            )
        case 1:
            cells = [{"type": "markdown", "source": _INTRODUCTION}, {"source": _CODE}]
            return TourStep(
                text=f"{_cell_count(done[0])} Now I add a title and a code cell with a mistake "
                "that I planted, and run it. Running code needs your approval unless the mode is "
                "Auto; you can undo the cells.",
                call=("create_cells", {"cells": cells, "run": True}),
            )
        case 2 if "NameError" in done[1].text:
            return TourStep(
                text=f"The output says `{_error(done[1])}`: a letter is missing. I correct just "
                "that; the cell keeps its place and its id.",
                call=("edit_cells", {"edits": [{"cell_id": done[1].last_cell_id, **_CORRECTION}]}),
            )
        case 3 if closing is COMMANDS:  # in the panel the person runs it again
            cell_id = done[1].last_cell_id
            return TourStep(text="And run it again.", call=("run_cells", {"cell_ids": [cell_id]}))
        case 3:
            return TourStep(text=f"{_RUN_IT}\n\n{closing}")
    return TourStep(text=f"{_last_line(done[-1])}\n\n{closing}")


def insert(code: str, *, markdown: bool, done: Sequence[TourAnswer]) -> TourStep:
    """Insert the person's code, run it, and report the output."""
    if done and markdown:
        return TourStep(text="Done: it is a Markdown cell, so there is nothing to run.")
    if done:
        return TourStep(text=_result_text(done[-1]))
    if markdown:
        cells = [{"source": code, "type": "markdown"}]
        return TourStep(
            text="I insert your block as it stands.", call=("create_cells", {"cells": cells})
        )
    return TourStep(
        text="I insert your block as it stands and run it.",
        call=("create_cells", {"cells": [{"source": code}], "run": True}),
    )


def run_all(done: Sequence[TourAnswer]) -> TourStep:
    """Run every code cell in order."""
    if not done:
        return TourStep(text="I run all code cells in order.", call=("run_cells", {}))
    return TourStep(text=_result_text(done[-1]))


def explain(done: Sequence[TourAnswer]) -> TourStep:
    """Describe the notebook and the panel."""
    if not done:
        return TourStep(text="I read the notebook.", call=("get_notebook_state", {"outline": True}))
    return TourStep(text=f"{_cell_count(done[-1])}\n\n{PANEL}")


def after_refusal(answer: TourAnswer) -> TourStep:
    """A call was refused or failed: say so and stop, as any assistant should."""
    return TourStep(
        text=f"That was not done (`{answer.tool}`). The reason that I was given:\n\n"
        f"> {_last_line(answer)}\n\nThe tour stops here; ask again when you like."
    )


def _cell_count(answer: TourAnswer) -> str:
    match = re.match(r".*: (\d+) cells, ", answer.text)  # the first line of the notebook's state
    cells = int(match[1]) if match else 0
    if not cells:
        return "The notebook has no cells yet."
    return f"The notebook has {cells} cell{'s' if cells > 1 else ''}."


def _result_text(answer: TourAnswer) -> str:
    return f"This is the result:\n\n```\n{answer.text.strip()}\n```"


def _error(answer: TourAnswer) -> str:
    match = re.search(r"NameError: .*", answer.text)
    return match[0].strip() if match else "NameError"


def _last_line(answer: TourAnswer) -> str:
    lines = answer.text.strip().splitlines()
    return lines[-1] if lines else "(no output)"


_FENCED = re.compile(r"^<(\w+)>\n(.*?)\n</\1>$", re.MULTILINE | re.DOTALL)
"""Data in a result, between the marks of the turn."""
_FENCE = re.compile(
    r"""^[ ]{0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)[^\n]*\n
    (?P<code>.*?)
    ^[ ]{0,3}(?P=fence)""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


class DemoModel:
    """The tour as a model at a service."""

    id = "demo:tour"
    host = ""
    loads = False

    async def names(self) -> list[str]:
        """The only model."""
        return ["tour"]

    async def windows(self) -> dict[str, int]:
        """Empty: a script needs no window."""
        return {}

    async def close(self) -> None:
        """Does nothing: there is no connection."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The script's next text and call, depending on the results so far."""
        question, answers = _turn(request.messages)
        step = _next_step(question, answers, has_toured=_has_toured(request.messages))
        content: list[Block] = []
        if step.text:
            text = step.text if answers else f"{SCRIPTED} {step.text}"
            content.append({"type": "text", "text": text})
        if step.call is not None and request.tool_choice != "none":
            name, input = step.call
            call_id = f"toolu_demo_{_number_of_calls(request.messages)}"
            content.append({"type": "tool_use", "id": call_id, "name": name, "input": dict(input)})
        elif step.call is not None:
            content.append({"type": "text", "text": OUT_OF_STEPS})
        for event in replay(content):
            yield event


def _next_step(question: str, answers: Sequence[TourAnswer], *, has_toured: bool) -> TourStep:
    if answers and answers[-1].is_error:
        return after_refusal(answers[-1])
    block = _FENCE.search(question)
    if block is not None:
        code = block["code"].removesuffix("\n")
        return insert(code, markdown=block["language"] in ("markdown", "md"), done=answers)
    words = question.casefold()
    if "run all" in words:
        return run_all(answers)
    if "undo" in words:
        return TourStep(text=UNDO)
    if "explain" in words:
        return explain(answers)
    if has_toured and "tour" not in words:
        return TourStep(text=MENU)
    return guide(answers, COMMANDS if "command line" in words else PANEL)


def _turn(messages: Sequence[Message]) -> tuple[str, list[TourAnswer]]:
    """The person's last question, and the calls with results since."""
    question = ""
    calls: dict[str, Block] = {}
    answers: list[TourAnswer] = []
    for message in messages:
        for block in message["content"]:
            if block["type"] == "tool_use":
                calls[block["id"]] = block
            elif block["type"] == "tool_result":
                answers.append(_answer(calls[block["tool_use_id"]], block))
            elif block["type"] == "text" and message["role"] == "user":
                question, answers = block["text"], []
    return question, answers


def _answer(call: Block, result: Block) -> TourAnswer:
    texts = (part["text"] for part in result["content"] if part["type"] == "text")
    return TourAnswer(
        tool=call["name"],
        input=call["input"],
        text=_FENCED.sub(r"\2", "\n".join(texts)),
        is_error=bool(result.get("is_error")),
    )


def _number_of_calls(messages: Sequence[Message]) -> int:
    return sum(block["type"] == "tool_use" for message in messages for block in message["content"])


def _has_toured(messages: Sequence[Message]) -> bool:
    """Whether an earlier turn gave the tour; the current turn must be able to continue it."""
    turns = [
        n
        for n, message in enumerate(messages)
        if message["role"] == "user"
        and any(block["type"] == "text" for block in message["content"])
    ]
    return any(
        block["type"] == "tool_use" and TITLE in str(block["input"])
        for message in messages[: turns[-1] if turns else 0]
        for block in message["content"]
    )
