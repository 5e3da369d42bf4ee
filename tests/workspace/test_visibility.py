"""What a model may see of cells and outputs, without running code."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import cast

import jupyter_agent
from jupyter_agent.document.cell import Cell, CellType, Output
from jupyter_agent.text.notebook import render_cells
from jupyter_agent.workspace.hidden_cells import HiddenCells
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.visibility import View

PACKAGE = Path(jupyter_agent.__file__).parent

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


def test_of_an_unknown_type_of_cell_no_text_is_shown_if_only_code_is_shared() -> None:
    cell = replace(SHOWN, type=cast(CellType, "heading"))  # in an old notebook
    assert View(share="code-only").cell(cell).withheld


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


def test_only_a_redactor_makes_text_for_models_of_other_text() -> None:
    """mypy checks that what models get is a `ModelText`; this, that nothing else becomes one."""
    makers = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="ModelText"), args=[ast.Constant()]):
                    pass  # words that are literally there
                case ast.Call(func=ast.Name(id="NewType")):
                    pass
                case (
                    ast.Call(func=ast.Name(id="ModelText") | ast.Attribute(attr="ModelText"))
                    | ast.Call(args=[ast.Name(id="ModelText") | ast.Constant("ModelText"), _])
                ):
                    makers.append(str(path.relative_to(PACKAGE)))
    assert makers == ["workspace/redactor.py"]
