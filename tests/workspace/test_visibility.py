"""What a model may see of cells and outputs, without running code."""

from __future__ import annotations

from dataclasses import replace

from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.text.notebook import render_cells
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.visibility import HiddenCells, View

HIDDEN = Cell(
    id="h",
    index=0,
    type="code",
    source="key = load(1)",
    metadata={"tags": ["agent-hidden"]},
    execution_count=3,
)
SHOWN = Cell(id="s", index=1, type="code", source="use(key)", execution_count=4)


def error(count: int) -> Output:
    frames = [f"Cell In[{count}], line 1", "----> 1 f()"]
    return {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": frames}


def test_of_a_hidden_cell_only_its_place_is_shown() -> None:
    shown = render_cells(View.of("all", [HIDDEN, SHOWN]).cells([HIDDEN, SHOWN]))
    assert "load(1)" not in shown
    assert "use(key)" in shown


def test_an_error_that_passed_through_a_hidden_cell_is_kept_back_whatever_it_says() -> None:
    view = View.of("all", [HIDDEN, SHOWN])
    assert view.outputs([error(4)]) == [error(4)]
    (kept_back,) = view.outputs([error(3)])
    assert "hidden cell" in kept_back["text"]


def test_what_a_hidden_cell_said_stays_known_until_it_is_hidden_no_more() -> None:
    cells = HiddenCells()
    assert cells.update("n.ipynb", [HIDDEN]) == {"h": [HIDDEN.source]}
    assert cells.update("n.ipynb", [SHOWN]) == {"h": [HIDDEN.source]}
    assert cells.update("n.ipynb", [replace(HIDDEN, metadata={})]) == {}


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    redactor = Redactor(lambda: ["abcdefgh", "abcdefghijkl", "ijklmnop"])
    assert redactor.text("abcdefghijkl and abcdefgh") == "*** and ***"
