"""The official SDK: absent, too old, or of use."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from jupyter_agent import packages

from .conftest import Child, servers


async def test_without_the_sdk_each_server_says_how_to_install_it(
    child: Child, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with servers(child.configured()) as made:
        assert await made.fetch_offers() == []
        (state,) = made.describe()
    assert state.state == "failed"
    assert state.note == 'MCP servers need `pip install "jupyter-live-agent[mcp]"`'
    assert state.note in caplog.text


@pytest.mark.parametrize("old", ["1.26.0", "2.2.0"])
async def test_an_sdk_that_a_neighbour_keeps_older_is_named(
    child: Child, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    monkeypatch.setattr(packages, "version", lambda name: old)
    async with servers(child.configured()) as made:
        assert await made.fetch_offers() == []
        (fault,) = made.faults()
    assert f"MCP servers need mcp 2.3, and mcp {old} is installed" in fault


async def test_a_folder_with_the_name_of_the_sdk_is_not_the_sdk(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages, "version", absent)
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        assert "pip install" in made.faults()[0]


@pytest.mark.plugs
def test_it_is_not_imported_before_a_server_is_connected_to() -> None:
    code = (
        "import sys; from jupyter_agent import assistant, extension;"
        "plugs = assistant.Plugs.load(extension.JupyterAgent(mcp_servers={'s': {'url': 'http://x'}}));"
        "print([*plugs.sources.describe()][0].state, 'mcp' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["starting", "False"]
