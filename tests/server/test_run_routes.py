"""Runs by REST: parts of a notebook, parameters, code without a cell, and all of it as streams."""

from __future__ import annotations

import asyncio
import copy
import json
from math import inf, nan
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.auth import Authorizer

from jupyter_agent.assistant import Assistant
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from ..gates import FOREVER, Gate
from ..notebook.browser import Tab
from ..waiting import soon, until
from .conftest import PATH, Call, answered, ask, ended, frames

RUN = ("notebooks", PATH, "run")
KERNEL = ("notebooks", PATH, "kernel")


@pytest.fixture
def six(notebook: Path) -> Path:
    """The notebook with three more code cells: d4, e5, f6."""
    content = nbformat.read(notebook, as_version=4)
    for cell_id, source in (("d4", "y = x + 1"), ("e5", "y"), ("f6", "print(x, y)")):
        content.cells.append(nbformat.v4.new_code_cell(source, id=cell_id))
    nbformat.write(content, notebook)
    return notebook


async def ran(call: Call, body: dict[str, Any]) -> list[str]:
    answer = await call("POST", *RUN, body=body)
    assert answer.status == 200, answer.text
    return [run["cell_id"] for run in answer.body["cells"]]


@pytest.mark.full
async def test_cells_run_up_to_one_from_one_and_between(call: Call, six: Path) -> None:
    assert await ran(call, {"until": "d4"}) == ["b2", "c3", "d4"]
    assert await ran(call, {"from": "e5"}) == ["e5", "f6"]
    assert await ran(call, {"from": "a1", "until": "b2"}) == ["b2"]
    assert await ran(call, {"cells": ["e5", "d4"]}) == ["e5", "d4"]
    for body, told in (
        ({"from": "e5", "until": "b2"}, "below"),
        ({"cells": ["b2"], "until": "b2"}, "not both"),
    ):
        refused = await call("POST", *RUN, body=body)
        assert (refused.status, refused.body["reason"]) == (400, "invalid_input")
        assert told in refused.body["message"]
    assert (await call("POST", *RUN, body={"until": "zz"})).status == 404


@pytest.mark.full
@pytest.mark.parametrize("tag", ["parameters", "injected-parameters", None])
async def test_parameters_are_set_in_the_kernel_and_the_code_stays(
    call: Call, six: Path, tag: str | None
) -> None:
    if tag:
        content = nbformat.read(six, as_version=4)
        content.cells[1].metadata["tags"] = [tag]
        nbformat.write(content, six)
    before = [cell.source for cell in nbformat.read(six, as_version=4).cells]
    body = {"parameters": {"x": 41, "name": "é", "none": None}}
    answer = await call("POST", *RUN, body=body)
    shown = {run["cell_id"]: run["outputs"] for run in answer.body["cells"]}
    assert ("b2" in shown) == (tag != "injected-parameters")
    assert shown["f6"][0]["text"] == ("41 42\n" if tag else "1 2\n")  # without a tag: at the top
    assert [cell.source for cell in nbformat.read(six, as_version=4).cells] == before
    bad = await call("POST", *RUN, body={"parameters": {"no name": 1}})
    assert (bad.status, bad.body["reason"]) == (400, "invalid_input")


@pytest.mark.full
@pytest.mark.parametrize("route", ["run", "verify"])
async def test_numbers_that_json_lacks_are_parameters_too(
    call: Call, six: Path, route: str
) -> None:
    content = nbformat.read(six, as_version=4)
    content.cells[1].metadata["tags"] = ["parameters"]
    content.cells[2].source = "assert x == [inf, {'a': -inf}] and nan != nan"
    nbformat.write(content, six)
    given = {"x": [inf, {"a": -inf}], "inf": inf, "nan": nan}
    answer = await call("POST", "notebooks", PATH, route, body={"parameters": given})
    assert answer.status == 200, answer.text
    assert answer.body["cells"][1]["status"] in ("ok", "same")


@pytest.mark.full
async def test_code_in_no_cell_runs_and_the_notebook_stays(call: Call, notebook: Path) -> None:
    before = notebook.read_bytes()
    run = await call("POST", *KERNEL, "code", body={"code": "z = 5\nz * 2"})
    assert (run.status, run.body["status"], run.body["cell_id"]) == (200, "ok", None)
    assert run.body["outputs"][0]["data"]["text/plain"] == "10"
    assert notebook.read_bytes() == before
    late = await call("POST", *KERNEL, "code", body={"code": FOREVER, "wait": 0})
    assert late.status == 202
    stopped = await call("POST", "runs", late.body["run_id"], "interrupt")
    assert stopped.body["status"] == "interrupted"
    timed = await call("POST", *KERNEL, "code", body={"code": FOREVER, "timeout": 0.2})
    assert timed.body["status"] == "timeout"
    assert (await call("POST", *KERNEL, "code", body={"code": ""})).status == 400


