"""The assistant loads after Jupyter has started; until then its routes hold requests."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import nbformat
import pytest
from tornado.httpclient import HTTPClientError

from jupyter_agent import extension

from .conftest import PATH


async def test_the_first_request_waits_until_the_assistant_is_loaded(jp_fetch: Any) -> None:
    response = await jp_fetch("api", "agent", "status")
    assert json.loads(response.body)["version"]


async def test_requests_at_once_load_it_once_and_keep_their_bodies(
    jp_fetch: Any, notebook: Path
) -> None:
    def edit(cell: str, old: str, new: str) -> Any:
        body = json.dumps({"old_string": old, "new_string": new})
        path = ("api", "agent", "notebooks", *PATH.split("/"), "cells", cell)
        return jp_fetch(*path, method="PATCH", body=body)

    await asyncio.gather(edit("b2", "1", "10"), edit("c3", "x is", "x was"), edit("a1", "#", "##"))
    sources = [cell.source for cell in nbformat.read(notebook, as_version=4).cells]
    assert sources == ["## Sales", "x = 10", "print('x was', x)"]


async def test_a_socket_may_be_the_first_request(jp_ws_fetch: Any) -> None:
    socket = await jp_ws_fetch("api", "agent", "tab")
    assert socket.protocol is not None
    socket.close()


async def test_who_is_not_known_is_not_answered(jp_fetch: Any) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("api", "agent", "status", headers={"Authorization": "token wrong"})
    assert caught.value.code == 403


async def test_what_is_no_route_of_ours_is_not_found(jp_fetch: Any) -> None:
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch("api", "agent", "nothing")
    assert caught.value.code == 404


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules loaded late, in a server that is idle for longer than a test takes."""
    modules: list[str] = []

    def load(name: str) -> Any:
        modules.append(name)
        return import_module(name)

    monkeypatch.setattr(extension, "SERVER_FIRST_S", 600)
    monkeypatch.setattr("jupyter_agent.extension.import_module", load)
    return modules


async def test_a_server_that_has_started_gives_its_first_answers_before_it_loads_us(
    loaded: list[str], jp_fetch: Any, jp_serverapp: Any
) -> None:
    await jp_serverapp.extension_manager.start_all_extensions()
    assert (await jp_fetch("api", "status")).code == 200
    assert loaded == []
    assert (await jp_fetch("api", "agent", "status")).code == 200
    assert loaded == ["jupyter_agent.assistant"]


async def test_a_server_that_stops_before_anybody_asks_does_not_load_us(
    loaded: list[str], jp_serverapp: Any
) -> None:
    await jp_serverapp.extension_manager.start_all_extensions()
    await jp_serverapp.extension_manager.stop_all_extensions()
    assert loaded == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("providers", {"mine": {"kind": "telepathy"}}),
        ("rules", [{"verdict": "telepathy"}]),
        ("max_mode", "telepathy"),
        ("max_modes", "read"),
        ("server_tools", ["telepathy"]),
    ],
)
class TestWithAConfigurationThatCannotBeUsed:
    """Without the assistant: with the defaults, restrictions would be lost."""

    @pytest.fixture
    def jp_server_config(self, option: str, value: Any) -> dict[str, Any]:
        return {
            "ServerApp": {
                "jpserver_extensions": {"jupyter_agent": True},
                "reraise_server_extension_failures": False,  # as outside of tests
            },
            "JupyterAgent": {option: value},
        }

    async def test_jupyter_works_and_the_log_says_why_we_do_not(
        self, option: str, jp_fetch: Any, jp_serverapp: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        await jp_serverapp.extension_manager.start_all_extensions()
        with pytest.raises(HTTPClientError) as caught:
            await jp_fetch("api", "agent", "status")
        assert caught.value.code == 404
        (failure,) = [each for each in caplog.records if "extension failed load" in each.msg]
        assert failure.exc_info is not None
        assert option in str(failure.exc_info[1])
        assert (await jp_fetch("api", "status")).code == 200
