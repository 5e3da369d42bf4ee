"""A notebook is verified over REST and in a turn: asked about, and stopped when nobody waits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.auth import Authorizer

from jupyter_agent.extension import JupyterAgent
from jupyter_agent.testing import FakeAnthropic, calls, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Call, ask, frames

FOREVER = "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(600)"


def kernels(agent: JupyterAgent) -> list[str]:
    assert agent.serverapp is not None
    return list(agent.serverapp.kernel_manager.list_kernel_ids())


def rewrite(notebook: Path, source: str) -> None:
    """Another first code cell."""
    content = nbformat.read(notebook, as_version=4)
    content.cells[1].source = source
    nbformat.write(content, notebook)


async def begun(notebook: Path) -> None:
    """Wait until the code of FOREVER runs."""
    async with asyncio.timeout(60):
        while not (notebook.parent / "begun").exists():
            await asyncio.sleep(0.01)


async def all_ended(agent: JupyterAgent) -> None:
    async with asyncio.timeout(60):
        while kernels(agent):
            await asyncio.sleep(0.01)


async def test_the_route_reports_cell_by_cell(
    call: Call, agent: JupyterAgent, notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells[2].execution_count = 5
    nbformat.write(content, notebook)
    before = notebook.read_bytes()
    answer = await call("POST", "notebooks", PATH, "verify")
    assert answer.status == 200
    assert answer.body.pop("seconds") > 0
    assert answer.body.pop("at").endswith("Z")
    assert (answer.body.pop("kernel"), answer.body.pop("packages")) == ("python3", {})
    assert len(answer.body.pop("hash")) == 64
    never = "It runs; it was never run before, so there is nothing to compare."
    new = "stdout: goes on with `x is 1`"
    assert answer.body == {
        "ok": False,
        "runs": 2,
        "cells": [
            {"cell_id": "b2", "status": "same", "why": never},
            {"cell_id": "c3", "status": "differs", "why": new},
        ],
    }
    assert notebook.read_bytes() == before
    assert kernels(agent) == []


async def test_the_route_writes_fresh_outputs_or_takes_parameters(
    call: Call, agent: JupyterAgent, notebook: Path
) -> None:
    rewrite(notebook, "x = 3")
    before = notebook.read_bytes()
    both = await call(
        "POST", "notebooks", PATH, "verify", body={"update": True, "parameters": {"x": 1}}
    )
    assert (both.status, both.body["reason"]) == (400, "invalid_input")
    answer = await call("POST", "notebooks", PATH, "verify", body={"parameters": {"y": 1}})
    assert (answer.status, notebook.read_bytes()) == (200, before)
    answer = await call("POST", "notebooks", PATH, "verify", body={"update": True})
    assert (answer.body["updated"], answer.body["saved"]) == (True, True)
    cells = nbformat.read(notebook, as_version=4).cells
    assert [cell.get("execution_count") for cell in cells[1:3]] == [1, 2]
    assert cells[2].outputs[0].text == "x is 3\n"
    assert kernels(agent) == []


async def test_a_client_that_goes_away_stops_it(
    call: Call,
    agent: JupyterAgent,
    notebook: Path,
    jp_http_port: int,
    jp_base_url: str,
    jp_auth_header: dict[str, str],
) -> None:
    rewrite(notebook, FOREVER)
    path = f"{jp_base_url}api/agent/notebooks/sales%2C%20Q3/first%20look.ipynb/verify"
    token = jp_auth_header["Authorization"]
    _, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    writer.write(
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{jp_http_port}\r\nAuthorization: {token}\r\n"
        "Content-Length: 2\r\n\r\n{}".encode()
    )
    await begun(notebook)
    assert len(kernels(agent)) == 1
    writer.close()
    await all_ended(agent)


class Reader(Authorizer):
    """Lets everybody do everything but start kernels."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return (action, resource) != ("write", "kernels")


@pytest.mark.parametrize("entry", ["route", "tool"])
async def test_it_needs_leave_to_start_a_kernel(
    call: Call, agent: JupyterAgent, notebook: Path, jp_serverapp: Any, entry: str
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = Reader(parent=jp_serverapp)
    body = {"notebook": PATH, "mode": "auto"}
    answer = await (
        call("POST", "notebooks", PATH, "verify")
        if entry == "route"
        else call("POST", "tools", "verify_notebook", body=body)
    )
    assert answer.body["reason"] == "denied"
    assert "write kernels" in answer.body["message" if entry == "route" else "text"]
    assert kernels(agent) == []


async def test_a_person_sees_every_cell_that_would_run(
    call: Call, agent: JupyterAgent, notebook: Path, replies: list[FakeReply], fake: FakeAnthropic
) -> None:
    replies += [[calls("verify_notebook")], [says("It works.")]]
    body = ask("Does it work from the top?", mode="edit", stream=False)
    waiting = (await call("POST", "chat", body=body)).body
    (approval,) = waiting["approvals"]
    assert approval["cells"] == [
        {"cell_id": "b2", "code": "x = 1"},
        {"cell_id": "c3", "code": "print('x is', x)"},
    ]
    assert approval["code"] == "x = 1\n\nprint('x is', x)"
    assert "clusters" not in approval
    assert kernels(agent) == []
    answers = {"approvals": [{"id": approval["id"], "approved": True}], "wait": 60}
    done = (await call("POST", "chat", "talk", "approvals", body=answers)).body
    assert done["state"] == "done"
    told = json.dumps(fake.requests[1]["messages"][-1])
    assert "All 2 code cells run and show the same" in told
    assert kernels(agent) == []


@pytest.mark.parametrize("tool", ["verify_notebook", "run_cell"])
async def test_the_question_says_that_code_starts_a_cluster_job(
    call: Call, notebook: Path, replies: list[FakeReply], tool: str
) -> None:
    rewrite(notebook, "import dask\ndask.delayed(sum)([1, 2]).compute()")
    replies += [[calls(tool, **({"cell_id": "b2"} if tool == "run_cell" else {}))]]
    body = ask("Does it work?", mode="edit", stream=False)
    (approval,) = (await call("POST", "chat", body=body)).body["approvals"]
    assert approval["clusters"] == ["Dask"]


async def test_stop_ends_the_code_and_its_kernel(
    call: Call, agent: JupyterAgent, notebook: Path, replies: list[FakeReply]
) -> None:
    rewrite(notebook, FOREVER)
    replies += [[calls("verify_notebook")], [says("It works.")]]
    turn = asyncio.ensure_future(call("POST", "chat", body=ask("Does it work?")))
    await begun(notebook)
    stopped = await call("POST", "chat", "talk", "stop")
    assert stopped.status == 200
    assert frames((await turn).text)[-2]["type"] == "abort"
    await all_ended(agent)
