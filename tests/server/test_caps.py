"""The administrator limits how much of a run's outputs a cell keeps and a model reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.tools.run_results import shares
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask, frames


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    jp_server_config["JupyterAgent"].update(output_limit=20_000, result_chars=1_000)
    return jp_server_config


@pytest.mark.full
async def test_long_outputs_are_cut_in_the_cell_and_for_the_model(
    call: Call, notebook: Path
) -> None:
    source = {"source": "for i in range(10_000): print(i)"}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=source)
    body = {"notebook": PATH, "mode": "auto", "input": {"cell_id": "b2"}}
    told = (await call("POST", "tools", "run_cell", body=body)).body["text"]
    assert 1_000 < len(told) < 1_300
    assert told.endswith("9998\n9999")
    assert "characters left out" in told
    head, note, tail = nbformat.read(notebook, as_version=4).cells[1].outputs
    assert len(head.text) + len(tail.text) == 20_000
    assert "lines) left out of 10,000 lines in all; a cell keeps 20,000 characters" in note.text


@pytest.mark.full
async def test_several_cells_share_what_a_result_may_have(call: Call, notebook: Path) -> None:
    for cell_id, code in (("b2", "print('short')"), ("c3", "print('x' * 5_000)")):
        await call("PATCH", "notebooks", PATH, "cells", cell_id, body={"source": code})
    body = {"notebook": PATH, "mode": "auto", "input": {}}
    told = (await call("POST", "tools", "run_cells", body=body)).body["text"]
    assert "short" in told
    assert 1_000 < len(told) < 1_400


@pytest.mark.parametrize(
    ("wanted", "given"),
    [([], []), ([5], [5]), ([200], [100]), ([10, 500, 20], [10, 70, 20]), ([90, 80], [50, 50])],
)
def test_what_is_short_is_told_whole(wanted: list[int], given: list[int]) -> None:
    assert shares(wanted, 100) == given


@pytest.mark.full
async def test_a_plot_that_is_left_out_of_an_event_is_called_one(
    call: Call, notebook: Path, replies: list[FakeReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.conversations.log.EVENT_LIMIT", 4_000)
    source = {"source": "display({'image/png': 'AAAA' * 3_000}, raw=True)"}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=source)
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    told = frames((await call("POST", "chat", body=ask("Plot it."))).text)[:-1]
    output = next(each for each in told if each["type"] == "tool-output-available")["output"]
    [note] = output["outputs"]
    assert note["data"] == {"text/plain": "[Plot: see the cell.]"}
    assert note["metadata"]["jupyter_agent"]["left_out"] == {"outputs": 1, "plots": 1}


@pytest.mark.full
async def test_an_event_tells_no_more_than_a_client_can_take(
    call: Call, notebook: Path, replies: list[FakeReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.conversations.log.EVENT_LIMIT", 4_000)
    source = {"source": "print('long ' * 3_000)\ndisplay('short')"}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=source)
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    told = frames((await call("POST", "chat", body=ask("Run it."))).text)[:-1]
    turn = (await call("GET", "conversations", "talk")).body["turns"][0]
    assert {len(json.dumps(each)) < 5_000 for each in told} == {True}
    outputs = next(each for each in told if each["type"] == "tool-output-available")["output"]
    assert "see the cell" in str(outputs["outputs"][0])
    left_out = outputs["outputs"][0]["metadata"]["jupyter_agent"]["left_out"]
    assert left_out == {"outputs": 1, "plots": 0}
    assert "'short'" in str(outputs["outputs"][1])
    [changed] = (await call("GET", "turns", turn["id"], "changes")).body
    assert len(changed["after"]["outputs"][0]["text"]) > 12_000, "the journal has it whole"
    assert len((await call("GET", "runs", outputs["run_id"])).text) > 12_000
