"""In a notebook of 300 cells the real tools find and fix a mistake with few tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from jupyter_agent.analysis import stale
from jupyter_agent.document.cell import Cell
from jupyter_agent.server import notebooks
from jupyter_agent.text import search
from jupyter_agent.workspace.visibility import View
from tests.bench.steps import blocks
from tests.bench.tokens import most_tokens
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import Call, ask
from .test_context import mark_of

STATIONS = 37
PATH = "stations.ipynb"
BUDGET = 30_000
PRICE = 16_000
"""In tokens as weighted by a turn's budget."""


def station(number: int) -> list[Any]:
    """Eight cells about one weather station, run once; the 21st converts wrongly."""
    factor = "9 / 5" if number == 21 else "5 / 9"
    mean = {"5 / 9": 19.5, "9 / 5": 63.2}[factor]
    sources = [
        f"readings_{number} = [{', '.join(str(60 + day % 17) for day in range(30))}]",
        f"def to_celsius_{number}(degrees):\n    return (degrees - 32) * {factor}",
        f"celsius_{number} = [to_celsius_{number}(value) for value in readings_{number}]",
        f"mean_{number} = sum(celsius_{number}) / len(celsius_{number})",
        f"print(f'station {number}: mean {{mean_{number}:.1f}} degrees Celsius')",
        f"spread_{number} = max(celsius_{number}) - min(celsius_{number})",
    ]
    cells = [new_markdown_cell(f"## Station {number}\nReadings of May, in Fahrenheit.")]
    cells += [new_code_cell(source, execution_count=1) for source in sources]
    cells[5].outputs = [
        new_output("stream", name="stdout", text=f"station {number}: mean {mean} degrees Celsius\n")
    ]
    return [*cells, new_markdown_cell("The spread goes into the summary. " * 8)]


def write(path: Path) -> None:
    cells = [new_markdown_cell("# Weather stations"), new_code_cell("import math")]
    cells += [cell for number in range(STATIONS) for cell in station(number)]
    cells += [new_markdown_cell("# Summary"), new_code_cell("means = [mean_21]")]
    for index, cell in enumerate(cells):
        cell["id"] = f"{index:08x}"
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), path)


def told(request: Any) -> str:
    """The text of the newest results."""
    return json.dumps(request["messages"][-1]["content"])


def weighed(requests: Sequence[Any]) -> float:
    """An upper bound of these requests' tokens, weighted as in a turn's budget: the part that a
    request repeats of the one before is read from the cache.
    """
    spent, before = 0.0, list[str]()
    for sent in map(blocks, requests):
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, sent, strict=False))
        )
        spent += 0.1 * most_tokens("".join(sent[:same])) + 1.25 * most_tokens("".join(sent[same:]))
        before = sent
    return spent


@pytest.mark.full
async def test_a_planted_mistake_in_300_cells_is_mended_for_30_000_tokens(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, jp_root_dir: Path
) -> None:
    file = jp_root_dir / PATH
    write(file)
    cells = nbformat.read(file, as_version=4).cells
    assert len(cells) == 300
    first = 2 + 21 * 8
    wrong, reading, *rest = (cells[first + place].id for place in (2, 1, 3, 4, 5))
    replies += [
        [calls("search_notebook", query=r"mean [4-9]\d\.\d", regex=True)],
        [calls("read_cells", cell_ids=[reading, wrong, *rest])],
        [
            calls("update_cell", cell_id=wrong, old_string="9 / 5", new_string="5 / 9"),
            calls("run_cells", cell_ids=[reading, wrong, *rest]),
        ],
        [says("Station 21 multiplied by 9/5 instead of 5/9; its mean is now 19.5.")],
    ]
    body = ask("One station is far too hot. Find out why and mend it.", notebook=PATH, stream=False)
    done = (await call("POST", "chat", body=body)).body

    assert done["state"] == "done"
    assert fake.refusals == []
    outline, search, read, run = map(told, fake.requests)  # the outline comes with the question
    mark = mark_of(fake.requests[-1])
    assert f"[1 markdown 00000000 {mark}] # Weather stations" in outline
    assert f"[{first + 1}-{first + 8} {cells[first].id} {mark}] ## Station 21: 8 cells" in outline
    assert rest[2] in search
    assert "station 21: mean 63.2" in search
    assert "station 20" not in search
    assert "* 9 / 5" in read
    assert "station 21: mean 19.5" in run

    mended = nbformat.read(file, as_version=4).cells
    assert mended[first + 2].source.endswith("* 5 / 9")
    assert mended[first + 5].outputs[0].text.startswith("station 21: mean 19.5")
    changed = [old.id for old, new in zip(cells, mended, strict=True) if old.source != new.source]
    assert changed == [wrong]
    assert fake.input_tokens <= BUDGET
    assert weighed(fake.requests) <= PRICE


async def test_what_goes_through_all_cells_is_done_in_threads(
    call: Call, jp_root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(jp_root_dir / PATH)
    seen: dict[str, set[bool]] = {}

    def told(place: Any, name: str) -> None:
        work = getattr(place, name)

        def done(*args: Any, **more: Any) -> Any:
            on_loop = threading.current_thread() is threading.main_thread()
            seen.setdefault(name, set()).add(on_loop)
            return work(*args, **more)

        monkeypatch.setattr(place, name, done)

    told(stale, "_parse")
    told(search, "_all_lines")
    told(search, "_containing")
    told(notebooks, "_json")
    whole = (await call("GET", "notebooks", PATH)).body
    assert len(whole["cells"]) == 300
    first = whole["cells"][1]["id"]
    for tool, input in (
        ("get_notebook_state", {"outline": True}),
        ("search_notebook", {"query": "station"}),
        ("update_cell", {"cell_id": first, "old_string": "math", "new_string": "cmath"}),
    ):
        body = {"notebook": PATH, "input": input, "mode": "auto"}
        assert not (await call("POST", "tools", tool, body=body)).body["is_error"]
    assert seen == dict.fromkeys(["_parse", "_json", "_all_lines", "_containing"], {False})


def test_a_view_of_all_makes_no_cell_anew() -> None:
    cells = [Cell(id=f"c{number}", index=number, type="code", source="1") for number in range(9)]
    shown = View.of("all", cells).cells(cells)
    assert all(seen is cell for seen, cell in zip(shown, cells, strict=True))
