"""Harnesses that work in a page, in nbeval: their calls for ours, and the model that makes them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.tools import FORMER, toolbox
from nbeval.jupyter_ai import JupyterAiHands
from nbeval.jupyterlite_ai import JupyterliteAiHands
from nbeval.notebook_intelligence import NotebookIntelligenceHands
from nbeval.page_tools import STEPS, Cell, Desk, Hands
from nbeval.pages import Answering, Model
from nbeval.score import Snapshot
from nbeval.script import Script, without_ids
from tests.fakes import calls, in_thread, says
from tests.fakes.chat import ChatCompletions, serving

HOME = "task/notebook.ipynb"
NBI, LITE, JAI = NotebookIntelligenceHands(), JupyterliteAiHands(), JupyterAiHands()
SOURCES = {"a": "x = 1", "b": "# Text", "c": "print(x)"}
LATER = ({"name": "run_cell", "input": {"cell_id": "c"}},)
PROMPT = "Which numbers?"


class Paper(Desk):
    """A notebook of three cells that nothing changes but the test."""

    def __init__(self, script: Script | None = None) -> None:
        new = nbformat.v4.new_code_cell
        book = nbformat.v4.new_notebook(  # type: ignore[no-untyped-call]
            cells=[new(text, id=id) for id, text in SOURCES.items()]  # type: ignore[no-untyped-call]
        )
        book.cells[2].outputs = [{"output_type": "stream", "name": "stdout", "text": "1"}]
        super().__init__(script or Script(), Path("nowhere"), HOME, Snapshot(book), lambda: False)
        self.there = [
            Cell(id, id, at, "markdown" if id == "b" else "code", text)
            for at, (id, text) in enumerate(SOURCES.items())
        ]

    def front(self) -> str:
        return HOME

    def cells(self, notebook: str) -> Sequence[Cell]:
        return self.there

    def grown(self, notebook: str, count: int) -> Sequence[Cell]:
        return self.there

    def kernel(self) -> str:
        return "k"


def done(
    hands: Hands, name: str, input: Mapping[str, Any], desk: Paper | None = None
) -> list[list[Any]]:
    """The calls of each reply."""
    does = STEPS[name]
    assert does is not None
    replies = []
    steps = does(desk or Paper(), hands, input)
    try:
        together = next(steps)
        while True:
            replies.append([call(*each) for each in together.calls])
            together = steps.send(['{"success":true}'] * len(together.calls))
    except StopIteration:
        return replies


def call(name: str, input: Mapping[str, Any]) -> tuple[Any, ...]:
    if name == "execute_command":
        args = dict(input["args"])
        assert args.pop("notebookPath", HOME) == HOME
        name, input = input["commandId"].removeprefix("jupyterlab-ai-commands:"), args
    return name, *input.values()


READ = {
    NBI: [
        [("get_number_of_cells",)],
        [("get_cell_type_and_source", 0), ("get_cell_type_and_source", 1),
         ("get_cell_type_and_source", 2)],
    ],
    LITE: [
        [("get-notebook-info",)],
        [("get-cell-info", "a"), ("get-cell-info", "b"), ("get-cell-info", "c")],
    ],
}  # fmt: skip
EDIT = {"edits": [{"cell_id": "a", "old_string": "1", "new_string": "2"}], "run": True}
BELOW, ABOVE = ("a", "below"), ("a", "above")
INSERT = {"cells": [{"source": "y"}, {"source": "# T", "type": "markdown"}], "after": "a"}


@pytest.mark.plugs
def test_each_of_our_tools_is_one_of_theirs_or_named_as_missing() -> None:
    missing = {"clear_outputs", "create_notebook", "interrupt_kernel", "restart_kernel"}
    assert {*FORMER, *toolbox()} - STEPS.keys() == missing


@pytest.mark.parametrize(
    ("hands", "name", "input", "replies"),
    [
        (NBI, "get_notebook_state", {}, [*READ[NBI], [("get_cell_output", 2)]]),
        (LITE, "get_notebook_state", {}, READ[LITE]),
        (
            NBI,
            "edit_cells",
            EDIT,
            [
                *READ[NBI],
                [
                    ("set_cell_type_and_source", 0, "code", "x = 2"),
                    ("run_cell", 0),
                    ("get_cell_output", 0),
                ],
            ],
        ),
        (
            LITE,
            "edit_cells",
            EDIT,
            [*READ[LITE], [("set-cell-content", "a", "x = 2"), ("run-cell", "a")]],
        ),
        (
            NBI,
            "create_cells",
            {**INSERT, "run": True},
            [
                [
                    ("insert_cell", 1, "code", "y"),
                    ("insert_cell", 2, "markdown", "# T"),
                    ("run_cell", 1),
                    ("get_cell_output", 1),
                ]
            ],
        ),
        (
            LITE,
            "create_cells",
            INSERT,
            [[("add-cell", *BELOW, "markdown", "# T"), ("add-cell", *BELOW, "code", "y")]],
        ),
        (
            LITE,
            "create_cells",
            {"cells": INSERT["cells"], "before": "a"},
            [[("add-cell", *ABOVE, "code", "y"), ("add-cell", *ABOVE, "markdown", "# T")]],
        ),
        (
            NBI,
            "move_cell",
            {"cell_id": "a", "after": "b"},
            [[("delete_cell", 0), ("insert_cell", 1, "code", "x = 1")]],
        ),
        (
            LITE,
            "move_cell",
            {"cell_id": "c", "before": "a"},
            [[("delete-cell", "c"), ("add-cell", "a", "above", "code", "print(x)")]],
        ),
        (NBI, "delete_cell", {"cell_id": "gone"}, []),
        (
            JAI,
            "edit_cells",
            EDIT,
            [
                [("read_notebook_cells", HOME)],
                [
                    ("edit_cell", HOME, "a", "x = 2"),
                    ("run_cell", HOME, "a"),
                    ("read_cell", HOME, "a"),
                ],
            ],
        ),
        (
            JAI,
            "create_cells",
            INSERT,
            [[("insert_cell", HOME, "y", 1, "code"), ("insert_cell", HOME, "# T", 2, "markdown")]],
        ),
        (NBI, "run_cell", {"cell_id": "b"}, [[]]),
        (
            NBI,
            "run_cells",
            {},
            [[("run_cell", 0), ("get_cell_output", 0), ("run_cell", 2), ("get_cell_output", 2)]],
        ),
        (
            NBI,
            "run_code",
            {"code": "1 + 1"},
            [
                [
                    ("insert_cell", 3, "code", "1 + 1"),
                    ("run_cell", 3),
                    ("get_cell_output", 3),
                    ("delete_cell", 3),
                ]
            ],
        ),
        (
            LITE,
            "list_files",
            {"path": "task"},
            [
                [("list-directory", "task")],
            ],
        ),
    ],
)  # fmt: skip
def test_a_call_is_what_a_model_would_do_with_the_tools_of_the_page(
    hands: Hands, name: str, input: Mapping[str, Any], replies: list[Any]
) -> None:
    assert done(hands, name, input) == replies


def test_a_text_is_changed_as_it_was_read_though_somebody_has_typed_since() -> None:
    desk = Paper()
    done(NBI, "get_notebook_state", {}, desk)
    desk.there[0] = Cell("a", "a", 0, "code", "x = 1  # typed")
    (written, *_), = done(NBI, "edit_cells", EDIT, desk)  # fmt: skip
    assert written == ("set_cell_type_and_source", 0, "code", "x = 2")


def test_a_cell_that_takes_the_place_of_another_goes_by_its_name() -> None:
    desk = Paper()
    done(NBI, "get_notebook_state", {}, desk)
    does = STEPS["edit_cells"]
    assert does is not None
    steps = does(desk, NBI, EDIT)
    next(steps)
    desk.there[0] = Cell("new", "new", 0, "code", "x = 2")
    with pytest.raises(StopIteration):
        steps.send([])
    assert desk.names["new"] == "a"


def test_an_edit_of_a_text_that_is_not_there_stops_the_run_and_no_other_edit() -> None:
    desk = Paper()
    done(LITE, "get_notebook_state", {}, desk)
    edits = [
        {"cell_id": "a", "old_string": "nowhere", "new_string": ""},
        {"cell_id": "c", "source": "y"},
    ]
    assert done(LITE, "edit_cells", {"edits": edits, "run": True}, desk) == [
        [("set-cell-content", "c", "y")]
    ]
    assert done(LITE, "edit_cells", {"edits": edits[1:], "run": True}, desk) == [
        [("run-cell", "c")]
    ]


def test_a_notebook_with_many_cells_is_read_as_far_as_the_script_needs() -> None:
    desk = Paper()
    desk.there += [Cell(f"m{n}", f"m{n}", 3 + n, "code", "") for n in range(200)]
    desk.later = LATER
    assert done(LITE, "get_notebook_state", {}, desk) == [
        [("get-notebook-info",)],
        [("get-cell-info", "c")],
    ]


@pytest.mark.parametrize(
    ("hands", "first", "counts"),
    [
        (LITE, "discover_commands", [1, 1, 3, 1, 3, 2]),
        (JAI, "get_active_notebook", [1, 1, 1, 1, 1, 1]),
    ],
)
def test_the_fake_answers_a_turn_with_calls_of_the_harness(
    hands: Hands, first: str, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only requests with tools and with the question are answered from the script. Calls of one
    reply are several where the harness makes them in order."""
    monkeypatch.setattr("nbeval.pages._SAVE_S", 0)
    replies = [
        [says("I look."), calls("get_notebook_state")],
        [
            calls("run_cell", cell_id="$cell print"),
            calls("edit_cells", edits=EDIT["edits"]),
            calls("wait_for_run", run_id="$run_id"),
        ],
        [says("1, of course.")],
    ]
    model, script = Model(), Script()
    fake = ChatCompletions(model)
    model.requests = fake.requests
    prepared = [[without_ids(block) for block in reply] for reply in replies]
    script.begin(prepared, {})
    answering = Answering(model, script, Paper(script), hands, prepared)
    model.plays(iter(answering), [PROMPT])
    with in_thread(serving(fake)):
        assert ask(fake, [{"role": "user", "content": "Of another task?"}])["content"] == "Done."
        assert ask(fake, [question()], tools=[])["content"] == "Done."
        messages: list[Any] = [question()]
        names = []
        while calls_made := (said := ask(fake, messages)).get("tool_calls"):
            assert said["content"] == (None if names else "I look.")
            names.append([made["function"]["name"] for made in calls_made])
            messages.append(said)
            messages += [
                {"role": "tool", "tool_call_id": made["id"], "content": '{"success":false}'}
                for made in calls_made
            ]
    assert said["content"] == "1, of course."
    assert [len(reply) for reply in names] == counts
    assert names[0] == [first]
    assert answering.said == ["I look.", "1, of course."]
    assert (answering.turns, answering.calls, answering.failed) == (1, *[sum(counts)] * 2)
    assert model.error is None


def question() -> dict[str, Any]:
    return {"role": "user", "content": f"Context.\n{PROMPT}"}


def ask(
    fake: ChatCompletions, messages: Sequence[Any], tools: Any = ({"type": "function"},)
) -> Any:
    """As a page of another origin does."""
    body = {"model": "fake-1", "messages": list(messages), "tools": list(tools)}
    request = urllib.request.Request(
        f"{fake.url}/chat/completions", json.dumps(body).encode(), {"Origin": "http://elsewhere"}
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["access-control-allow-origin"] == "*"
        return json.load(answer)["choices"][0]["message"]
