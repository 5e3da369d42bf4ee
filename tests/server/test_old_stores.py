"""A store that an earlier version wrote opens, and shows everything as that version showed it.

`stores/version_2.sql` is the dump of such a store: a conversation with reads, edits, a run, a
failed call, questions that were allowed for good and declined, cells kept and taken back; and one
whose server was killed while a question waited. `stores/version_2.json` is what the version that
wrote it answered of it over REST.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.testing import FakeAnthropic, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Call, ask

STORES = Path(__file__).parent / "stores"


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "store"
    folder.mkdir()
    database = sqlite3.connect(folder / "conversations.db")
    database.executescript((STORES / "version_2.sql").read_text(encoding="utf-8"))
    database.close()
    return jp_server_config


async def test_everything_in_it_is_shown_as_before(call: Call, notebook: Path) -> None:
    expected = json.loads((STORES / "version_2.json").read_text(encoding="utf-8"))
    for route, answered in expected.items():
        if route in ("changes", "blame"):
            found = (await call("GET", "notebooks", PATH, route)).body
        else:
            found = (await call("GET", *route.split("/"))).body
        if route.endswith("/requests"):
            found = [
                {
                    "host": request["host"],
                    "characters": request["characters"],
                    "messages": len(request["messages"]),
                }
                for request in found
            ]
        assert _timeless(found) == _timeless(answered), route


async def test_a_conversation_in_it_goes_on(
    call: Call, notebook: Path, replies: list[FakeReply], fake: FakeAnthropic
) -> None:
    replies += [[says("Still here.")]] * 2
    for id in ("talk", "left"):
        body = ask("And now?", id=id, stream=False)
        assert (await call("POST", "chat", body=body)).body["state"] == "done"
    assert fake.refusals == []


def _timeless(value: Any) -> Any:
    """Without when the turn of the killed server was ended, which is when the store was opened."""
    if isinstance(value, dict):
        return {key: _timeless(item) for key, item in value.items() if key != "ended"}
    return [_timeless(item) for item in value] if isinstance(value, list) else value
