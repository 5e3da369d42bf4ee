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

import nbformat
import pytest

from jupyter_agent.testing import FakeAnthropic, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Call, ask

STORES = Path(__file__).parent / "stores"


@pytest.fixture
def jp_server_config(
    jp_server_config: dict[str, Any], tmp_path: Path, fake: FakeAnthropic
) -> dict[str, Any]:
    folder = tmp_path / "store"
    folder.mkdir()
    database = sqlite3.connect(folder / "conversations.db")
    database.executescript((STORES / "version_2.sql").read_text(encoding="utf-8"))
    database.close()
    key = folder / "keys.json"
    key.write_text(json.dumps({"anthropic": fake.api_key}), encoding="utf-8")
    key.chmod(0o600)
    del jp_server_config["JupyterAgent"]["providers"]["anthropic"]["api_key"]
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
        assert _timeless(_known(found, answered)) == _timeless(answered), route


async def test_conversations_are_continued_with_the_key_beside_it(
    call: Call, notebook: Path, replies: list[FakeReply], fake: FakeAnthropic
) -> None:
    replies += [[says("Still here.")]] * 2
    for id in ("talk", "left"):
        body = ask("And now?", id=id, stream=False)
        assert (await call("POST", "chat", body=body)).body["state"] == "done"
    assert fake.refusals == []
    for body, question in zip(fake.requests, ("Do it.", "Change it."), strict=True):
        assert question in str(body["messages"])


async def test_an_answer_in_it_is_undone(call: Call, notebook: Path) -> None:
    turn = "t_6bae16b82f60fc98ffb24c18ecd83c8b"
    book = nbformat.read(notebook, as_version=4)
    book.cells[1].source = "x = 2"  # as that answer left it
    nbformat.write(book, notebook)
    assert (await call("POST", "turns", turn, "undo")).status == 200
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 1"


@pytest.mark.full
async def test_its_copies_of_notebooks_are_listed(call: Call, notebook: Path) -> None:
    assert len((await call("GET", "notebooks", PATH, "recovery")).body["copies"]) == 3


def _known(found: Any, answered: Any) -> Any:
    """What was found, without the fields that answers had not yet then."""
    if isinstance(found, dict) and isinstance(answered, dict):
        return {key: _known(found[key], answered[key]) for key in found.keys() & answered.keys()}
    if isinstance(found, list) and isinstance(answered, list) and len(found) == len(answered):
        return [_known(one, other) for one, other in zip(found, answered, strict=True)]
    return found


def _timeless(value: Any) -> Any:
    """Without when the turn of the killed server was ended, which is when the store was opened,
    and without what turns took, which that version did not tell."""
    if isinstance(value, dict):
        took = {"ended"} | ({"seconds"} if "turnId" in value else set())
        return {key: _timeless(item) for key, item in value.items() if key not in took}
    if isinstance(value, list):
        return [_timeless(item) for item in value if not _tells_failure(item)]
    return value


def _tells_failure(item: Any) -> bool:
    """Of the turn of the killed server, which is ended when the store is opened."""
    data = item.get("data") if isinstance(item, dict) else None
    return isinstance(data, dict) and data.get("kind") == "failed"
