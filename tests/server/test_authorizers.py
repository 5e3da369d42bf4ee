"""Who may do what, by route and by tool, whatever kind of authorizer Jupyter has."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer, IdentityProvider, User
from tornado.httpclient import HTTPClientError

from jupyter_agent.assistant import Assistant
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask, frames
from .test_routes import all_operations


@pytest.fixture(params=[True, False])
def unauthenticated_access(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], request: Any) -> dict[str, Any]:
    if "unauthenticated_access" in request.fixturenames:
        allowed = request.getfixturevalue("unauthenticated_access")
        jp_server_config["ServerApp"]["allow_unauthenticated_access"] = allowed
    return jp_server_config


async def test_no_route_answers_without_a_token(
    agent: Assistant, jp_fetch: Any, unauthenticated_access: bool
) -> None:
    for method, path in all_operations(agent):
        body = "{}" if method in ("post", "put", "patch") else None
        segments = ("api", "agent", *path.split("/"))
        wrong = {"Authorization": "token wrong"}
        with pytest.raises(HTTPClientError) as caught:
            await jp_fetch(*segments, method=method.upper(), body=body, headers=wrong)
        assert caught.value.code in (401, 403), f"{method} {path}"


# -- eight authorizers

Asked = tuple[str, str]


class Recording(Authorizer):
    """Allows everything, and records what it was asked about whom."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.asked: list[Asked] = []

    def allows(self, action: str, resource: str) -> bool:
        return True

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> Any:
        assert user == handler.current_user
        assert handler.request.headers["Authorization"]  # the request, even after it was answered
        self.asked.append((action, resource))
        return self.allows(action, resource)


class NoContents(Recording):
    def allows(self, action: str, resource: str) -> bool:
        return resource != "contents"


class NoKernels(Recording):
    def allows(self, action: str, resource: str) -> bool:
        return resource != "kernels"


class NoAgent(Recording):
    def allows(self, action: str, resource: str) -> bool:
        return resource != "agent"


class ReadsOnly(Recording):
    def allows(self, action: str, resource: str) -> bool:
        return action == "read" or resource == "agent"


class Raising(Recording):
    def allows(self, action: str, resource: str) -> bool:
        if resource == "kernels":
            raise RuntimeError("the directory of users does not answer")
        return True


class Slow(Recording):
    """Asynchronous, and denies running code."""

    async def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        allowed = await asyncio.to_thread(super().is_authorized, handler, user, action, resource)
        return bool(allowed) and action != "execute"


class SlowRaising(Raising):
    async def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return await asyncio.to_thread(Raising.allows, self, action, resource)


# authorizer: (chat, read the notebook, edit it, run a cell)
ALLOWED: dict[type[Recording], tuple[bool, bool, bool, bool]] = {
    Recording: (True, True, True, True),
    NoContents: (True, False, False, False),
    NoKernels: (True, True, True, False),
    NoAgent: (False, False, False, False),
    ReadsOnly: (True, True, False, False),
    Raising: (True, True, True, False),
    Slow: (True, True, True, False),
    SlowRaising: (True, True, True, False),
}
TOOLS = [
    ("get_notebook_state", {}),
    ("update_cell", {"cell_id": "b2", "old_string": "x = ", "new_string": "x =  "}),
    ("run_cell", {"cell_id": "b2"}),
]


async def by_route(call: Call) -> list[bool]:
    """Whether reading, editing and running are allowed by the notebook routes."""
    cell = ("notebooks", PATH, "cells", "b2")
    edit = {"old_string": "x = ", "new_string": "x =  "}
    answers = [
        await call("GET", "notebooks", PATH),
        await call("PATCH", *cell, body=edit),
        await call("POST", *cell, "run"),
    ]
    assert {answer.status for answer in answers} <= {200, 403}
    return [answer.status == 200 for answer in answers]


async def by_tool(call: Call) -> list[bool]:
    answers = [
        await call("POST", "tools", tool, body={"mode": "auto", "notebook": PATH, "input": input})
        for tool, input in TOOLS
    ]
    for answer in answers:
        assert answer.status in (200, 403)
        if answer.status == 200 and answer.body["is_error"]:
            assert answer.body["reason"] == "denied"
    return [answer.status == 200 and not answer.body["is_error"] for answer in answers]


