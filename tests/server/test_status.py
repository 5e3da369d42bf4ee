"""Models and keys, and the server's status."""

from __future__ import annotations

from pathlib import Path

from jupyter_agent import __version__
from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic

from .conftest import PATH, Call

CANARY = "sk-canary-5a1f0c"


def credentials(models: dict[str, list[dict[str, object]]], name: str) -> object:
    return next(item["credentials"] for item in models["providers"] if item["name"] == name)


async def test_a_key_works_at_once_and_is_never_answered(
    agent: Assistant, call: Call, tmp_path: Path
) -> None:
    before = await call("GET", "models")
    assert credentials(before.body, "openai") is False
    stored = await call("PUT", "providers", "openai", "key", body={"key": CANARY})
    assert stored.status == 204
    after = await call("GET", "models")
    assert credentials(after.body, "openai") is True
    assert CANARY not in after.text
    (kept,) = [
        path
        for path in (tmp_path / "store").rglob("*")
        if path.is_file() and CANARY in path.read_text("latin1")
    ]
    assert kept.stat().st_mode & 0o077 == 0
    assert (await call("DELETE", "providers", "openai", "key")).status == 204
    assert credentials((await call("GET", "models")).body, "openai") is False


async def test_a_key_is_checked_where_that_is_asked_for(
    call: Call, fake: FakeAnthropic, tmp_path: Path
) -> None:
    path = ("providers", "anthropic", "key")
    refused = await call("PUT", *path, body={"key": CANARY, "check": True})
    assert (refused.status, refused.body.get("reason")) == (422, "key_rejected"), refused.text
    assert "rejected this key" in refused.body["message"]
    assert not [
        file
        for file in (tmp_path / "store").rglob("*")
        if file.is_file() and CANARY in file.read_text("latin1")
    ]
    taken = await call("PUT", *path, body={"key": fake.api_key, "check": True})
    assert (taken.status, taken.body) == (200, {"models": 2})
    nobody = await call("PUT", "providers", "ollama", "key", body={"key": "k", "check": True})
    assert (nobody.status, nobody.body) == (200, {"models": None})


async def test_a_model_without_a_key_says_what_to_do(call: Call, notebook: Path) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "model": "openai:gpt-x"}
    answer = await call("POST", "chat", body=body)
    assert answer.status == 400
    assert answer.body["reason"] == "authentication"
    assert "OPENAI_API_KEY" in answer.body["message"]


async def test_the_status_tells_version_carriers_notebooks_and_store(
    call: Call, notebook: Path
) -> None:
    await call("GET", "notebooks", PATH)
    status = (await call("GET", "status")).body
    assert status["version"] == __version__
    assert {"path": PATH, "carrier": "file"} in status["notebooks"]
    assert status["turns"] == []
    assert status["share"] == "all"
    assert status["store"]["ok"] is True


async def test_reads_are_tried_twice_more_where_nothing_is_configured(agent: Assistant) -> None:
    assert agent.options.read_retries == {"*": 2}


async def test_every_option_has_a_sentence(agent: Assistant) -> None:
    for name, trait in agent.options.class_own_traits(config=True).items():
        assert str(trait.help).strip(), name


async def test_in_the_rooms_of_another_package_every_request_says_what_to_do(
    agent: Assistant, call: Call, notebook: Path
) -> None:
    """Like jupyter-server-documents 0.3, which replaces jupyter-collaboration."""
    settings = agent.server.web_app.settings
    settings |= {"yroom_manager": object(), "jupyter_server_ydoc": object()}
    before = notebook.read_bytes()
    status = (await call("GET", "status")).body
    assert status["carriers"] == []
    assert "jupyter-server-documents" in status["notes"][0]
    for method, body in (("GET", None), ("PATCH", {"source": "x = 2"})):
        refused = await call(method, "notebooks", PATH, "cells", "b2", body=body)
        assert refused.status in (409, 423), refused
        assert "jupyter-server-documents" in refused.body["message"]
    assert notebook.read_bytes() == before
