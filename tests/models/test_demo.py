"""The scripted tour: its next step depends on the results of the tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jupyter_agent.models.base import Block, Message
from jupyter_agent.models.demo import COMMANDS, MENU, PANEL, SCRIPTED, UNDO, DemoModel
from tests.fakes import check_messages, says

from .conftest import read, request

STATE = (
    "a.ipynb: 2 cells, kernel none running\n\n[0 markdown a1]\n# Sales\n\n[1 code b2 In[1]]\nx = 1"
)
WRONG = "Cell `c4` [2]: error, 0.1 s.\nNameError: name 'number' is not defined"
RIGHT = "Cell `c4` [3]: ok, 0.1 s.\nThe mean of 8 numbers is 3.88"


class Talk:
    """A conversation with the tour; each call is answered with the next of the given texts."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.said = ""

    async def ask(self, question: str, *answers: str, failed: bool = False) -> str:
        """The tour's texts of the whole turn."""
        self.calls, self.said = [], ""
        content: list[Block] = [says(question)]
        left = list(answers)
        while content:
            self.messages.append({"role": "user", "content": content})
            check_messages(self.messages)
            content = await self._step(left, failed)
        assert not left
        return self.said

    async def _step(self, left: list[str], failed: bool) -> list[Block]:
        reply = await read(DemoModel(), request(*self.messages))
        assert reply.complete
        self.messages.append({"role": "assistant", "content": reply.content})
        self.said += "".join(block["text"] for block in reply.content if block["type"] == "text")
        self.calls += [(made.name, made.input) for made in reply.calls]
        return [
            {
                "type": "tool_result",
                "tool_use_id": made.id,
                "content": [says(left.pop(0))],
                "is_error": failed,
            }
            for made in reply.calls
        ]


async def take(talk: Talk) -> str:
    return await talk.ask(
        "Show me.",
        STATE,
        f"Inserted cell `c3` and cell `c4`.\n{WRONG}",
        "Edited cell `c4` (+1 -1).",
    )


async def test_the_tour_writes_runs_corrects_and_explains() -> None:
    talk = Talk()
    said = await take(talk)
    tools = [name for name, _ in talk.calls]
    assert tools == ["get_notebook_state", "create_cells", "edit_cells"], (
        "in the mode of the demo only the first of these asks: it runs code"
    )
    title, written = talk.calls[1][1]["cells"]
    assert title["type"] == "markdown"
    assert talk.calls[1][1]["run"] is True
    (correction,) = talk.calls[2][1]["edits"]
    assert correction["cell_id"] == "c4"
    code = written["source"]
    assert code.count(correction["old_string"]) == 1
    assert said.startswith(SCRIPTED)
    assert "2 cells" in said
    assert "NameError: name 'number' is not defined" in said
    assert "Running code needs your approval" in said
    assert said.endswith(PANEL)


async def test_the_tour_of_the_command_line_runs_the_correction_too() -> None:
    talk = Talk()
    said = await talk.ask(
        "Show me, from the command line.",
        STATE,
        f"Inserted cell `c3` and cell `c4`.\n{WRONG}",
        "Edited cell `c4` (+1 -1).",
        RIGHT,
    )
    assert talk.calls[-1] == ("run_cells", {"cell_ids": ["c4"]})
    assert "The mean of 8 numbers is 3.88" in said
    assert said.endswith(COMMANDS)


async def test_the_planted_mistake_is_one_and_its_correction_runs() -> None:
    talk = Talk()
    await take(talk)
    code = talk.calls[1][1]["cells"][1]["source"]
    with pytest.raises(NameError):
        exec(code, {})
    (correction,) = talk.calls[2][1]["edits"]
    exec(code.replace(correction["old_string"], correction["new_string"]), {})


@pytest.mark.parametrize("fence", ["```python\n{}\n```", "~~~\n{}\n~~~", "````py\n{}\n````"])
async def test_a_fenced_block_is_inserted_and_run_as_it_stands(fence: str) -> None:
    code = "a = '`'\n\nprint(a)  # ä"
    talk = Talk()
    made = f"Inserted cell `c9` (position 1).\n\n{RIGHT}"
    said = await talk.ask(f"Please:\n{fence.format(code)}\nThanks.", made)
    assert talk.calls == [("create_cells", {"cells": [{"source": code}], "run": True})]
    assert RIGHT in said


async def test_a_fenced_markdown_block_becomes_a_markdown_cell() -> None:
    talk = Talk()
    await talk.ask("```markdown\n# Title\n```", "Inserted cell `c9` (position 1).")
    cells = [{"source": "# Title", "type": "markdown"}]
    assert talk.calls == [("create_cells", {"cells": cells})]


@pytest.mark.parametrize(
    ("question", "answers", "tools", "said"),
    [
        ("Run all, please", [RIGHT], ["run_cells"], RIGHT),
        ("explain this", [STATE], ["get_notebook_state"], PANEL),
        ("undo that", [], [], UNDO),
    ],
)
async def test_the_words_it_understands(
    question: str, answers: Sequence[str], tools: list[str], said: str
) -> None:
    talk = Talk()
    assert said in await talk.ask(question, *answers)
    assert [name for name, _ in talk.calls] == tools


async def test_after_the_tour_it_tells_what_it_understands() -> None:
    talk = Talk()
    await take(talk)
    assert await talk.ask("Thanks!") == f"{SCRIPTED} {MENU}"
    await talk.ask("The tour again", STATE, f"Cell `d1`\n{WRONG}", "Edited cell `c4`.")
    assert len(talk.calls) == 3


async def test_it_stops_where_a_call_is_refused() -> None:
    talk = Talk()
    said = await talk.ask("Show me.", "The user declined this call.", failed=True)
    assert len(talk.calls) == 1
    assert "The user declined this call." in said


async def test_it_answers_where_it_must_not_call() -> None:
    asked = request({"role": "user", "content": [says("Show me.")]}, tool_choice="none")
    reply = await read(DemoModel(), asked)
    assert not reply.calls
    assert "limit of this turn" in reply.text[-1]["text"]