@pytest.mark.full
@pytest.mark.parametrize("kind", list(ALLOWED))
async def test_each_authorizer_holds_by_route_by_tool_and_in_a_turn(
    call: Call, agent: Assistant, jp_serverapp: Any, replies: list[FakeReply], notebook: Path,
    kind: type[Recording],
) -> None:  # fmt: skip
    authorizer = kind(parent=jp_serverapp)
    jp_serverapp.web_app.settings["authorizer"] = authorizer
    chat, *allowed = ALLOWED[kind]
    if kind is not NoAgent:  # notebook routes need Jupyter's own permissions, not `agent`
        assert await by_route(call) == allowed
    assert await by_tool(call) == allowed

    replies += [[calls(tool, **input) for tool, input in TOOLS], [says("Done.")]]
    body = ask("Do it.", mode="ask", allow=[tool for tool, _ in TOOLS])
    answer = await call("POST", "chat", body=body)
    assert (answer.status == 200) == chat
    if not chat:
        return
    ends = {"tool-output-available", "tool-output-denied", "tool-output-error"}
    chunks = [chunk for chunk in frames(answer.text) if chunk["type"] in ends]
    done = {c["toolCallId"]: c["type"] for c in chunks if not c.get("preliminary")}
    assert [done[id] == "tool-output-available" for id in sorted(done)] == allowed
    assert set(done.values()) <= {"tool-output-available", "tool-output-denied"}


class NoReadingOfContents(Recording):
    def allows(self, action: str, resource: str) -> bool:
        return (action, resource) != ("read", "contents")


class NoWritingOfContents(Recording):
    def allows(self, action: str, resource: str) -> bool:
        return (action, resource) != ("write", "contents")


CONTEXT: list[dict[str, str]] = [
    {"type": "cell", "notebook": PATH, "cell_id": "b2"},
    {"type": "file", "path": PATH},
    {"type": "file", "path": "notes.txt"},
    {"type": "selection", "notebook": PATH, "cell_id": "b2", "text": "x = SECRET"},
]


@pytest.mark.parametrize("may", [True, False])
async def test_what_is_attached_and_told_of_notebooks_is_read_as_the_user(
    call: Call, agent: Assistant, jp_serverapp: Any, jp_root_dir: Path, replies: list[FakeReply],
    fake: FakeAnthropic, notebook: Path, may: bool,
) -> None:  # fmt: skip
    notebook.write_text(notebook.read_text().replace("x = 1", "x = SECRET"))
    (jp_root_dir / "notes.txt").write_text("SECRET")
    replies += [[calls("get_notebook_state")], [says("Seen.")], [says("Attached.")]]
    await call("POST", "chat", body=ask("Look."))
    if not may:
        jp_serverapp.web_app.settings["authorizer"] = NoReadingOfContents(parent=jp_serverapp)
    notebook.write_text(notebook.read_text().replace("x is", "x is NEWS"))
    body = ask("What is this?", context=CONTEXT)
    body["messages"][0]["id"] = "u2"
    assert (await call("POST", "chat", body=body)).status == 200
    asked = json.dumps(fake.requests[-1]["messages"][-1:])
    with_outline = len(CONTEXT) + 1
    assert asked.count("SECRET") == (with_outline if may else 0)
    assert asked.count("You are not allowed to read contents") == (0 if may else len(CONTEXT))
    assert ("NEWS" in asked) == may


@pytest.mark.full
@pytest.mark.parametrize("kind", [Recording, NoKernels])
async def test_an_attached_variable_is_looked_at_as_the_user(
    call: Call, agent: Assistant, jp_serverapp: Any, replies: list[FakeReply],
    fake: FakeAnthropic, notebook: Path, kind: type[Recording],
) -> None:  # fmt: skip
    notebook.write_text(notebook.read_text().replace("x = 1", "x = 'SEC' + 'RET'"))
    await call("POST", "notebooks", PATH, "cells", "b2", "run")
    jp_serverapp.web_app.settings["authorizer"] = kind(parent=jp_serverapp)
    replies += [[says("Attached.")]]
    body = ask("What is this?", context=[{"type": "variable", "name": "x"}])
    assert (await call("POST", "chat", body=body)).status == 200
    asked = json.dumps(fake.requests[-1]["messages"])
    assert ("SECRET" in asked) == (kind is Recording)
    assert ("You are not allowed to execute kernels" in asked) == (kind is NoKernels)


