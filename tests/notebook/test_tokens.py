"""What a notebook costs a model: half of its JSON at most, and never more than 12,500 tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_agent.document.cell import Cell
from jupyter_agent.text.notebook import MOST, render
from tests.bench.tokens import SAMPLES, figures, most_tokens, tokens

CAP = 12_500


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_real_notebook_costs_at_most_half_of_its_json(path: Path) -> None:
    told = figures(path)
    assert tokens(told.state) <= tokens(told.json) / 2
    assert most_tokens(told.most) <= CAP
    assert tokens(told.outline) <= 1_600
    assert "iVBORw0KGgo" not in told.state + told.most


@pytest.mark.parametrize("budget", [None, MOST])
def test_a_notebook_of_any_size_stays_below_the_cap(budget: int | None) -> None:
    table = "\n".join(f"{row} 0.{row:06} {row * 7:05}" for row in range(200))
    cells = [
        Cell(
            id=f"{index:08x}",
            index=index,
            type="code",
            source=f"value_{index} = compute({index}, rate=0.25)\n" * 5,
            outputs=[{"output_type": "stream", "name": "stdout", "text": table}],
        )
        for index in range(2_000)
    ]
    shown = render(cells, focus=cells[1_000].id, budget=budget)
    assert tokens(shown.text) <= CAP
    assert f"[1001 code {cells[1_000].id}" in shown.text
