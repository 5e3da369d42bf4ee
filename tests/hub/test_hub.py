"""Behind JupyterHub: users apart, streams and sockets through the proxy, a culler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import websocket

from tests.waiting import eventually

from .conftest import CULLED_AFTER, Hub

RUN_ALL = {
    "notebook": "coffee.ipynb",
    "messages": [{"role": "user", "content": "run all"}],
}


@pytest.fixture
def ada(hub: Hub) -> Iterator[str]:
    yield hub.start("ada")
    hub.stop("ada")


@pytest.fixture
def bob(hub: Hub) -> Iterator[str]:
    yield hub.start("bob")
    hub.stop("bob")


def frames(hub: Hub, name: str, token: str, **asked: Any) -> Iterator[tuple[float, dict[str, Any]]]:
    """The events of a turn, each with the time at which it arrived."""
    request = urllib.request.Request(
        f"{hub.url}/user/{name}/api/agent/chat",
        method="POST",
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
        data=json.dumps({**RUN_ALL, **asked}).encode(),
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                yield time.monotonic(), json.loads(line[6:])


def test_two_users_work_at_once_each_in_their_own(hub: Hub, ada: str, bob: str) -> None:
    def ask(name: str, token: str) -> list[str]:
        return [event["type"] for _, event in frames(hub, name, token, mode="auto")]

    with ThreadPoolExecutor() as pool:
        done = [pool.submit(ask, "ada", ada), pool.submit(ask, "bob", bob)]
    assert all(one.result()[-1] == "finish" for one in done)
    for name, token in (("ada", ada), ("bob", bob)):
        path = f"user/{name}/api/agent/conversations"
        (talk,) = hub.ask("GET", path, token).body["conversations"]
        assert talk["notebook"] == "coffee.ipynb"
        cells = json.loads((hub.homes / name / "coffee.ipynb").read_text())["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in code] == [1, 2, 3]


def test_events_come_through_the_proxy_as_they_happen(hub: Hub, ada: str) -> None:
    times = [arrived for arrived, _ in frames(hub, "ada", ada, mode="auto")]
    assert times[-1] - times[0] > 0.2  # a kernel was started in between


def test_the_socket_of_a_tab_goes_through_the_proxy(hub: Hub, ada: str) -> None:
    socket = websocket.create_connection(
        f"{hub.url.replace('http', 'ws')}/user/ada/api/agent/tab",
        header=[f"Authorization: token {ada}"],
        origin=hub.url,
        timeout=30,
    )
    assert socket.connected
    socket.close()


def test_nobody_reaches_anothers(hub: Hub, ada: str, bob: str) -> None:
    for path in ("conversations", "notebooks/coffee.ipynb", "status"):
        assert hub.ask("GET", f"user/bob/api/agent/{path}", ada).status in (403, 404)
        assert hub.ask("GET", f"user/bob/api/agent/{path}", bob).status == 200
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert hub.ask("POST", "user/bob/api/agent/mcp", ada, call).status in (401, 403)


@pytest.fixture(scope="module")
def people(hub: Hub) -> Iterator[dict[str, str]]:
    """Tokens of people of three groups, each with a server."""
    names = ("sam", "tess", "gus")
    yield {name: hub.start(name) for name in names}
    for name in names:
        hub.stop(name)


def test_groups_of_the_hub_decide_what_people_may_do(hub: Hub, people: dict[str, str]) -> None:
    def ask(name: str, path: str, body: Any = None) -> Any:
        method = "GET" if body is None else "POST"
        return hub.ask(method, f"user/{name}/api/agent/{path}", people[name], body)

    policies = {name: ask(name, "status").body["policy"] for name in people}
    assert {name: policy["groups"] for name, policy in policies.items()} == {
        "sam": ["students"],
        "tess": ["teachers"],
        "gus": ["guests"],
    }
    assert [policies[name]["max_mode"] for name in people] == ["read", "auto", "auto"]
    assert [len(policies[name]["rules"]) for name in people] == [1, 0, 0]
    call = {"notebook": "coffee.ipynb", "input": {"source": "1"}, "mode": "auto"}
    assert ask("sam", "tools/create_cell", call).body["is_error"]
    assert not ask("tess", "tools/create_cell", call).body["is_error"]
    providers = [one["name"] for one in ask("sam", "models").body["providers"]]
    assert providers == ["demo"]
    asked = {**RUN_ALL, "model": "ollama:qwen3", "stream": False}
    assert json.loads(ask("sam", "chat", asked).body)["reason"] == "model_not_allowed"
    assert ask("tess", "usage").body["month"]["token_budget"] == 5_000_000
    refused = ask("gus", "chat", asked)
    assert (refused.status, json.loads(refused.body)["reason"]) == (429, "monthly_budget")


def test_the_command_line_in_a_users_terminal_is_told_their_groups(
    hub: Hub, people: dict[str, str]
) -> None:
    home = {**os.environ, "HOME": str(hub.homes / "sam")}
    doctor = [sys.executable, "-m", "jupyter_agent.cli.main", "doctor"]
    done = subprocess.run(doctor, env=home, cwd=hub.homes / "sam", capture_output=True, text=True)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "user sam (groups: students)" in lines, done.stdout + done.stderr
    assert "most permissive mode read" in lines
    assert "models allowed demo:*" in lines


def test_who_asks_on_somebody_elses_server_decides_and_not_its_owner(
    hub: Hub, people: dict[str, str]
) -> None:
    admin = hub.token_of("root")
    policy = hub.ask("GET", "user/sam/api/agent/status", admin).body["policy"]
    assert (policy["user"], policy["groups"], policy["max_mode"]) == ("root", ["teachers"], "auto")
    assert list(frames(hub, "sam", admin, mode="auto"))[-1][1]["type"] == "finish"
    conversations = "user/sam/api/agent/conversations"
    assert len(hub.ask("GET", conversations, admin).body["conversations"]) == 1
    assert hub.ask("GET", conversations, people["sam"]).body["conversations"] == []
    cells = json.loads((hub.homes / "sam" / "coffee.ipynb").read_text())["cells"]
    assert any(cell.get("execution_count") for cell in cells)


def test_who_leaves_a_group_has_what_everybody_has(hub: Hub) -> None:
    token = hub.start("lea")
    joined = {"users": ["lea"]}
    hub.ask("POST", "hub/api/groups/students/users", body=joined)

    def groups() -> Any:
        return hub.ask("GET", "user/lea/api/agent/status", token).body["policy"]["groups"]

    assert groups() == ["students"]
    hub.ask("DELETE", "hub/api/groups/students/users", body=joined)
    token = hub.token_of("lea")  # the server caches the answer for an older one for minutes
    assert groups() == []
    hub.stop("lea")


def test_conversations_are_there_after_a_restart_of_the_server(hub: Hub, ada: str) -> None:
    list(frames(hub, "ada", ada, mode="auto"))
    before = hub.ask("GET", "user/ada/api/agent/conversations", ada).body
    hub.stop("ada")
    again = hub.start("ada")
    assert hub.ask("GET", "user/ada/api/agent/conversations", again).body == before


def test_a_culler_takes_idle_servers_and_leaves_those_that_work(culling_hub: Hub) -> None:
    hub = culling_hub
    ada = hub.start("ada")
    waiting = frames(hub, "ada", ada, mode="ask")
    assert "tool-approval-request" in (event["type"] for _, event in waiting)
    since = time.monotonic()  # ada thinks about it, and sends nothing
    hub.start("bob")
    eventually(lambda: not hub.runs("bob"), bool)
    eventually(time.monotonic, lambda now: now > since + 2 * CULLED_AFTER)
    assert hub.runs("ada")
    (turn,) = hub.ask("GET", "user/ada/api/agent/status", ada).body["turns"]
    assert turn["state"] == "waiting"


@dataclass(frozen=True)
class Served:
    """The experience of one of many users."""

    started_in: float
    answered_in: float
    last_event: str
    server_mb: float
    kernel_mb: float


def proportional_mb(user: str, program: bytes) -> float:
    """Memory of a user's processes of that program; shared memory is divided among them."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended since
            environment = (process / "environ").read_bytes().split(b"\0")
            ours = f"JUPYTERHUB_USER={user}".encode() in environment
            if ours and program in (process / "cmdline").read_bytes():
                rollup = (process / "smaps_rollup").read_text()
                found += int(rollup.split("Pss:")[1].split()[0])
    return found / 1024


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells memory so")
def test_twenty_users_at_once(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"user{number}" for number in range(20)]

    def start(name: str) -> tuple[str, float]:
        begun = time.monotonic()
        return hub.start(name), time.monotonic() - begun

    attempts: dict[str, int] = {}

    def counts(name: str) -> list[int | None]:
        cells = json.loads((hub.homes / name / "coffee.ipynb").read_text())["cells"]
        return [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]

    def ask(name: str) -> tuple[float, str]:
        begun = time.monotonic()
        for attempts[name] in range(1, 11):
            last = [event["type"] for _, event in frames(hub, name, tokens[name], mode="auto")][-1]
            if None not in counts(name):  # else the kernel was still starting
                break
        return time.monotonic() - begun, last

    with ThreadPoolExecutor(4) as few:  # so many servers start at once
        started = list(few.map(start, names))
    tokens = {name: token for name, (token, _) in zip(names, started, strict=True)}
    with ThreadPoolExecutor(20) as all_at_once:
        answers = list(all_at_once.map(ask, names))
    served = [
        Served(
            seconds, *answer, proportional_mb(name, b"singleuser"), proportional_mb(name, b"ipyk")
        )
        for name, (_, seconds), answer in zip(names, started, answers, strict=True)
    ]
    for name in names:
        hub.stop(name)
    assert {one.last_event for one in served} == {"finish"}
    for name in names:  # each ran their own notebook once, after anything queued
        first = min(counts(name)[0] or 1, attempts[name])
        assert (name, counts(name)) == (name, [first, first + 1, first + 2])
    with capsys.disabled():
        for told, values in (
            ("seconds until a server is ready, four starting at once", "started_in"),
            ("seconds of a turn that starts a kernel, twenty at once", "answered_in"),
            ("MB of a server", "server_mb"),
            ("MB of its kernel", "kernel_mb"),
        ):
            found = sorted(getattr(one, values) for one in served)
            print(f"\n20 users: {found[10]:.1f} (most {found[-1]:.1f}) {told}", end="")  # noqa: T201
