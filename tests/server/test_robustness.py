"""The server rows of the fault matrix, R2 to R7, and the definitions N3 and N4, by their names."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import sqlite3
import threading
import time
import urllib.error
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.client.stores import Unknown, open_store
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.liveness import InterruptedTurns, Presence, StoredLeftovers
from jupyter_agent.conversations.log import LogEntry, TurnEnded
from jupyter_agent.conversations.records import NewTurn
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.events import (
    ApprovalRequested,
    CallInputDelta,
    CallOutput,
    CallReady,
    CallStarted,
    Event,
    Notice,
    TextDelta,
    TextStarted,
    ThinkingEnded,
    ThinkingStarted,
    Usage,
    UsageUpdated,
)
from jupyter_agent.server import wire
from jupyter_agent.server.watchdog import Watchdog
from jupyter_agent.tools import toolbox
from jupyter_agent.tools.base import Progress, Result, Tool
from jupyter_agent.workspace.lease import Lease
from tests.fakes import FakeAnthropic, Scripted, calls, says
from tests.fakes.script import FakeReply, Script
from tests.fakes.server import in_thread

from ..programs import Server, jupyter_server
from ..waiting import eventually, until
from .conftest import PATH, Call, ask, frames

LOG = logging.getLogger("test")
COMMAND = "jupyter server --port 8888 --IdentityProvider.token=secret"

# -- real servers


@pytest.fixture
def shared_store(tmp_path: Path) -> Iterator[tuple[Path, FakeAnthropic]]:
    """A folder whose servers share one store, and their fake model service."""
    config = tmp_path / ".config" / "jupyter_server_config.py"
    config.parent.mkdir()
    with in_thread(FakeAnthropic([])) as api:
        providers = {"anthropic": {"base_url": api.url, "api_key": api.api_key}}
        config.write_text(f"c.JupyterAgent.providers = {providers!r}\n")
        yield tmp_path, api


def question(id: str) -> dict[str, Any]:
    message = {"role": "user", "content": "Hello?"}
    return {
        "id": id,
        "messages": [message],
        "stream": False,
        "model": "anthropic:claude-sonnet-5-5",
    }


def begin(api: FakeAnthropic, server: Server, id: str, pool: ThreadPoolExecutor) -> None:
    """A turn that waits for the model, which never continues."""
    api.script = Script([Scripted(blocks=[says("Well...")], stop_after=2, then="ping")])
    api.asked.clear()
    pool.submit(server.request, "POST", "chat", question(id))
    eventually(api.asked.is_set, bool)


def state(server: Server, id: str) -> str:
    found: str = server.request("GET", f"conversations/{id}")["state"]
    return found


@pytest.mark.full
def test_two_servers_share_a_store_and_one_is_killed_and_one_told_to_end(
    shared_store: tuple[Path, FakeAnthropic],
) -> None:
    folder, api = shared_store
    with (
        ThreadPoolExecutor(2) as pool,
        jupyter_server(folder, COMMAND) as first,
        jupyter_server(folder, COMMAND) as second,
    ):
        begin(api, first, "one", pool)
        assert state(second, "one") == "running"  # not reported as interrupted
        with pytest.raises(urllib.error.HTTPError) as refused:
            second.request("POST", "chat", question("one"))
        with refused.value as answer:
            assert answer.code == 409
            assert "another server" in json.loads(answer.read())["message"]
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(60)
        assert state(second, "one") == "interrupted"  # and no restart was needed to see it

        begin(api, second, "two", pool)
        told = time.monotonic()
        second.process.send_signal(signal.SIGTERM)
        second.process.wait(60)
        assert time.monotonic() - told < 15  # 5 s at most for the turn; the rest is Jupyter's own
    with jupyter_server(folder, COMMAND) as third:
        assert state(third, "two") in ("stopped", "interrupted")
        api.script = Script([[says("Here.")], [says("Here.")]])
        for id in ("one", "two"):
            assert third.request("POST", "chat", question(id))["state"] == "done"
    assert api.refusals == []


def test_a_server_is_alive_as_long_as_it_holds_its_lock(tmp_path: Path) -> None:
    first, second = Presence(tmp_path), Presence(tmp_path)
    assert second.is_alive(first.id)
    assert second.is_alive(second.id)
    first.close()
    assert not second.is_alive(first.id)
    assert not second.is_alive("../../etc/passwd")
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_servers_that_begin_at_once_make_one_store(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        for number in range(5):
            path = tmp_path / str(number) / "store.db"
            opened = [pool.submit(Database, path, MIGRATIONS, LOG) for _ in range(4)]
            for each in opened:
                database = each.result()
                asyncio.run(database.rows("SELECT * FROM turns"))
                database.close()
            assert list(path.parent.glob("*.set-aside-*")) == []


# -- an unusable store


def test_a_corrupt_store_is_set_aside_with_a_name(tmp_path: Path) -> None:
    path = tmp_path / "store" / "conversations.db"
    path.parent.mkdir()
    path.write_bytes(b"this is no database" * 1000)
    database = Database(path, MIGRATIONS, LOG)
    assert "kept as" in (database.note or "")
    (aside,) = path.parent.glob("*.set-aside-*")
    assert aside.read_bytes().startswith(b"this is no database")
    database.close()


@pytest.mark.parametrize("version", [min(MIGRATIONS) - 1, max(MIGRATIONS) + 1])
def test_a_store_of_a_version_with_other_tables_is_set_aside_as_it_is(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "conversations.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE turns (said TEXT)")
        other.execute("INSERT INTO turns VALUES ('Long ago.')")
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    database = Database(path, MIGRATIONS, LOG)
    (aside,) = tmp_path.glob("*.set-aside-*")
    assert f"schema is {version}" in (database.note or "")
    assert f"kept as {aside.name}" in (database.note or "")
    assert asyncio.run(database.rows("SELECT * FROM turns")) == []
    database.close()
    with sqlite3.connect(aside) as kept:
        assert kept.execute("SELECT said FROM turns").fetchall() == [("Long ago.",)]
    kept.close()


@pytest.mark.parametrize("version", [min(MIGRATIONS) - 1, max(MIGRATIONS) + 1])
def test_a_command_does_not_read_a_store_with_other_tables(tmp_path: Path, version: int) -> None:
    with sqlite3.connect(tmp_path / "conversations.db") as other:
        other.execute(f"PRAGMA user_version = {version}")
    other.close()
    with pytest.raises(Unknown, match="is from another version.*start Jupyter once"):
        with open_store(tmp_path):
            pass


def test_a_store_is_opened_again_and_migrated(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    oldest = min(MIGRATIONS)
    first = Database(path, {oldest: MIGRATIONS[oldest]}, LOG)
    asyncio.run(ConversationStore(first).begin(new_turn(1, "Kept?")))
    first.close()
    following = max(MIGRATIONS) + 1
    later = {**MIGRATIONS, following: "ALTER TABLE turns ADD COLUMN more TEXT DEFAULT 'new';"}
    for migrations in (MIGRATIONS, later, later):
        again = Database(path, migrations, LOG)
        rows = asyncio.run(again.rows("SELECT * FROM turns"))
        assert [dict(row).get("more") for row in rows] == [
            "new" if following in migrations else None
        ]
        assert again.note is None
        again.close()


def test_a_page_that_is_damaged_is_said_and_the_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "conversations.db"
    whole = Database(path, MIGRATIONS, LOG)
    for number in range(50):
        asyncio.run(ConversationStore(whole).begin(new_turn(number, f"{number:02000}")))
    whole.close()
    content = bytearray(path.read_bytes())
    end = len(content) // 2
    content[end:] = b"\xff" * (len(content) - end)
    path.write_bytes(content)
    database = Database(path, MIGRATIONS, LOG)
    with pytest.raises(StoreUnavailable, match="malformed.*Stop the server"):
        asyncio.run(database.rows("SELECT * FROM turns"))
    database.close()
    assert path.exists()


def test_a_store_that_is_locked_at_the_start_is_used_once_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "patience", 0.05)
    path = tmp_path / "conversations.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    database = Database(path, MIGRATIONS, LOG)
    assert "locked" in (database.note or "")
    with pytest.raises(StoreUnavailable, match="locked.*try again"):
        asyncio.run(database.rows("SELECT * FROM turns"))
    other.close()
    assert asyncio.run(database.rows("SELECT * FROM turns")) == []
    assert database.note is None
    assert list(tmp_path.glob("*.set-aside-*")) == []
    database.close()


async def test_what_a_server_leaves_is_stored_once_the_store_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each entry as it is then: the server may be killed long after the store was locked."""
    monkeypatch.setattr(Database, "patience", 0.05)
    monkeypatch.setattr("jupyter_agent.conversations.liveness._PAUSE_S", 0.05)
    database, presence = Database(tmp_path / "db", MIGRATIONS, LOG), Presence(tmp_path / "servers")
    left = StoredLeftovers(database, presence, "runs")
    left.put("ended", 1)
    other = sqlite3.connect(database.path, isolation_level=None)
    await until(lambda: list(other.execute("SELECT key FROM leftovers")) == [("ended",)])
    other.execute("BEGIN IMMEDIATE")
    left.put("on", 2)
    left.put("on", 3)
    left.remove("ended")
    with pytest.raises(StoreUnavailable):
        await database.execute("DELETE FROM leftovers")
    other.execute("ROLLBACK")
    await until(lambda: list(other.execute("SELECT key, entry FROM leftovers")) == [("on", "3")])
    other.close()
    database.close()
    presence.close()


