"""The table of performance: how rounds become rows, and that its command writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.figures import Curve, Figure, Summary, exponent, merged
from tests.bench.page import markdown, page


def rounds(*values: float, goal: float = 2, at_least: bool = False) -> Summary:
    return Summary(
        [
            Figure(
                what="edit",
                value=value,
                floors={"PUT": 10},
                peers={"other": 25},
                goal=goal,
                at_least=at_least,
            )
            for value in values
        ]
    )


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_the_exponent_is_that_of_the_larger_sizes(power: float) -> None:
    assert exponent({n: n**power + 3 * (n == 1) for n in (1, 10, 100, 1000, 10_000)}) == (
        pytest.approx(power)
    )


def test_a_row_is_the_median_of_its_rounds_and_judged_by_it() -> None:
    row = rounds(30, 19, 18)
    assert (row.result, row.spread, row.is_met) == (1.9, (1.8, 3.0), True)
    assert row.peers_ahead == []
    assert rounds(26, goal=3).peers_ahead == ["other"]
    assert rounds(26, goal=3, at_least=True).is_met is False
    assert rounds(26, goal=3, at_least=True).peers_ahead == []
    added = Figure(what="memory", value=12, unit="MB", floors={"before": 10}, judged="added")
    assert (added.result, Summary([added]).is_met) == (2, None)


def test_the_table_and_the_page_say_what_missed_its_goal_and_who_is_ahead() -> None:
    table = {"G5": [rounds(26, 27)]}
    line = "| G5 | edit | 2.65 x | 2.60 x to 2.70 x | ≤ 2.00 x | missed, behind other | 26.5 ms |"
    assert line in markdown(table)
    first, second = (
        Curve(what="edits", size="cells", lines={"ours": {10: 1, 100: last}}) for last in (8, 12)
    )
    text = page({"commit": "a & b"}, table, [merged([first, second])])
    assert "<td class=missed>missed, behind other</td>" in text
    assert "exponent 1.00" in text
    assert "a &amp; b" in text


def test_the_command_writes_the_results_and_a_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "G7", "--rounds", "2", "--out", tmp_path]
    root = Path(__file__).parents[1]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert "tokens to understand a notebook of 1,000 cells" in shown
    (row,) = json.loads((tmp_path / "results.json").read_text())["table"]["G7"]
    assert row["met"] is True
    assert len(row["rounds"]) == 2
    assert row["what"] in (tmp_path / "index.html").read_text()