@pytest.mark.full
async def test_code_in_no_cell_leaves_the_person_s_results_alone(
    call: Call, notebook: Path
) -> None:
    async def cell(source: str) -> list[str]:
        """The text of a cell run by the person."""
        await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": source})
        run = await call("POST", "notebooks", PATH, "cells", "b2", "run")
        return [output["data"]["text/plain"] for output in run.body["outputs"]]

    async def scratch(code: str, timeout: float = 60) -> tuple[str, list[str]]:
        """The status and values of code without a cell."""
        run = (await call("POST", *KERNEL, "code", body={"code": code, "timeout": timeout})).body
        shown = [output["data"]["text/plain"] for output in run["outputs"] if "data" in output]
        return run["status"], shown

    names = "sorted(name for name in globals() if name.strip('_').isdecimal())"
    assert await cell("41 + 1") == ["42"]
    assert await scratch("7") == ("ok", ["7"])
    assert await scratch("import sys; sys.displayhook(8); 1 / 0") == ("error", ["8"])
    forever = f"import sys; sys.displayhook(9)\n{FOREVER}"
    assert await scratch(forever, timeout=2) == ("timeout", ["9"])
    assert await scratch("_ + 1") == ("ok", ["43"])
    assert await cell(f"_, __, _1, dict(Out), {names}") == ["(42, '', 42, {1: 42}, ['_1'])"]

    assert await cell("%reset -f") == []
    assert await scratch("7") == ("ok", ["7"])
    assert await cell("6 * 7;") == []
    assert await scratch("1 + 1") == ("ok", ["2"])  # the semicolon is the cell's
    assert await scratch("1 + 1;") == ("ok", [])
    assert await cell("dict(Out), [name for name in dir() if 'scratch' in name]") == ["({}, [])"]
    restarted = await call("POST", *KERNEL, body={"action": "restart"})
    assert restarted.status == 200, restarted.text
    assert await cell("5") == ["5"]
    assert await scratch("7") == ("ok", ["7"])
    assert await cell("_ * 2") == ["10"]


async def test_variables_are_told_by_name_or_all(call: Call, notebook: Path) -> None:
    none = await call("GET", *KERNEL, "variables")
    assert (none.status, none.body["reason"]) == (503, "kernel_unavailable")
    await call("POST", *KERNEL, "code", body={"code": "a, b = [1, 2], 'text'"})
    told = (await call("GET", *KERNEL, "variables")).body["text"]
    assert told.splitlines() == ["a: list of 2: [1, 2]", "b: str 'text'"] or "a: list" in told
    one = (await call("GET", *KERNEL, "variables", params={"names": "b"})).body["text"]
    assert one == "b: str 'text'"