@pytest.mark.parametrize("may", [True, False])
async def test_the_status_names_open_notebooks_to_those_who_may_read(
    call: Call, agent: Assistant, jp_serverapp: Any, notebook: Path, may: bool
) -> None:
    await call("GET", "notebooks", PATH)
    if not may:
        jp_serverapp.web_app.settings["authorizer"] = NoReadingOfContents(parent=jp_serverapp)
    status = await call("GET", "status", params={"notebook": PATH})
    assert status.status == 200
    assert (PATH in status.text) == may
    assert [opened["path"] for opened in status.body["notebooks"]] == ([PATH] if may else [])


@pytest.mark.parametrize("may", [True, False])
async def test_what_a_question_replaces_is_undone_as_the_user(
    call: Call, agent: Assistant, jp_serverapp: Any, replies: list[FakeReply], notebook: Path,
    may: bool,
) -> None:  # fmt: skip
    edit = calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 'AGENT'")
    replies += [[edit], [says("Done.")], [says("Undone.")]]
    await call("POST", "chat", body=ask("Edit it."))
    assert "AGENT" in notebook.read_text()
    if not may:
        jp_serverapp.web_app.settings["authorizer"] = NoWritingOfContents(parent=jp_serverapp)
    again = await call("POST", "chat", body=ask("Edit it.", messageId="u1", undo=True))
    assert again.status == (200 if may else 403)
    assert ("AGENT" in notebook.read_text()) != may
    if not may:
        assert again.body["reason"] == "denied"
        turns = (await call("GET", "conversations", "talk")).body["turns"]
        assert len(turns) == 1, "the question stays as it was"


async def test_a_turn_is_authorized_as_its_user_after_the_request_is_gone(
    call: Call, agent: Assistant, jp_serverapp: Any, replies: list[FakeReply], notebook: Path
) -> None:
    """The client has left; permissions revoked since then are revoked for the turn, too."""
    authorizer = Recording(parent=jp_serverapp)
    jp_serverapp.web_app.settings["authorizer"] = authorizer
    run = calls("run_cell", cell_id="b2")
    replies += [[run], [says("Done.")], [run], [says("Done.")]]
    for revoked in (False, True):
        waiting = await call("POST", "chat", body=ask("Run.", mode="ask", stream=False))
        authorizer.asked.clear()
        if revoked:
            later = NoKernels(parent=jp_serverapp)
            jp_serverapp.web_app.settings["authorizer"] = later
        (approval,) = waiting.body["approvals"]
        reply = {"approvals": [{"id": approval["id"], "approved": True}], "wait": 60}
        done = (await call("POST", "chat", "talk", "approvals", body=reply)).body
        assert done["state"] == "done"
        turn = (await call("GET", "turns", waiting.body["turn_id"])).body
        assert [made["state"] for made in turn["calls"]] == ["refused" if revoked else "done"], (
            turn["audit"]
        )


# -- the settings that all users of a server share


class NoAdministration(Recording):
    """Lets every user do everything with their own data, as a shared server might."""

    def allows(self, action: str, resource: str) -> bool:
        return resource in ("agent", "contents", "kernels", "sessions")


class Administration(NoAdministration):
    def allows(self, action: str, resource: str) -> bool:
        return super().allows(action, resource) or (action, resource) == ("write", "agent:admin")


class Named(IdentityProvider):
    """Users by name, as a hub gives them."""

    def get_user(self, handler: Any) -> User | None:
        return User(username=handler.request.headers.get("X-User", "ann"))

    def is_token_authenticated(self, handler: Any) -> bool:
        return True


KEY = ("providers", "openai", "key")


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", [NoAdministration, Administration])
async def test_keys_are_changed_by_administrators_or_the_only_user(
    call: Call, agent: Assistant, jp_serverapp: Any, kind: type[Recording], named: bool
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = authorizer = kind(parent=jp_serverapp)
    if named:
        jp_serverapp.web_app.settings["identity_provider"] = Named(parent=jp_serverapp)
    agent.models.set_key("openai", "sk-of-everybody")
    may = kind is Administration or not named
    for method, body in (("PUT", {"key": "sk-of-one"}), ("DELETE", None)):
        answer = await call(method, *KEY, body=body)
        assert answer.status == (204 if may else 403)
        if not may:
            assert answer.body["reason"] == "denied"
            assert "agent:admin" in answer.body["message"]
    has_key = {each["name"]: each["credentials"] for each in agent.models.describe()["providers"]}
    assert has_key["openai"] == (not may)
    assert (("write", "agent:admin") in authorizer.asked) == named
