"""Servers that we start as programs, including misbehaving ones."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.plugs.mcp.messages import McpError
from tests.waiting import until

from .conftest import Child, Clock, call, said, servers
from .fake import check_envelope, check_message

pytestmark = pytest.mark.plugs
ERAS = pytest.mark.parametrize("era", ["new", "old"])


@ERAS
async def test_a_program_is_asked_in_its_era(child: Child, era: str) -> None:
    async with servers(child.configured(era)) as made:
        assert "mcp__s__echo" in [offer.name for offer in await made.fetch_offers()]
        assert said(await call(made, "echo", a="ü\n\u2028")) == json.dumps({"a": "ü\n\u2028"})
    received = child.received()
    for message in received:
        check_message(message)
    methods = [message["method"] for message in received]
    if era == "new":
        assert methods == ["server/discover", "tools/list", "tools/call"]
        for message in received:
            check_envelope(message["params"])
    else:
        assert methods == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/list",
            "tools/call",
        ]


@pytest.mark.full
async def test_a_program_that_does_not_answer_unknown_requests_is_asked_the_old_way(
    child: Child,
) -> None:
    async with servers(child.configured("deaf", timeout=3)) as made:
        assert await made.fetch_offers() != []
        assert made.describe()[0].version == "2025-11-25"


async def test_one_that_is_starting_does_not_hold_up_the_end(child: Child) -> None:
    async with servers(child.configured("deaf"), patience=0.1) as made:
        assert await made.fetch_offers() == []
        await child.got(lambda message: message.get("method") == "server/discover")
        ending = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - ending < 5


async def test_its_environment_is_minimal(child: Child) -> None:
    environment = {"PATH": os.environ["PATH"], "MY_API_KEY": "sk-12345678", "GIVEN": "tok-87654321"}
    given = {"env": {"TOKEN": {"env": "GIVEN"}, "MODE": "fast"}}
    async with servers(child.configured(**given), environment=environment) as made:
        await made.fetch_offers()
        found = json.loads(said(await call(made, "environment")))
        assert {name: found.get(name) for name in ("MODE", "TOKEN", "MY_API_KEY", "GIVEN")} == {
            "MODE": "fast",
            "TOKEN": "tok-87654321",
            "MY_API_KEY": None,
            "GIVEN": None,
        }
        assert made.secrets() == {"tok-87654321"}


async def test_what_is_missing_in_the_environment_is_told(child: Child) -> None:
    configured = child.configured(env={"TOKEN": {"env": "NOT_THERE"}})
    async with servers(configured, environment={}) as made:
        assert await made.fetch_offers() == []
        (fault,) = made.faults()
        assert "mcp_servers.s.env.TOKEN: the environment has no NOT_THERE" in fault


async def test_a_program_that_is_not_there_is_told() -> None:
    async with servers({"s": {"command": ["no-such-program-here"]}}) as made:
        assert await made.fetch_offers() == []
        (fault,) = made.faults()
        assert "`no-such-program-here` cannot be started (No such file or directory)" in fault


@ERAS
async def test_a_call_that_nobody_waits_for_is_cancelled_there(child: Child, era: str) -> None:
    async with servers(child.configured(era)) as made:
        await made.fetch_offers()
        calling = asyncio.create_task(call(made, "never"))
        asked = await child.got(lambda message: message.get("method") == "tools/call")
        calling.cancel()
        await asyncio.wait([calling])
        told = await child.got(lambda each: each.get("method") == "notifications/cancelled")
        assert told["params"]["requestId"] == asked["id"]
        assert said(await call(made, "echo")) == "{}"


async def test_a_call_without_an_answer_ends(child: Child, clock: Clock) -> None:
    async with servers(child.configured(timeout=30)) as made:
        await made.fetch_offers()
        calling = asyncio.create_task(call(made, "never"))
        await child.got(lambda message: message.get("method") == "tools/call")
        clock.skip(40)
        with pytest.raises(McpError, match="no answer within 30 s; whether"):
            await calling
        assert said(await call(made, "echo")) == "{}"


async def test_progress_keeps_a_call_alive(child: Child, clock: Clock) -> None:
    async with servers(child.configured(timeout=30)) as made:
        await made.fetch_offers()
        calling = asyncio.create_task(call(made, "progress", signs=3))
        await child.got(lambda message: message.get("method") == "tools/call")
        for _ in range(3):
            assert (
                said(await call(made, "echo")) == "{}"
            )  # a progress notification came before this
            clock.skip(20)
        assert said(await calling) == "arrived"


async def test_a_program_that_dies_is_told_and_started_again_with_the_next_question(
    child: Child,
) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        with pytest.raises(McpError, match=r"it exited \(exit code 3\)"):
            await call(made, "die")
        with pytest.raises(McpError, match="is started again with the next question"):
            await call(made, "echo")
        assert "mcp__s__echo" in [offer.name for offer in await made.fetch_offers()]
        assert said(await call(made, "echo")) == "{}"


async def test_a_flood_of_errors_is_logged_to_a_bound(
    child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        async with servers(child.configured()) as made:
            await made.fetch_offers()
            assert said(await call(made, "flood")) == "flooded"
    logged = sum(len(record.getMessage()) for record in caplog.records)
    assert 10_000 < logged < 200_000
    assert any("further lines are dropped" in record.getMessage() for record in caplog.records)


async def test_a_message_without_an_end_is_given_up(child: Child) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        with pytest.raises(McpError, match="a message larger than 8 MiB"):
            await call(made, "huge")
    del made
    gc.collect()  # warns about open pipes


@pytest.mark.parametrize(
    ("tool", "answer"), [("wrong", "right after all"), ("twice", "first"), ("unasked", "asked")]
)
async def test_noise_on_the_line_is_passed_over(child: Child, tool: str, answer: str) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        assert said(await call(made, tool)) == answer
        assert said(await call(made, "echo", a=1)) == '{"a": 1}'


@pytest.mark.parametrize(("given", "why"), [({}, "NaN"), ({"deep": True}, "nested deeper")])
async def test_a_call_with_an_unreadable_answer_fails_at_once(
    child: Child, given: Mapping[str, Any], why: str
) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        with pytest.raises(McpError, match=f"invalid JSON: .*{why}"):
            await asyncio.wait_for(call(made, "unreadable", **given), 20)
        assert said(await call(made, "echo", a=1)) == '{"a": 1}'


async def test_what_it_asks_is_declined(child: Child) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        sampling, ping, form = json.loads(said(await call(made, "asks")))
    assert sampling["error"]["code"] == -32601
    assert ping["result"] == {}
    assert form["result"] == {"action": "decline"}


async def test_a_change_that_it_tells_of_is_known_at_once(child: Child) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        before = await made.current("s", "look")
        assert before is not None
        assert before.reads
        await call(made, "change")
        after = await made.current("s", "look")
        assert after is not None
        assert not after.reads
        assert after.definition != before.definition


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
async def test_it_ends_with_all_that_it_started(child: Child) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        pid = int(said(await call(made, "child")))
        assert alive(pid)
    await until(lambda: not alive(pid))


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
async def test_one_that_does_not_want_to_end_is_made_to_within_seconds(child: Child) -> None:
    async with servers(child.configured()) as made:
        await made.fetch_offers()
        pid = int(said(await call(made, "stubborn")))
        loop = asyncio.get_running_loop()
        begun = loop.time()
    assert not alive(pid)
    assert loop.time() - begun < 5


@pytest.mark.full
async def test_one_that_does_not_read_holds_up_nobody(child: Child) -> None:
    async with servers(child.configured(timeout=3)) as made:
        await made.fetch_offers()
        with pytest.raises(McpError):
            await call(made, "silent")
        with pytest.raises(McpError):
            await call(made, "echo", a="x" * 2**20)