@pytest.mark.parametrize("fault", ["locked", "full"])
async def test_a_store_that_cannot_be_written_is_said_and_what_is_in_it_can_be_read(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path, fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    replies += [[says("One.")], [says("Two.")]]
    await call("POST", "chat", body=ask("First."))
    database = agent.database
    await database.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(database.path, isolation_level=None)
    if fault == "locked":
        other.execute("BEGIN IMMEDIATE")
    else:
        await database.execute("PRAGMA max_page_count = 1")  # no larger than it is
    async with asyncio.timeout(60):
        refused = await call("POST", "chat", body=ask("Second. " * 20_000))
        assert (refused.status, refused.body["reason"]) == (503, "store_unavailable")
        assert "again" in refused.body["message"]
        if fault == "locked":
            refused = await call("PATCH", "notebooks", PATH, "cells", "b2", body={"type": "raw"})
            assert (refused.status, refused.body["reason"]) == (503, "no_recovery_copy")
        assert (await call("GET", "conversations", "talk")).body["title"] == "First."
        assert (await call("GET", "status")).status == 200
    if fault == "locked":
        other.execute("ROLLBACK")
    else:
        await database.execute("PRAGMA max_page_count = 1000000")
    other.close()
    assert (await call("POST", "chat", body=ask("Third.", stream=False))).body["state"] == "done"


TURN: list[FakeReply] = [
    [says("I look."), calls("get_notebook_state")],
    [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")],
    [calls("update_cell", cell_id="b2", old_string="x = 2", new_string="x = 1")],
    [says("Done.")],
]


async def fails_from(
    number: int, call: Call, agent: Assistant, fake: FakeAnthropic, patch: pytest.MonkeyPatch
) -> bool:
    """Runs a turn whose store fails from that access on; whether it came that far."""
    accesses = 0
    real = Database.run

    async def run(self: Database, work: Any) -> Any:
        nonlocal accesses
        accesses += 1
        if accesses >= number:
            raise StoreUnavailable("The store cannot be used now: the disk is full.")
        return await real(self, work)

    fake.script = Script(TURN)
    with patch.context() as patched:
        patched.setattr(Database, "run", run)
        async with asyncio.timeout(60):
            answer = await call("POST", "chat", body=ask("Go.", id=f"c{number}"))
    if answer.status == 200:
        chunks = frames(answer.text)
        assert chunks[-1]["type"] == "[DONE]"
        assert chunks[-2]["type"] in ("error", "finish")
        if chunks[-2]["type"] == "error":
            assert "disk is full" in chunks[-2]["errorText"]
    else:
        assert answer.status == 503
    assert agent.runner.running == []
    fake.script = Script([[says("Here again.")]])
    again = await call("POST", "chat", body=ask("Hello?", id=f"c{number}", stream=False))
    assert again.body["state"] == "done"
    turns = (await call("GET", "conversations", f"c{number}")).body["turns"]
    assert {turn["state"] for turn in turns} <= {"done", "failed", "interrupted"}
    assert fake.refusals == []
    source = (await call("GET", "notebooks", PATH, "cells", "b2")).body["source"]
    if source != "x = 1":  # earlier changes stay; the next round starts with them
        await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 1"})
    return accesses >= number


async def test_when_the_store_fails_at_some_access_who_follows_gets_an_end(
    call: Call, agent: Assistant, fake: FakeAnthropic, notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    seed = random.randrange(2**32)
    for number in random.Random(seed).sample(range(1, 19), 6):
        try:
            await fails_from(number, call, agent, fake, monkeypatch)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, access {number}") from error


async def test_a_step_of_a_turn_is_written_in_three_transactions(
    call: Call, fake: FakeAnthropic, notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply with its calls, the result, then the next request to the model."""
    accesses = 0
    real = Database.run

    async def run(self: Database, work: Any) -> Any:
        nonlocal accesses
        accesses += 1
        return await real(self, work)

    monkeypatch.setattr(Database, "run", run)
    counts = []
    for steps in (2, 6):
        fake.script = Script([*[[calls("get_notebook_state")]] * steps, [says("Done.")]])
        before = accesses
        body = ask("Go.", id=f"c{steps}", stream=False)
        assert (await call("POST", "chat", body=body)).body["state"] == "done"
        counts.append(accesses - before)
    assert counts[1] - counts[0] <= 4 * 3


@pytest.mark.long
async def test_when_the_store_fails_at_any_access_who_follows_gets_an_end(
    call: Call, agent: Assistant, fake: FakeAnthropic, notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    number = 1
    while await fails_from(number, call, agent, fake, monkeypatch):
        number += 1
    assert number > 15


async def test_what_failed_for_a_moment_is_in_the_journal_all_the_same(
    call: Call, agent: Assistant, replies: list[FakeReply], notebook: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The store fails just when the edit is recorded: it is stored with the following records, and
    can be undone.
    """
    replies += [TURN[1], TURN[3]]
    real = ConversationStore.append
    failed = []

    async def once(
        self: ConversationStore, turn_id: str, entries: Sequence[LogEntry], *, after: int = 0
    ) -> None:
        if not failed and any(isinstance(entry, CallOutput) for entry in entries):
            failed.append(True)
            raise StoreUnavailable("The store cannot be used now: database is locked.")
        await real(self, turn_id, entries, after=after)

    monkeypatch.setattr(ConversationStore, "append", once)
    done = (await call("POST", "chat", body=ask("Go.", stream=False))).body
    assert (done["state"], len(done["changes"])) == ("done", 1)
    undone = (await call("POST", "turns", done["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    cell = await call("GET", "notebooks", PATH, "cells", "b2")
    assert cell.body["source"] == "x = 1"


# -- clocks and large stores


def new_turn(number: int, conversation_id: str = "talk") -> NewTurn:
    return NewTurn(
        id=f"t{number}",
        owner="local",
        conversation_id=conversation_id,
        question_id=f"u{number}",
        question={"parts": []},
        answer_id=f"m{number}",
        request={"share": "all"},
        model="m",
        notebook=None,
        title=f"Number {number}",
        content=[],
        server="s",
    )


async def ended(store: ConversationStore, turn_id: str) -> None:
    await store.append(turn_id, [TurnEnded("done", "end_turn")])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    database = Database(tmp_path / "rows.db", MIGRATIONS, LOG)
    yield ConversationStore(database)
    database.close()


async def test_a_thousand_conversations_are_paged(store: ConversationStore) -> None:
    for number in range(1000):
        await store.begin(new_turn(number, f"c{number}"))
    page: int | None = 1
    seen: list[str] = []
    while page is not None:
        found, page = await store.conversations("local", notebook=None, query=None, page=page)
        assert len(found) <= 50
        seen += [each["id"] for each in found]
    assert seen == [f"c{number}" for number in reversed(range(1000))]


async def test_a_page_of_conversations_is_one_query(store: ConversationStore) -> None:
    for number in range(60):
        await store.begin(new_turn(number, f"c{number}"))
        used = UsageUpdated(usage=Usage(input_tokens=number))
        await store.append(f"t{number}", [used])
    queries: list[str] = []
    await store.database.run(lambda db: db.set_trace_callback(queries.append))
    found, _ = await store.conversations("local", notebook=None, query=None, page=1)
    assert [each["usage"]["input_tokens"] for each in found] == list(range(59, 9, -1))
    assert len([query for query in queries if "SELECT" in query]) == 1


async def test_a_turn_of_a_hundred_thousand_events_is_read_from_any_of_them(
    store: ConversationStore,
) -> None:
    await store.begin(new_turn(1))
    events = [TextDelta(part_id="1", delta="x")] * 5_000
    for start in range(0, 100_000, 5_000):
        await store.append("t1", events, after=start)
    assert await store.last_seq("t1") == 100_000
    assert [seq for seq, _ in await store.events("t1", 99_990)] == list(range(99_991, 100_001))
    with pytest.raises(sqlite3.IntegrityError):
        await store.append("t1", [TextDelta(part_id="1", delta="twice")], after=99_999)


async def test_a_clock_that_jumps_changes_no_order(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(["2031-01-01T00:00:00.000Z", "1999-12-31T23:59:59.000Z"] * 50)
    for module in ("store", "log"):
        monkeypatch.setattr(f"jupyter_agent.conversations.{module}.now", lambda: next(clock))
    for number in range(5):
        await store.begin(new_turn(number))
        await ended(store, f"t{number}")
    turns = await store.turns("local", "talk")
    assert [turn.id for turn in turns] == [f"t{number}" for number in range(5)]


# -- bugs


async def test_a_bug_in_any_tool_ends_the_turn_and_is_loud(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    async def broken(self: Tool, nb: Lease, progress: Progress | None = None) -> Result:
        raise ZeroDivisionError("our own bug")

    inputs: dict[str, dict[str, Any]] = {
        "read_cells": {"cell_ids": ["b2"]},
        "search_notebook": {"query": "x"},
        "wait_for_run": {"run_id": "r"},
        "read_file": {"path": "a"},
        "move_cell": {"cell_id": "b2"},
        "delete_cell": {"cell_id": "b2"},
        "create_notebook": {"path": "n.ipynb"},
        "create_cells": {"cells": [{"source": "1"}]},
        "edit_cells": {"edits": [{"cell_id": "b2", "source": "1"}]},
        "run_code": {"code": "1"},
        "write_plan": {"steps": [{"text": "Go.", "state": "open"}]},
    }
    allow = ["restart_kernel", "interrupt_kernel"]
    for tool in toolbox().tools:
        caplog.clear()
        replies.append([calls(tool.name, **inputs.get(tool.name, {}))])
        body = ask("Go.", stream=False, id=tool.name, allow=allow)
        with monkeypatch.context() as patched:
            patched.setattr(tool, "run", broken)
            done = (await call("POST", "chat", body=body)).body
        assert done["state"] == "failed", tool.name
        state = (await call("GET", "turns", done["turn_id"])).body
        if tool.name != "get_notebook_state":  # the turn itself used it before any call
            assert [made["state"] for made in state["calls"]] == ["failed"], tool.name
        assert "our own bug" not in json.dumps(done)
        assert "internal error" in caplog.text
        assert "ZeroDivisionError: our own bug" in caplog.text
        replies.append([says("Here.")])
        again = ask("Hello?", stream=False, id=tool.name)
        assert (await call("POST", "chat", body=again)).body["state"] == "done"
    assert fake.refusals == []
    monkeypatch.setattr(
        next(tool for tool in toolbox().tools if tool.name == "read_cells"), "run", broken
    )
    input = {"mode": "auto", "notebook": PATH, "input": {"cell_ids": ["b2"]}}
    answer = await call("POST", "tools", "read_cells", body=input)
    assert answer.status == 500
    assert "Traceback" not in answer.text


async def test_what_blocks_the_event_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(LOG, seconds=0.05)

    def hogs_the_loop() -> None:
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            pass

    hogs_the_loop()
    await until(lambda: "blocked" in caplog.text)
    watchdog.close()
    assert "hogs_the_loop" in caplog.text


async def test_the_watchdog_ends_whatever_it_is_about_to_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`close` comes when its thread is about to ping the loop, which then waits for that thread."""
    events: list[Slow] = []

    class Slow(threading.Event):
        """Is cleared just after it was set."""

        def __init__(self) -> None:
            super().__init__()
            self.clearing, self.was_set = threading.Semaphore(0), threading.Semaphore(0)
            events.append(self)

        def clear(self) -> None:
            self.clearing.release()
            self.was_set.acquire()
            super().clear()

        def set(self) -> None:
            super().set()
            self.was_set.release()

    with monkeypatch.context() as patched:
        patched.setattr(threading, "Event", Slow)
        watchdog = Watchdog(LOG, seconds=0.01)
    answered = next(event for event in events if event.clearing.acquire(timeout=5))
    rescue = threading.Timer(5, answered.set)  # or this test would never end
    rescue.start()
    watchdog.close()
    assert rescue.is_alive()
    rescue.cancel()


# -- missing packages

WITHOUT = """
import sys

# What `import` takes for not installed.
sys.modules.update(dict.fromkeys(["openai", "jupyter_server_ydoc", "jupyter_collaboration"]))
"""


@pytest.mark.full
def test_without_what_is_optional_the_server_runs_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    config = tmp_path / ".config" / "jupyter_server_config.py"
    config.parent.mkdir()
    config.write_text(WITHOUT)
    with jupyter_server(tmp_path, COMMAND) as server:
        status = server.request("GET", "status")
        assert status["carriers"] == ["tab", "file"]
        assert "jupyter-collaboration" in status["notes"][0]
        assert "jupyter-live-agent[openai]" in status["notes"][1]
        body = {**question("talk"), "model": "demo:tour"}
        assert server.request("POST", "chat", body)["state"] == "done"


# -- when data are durable


async def test_what_a_crash_left_open_is_unknown_and_what_waited_was_refused(
    store: ConversationStore,
) -> None:
    await store.begin(new_turn(1))
    ready = [CallReady(call_id=id, tool="run_cell", input={}) for id in ("asked", "running")]
    await store.append("t1", ready)
    await store.database.execute(
        "INSERT INTO approvals (id, turn_id, call_id, approval, binding, state, expires)"
        " VALUES ('a', 't1', 'asked', '{}', '', 'pending', '')"
    )
    await ended(store, "t1")
    states = {made["call_id"]: made["state"] for made in await store.calls("t1")}
    assert states == {"asked": "refused", "running": "unknown"}


async def test_what_a_crash_left_open_is_not_shown_as_written_or_asked_any_more(
    store: ConversationStore, tmp_path: Path
) -> None:
    events: list[Event] = [
        ThinkingStarted(part_id="1-0"),
        ThinkingEnded(part_id="1-0"),
        TextStarted(part_id="1-1"),
        TextDelta(part_id="1-1", delta="May"),
        ThinkingStarted(part_id="1-2"),
        CallStarted(call_id="written", tool="run_cell"),
        CallInputDelta(call_id="written", input_text_delta='{"cell_id": "a'),
    ]
    for id in ("asked", "answered", "running"):
        events.append(CallStarted(call_id=id, tool="run_cell"))
        events.append(CallReady(call_id=id, tool="run_cell", input={"cell_id": id}))
    for id in ("asked", "answered"):
        events.append(ApprovalRequested(approval_id=f"?{id}", call_id=id, approval={}))
    given = [{"id": "?answered", "approved": True}]
    events.append(Notice(kind="answered", text="", facts={"approvals": given}))
    await store.begin(new_turn(1))
    await store.append("t1", events)
    presence = Presence(tmp_path / "servers")
    await InterruptedTurns(store, presence).end()
    presence.close()

    told = await store.events("t1")
    parts = wire.message("m1", [event for _, event in told])["parts"]
    assert [part.get("state") for part in parts if part["type"] != "data-notice"] == [
        "done",
        "done",
        "done",
        "output-error",
        "output-denied",
        "approval-responded",
        "input-available",
    ]
    assert parts[3]["input"] == '{"cell_id": "a'
    states = {made["call_id"]: made["state"] for made in await store.calls("t1")}
    assert states == {
        "written": "failed", "asked": "refused", "answered": "unknown", "running": "unknown"
    }  # fmt: skip
    assert [seq for seq, _ in told] == sorted({seq for seq, _ in told})
    assert told[-1][1].type == "error"


async def test_calls_of_a_last_step_end_as_failed(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    look = calls("get_notebook_state")
    replies += [[look], [says("The end."), look]]
    done = (await call("POST", "chat", body=ask("Look.", stream=False, max_steps=2))).body
    state = (await call("GET", "turns", done["turn_id"])).body
    assert [made["state"] for made in state["calls"]] == ["done", "failed"]


async def test_the_question_is_durable_before_the_first_upstream_byte(
    call: Call, agent: Assistant, replies: list[FakeReply], fake: FakeAnthropic, notebook: Path
) -> None:
    stored: list[str] = []

    class Looking(list[dict[str, Any]]):
        """Reads the store, like another program, before the request is answered."""

        def append(self, body: dict[str, Any]) -> None:
            other = sqlite3.connect(agent.database.path)
            stored.extend(row[0] for row in other.execute("SELECT question FROM turns"))
            other.close()
            super().append(body)

    fake.requests = Looking()
    replies.append([says("Yes.")])
    chunks = frames((await call("POST", "chat", body=ask("Are you sure?"))).text)
    assert "Are you sure?" in stored[0]
    assert [chunk["seq"] for chunk in chunks[:-1]] == list(range(1, len(chunks)))