@pytest.mark.plugs
async def test_a_kernel_that_is_not_installed_is_refused_and_another_can_be_chosen(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.metadata.kernelspec.name = "nowhere"
    nbformat.write(content, notebook)
    none = {"kernel_name": "none"}
    for route, body, name in (
        (("notebooks", PATH, "cells", "b2", "run"), {}, "nowhere"),
        (RUN, {}, "nowhere"),
        ((*KERNEL, "code"), {"code": "1"}, "nowhere"),
        (KERNEL, {"action": "start"}, "nowhere"),
        (("notebooks", PATH, "verify"), {}, "nowhere"),
        (KERNEL, {"action": "start", "name": "none"}, "none"),
        (("notebooks", PATH, "verify"), {"kernel": "none"}, "none"),
        (("notebooks", "new.ipynb"), none, "none"),
        (("tools", "create_notebook"), {"input": {"path": "new.ipynb", **none}}, "none"),
        (("tools", "verify_notebook"), {"input": {"kernel": "none"}}, "none"),
        (("tools", "run_cell"), {"input": {"cell_id": "b2"}}, "nowhere"),
        (("tools", "restart_kernel"), {"input": {"kernel": "none"}}, "none"),
    ):
        if route[0] == "tools":
            body = {"notebook": PATH, "mode": "auto", "allow": ["restart_kernel"], **body}
        refused = await call("POST", *route, body=body)
        message = refused.body["text" if route[0] == "tools" else "message"]
        status = 200 if route[0] == "tools" else 400
        assert (refused.status, refused.body["reason"]) == (status, "kernel_not_installed"), route
        assert f"No kernel `{name}`: it is not installed. Installed: " in message
        assert "as `kernel` for calls that take one, such as `restart_kernel`" in message
        assert "choose one of these in the notebook's menu (Kernel, Change Kernel)" in message
        if route[0] != "tools":
            assert "python3" in refused.body["installed"]
    assert not (notebook.parent.parent / "new.ipynb").exists()
    verified = await call("POST", "notebooks", PATH, "verify", body={"kernel": "python3"})
    assert (verified.body["ok"], verified.body["kernel"]) == (True, "python3")
    replies += [[calls("restart_kernel", kernel="python3")], [calls("run_cell", cell_id="b2")]]
    replies.append([says("Done.")])
    asked = (await call("POST", "chat", body=ask("Run it.", stream=False))).body["approvals"]
    assert asked[0]["kernel"] == "python3"
    given = {"approvals": [{"id": asked[0]["id"], "approved": True}], "wait": 60}
    done = (await call("POST", "chat", "talk", "approvals", body=given)).body
    assert done["state"] == "done"
    kernel = (await call("GET", "notebooks", PATH)).body["kernel"]
    assert kernel["name"] == "python3"
    assert (await call("POST", *KERNEL, body={"action": "start", "name": "none"})).status == 400
    body = {"notebook": PATH, "mode": "auto", "allow": ["restart_kernel"]}
    other = await call(
        "POST", "tools", "restart_kernel", body={**body, "input": {"kernel": "none"}}
    )
    assert "The kernel `python3` runs for" in other.body["text"]


@pytest.mark.full
async def test_a_run_as_a_stream_tells_outputs_as_they_come(
    call: Call, agent: Assistant, notebook: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    source = f"print('on', flush=True)\n{gate.waits}\nprint('off')\n7"
    cell = ("notebooks", PATH, "cells", "b2")
    await call("PATCH", *cell, body={"source": source})
    streaming = asyncio.ensure_future(call("POST", *cell, "run", body={"stream": True}))
    await until(lambda: any(run.outputs() for run in agent.services.runs.of_turn(None)))
    gate.open()
    answer = await streaming
    assert answer.headers["Content-Type"] == "text/event-stream"
    told = frames(answer.text)
    assert (told[0]["type"], told[-2]["type"], told[-1]["type"]) == ("run", "end", "[DONE]")
    assert [frame["seq"] for frame in told[:-1]] == list(range(1, len(told)))
    assert (told[-2]["status"], told[-2]["saved"]) == ("ok", True)
    assert "outputs" not in told[-2]
    assert applied(told) == (await call("GET", "runs", told[0]["run_id"])).body["outputs"]
    again = frames((await call("GET", "runs", told[0]["run_id"], "stream")).text)
    assert applied(again) == applied(told)


def applied(told: list[dict[str, Any]]) -> list[Any]:
    """The outputs that a client of the stream has at the end."""
    outputs: list[Any] = []
    for frame in copy.deepcopy(told):
        if frame["type"] == "outputs":
            outputs[frame["index"] :] = frame["outputs"]
        elif frame["type"] == "text":
            outputs[frame["index"]]["text"] += frame["text"]
    return outputs


@pytest.mark.full
async def test_all_cells_as_a_stream_and_the_error_that_ends_it(call: Call, six: Path) -> None:
    await call("PATCH", "notebooks", PATH, "cells", "d4", body={"source": "1/0"})
    told = frames((await call("POST", *RUN, body={"stream": True})).text)
    ended = [(frame["cell_id"], frame["status"]) for frame in told if frame["type"] == "end"]
    assert ended == [("b2", "ok"), ("c3", "ok"), ("d4", "error")]
    refused = await call("POST", *RUN, body={"stream": True, "cells": ["a1"]})
    assert (refused.status, refused.body["reason"]) == (400, "invalid_input")
    told = frames((await call("POST", *RUN, body={"stream": True, "cells": ["b2", "a1"]})).text)
    assert [frame["type"] for frame in told] == ["run", "end", "error", "[DONE]"]
    assert told[-2]["reason"] == "invalid_input"
    empty = await call("POST", *RUN, body={"stream": True, "cells": []})
    assert empty.text == "data: [DONE]\n\n"


async def test_a_stream_that_is_asked_for_twice_runs_once(
    call: Call, notebook: Path, jp_auth_header: dict[str, str]
) -> None:
    headers = {**jp_auth_header, "Idempotency-Key": "one"}
    body = {"code": "n = globals().get('n', 0) + 1\nn", "stream": True}
    first = frames((await call("POST", *KERNEL, "code", body=body, headers=headers)).text)
    again = await call("POST", *KERNEL, "code", body=body, headers=headers)
    assert again.body["run_id"] == first[0]["run_id"]
    assert again.body["outputs"][0]["data"]["text/plain"] == "1"


@pytest.mark.full
async def test_runs_are_listed_without_outputs(call: Call, six: Path, jp_root_dir: Path) -> None:
    await call("POST", *RUN)
    await call("POST", "notebooks", "other.ipynb", body={"cells": [{"source": "1"}]})
    await call("POST", "notebooks", "other.ipynb", "run")
    every = (await call("GET", "runs")).body
    assert len(every["runs"]) == 6
    assert every["next_page"] is None
    assert not any("outputs" in run for run in every["runs"])
    here = (await call("GET", "runs", params={"notebook": PATH})).body["runs"]
    assert [run["cell_id"] for run in here] == ["f6", "e5", "d4", "c3", "b2"]
    assert (await call("GET", "runs", params={"state": "active"})).body["runs"] == []
    for _ in range(10):
        await call("POST", *RUN)
    pages = [(await call("GET", "runs", params={"page": str(page)})).body for page in (1, 2)]
    assert [(len(page["runs"]), page["next_page"]) for page in pages] == [(50, 2), (6, None)]
    run_id = here[0]["run_id"]
    bare = (await call("GET", "runs", run_id, params={"outputs": "none"})).body
    assert "outputs" not in bare
    text = (await call("GET", "runs", run_id, params={"outputs": "text"})).body
    assert text["outputs"].strip() == "1 2"


@pytest.mark.full
async def test_turns_are_listed_and_stopped_by_their_id(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path
) -> None:
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "while True: pass"})
    replies.append([calls("run_cell", cell_id="b2", wait=60.0)])
    asking = asyncio.create_task(call("POST", "chat", body=ask("Run it.", stream=False)))
    await until(lambda: [run for run in agent.services.runs.of("local") if run.started])
    (turn,) = (await call("GET", "turns", params={"state": "running"})).body["turns"]
    assert (turn["conversation_id"], turn["notebook"]) == ("talk", PATH)
    assert not {"question", "changes", "request"} & turn.keys()
    stopped = await call("POST", "turns", turn["id"], "stop")
    assert stopped.body == {"turn_id": turn["id"], "state": "stopped"}
    assert (await asking).body["state"] == "stopped"
    (run,) = agent.services.runs.of("local")
    assert await run.wait(20)
    assert run.status == "interrupted"
    assert (await call("POST", "turns", turn["id"], "stop")).body["state"] == "stopped"
    assert (await call("POST", "turns", "t_0", "stop")).status == 404
    assert (await call("GET", "turns", params={"conversation": "other"})).body["turns"] == []
    assert (await call("GET", "turns", params={"state": "odd"})).status == 400


