"""A notebook is verified over REST and in a turn: with approval, and stopped if no one waits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.auth import Authorizer

from jupyter_agent.assistant import Assistant
from tests.fakes import calls
from tests.fakes.script import FakeReply

from ..gates import FOREVER
from ..programs import jupyter_agent, jupyter_server
from ..waiting import until
from .conftest import PATH, Call, ask

pytestmark = pytest.mark.plugs

BEGINS = f"import pathlib\npathlib.Path('begun').touch()\n{FOREVER}"


def kernels(agent: Assistant) -> list[str]:
    assert agent.server is not None
    return list(agent.server.kernel_manager.list_kernel_ids())


def rewrite(notebook: Path, source: str) -> None:
    """Replaces the first code cell's text."""
    content = nbformat.read(notebook, as_version=4)
    content.cells[1].source = source
    nbformat.write(content, notebook)


async def begun(notebook: Path) -> None:
    """Waits until the code of BEGINS runs."""
    await until((notebook.parent / "begun").exists)


async def all_ended(agent: Assistant) -> None:
    await until(lambda: not kernels(agent))


@pytest.mark.full
async def test_the_route_reports_cell_by_cell_takes_parameters_or_writes_fresh_outputs(
    call: Call, agent: Assistant, notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells[2].execution_count = 5
    nbformat.write(content, notebook)
    before = notebook.read_bytes()
    route = ("notebooks", PATH, "verify")
    answer = await call("POST", *route)
    assert answer.status == 200
    assert answer.body.pop("seconds") > 0
    assert answer.body.pop("at").endswith("Z")
    assert (answer.body.pop("kernel"), answer.body.pop("packages")) == ("python3", {})
    assert len(answer.body.pop("hash")) == 64
    never = "It runs; it was never run before, so there is nothing to compare."
    new = "stdout: continues with `x is 1`"
    assert answer.body == {
        "ok": False,
        "runs": 2,
        "cells": [
            {"cell_id": "b2", "status": "same", "why": never},
            {"cell_id": "c3", "status": "differs", "why": new},
        ],
    }
    both = await call("POST", *route, body={"update": True, "parameters": {"x": 1}})
    assert (both.status, both.body["reason"]) == (400, "invalid_input")
    assert (await call("POST", *route, body={"parameters": {"y": 1}})).status == 200
    assert notebook.read_bytes() == before
    answer = await call("POST", *route, body={"update": True})
    assert (answer.body["updated"], answer.body["saved"]) == (True, True)
    cells = nbformat.read(notebook, as_version=4).cells
    assert [cell.get("execution_count") for cell in cells[1:3]] == [1, 2]
    assert cells[2].outputs[0].text == "x is 1\n"
    assert kernels(agent) == []


async def verified(call: Call) -> Any:
    return (await call("GET", "notebooks", PATH)).body["verified"]


async def test_a_notebook_says_that_it_was_verified_until_its_code_changes(
    call: Call, agent: Assistant, notebook: Path
) -> None:
    assert await verified(call) is None
    nothing = await call("PUT", "notebooks", PATH, "verified")
    assert (nothing.status, nothing.body["reason"]) == (400, "invalid_input")
    before = notebook.read_bytes()
    done = (await call("POST", "notebooks", PATH, "verify")).body
    known = await verified(call)
    assert known == {
        **{key: done[key] for key in ("ok", "at", "kernel", "packages", "hash")},
        **{"cells": 2, "same": 2, "outdated": False, "recorded": False, "here": True},
    }
    assert notebook.read_bytes() == before, "nobody asked for a record"
    assert (await call("PUT", "notebooks", PATH, "verified")).body == {
        "recorded": True,
        "saved": True,
    }
    written = json.loads(notebook.read_text())["metadata"]["jupyter_agent"]["verified"]
    assert (written["hash"], written["at"], written["same"]) == (done["hash"], done["at"], 2)
    assert (await verified(call))["recorded"] is True
    await call("PATCH", "notebooks", PATH, "cells", "a1", body={"source": "# Other words"})
    assert (await verified(call))["outdated"] is False
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 2"})
    assert (await verified(call))["outdated"] is True
    late = await call("PUT", "notebooks", PATH, "verified")
    assert (late.status, late.body["reason"]) == (409, "changed")
    assert (await call("DELETE", "notebooks", PATH, "verified")).status == 204
    assert await verified(call) is None
    assert "verified" not in notebook.read_text()


async def test_a_record_goes_where_a_verification_finds_something_else(
    call: Call, agent: Assistant, notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.metadata["jupyter_agent"] = {"share": "all"}
    nbformat.write(content, notebook)
    done = await call("POST", "notebooks", PATH, "verify", body={"record": True})
    assert (done.body["ok"], done.body["recorded"], done.body["saved"]) == (True, True, True)
    content = nbformat.read(notebook, as_version=4)
    assert content.metadata["jupyter_agent"]["verified"]["kernel"] == "python3"
    content.cells[2].execution_count = 5  # shows nothing, as it is stored
    nbformat.write(content, notebook)
    done = await call("POST", "notebooks", PATH, "verify", body={"record": True})
    assert (done.body["ok"], done.body["recorded"]) == (False, False)
    assert nbformat.read(notebook, as_version=4).metadata["jupyter_agent"] == {"share": "all"}
    known = await verified(call)
    assert (known["ok"], known["same"], known["recorded"]) == (False, 1, False)


async def test_what_a_notebook_claims_of_itself_is_told_from_what_was_done_here(
    call: Call, agent: Assistant, notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    claim = {"ok": True, "at": "2099-01-01T00:00:00Z", "kernel": "python3", "packages": {}}
    claim |= {"hash": "0" * 64, "cells": 2, "same": 2}
    content.metadata["jupyter_agent"] = {"verified": claim}
    nbformat.write(content, notebook)
    known = await verified(call)
    assert (known["here"], known["recorded"], known["outdated"]) == (False, True, True)
    await call("POST", "notebooks", PATH, "verify")
    assert (await verified(call))["here"] is True
    content.metadata["jupyter_agent"] = {"verified": {**claim, "hash": 7}}
    nbformat.write(content, notebook)
    agent.services.verified.forget(PATH)
    assert await verified(call) is None


async def test_a_client_that_goes_away_stops_it(
    call: Call,
    agent: Assistant,
    notebook: Path,
    jp_http_port: int,
    jp_base_url: str,
    jp_auth_header: dict[str, str],
) -> None:
    rewrite(notebook, BEGINS)
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
    """Denies nothing but starting kernels."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return (action, resource) != ("write", "kernels")


async def test_it_needs_leave_to_start_a_kernel(
    call: Call, agent: Assistant, notebook: Path, jp_serverapp: Any
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = Reader(parent=jp_serverapp)
    by_route = (await call("POST", "notebooks", PATH, "verify")).body
    body = {"notebook": PATH, "mode": "auto"}
    by_tool = (await call("POST", "tools", "verify_notebook", body=body)).body
    assert (by_route["reason"], by_tool["reason"]) == ("denied", "denied")
    assert "write kernels" in by_route["message"]
    assert "write kernels" in by_tool["text"]
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


def new_notebook(file: Path, *sources: str) -> None:
    """A notebook that was not run yet."""
    cells = [nbformat.v4.new_code_cell(source, id=f"c{n}") for n, source in enumerate(sources)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), file)


@pytest.mark.full
def test_the_command_verifies_without_a_server_and_updates(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "new one.ipynb"
    new_notebook(file, "x = 6", "print(x * 7)")
    before = file.read_bytes()
    done = jupyter_agent(tmp_path, "verify", "work/new one.ipynb")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Verified work/new one.ipynb ")
    assert "2 of 2 cells, same results (python3" in done.stdout
    assert file.read_bytes() == before
    assert not (tmp_path / ".data" / "agent").exists()  # its store was removed
    done = jupyter_agent(tmp_path, "verify", "work/new one.ipynb", "--update", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["ok"], answer["updated"], answer["saved"]) == (True, True, True)
    assert nbformat.read(file, as_version=4).cells[1].outputs[0].text == "42\n"
    assert (tmp_path / ".data" / "agent").exists()  # a copy of the overwritten notebook
    content = nbformat.read(file, as_version=4)
    content.cells[0].source = "x = 7"
    nbformat.write(content, file)
    done = jupyter_agent(tmp_path, "verify", "work/new one.ipynb")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("Checked work/new one.ipynb ")
    assert ": 1 of 2 cells gave the same results (python3" in done.stdout
    assert done.stdout.splitlines()[1].startswith("  c1  differs: ")
    done = jupyter_agent(tmp_path, "verify", "work/new one.ipynb", "--update")
    assert done.returncode == 0
    assert "The new outputs were written" in done.stdout


@pytest.mark.full
def test_the_command_asks_the_server_that_runs(tmp_path: Path) -> None:
    new_notebook(tmp_path / "a.ipynb", "1 / 0")
    new_notebook(tmp_path / "b.ipynb", "1 / 1")
    with jupyter_server(tmp_path) as server:
        failed = jupyter_agent(tmp_path, "verify", "a.ipynb", "--json")
        assert (failed.returncode, failed.stderr) == (1, "")
        assert json.loads(failed.stdout)["cells"][0]["status"] == "error"
        known = server.request("GET", "notebooks/a.ipynb")["verified"]
        assert (known["ok"], known["here"]) == (False, True)
        refused = jupyter_agent(tmp_path, "verify", "a.ipynb", "--update")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert (
            refused.stderr
            == "A cell failed, so no outputs were written. Fix it and verify again.\n"
        )
        recorded = jupyter_agent(tmp_path, "verify", "b.ipynb", "--record")
        assert recorded.returncode == 0
        assert server.request("GET", "notebooks/b.ipynb")["verified"]["recorded"] is True


@pytest.mark.full
def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    missing = jupyter_agent(tmp_path, "verify", "nothing.ipynb", "--json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "There is no notebook at" in missing.stderr
    (tmp_path / "odd.ipynb").write_text("{", encoding="utf-8")
    new_notebook(tmp_path / "far.ipynb", "1")
    content = nbformat.read(tmp_path / "far.ipynb", as_version=4)
    content.metadata["kernelspec"] = {"name": "nowhere", "display_name": "Nowhere"}
    nbformat.write(content, tmp_path / "far.ipynb")
    wrong = jupyter_agent(tmp_path, "verify", "odd.ipynb", "far.ipynb")
    assert (wrong.returncode, wrong.stdout) == (2, "0 of 2 notebooks verified.\n")
    odd, far = wrong.stderr.splitlines()
    assert "`odd.ipynb` cannot be edited: it is not valid JSON" in odd
    assert "far.ipynb: No kernel `nowhere`: it is not installed. Installed: " in far
    chosen = jupyter_agent(tmp_path, "verify", "far.ipynb", "--kernel", "python3")
    assert (chosen.returncode, "(python3, " in chosen.stdout) == (0, True)


@pytest.mark.full
def test_several_notebooks_share_a_server_and_one_that_fails_holds_up_none(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("a", "work/b"):
        new_notebook(
            tmp_path / f"{name}.ipynb",
            f"import os\nopen({str(tmp_path / 'servers')!r}, 'a')"
            ".write(os.environ['JPY_PARENT_PID'] + '\\n')",
        )
    new_notebook(tmp_path / "broken.ipynb", "1 / 0")
    names = ("a.ipynb", "broken.ipynb", "nothing.ipynb", "work/b.ipynb")
    done = jupyter_agent(tmp_path, "verify", *names, "--json")
    assert done.returncode == 2
    assert done.stderr.startswith("nothing.ipynb: There is no notebook at ")
    answers = json.loads(done.stdout)
    assert [answer["notebook"] for answer in answers] == list(names)
    assert [answer["ok"] for answer in answers] == [True, False, False, True]
    assert answers[1]["cells"][0]["status"] == "error"
    assert (answers[2]["reason"], "cells" in answers[2]) == ("not_found", False)
    servers = (tmp_path / "servers").read_text().split()
    assert (len(servers), len(set(servers))) == (2, 1)
    told = jupyter_agent(tmp_path, "verify", "a.ipynb", "broken.ipynb")
    assert (told.returncode, told.stderr) == (1, "")
    first, failed, cell, summary = told.stdout.splitlines()
    assert first.startswith("Verified a.ipynb ")
    assert failed.startswith("Checked broken.ipynb ")
    assert cell.startswith("  c0  error: ZeroDivisionError")
    assert summary == "1 of 2 notebooks verified."
