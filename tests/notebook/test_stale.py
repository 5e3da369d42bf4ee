"""Which cells are told to be stale."""

from __future__ import annotations

import pytest

from jupyter_agent.notebook.cell import Cell
from jupyter_agent.notebook.stale import names_of, stale_cells


def cells(*code: tuple[str, int | None]) -> list[Cell]:
    return [
        Cell(id=f"c{index}", index=index, type="code", source=source, execution_count=count)
        for index, (source, count) in enumerate(code)
    ]


def test_a_notebook_run_from_top_to_bottom_has_no_stale_cell() -> None:
    assert stale_cells(cells(("x = 1", 1), ("y = x", 2), ("x + y", 3)), "python") == {}


def test_a_cell_is_stale_when_what_it_uses_was_set_again() -> None:
    stale = stale_cells(cells(("x = 1", 4), ("y = x", 2), ("z = 3", 3)), "python")
    assert stale == {"c1": "It uses `x`, which cell `c0` set again later."}


def test_staleness_goes_on_through_names() -> None:
    stale = stale_cells(cells(("x = 1", 4), ("y = x", 2), ("y", 3)), "python")
    assert stale["c2"] == "It uses `y` of cell `c1`, which is stale."


def test_a_cell_is_stale_when_what_it_uses_has_not_run() -> None:
    stale = stale_cells(cells(("x = 1", None), ("x", 2)), "python")
    assert "has not run" in stale["c1"]


def test_a_cell_that_never_ran_shows_nothing_that_could_be_stale() -> None:
    assert stale_cells(cells(("x = 1", 4), ("x", None)), "python") == {}


def test_changing_a_value_in_place_counts_as_setting_it() -> None:
    code = cells(("df = load()", 1), ("df['b'] = df.a * 2", 5), ("df.describe()", 3))
    assert set(stale_cells(code, "python")) == {"c2"}


def test_importing_again_makes_nothing_stale() -> None:
    assert stale_cells(cells(("import numpy as np", 9), ("np.ones(3)", 2)), "python") == {}


def test_without_python_the_counts_decide() -> None:
    code = cells(("x <- 1", 4), ("y <- 2", 2), ("z <- 3", 5))
    assert stale_cells(code, "r") == {"c1": "Cell `c0` above ran after it."}


@pytest.mark.parametrize(
    ("source", "used", "defined"),
    [
        ("def f(a):\n    b = a + g\n    return b", {"g"}, {"f"}),
        ("[i for i in xs if i > k]", {"xs", "k"}, set()),
        ("x += 1", {"x"}, {"x"}),
        ("a = 1\nb = a + c", {"c"}, {"a", "b"}),
        ("class A(B):\n    c = d\n    def m(self): return self.z + h", {"B", "d", "h"}, {"A"}),
        ("%matplotlib inline\nn = 1", set(), {"n"}),
        ("files = !ls\nfiles", set(), {"files"}),
        ("%%time\ny = x", {"x"}, {"y"}),
        ("%%bash\necho $x", set(), set()),
        ("100 \\\n % x", {"x"}, set()),
        ("this is no python", set(), set()),
    ],
)
def test_names_are_followed_as_python_does(source: str, used: set[str], defined: set[str]) -> None:
    names = names_of(source)
    assert (names.used, names.defined) == (used, defined)
