"""Tools and routes of another package, as docs/plugs.md describes them, in a real server; and a
server without any plug.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent import entry_points
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from ..plugs.packages import COUNT_WORDS, SENSORS, WORDS, installer
from .conftest import PATH, Call, ask, frames


@pytest.fixture
def of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install = installer(tmp_path / "packages", monkeypatch)
    install("lab_words_tool", COUNT_WORDS, "tools", count_words="CountWords")
    install("lab_words_route", WORDS, "routes", words="WordsHandler", recovery="WordsHandler")
    install("lab_odd_route", WORDS, "routes", **{"a/{b}": "WordsHandler"})


@pytest.fixture
def none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(entry_points.ONLY, "")


@pytest.mark.plugs
async def test_a_tool_and_a_route_of_another_package_are_like_ours(
    of_others: None, call: Call, notebook: Path, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[calls("count_words", cell_id="b2")], [says("Done.")]]
    done = (await call("POST", "chat", body=ask("How long?", stream=False))).body
    assert done["state"] == "done"
    (result,) = fake.requests[1]["messages"][-1]["content"]
    assert result["content"][0]["text"].endswith("words.")
    offered = {tool["name"]: tool["description"] for tool in fake.requests[0]["tools"]}
    assert "whenever you give the length" in offered["count_words"]
    words = await call("GET", "notebooks", PATH, "words")
    assert words.body["words"] > 0
    copies = await call("GET", "notebooks", PATH, "recovery")
    assert "copies" in copies.body  # our own names stay
    listed = (await call("GET", "openapi.json")).body["paths"]
    below = {path.partition("notebooks/{path}/")[2].partition("/")[0] for path in listed}
    ours = "blame cells changes clear edits events kernel recovery run save".split()
    assert below - {""} == {"words", "verify", "verified", *ours}


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    install = installer(tmp_path / "packages", monkeypatch)
    run = "async def run(self, nb, progress=None):\n"
    head, _, _ = COUNT_WORDS.partition(run)
    install("lab_failing", f"{head}{run}        {body}\n", "tools", count_words="CountWords")


@pytest.mark.plugs
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise KeyError('no list')", "KeyError('no list')"),
        ("raise SystemExit(2)", "SystemExit(2)"),
        ("return 'words'", "AttributeError("),
        ("return Result(text='words', facts={'words': {1}})", "TypeError("),
        ("return Result(text='words', images=['picture'])", "ValueError("),
        (
            "from jupyter_agent.errors import RequestError as E; raise E(404, 'x', 'y')",
            "RequestError(",
        ),
        ("...\n    async def current_action(self, nb): raise KeyError('no list')", "KeyError("),
        ("...\n    @property\n    def paths(self): raise KeyError('no list')", "KeyError("),
        ("...\n    @property\n    def acts_on(self): raise KeyError('no list')", "KeyError("),
    ],
)
async def test_a_tool_of_another_package_that_fails_ends_its_call_only(
    failing: None,
    said: str,
    call: Call,
    notebook: Path,
    fake: FakeAnthropic,
    replies: list[FakeReply],
) -> None:
    counts, reads = calls("count_words", cell_id="b2"), calls("read_cells", cell_ids=["b2"])
    replies += [[counts, reads], [says("Done.")]]
    done = (await call("POST", "chat", body=ask("How long?", stream=False))).body
    assert done["state"] == "done"
    failed, read = fake.requests[1]["messages"][-1]["content"]
    text = failed["content"][0]["text"]
    assert failed["is_error"]
    assert f"The tool `count_words` of the package `lab_failing` failed: {said}" in text
    assert "is_error" not in read


@pytest.fixture
def sensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install = installer(tmp_path / "packages", monkeypatch)
    install("lab_sensors", SENSORS, "sources", sensors="Sensors")
    odd = SENSORS.replace("[Measure]", "1 / 0")
    install("lab_odd_sensors", odd, "sources", odd="Sensors")


@pytest.mark.plugs
async def test_tools_of_a_source_are_like_ours_and_one_that_fails_is_named(
    sensors: None, call: Call, notebook: Path, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[calls("measure", sensor="door")], [says("Warm.")]]
    chunks = frames((await call("POST", "chat", body=ask("How warm?"))).text)
    notices = [chunk["data"]["text"] for chunk in chunks if chunk["type"] == "data-notice"]
    assert (
        "The source of tools `odd` failed in `tools`: ZeroDivisionError('division by zero')."
        in notices
    )
    (result,) = fake.requests[1]["messages"][-1]["content"]
    assert result["content"][0]["text"] == "door: 21.5"


class TestServersWithoutThePlug:
    """MCP servers are configured, and the plug for them is left out."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        jp_server_config["JupyterAgent"]["mcp_servers"] = {"db": {"url": "http://localhost/mcp"}}
        return jp_server_config

    async def test_servers_that_nothing_connects_to_are_told(
        self, none_at_all: None, call: Call, notebook: Path, replies: list[FakeReply]
    ) -> None:
        replies += [[says("Hello.")]]
        chunks = frames((await call("POST", "chat", body=ask("Hi"))).text)
        (notice,) = [chunk["data"] for chunk in chunks if chunk["type"] == "data-notice"]
        why = "JUPYTER_AGENT_PLUGS leaves out the plug `mcp`, which connects to it"
        assert notice == {"kind": "tools-missing", "text": f"MCP server `db`: {why}."}
        (server,) = (await call("GET", "status")).body["mcp_servers"]
        assert server == {
            "name": "db",
            "state": "failed",
            "tools": 0,
            "version": None,
            "note": why,
        }


async def test_a_server_without_plugs_edits_and_runs(
    none_at_all: None, call: Call, notebook: Path, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies.append([calls("create_cells", cells=[{"source": "6 * 7"}], run=True)])
    replies += [[calls("verify_notebook")], [says("Done.")]]
    done = (await call("POST", "chat", body=ask("Go.", stream=False))).body
    assert done["state"] == "done"
    created, unknown = (request["messages"][-1]["content"][0] for request in fake.requests[1:])
    assert "42" in str(created)
    assert unknown["is_error"]
    assert "verify_notebook" not in fake.requests[0]["system"][0]["text"]
    assert "verify_notebook" not in str(fake.requests[0]["tools"])
    assert (await call("POST", "notebooks", PATH, "verify")).status == 400
    offered = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert "verify" not in (await call("POST", "mcp", body=offered)).text
    prompts = {"jsonrpc": "2.0", "id": 2, "method": "prompts/list"}
    assert "make-it-run" not in (await call("POST", "mcp", body=prompts)).text
