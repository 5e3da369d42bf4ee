"""Behind a hub: activity that keeps a server running, and pages that belong to their users.

All tests of this folder run under a base URL that needs escaping (`/a@b/`), as a hub gives it.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jupyter_ydoc import YNotebook
from tornado.httpclient import HTTPClientError

from jupyter_agent.assistant import Assistant
from jupyter_agent.carriers.tab_link import PROTOCOL
from jupyter_agent.conversations import runner
from tests.fakes import Scripted, calls, says
from tests.fakes.script import FakeReply

from ..waiting import until
from .conftest import Call, ask, live


async def test_a_turn_that_runs_or_waits_keeps_the_server_up(
    call: Call,
    agent: Assistant,
    jp_serverapp: Any,
    replies: list[FakeReply],
    notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "BEAT", 0.01)
    assert not jp_serverapp.extension_manager.any_activity()
    gate = asyncio.Event()
    held = Scripted(blocks=[calls("run_cell", cell_id="b2")], stop_after=1, then="wait", gate=gate)
    replies += [held, [says("Done.")]]
    asking = asyncio.ensure_future(call("POST", "chat", body=ask("Run.", mode="ask")))
    turn = await live(agent)
    assert jp_serverapp.extension_manager.any_activity()
    gate.set()
    await turn.wait_while_running()
    assert turn.state == "waiting"
    assert jp_serverapp.extension_manager.any_activity()  # for as long as a question is open
    times = jp_serverapp.web_app.settings["last_activity_times"]
    waits = datetime.now(UTC)
    await until(
        lambda: times["jupyter_agent"] >= waits
    )  # the hub sees activity, though nothing happens
    assert jp_serverapp.web_app.last_activity() >= times["jupyter_agent"]
    (approval,) = turn.questions
    body = {"approvals": [{"id": approval.id, "approved": False}]}
    await call("POST", "chat", "talk", "approvals", body=body)
    await asking
    assert not jp_serverapp.extension_manager.any_activity()


async def open_tab(jp_ws_fetch: Any, agent: Assistant, user: str) -> Any:
    """The connection of that user's page called `page`, with `n.ipynb` open."""
    count = len(list(agent.tabs))
    socket = await jp_ws_fetch("api", "agent", "tab", headers={"X-User": user})
    hello = {
        "op": "hello",
        "protocol": PROTOCOL,
        "version": YNotebook().version,
        "path": "n.ipynb",
        "client": "page",
    }
    await socket.write_message(json.dumps(hello))
    await until(lambda: len(list(agent.tabs)) > count)
    return socket


async def test_nobody_can_name_somebody_elses_page(
    agent: Assistant, jp_ws_fetch: Any, named_users: None
) -> None:
    """Pages of two users with the same name are different, and each user means their own."""
    sockets = [await open_tab(jp_ws_fetch, agent, user) for user in ("ann", "bob")]
    ann, bob = agent.tabs
    assert ann.client != bob.client
    assert agent.tabs.find("n.ipynb", "ann/page") is ann
    assert agent.tabs.find("n.ipynb", "bob/page") is bob
    for socket in sockets:
        socket.close()


async def test_a_tab_needs_a_user(agent: Assistant, jp_ws_fetch: Any, named_users: None) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_ws_fetch("api", "agent", "tab", headers={"X-User": ""})
    assert refused.value.code == 403
