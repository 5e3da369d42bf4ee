"""Data frames are described as short tables with their shape and types."""

from __future__ import annotations

import pandas as pd
import pytest

from jupyter_agent.document.cell import Cell
from jupyter_agent.text.notebook import render_cells
from jupyter_agent.text.outputs import output_text
from jupyter_agent.text.search import search
from jupyter_agent.text.tables import frame_text

FRAME = pd.DataFrame(
    {
        "city": [f"town {number}" for number in range(50)],
        "price": [number / 4 for number in range(50)],
        "rooms": range(50),
        "sold": [number % 2 == 0 for number in range(50)],
        "day": pd.date_range("2020-01-01", periods=50),
    }
)


def html(frame: pd.DataFrame) -> str:
    text = frame._repr_html_()  # type: ignore[operator]
    assert isinstance(text, str)
    return text


def test_a_frame_is_its_shape_its_columns_with_types_and_its_first_and_last_rows() -> None:
    told = frame_text(html(FRAME), rows=3)
    assert told is not None
    assert told.split("\n") == [
        "DataFrame 50x5: city | price float | rooms int | sold bool | day date",
        "0 | town 0 | 0.00 | 0 | True | 2020-01-01",
        "1 | town 1 | 0.25 | 1 | False | 2020-01-02",
        "... 47 rows ...",
        "49 | town 49 | 12.25 | 49 | False | 2020-02-19",
    ]


def test_the_shape_is_the_frames_own_where_pandas_cuts_it() -> None:
    told = frame_text(html(pd.concat([FRAME] * 100)), rows=4)
    assert told is not None
    assert told.startswith("DataFrame 5000x5: ")


def test_columns_and_rows_of_several_levels_are_joined() -> None:
    grouped = FRAME.head(3).groupby(["sold", "city"]).agg({"price": ["mean", "max"]})
    told = frame_text(html(grouped))
    assert told is not None
    assert told.split("\n") == [
        "DataFrame 3x2: price/mean float | price/max float",
        "False | town 1 | 0.25 | 0.25",
        "True | town 0 | 0.00 | 0.00",
        "| town 2 | 0.50 | 0.50",
    ]


def test_polars_tells_its_types_itself() -> None:
    page = (
        "<div><small>shape: (2, 1)</small><table border='1' class='dataframe'><thead><tr>"
        "<th>a</th></tr><tr><td>i64</td></tr></thead><tbody><tr><td>1</td></tr><tr><td>2</td></tr>"
        "</tbody></table></div>"
    )
    assert frame_text(page) == "DataFrame 2x1: a/i64 int\n1\n2"


@pytest.mark.parametrize("page", ["<p>none</p>", "<table class='dataframe'>", "dataframe <b>"])
def test_what_is_no_frame_is_left_to_others(page: str) -> None:
    assert frame_text(page) is None


async def test_all_rows_are_there_to_be_read_and_found() -> None:
    data = {"text/plain": "shorter", "text/html": html(FRAME)}
    shown = [{"output_type": "execute_result", "data": data, "metadata": {}}]
    assert "... 38 rows ..." in output_text(shown)
    frame = Cell(id="c0", index=0, type="code", source="frame", outputs=shown)
    assert "town 25" in render_cells([frame])
    assert "town 25" in await search([frame], "town 25")
