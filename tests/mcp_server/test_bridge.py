"""`jupyter agent mcp`: an agent that starts a program works on the running server's notebooks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.gates import FOREVER
from tests.programs import Server, environment, jupyter_agent, jupyter_server

from .conftest import ALLOWED, FORMS, NEW, OLD, envelope, message, sources, text

EDITS = [{"cell_id": "b2", "old_string": "1", "new_string": "2"}]
EDIT = {"notebook": "sales.ipynb", "edits": EDITS}
CODEX = {"_meta": envelope("Codex", {})}


class Program:
    """The bridge, and an agent's messages to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, sent: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(sent) + "\n")
        self._process.stdin.flush()

    def next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def ask(self, method: str, params: Mapping[str, Any] = {}, id: Any = 1) -> dict[str, Any]:
        self.send(message(method, params, id))
        return self.next()


@contextmanager
def program(folder: Path, *arguments: str) -> Iterator[Program]:
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_agent.cli.main", "mcp", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        env=environment(folder),
        text=True,
    ) as process:
        try:
            yield Program(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bridge")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with jupyter_server(folder) as server:
        yield server


@pytest.fixture
def sales(folder: Path, server: Server) -> Path:
    """A notebook that the running server serves."""
    path = folder / "sales.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1", id="b2")]), path)
    return path


@pytest.mark.full
def test_a_client_of_the_newer_era_edits_with_an_answer_in_its_form(sales: Path) -> None:
    with program(sales.parent) as bridge:
        meta = {"_meta": envelope("Codex", FORMS)}
        found = bridge.ask("server/discover", meta)["result"]
        assert NEW in found["supportedVersions"]
        params = {"name": "edit_cells", "arguments": EDIT, **meta}
        asked = bridge.ask("tools/call", params, "a")["result"]
        assert asked["resultType"] == "input_required"
        answer = {"inputResponses": {"approval": ALLOWED}, "requestState": asked["requestState"]}
        done = bridge.ask("tools/call", {**params, **answer}, "b")
        assert (done["id"], done["result"]["isError"]) == ("b", False)
    assert sources(sales)["b2"] == "x = 2"


def test_a_client_of_the_earlier_era_is_asked_over_the_same_line(sales: Path) -> None:
    about = {"name": "Cursor", "version": "1"}
    asked = {"protocolVersion": OLD, "capabilities": FORMS, "clientInfo": about}
    with program(sales.parent) as bridge:
        begun = bridge.ask("initialize", asked)
        assert begun["result"]["protocolVersion"] == OLD
        bridge.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        question = bridge.ask("tools/call", {"name": "edit_cells", "arguments": EDIT}, 2)
        assert question["method"] == "elicitation/create"
        bridge.send({"jsonrpc": "2.0", "id": question["id"], "result": ALLOWED})
        done = bridge.next()
        assert (done["id"], done["result"]["isError"]) == (2, False)
    assert sources(sales)["b2"] == "x = 2"


def test_messages_from_a_pipe_are_answered(sales: Path) -> None:
    about = {
        "protocolVersion": OLD,
        "capabilities": {},
        "clientInfo": {"name": "sh", "version": ""},
    }
    sent = [
        message("initialize", about, 1),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        message("tools/list", {}, 2),
    ]
    lines = "".join(json.dumps(each) + "\n" for each in sent)
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_agent.cli.main", "mcp"],
        input=lines,
        capture_output=True,
        cwd=sales.parent,
        env=environment(sales.parent),
        text=True,
        timeout=60,
    )
    answers = {line["id"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert "edit_cells" in [tool["name"] for tool in answers[2]["result"]["tools"]]


def test_a_notebook_and_a_mode_are_those_of_the_command(sales: Path) -> None:
    with program(sales.parent, "--mode", "edit", "sales.ipynb") as bridge:
        params = {"name": "edit_cells", "arguments": {"edits": EDITS}, **CODEX}
        done = bridge.ask("tools/call", params)["result"]
        assert done["isError"] is False, text(done)
    assert sources(sales)["b2"] == "x = 2"


@pytest.mark.full
def test_two_programs_of_one_name_are_told_apart(sales: Path) -> None:
    read = {"name": "read_cells", "arguments": {"notebook": "sales.ipynb", "cell_ids": ["b2"]}}
    rewrite = {"notebook": "sales.ipynb", "edits": [{"cell_id": "b2", "source": "x = 5"}]}
    with program(sales.parent, "--mode", "edit") as one:
        one.ask("tools/call", {**read, **CODEX})
        with program(sales.parent, "--mode", "edit") as two:
            asked = {"name": "edit_cells", "arguments": rewrite, **CODEX}
            refused = two.ask("tools/call", asked)["result"]
            assert refused["structuredContent"]["reason"] == "not_read", text(refused)


@pytest.mark.full
def test_a_cancelled_request_is_given_up(sales: Path) -> None:
    code = f"print('on')\n{FOREVER}"
    slow = {"notebook": "sales.ipynb", "code": code}
    told = {"_meta": {**envelope("Codex", {}), "progressToken": "p"}}
    with program(sales.parent, "--mode", "auto") as bridge:
        begun = bridge.ask("tools/call", {"name": "run_code", "arguments": slow, **told}, 5)
        assert begun["method"] == "notifications/progress"
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        bridge.send(note)
        stop = {"name": "interrupt_kernel", "arguments": {"notebook": "sales.ipynb"}, **CODEX}
        bridge.send(message("tools/call", stop, 6))
        while (answer := bridge.next()).get("method"):
            pass
        assert answer["id"] == 6  # and nothing came for the cancelled one
        assert answer["result"]["isError"] is False


@pytest.mark.full
def test_a_server_that_is_gone_in_the_middle_of_an_answer_fails_the_request(tmp_path: Path) -> None:
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1", id="b2")]), tmp_path / "sales.ipynb")
    slow = {"notebook": "sales.ipynb", "code": f"print('on')\n{FOREVER}"}
    told = {"_meta": {**envelope("Codex", {}), "progressToken": "p"}}
    with jupyter_server(tmp_path) as server, program(tmp_path, "--mode", "auto") as bridge:
        begun = bridge.ask("tools/call", {"name": "run_code", "arguments": slow, **told}, 5)
        assert begun["method"] == "notifications/progress"
        server.process.kill()
        while (answer := bridge.next()).get("method"):
            pass
        assert answer["id"] == 5
        assert "connection to the Jupyter server was lost" in answer["error"]["message"]


@pytest.mark.parametrize("named", [[], ["sales.ipynb"]])
def test_without_a_server_the_answer_says_what_to_start(tmp_path: Path, named: list[str]) -> None:
    (tmp_path / "sales.ipynb").touch()
    with program(tmp_path, *named) as bridge:
        answer = bridge.ask("server/discover", CODEX)
        assert f"start `jupyter lab` in {tmp_path}." in answer["error"]["message"]
        assert bridge.ask("nonsense", {}, 2)["id"] == 2
        bridge.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


@pytest.mark.full
def test_the_command_explains_itself(tmp_path: Path) -> None:
    told = jupyter_agent(tmp_path, "mcp", "--help")
    assert told.returncode == 0
    assert "--mode" in told.stdout