@pytest.mark.full
async def test_changes_of_a_turn_can_be_read_without_outputs(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [
        [calls("run_cell", cell_id="b2"), calls("run_cell", cell_id="c3")],
        [{"type": "text", "text": "Done."}],
    ]
    turn = (await call("POST", "chat", body=ask("Run.", stream=False))).body["turn_id"]
    for path in ((turn,), (turn, "changes")):
        whole, bare = [
            (await call("GET", "turns", *path, params={"outputs": which})).body
            for which in ("full", "none")
        ]
        if isinstance(whole, dict):
            whole, bare = whole["changes"], bare["changes"]
        assert whole[1]["after"]["outputs"]
        assert [change["after"]["outputs"] for change in bare] == [[], []]


async def test_the_live_notebook_as_a_file(call: Call, six: Path) -> None:
    await call("POST", *RUN)
    answer = await call("GET", "notebooks", PATH, params={"format": "ipynb"})
    assert answer.headers["Content-Type"] == "application/x-ipynb+json"
    assert answer.headers["Content-Disposition"].endswith("utf-8''first%20look.ipynb")
    assert nbformat.reads(answer.text, as_version=4) == nbformat.read(six, as_version=4)


async def test_a_notebook_is_made_of_given_cells_once(call: Call, jp_root_dir: Path) -> None:
    cells = [
        {"source": "# Title", "type": "markdown"},
        {"source": "1", "metadata": {"tags": ["a"], "trusted": True}, "outputs": [], "id": "x"},
    ]
    made = await call("POST", "notebooks", "made.ipynb", body={"cells": cells})
    assert made.status == 201
    content = nbformat.read(jp_root_dir / "made.ipynb", as_version=4)
    nbformat.validate(content)
    assert [(cell.cell_type, cell.source) for cell in content.cells] == [
        ("markdown", "# Title"),
        ("code", "1"),
    ]
    assert content.cells[1].metadata == {"tags": ["a"]}
    assert content.cells[1].id == "x"
    assert (await call("POST", "notebooks", "made.ipynb")).status == 409
    for cell in ({}, {"source": 1}, {"source": "", "type": "heading"}, {"source": "", "id": "a b"}):
        refused = await call("POST", "notebooks", "odd.ipynb", body={"cells": [cell]})
        assert (refused.status, refused.body["reason"]) == (400, "invalid_body"), refused.text
    twice = {"cells": [{"source": "1", "id": "x"}, {"source": "2", "id": "x"}]}
    refused = await call("POST", "notebooks", "odd.ipynb", body=twice)
    assert "give each its own" in refused.body["message"]
    assert not (jp_root_dir / "odd.ipynb").exists()


@pytest.mark.parametrize("folder", ["cells", "recovery", "kernel", "v1.2/cells", "run/kernel"])
async def test_a_notebook_is_reached_in_a_folder_of_any_name(
    call: Call, jp_root_dir: Path, folder: str
) -> None:
    place = jp_root_dir / "top" / folder
    place.mkdir(parents=True)
    route = ("notebooks", f"top/{folder}/counts.ipynb")
    made = await call("POST", *route, body={"cells": [{"source": "x = 1", "id": "a"}]})
    assert (made.status, (place / "counts.ipynb").exists()) == (201, True)
    assert (await call("GET", *route)).body["path"] == route[1]
    edit = {"old_string": "1", "new_string": "2"}
    edited = await call("PATCH", *route, "cells", "a", body=edit)
    assert edited.body["source"] == "x = 2"
    (copy,) = (await call("GET", *route, "recovery")).body["copies"]
    before = await call("GET", *route, "recovery", str(copy["id"]))
    assert before.body["cells"][0]["source"] == "x = 1"


async def test_a_run_goes_on_past_an_error_that_is_expected(call: Call, notebook: Path) -> None:
    content = nbformat.read(notebook, as_version=4)
    tagged, last = nbformat.v4.new_code_cell("1/0", id="t"), nbformat.v4.new_code_cell("2", id="z")
    tagged.metadata.tags = ["raises-exception"]
    content.cells = [tagged, last]
    nbformat.write(content, notebook)
    answer = (await call("POST", *RUN, body={})).body["cells"]
    assert [(run["cell_id"], run["status"]) for run in answer] == [("t", "error"), ("z", "ok")]
    assert answer[0]["expected_error"]
    assert "expected: the cell is tagged `raises-exception`" in answer[0]["note"]
    body = {"notebook": PATH, "mode": "auto", "input": {}}
    text = (await call("POST", "tools", "run_cells", body=body)).body["text"]
    assert "Cell `z`" in text
    tagged.source = "import os; os._exit(1)"  # not an error of the code
    nbformat.write(content, notebook)
    for stops in (True, False):
        answer = (await call("POST", *RUN, body={"stop_on_error": stops})).body["cells"]
        assert [run["cell_id"] for run in answer] == ["t"]


async def test_no_cell_runs_after_one_that_was_deleted_and_whose_kernel_died(
    call: Call, notebook: Path, agent: Assistant, tmp_path: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    gate = Gate(tmp_path / "gate")
    dies = f"{gate.waits}\nimport os; os._exit(1)"
    content.cells = [
        nbformat.v4.new_code_cell(dies, id="t"),
        nbformat.v4.new_code_cell("2", id="z"),
    ]
    nbformat.write(content, notebook)
    answer = asyncio.create_task(call("POST", *RUN, body={"stop_on_error": False}))
    await until(lambda: [run for run in agent.services.runs.of("local") if run.started])
    assert (await call("DELETE", "notebooks", PATH, "cells", "t")).status == 204
    gate.open()
    ran = (await answer).body["cells"]
    assert [(run["cell_id"], run["status"]) for run in ran] == [("t", "deleted")]


async def test_after_a_restart_a_cell_is_stale_by_the_new_kernels_runs(
    call: Call, six: Path
) -> None:
    """Each run from the top gives every cell the count that it had before."""

    async def stale() -> list[str]:
        cells = (await call("GET", "notebooks", PATH)).body["cells"]
        return [cell["id"] for cell in cells if cell["stale"]]

    await ran(call, {"cells": ["b2", "d4", "e5"]})
    edit = {"old_string": "y", "new_string": "y * 2"}
    await call("PATCH", "notebooks", PATH, "cells", "e5", body=edit)
    assert await stale() == ["e5"]
    await call("POST", *KERNEL, body={"action": "restart"})
    await ran(call, {"cells": ["b2", "d4", "e5"]})
    assert await stale() == []


@pytest.mark.full
async def test_what_happens_to_a_notebook_is_told_as_it_happens(
    call: Call, notebook: Path, jp_http_port: int, jp_base_url: str, jp_auth_header: dict[str, str]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", jp_http_port)
    address = f"{jp_base_url}api/agent/notebooks/sales,%20Q3/first%20look.ipynb/events"
    head = f"GET {address} HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
    writer.write(f"{head}{jp_auth_header['Authorization']}\r\n\r\n".encode())

    async def next_event(*kinds: str) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while True:
                line = (await reader.readline()).decode()
                if line.startswith("data: {"):
                    event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                    if event["type"] in kinds:
                        return event

    first = await next_event("notebook")
    assert ([cell["id"] for cell in first["cells"]], first["carrier"]) == (
        ["a1", "b2", "c3"],
        "file",
    )
    edited = await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 3"})
    told = await next_event("cells")
    assert told["changed"] == [{"id": "b2", "version": edited.body["version"]}]
    await call("POST", "notebooks", PATH, "cells", "b2", "move", body={"before": "a1"})
    assert (await next_event("cells"))["order"] == ["b2", "a1", "c3"]
    await call("DELETE", "notebooks", PATH, "cells", "a1")
    assert (await next_event("cells"))["deleted"] == ["a1"]
    assert (await next_event("saved"))["path"] == PATH
    await call("POST", *RUN)
    left = {"run", "outputs"}
    while left:  # in whichever order they are seen
        event = await next_event("run", "cells")
        if event["type"] == "run":
            assert "outputs" not in event
            left.discard("run")
        elif "c3" in event.get("outputs", ()):
            left.discard("outputs")
    notebook.unlink()
    await next_event("gone")
    writer.close()
    missing = await call("GET", "notebooks", "missing.ipynb", "events")
    assert missing.status == 404


COUNTS = "n = globals().get('n', 0) + 1\nn"
"""Code that shows how often it ran."""
NIGHTLY = {"by": "Nightly"}


async def cell_of(call: Call, cell_id: str) -> tuple[Any, Any]:
    """A cell's outputs and execution count."""
    cell = (await call("GET", "notebooks", PATH, "cells", cell_id)).body
    return cell["outputs"], cell["execution_count"]


@pytest.mark.parametrize(
    ("route", "body", "tool"),
    [
        (("cells", "b2", "run"), {}, "run_cell"),
        (("cells", "b2", "run"), {"stream": True}, "run_cell"),
        (("run",), {"cells": ["b2"]}, "run_cells"),
        (("run",), {"until": "b2", "stream": True}, "run_cells"),
    ],
    ids=["a cell", "a cell as a stream", "cells", "cells as a stream"],
)
async def test_what_a_script_ran_is_a_turn_and_is_taken_back_in_one_call(
    call: Call, notebook: Path, route: tuple[str, ...], body: dict[str, Any], tool: str
) -> None:
    cell = ("notebooks", PATH, "cells", "b2")
    await call("PATCH", *cell, body={"source": COUNTS})
    nobody = await call("POST", *cell, "run")
    assert "turn_id" not in nobody.body
    before = await cell_of(call, "b2")
    answer = await call("POST", "notebooks", PATH, *route, body=body, params=NIGHTLY)
    assert answer.status == 200, answer.text
    told = answer.body or frames(answer.text)[0]
    after = await cell_of(call, "b2")
    assert (after[0][0]["data"]["text/plain"], after[1]) == ("2", 2)
    turn = (await call("GET", "turns", told["turn_id"])).body
    assert turn["client"] == "Nightly"
    (made,) = turn["calls"]
    assert (made["tool"], made["state"]) == (tool, "done")
    (entry,) = turn["audit"]
    assert (entry["tool"], entry["notebook"], entry["outcome"]) == (tool, PATH, "done")
    (change,) = turn["changes"]
    assert (change["cell_id"], change["kind"], change["call_id"]) == (
        "b2",
        "outputs",
        made["call_id"],
    )
    talk = (await call("GET", "conversations", turn["conversation_id"])).text
    assert "Cell `b2` [2]: ok" in talk
    undone = await call("POST", "turns", told["turn_id"], "undo")
    assert undone.body["conflicts"] == []
    assert await cell_of(call, "b2") == before


async def test_edits_and_runs_of_a_script_are_one_turn_with_what_code_in_no_cell_showed(
    call: Call, notebook: Path
) -> None:
    before = notebook.read_bytes()
    edit = {"source": "x = 5"}
    cell = ("notebooks", PATH, "cells", "b2")
    edited = (await call("PATCH", *cell, body=edit, params=NIGHTLY)).body
    every = (await call("POST", *RUN, params=NIGHTLY)).body
    code = (await call("POST", *KERNEL, "code", body={"code": "x * 2"}, params=NIGHTLY)).body
    assert {edited["turn_id"], every["turn_id"], code["turn_id"]} == {edited["turn_id"]}
    assert {run["turn_id"] for run in every["cells"]} == {edited["turn_id"]}
    turn = (await call("GET", "turns", edited["turn_id"])).body
    assert [made["tool"] for made in turn["calls"]] == ["update_cell", "run_cells", "run_code"]
    assert turn["calls"][2]["input"] == {"code": "x * 2"}
    blamed = (await call("GET", "notebooks", PATH, "blame")).body["cells"]
    assert [each["model"] for each in blamed] == [None, "Nightly", None]
    talk = (await call("GET", "conversations", turn["conversation_id"])).text
    assert "The code: ok" in talk
    params = {**NIGHTLY, "new_turn": "true"}
    again = await call("POST", *RUN, body={"cells": ["c3"]}, params=params)
    assert again.body["turn_id"] != edited["turn_id"]
    for turn_id in (again.body["turn_id"], edited["turn_id"]):
        assert (await call("POST", "turns", turn_id, "undo")).body["conflicts"] == []
    cells = nbformat.read(notebook, as_version=4).cells
    assert cells == nbformat.reads(before.decode(), as_version=4).cells


class NoTurns(Authorizer):
    """Denies nothing but writing into conversations."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return (action, resource) != ("write", "agent")


async def test_a_run_with_a_name_needs_what_an_edit_with_a_name_does(
    call: Call, notebook: Path, jp_serverapp: Any
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = NoTurns(parent=jp_serverapp)
    cell = ("notebooks", PATH, "cells", "b2")
    for method, route, body in (
        ("PATCH", cell, {"source": "x = 2"}),
        ("POST", (*cell, "run"), {}),
        ("POST", RUN, {"stream": True}),
        ("POST", (*KERNEL, "code"), {"code": "1"}),
    ):
        refused = await call(method, *route, body=body, params=NIGHTLY)
        assert (refused.status, refused.body["reason"]) == (403, "denied"), route
        assert (await call(method, *route, body=body)).status == 200, route


async def test_a_run_that_outlives_its_answer_is_in_the_journal_at_its_end(
    call: Call, notebook: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    cell = ("notebooks", PATH, "cells", "b2")
    await call("PATCH", *cell, body={"source": f"{gate.waits}\nprint('over')\n1/0"})
    late = await call("POST", *cell, "run", body={"wait": 0}, params=NIGHTLY)
    assert late.status == 202
    turn_id = late.body["turn_id"]
    early = await call("POST", "turns", turn_id, "undo")
    assert (early.status, early.body["reason"]) == (409, "turn_running")
    params = {**NIGHTLY, "new_turn": "true"}
    assert (await call("POST", *RUN, params=params)).body["reason"] == "busy"
    gate.open()
    assert (await ended(call, late.body["run_id"]))["status"] == "error"
    turn = await answered(
        lambda: call("GET", "turns", turn_id), lambda turn: turn["calls"][0]["state"] != "started"
    )
    (change,) = turn["changes"]
    assert change["after"]["outputs"][0]["text"] == "over\n"
    talk = (await call("GET", "conversations", turn["conversation_id"])).text
    assert "Cell `b2` [1]: error" in talk
    undone = await call("POST", "turns", turn_id, "undo")
    assert (undone.status, undone.body["conflicts"]) == (200, [])
    assert await cell_of(call, "b2") == ([], None)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_stop_of_a_scripts_turn_ends_its_run_and_those_to_come(
    call: Call, agent: Assistant, notebook: Path, stream: bool
) -> None:
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": FOREVER})
    body = {"stop_on_error": False, "stream": stream}
    running = asyncio.ensure_future(call("POST", *RUN, body=body, params=NIGHTLY))
    await until(lambda: [run for run in agent.services.runs.of("local") if run.started])
    (turn,) = (await call("GET", "turns", params={"state": "running"})).body["turns"]
    assert (await call("POST", "turns", turn["id"], "stop")).body["state"] == "stopped"
    undone = await call("POST", "turns", turn["id"], "undo")
    (change,) = undone.body["undone"]
    assert (change["kind"], undone.body["conflicts"]) == ("outputs", [])
    answer = await running
    told = frames(answer.text) if stream else answer.body["cells"]
    statuses = [each["status"] for each in told if each.get("type", "end") == "end"]
    assert statuses == ["interrupted"]
    assert await cell_of(call, "b2") == ([], None)


@pytest.mark.parametrize("how", ["stop", "end of the server"])
async def test_a_scripts_turn_of_which_nothing_runs_is_done_however_it_ends(
    call: Call, agent: Assistant, notebook: Path, how: str
) -> None:
    cell = ("notebooks", PATH, "cells", "b2")
    made = (await call("PATCH", *cell, body={"source": "x = 2"}, params=NIGHTLY)).body
    if how == "stop":
        await call("POST", "turns", made["turn_id"], "stop")
    else:
        await agent.runner.close()
    (talk,) = (await call("GET", "conversations")).body["conversations"]
    turn = (await call("GET", "turns", made["turn_id"])).body
    assert (talk["state"], turn["state"], turn["stop_reason"]) == ("done", "done", "end_turn")
    again = (await call("PATCH", *cell, body={"source": "x = 3"}, params=NIGHTLY)).body
    assert again["turn_id"] != made["turn_id"]


async def test_a_turn_whose_run_ignores_its_interrupt_is_undone_only_after_its_end(
    call: Call,
    agent: Assistant,
    notebook: Path,
    tmp_path: Path,
    replies: list[FakeReply],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.runs._STOP_S", 0.1)
    gate = Gate(tmp_path / "gate")
    ignores = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('no'))"
    source = f"{ignores}\nprint('on', flush=True)\n{gate.waits}"
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": source})
    replies += [[calls("run_cell", cell_id="b2")]]
    asked = asyncio.create_task(call("POST", "chat", body={**ask("Run it."), "stream": False}))
    (run,) = await until(
        lambda: [run for run in agent.services.runs.of("local") if "on" in str(run.outputs())]
    )
    stopped = (await call("POST", "turns", run.turn_id, "stop")).body
    assert stopped["state"] == "stopped"
    await asked
    early = await call("POST", "turns", run.turn_id, "undo")
    assert (early.status, early.body["reason"], early.body["run_id"]) == (409, "busy", run.id)
    assert "b2" in early.body["message"]
    replaces = {**ask("Again."), "trigger": "regenerate-message", "undo": True, "stream": False}
    assert (await call("POST", "chat", body=replaces)).body["reason"] == "busy"
    gate.open()
    await ended(call, run.id)
    undone = (await call("POST", "turns", run.turn_id, "undo")).body
    assert [change["kind"] for change in undone["undone"]] == ["outputs"]
    assert await cell_of(call, "b2") == ([], None)


async def test_a_cell_that_could_not_be_run_is_told_in_the_turn(call: Call, notebook: Path) -> None:
    for stream in (False, True):
        body = {"cells": ["b2", "a1"], "stream": stream}
        params = {**NIGHTLY, "new_turn": "true"}
        await call("POST", *RUN, body=body, params=params)
        newest = (await call("GET", "turns")).body["turns"][0]
        turn = (await call("GET", "turns", newest["id"])).body
        (entry,) = turn["audit"]
        assert entry["outcome"] == "failed"
        assert "is a markdown cell" in entry["why"]
        assert [change["cell_id"] for change in turn["changes"]] == ["b2"]


async def kernels(jp_fetch: Any) -> list[str]:
    """Ids of all kernels of the server."""
    found = json.loads((await jp_fetch("api", "kernels")).body)
    return [kernel["id"] for kernel in found]


ONCE = {"keep_kernel": False}


@pytest.mark.parametrize(
    "params",
    [pytest.param({}, id="by nobody", marks=pytest.mark.full), pytest.param(NIGHTLY, id="by name")],
)
async def test_a_batch_over_notebooks_leaves_no_kernel(
    call: Call, jp_root_dir: Path, jp_fetch: Any, params: dict[str, str]
) -> None:
    for number, (route, body) in enumerate(
        (
            (("run",), {}),
            (("run",), {"stream": True}),
            (("cells", "a", "run"), {}),
            (("cells", "a", "run"), {"stream": True, "save": False}),
            (("cells", "b", "run"), {"save": False}),
            (("kernel", "code"), {"code": "1"}),
            (("run",), {"cells": ["a", "m"]}),
        )
    ):
        path = f"batch{number}.ipynb"
        cells = [
            {"id": "a", "source": "print('a')"},
            {"id": "b", "source": "1/0"},
            {"id": "m", "source": "# Title", "type": "markdown"},
        ]
        await call("POST", "notebooks", path, body={"cells": cells})
        answer = await call("POST", "notebooks", path, *route, body={**body, **ONCE}, params=params)
        assert answer.status == (400 if "m" in body.get("cells", []) else 200), answer.text
        assert await kernels(jp_fetch) == []
        shown = nbformat.read(jp_root_dir / path, as_version=4).cells
        assert [len(cell.outputs) for cell in shown[:2]] == [
            int(route[0] == "run" or "a" in route),
            int(route == ("run",) and "cells" not in body or "b" in route),
        ]


async def test_a_kernel_ends_with_the_run_that_outlives_its_answer(
    call: Call, notebook: Path, tmp_path: Path, jp_fetch: Any
) -> None:
    gate = Gate(tmp_path / "gate")
    cell = ("notebooks", PATH, "cells", "b2")
    await call("PATCH", *cell, body={"source": f"{gate.waits}\nprint('over')"})
    late = await call("POST", *cell, "run", body={"wait": 0, **ONCE})
    assert late.status == 202
    assert len(await kernels(jp_fetch)) == 1
    gate.open()
    await answered(
        lambda: call("GET", "notebooks", PATH), lambda notebook: notebook["kernel"] is None
    )
    assert await kernels(jp_fetch) == []
    assert nbformat.read(notebook, as_version=4).cells[1].outputs[0].text == "over\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("who", ["ran before", "another run", "a look", "a page", "a tab"])
async def test_a_kernel_stays_that_somebody_else_uses(
    call: Call,
    agent: Assistant,
    notebook: Path,
    tmp_path: Path,
    jp_fetch: Any,
    jp_ws_fetch: Any,
    who: str,
) -> None:
    if who == "ran before":
        await call("POST", *KERNEL, body={"action": "start"})
    if who == "a tab":
        await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    gate = Gate(tmp_path / "gate")
    cell = ("notebooks", PATH, "cells", "b2")
    await call("PATCH", *cell, body={"source": gate.waits})
    late = await call("POST", *cell, "run", body={"wait": 0, **ONCE}, params=NIGHTLY)
    (kernel_id,) = await kernels(jp_fetch)
    page = None
    if who == "another run":
        body = {"code": "1", "wait": 0, **ONCE}
        other = await call("POST", *KERNEL, "code", body=body, params=NIGHTLY)
        assert other.body["status"] == "queued"
    elif who == "a look":
        assert (await call("GET", *KERNEL, "variables")).status == 409
    elif who == "a page":
        agent.server.kernel_manager.kernel_info_timeout = 1.0  # a busy kernel reports nothing
        page = await jp_ws_fetch("api", "kernels", kernel_id, "channels")
    gate.open()
    await ended(call, late.body["run_id"])
    turn = late.body["turn_id"]
    await answered(
        lambda: call("GET", "turns", turn),
        lambda turn: {made["state"] for made in turn["calls"]} == {"done"},
    )
    await until(lambda: not agent.requests.count)  # nothing is left of the calls
    assert await kernels(jp_fetch) == [kernel_id]
    if page is not None:
        page.close()
        while await page.read_message() is not None:
            pass


async def test_whoever_runs_something_while_a_kernel_ends_has_another(
    call: Call,
    agent: Assistant,
    notebook: Path,
    jp_serverapp: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions = jp_serverapp.session_manager
    ending, both = asyncio.Event(), asyncio.Event()
    delete = sessions.delete_session

    async def slowly(session_id: str) -> None:
        ending.set()
        await soon(both)
        await delete(session_id)

    monkeypatch.setattr(sessions, "delete_session", slowly)
    body = {"code": "import os; os.getpid()"}
    first = asyncio.ensure_future(call("POST", *KERNEL, "code", body={**body, **ONCE}))
    await soon(ending)
    other = asyncio.ensure_future(call("POST", *KERNEL, "code", body=body))
    await until(lambda: agent.requests.count == 2)
    both.set()
    answers = [(await first).body, (await other).body]
    assert [answer["status"] for answer in answers] == ["ok", "ok"]
    one, two = (answer["outputs"][0]["data"]["text/plain"] for answer in answers)
    assert one != two
