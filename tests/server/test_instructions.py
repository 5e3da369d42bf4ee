"""Instructions of the project and the person reach the model and are shown as active."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.auth import Authorizer

from jupyter_agent.conversations.instructions import MOST_CHARACTERS
from jupyter_agent.testing import FakeAnthropic, says
from jupyter_agent.testing.script import FakeReply

from .conftest import PATH, Call, ask


@pytest.fixture
def files(jp_root_dir: Path, notebook: Path) -> None:
    (jp_root_dir / "AGENTS.md").write_text("Write British English.")
    (jp_root_dir / "CLAUDE.md").write_text("Not read: the other one is there.")
    (notebook.parent / "CLAUDE.md").write_text("Plot with matplotlib.")


def prompt(fake: FakeAnthropic) -> str:
    text: str = fake.requests[-1]["system"][0]["text"]
    return text


async def test_files_and_settings_are_in_the_prompt_the_most_particular_last(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, files: None
) -> None:
    replies.append([says("Hello.")])
    await call("POST", "chat", body=ask("Hi", instructions="Answer in verse.", stream=False))
    said = prompt(fake)
    places = [said.find(text) for text in ("British English", "matplotlib", "in verse")]
    assert -1 not in places
    assert places == sorted(places)
    assert "Not read" not in said

    conversation = (await call("GET", "conversations", "talk")).body
    shown = [
        {"source": "AGENTS.md", "characters": 22, "cut": False},
        {"source": "sales, Q3/CLAUDE.md", "characters": 21, "cut": False},
        {"source": "settings", "characters": 16, "cut": False},
    ]
    assert conversation["instructions"] == shown
    turn = (await call("GET", "turns", conversation["turns"][0]["id"])).body
    assert turn["instructions"] == shown


async def test_the_status_names_the_files_that_count_for_a_notebook(
    call: Call, files: None
) -> None:
    here = (await call("GET", "status", params={"notebook": PATH})).body["instructions"]
    assert [each["source"] for each in here] == ["AGENTS.md", "sales, Q3/CLAUDE.md"]
    anywhere = (await call("GET", "status")).body["instructions"]
    assert [each["source"] for each in anywhere] == ["AGENTS.md"]


async def test_what_is_too_long_is_cut_and_says_so(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, jp_root_dir: Path, notebook: Path
) -> None:
    (jp_root_dir / "AGENTS.md").write_text("x" * (MOST_CHARACTERS + 1))
    replies.append([says("Hello.")])
    await call("POST", "chat", body=ask("Hi", stream=False))
    assert f"{'x' * MOST_CHARACTERS}\n[cut here]" in prompt(fake)
    (active,) = (await call("GET", "status")).body["instructions"]
    assert active["cut"]


async def test_a_folder_of_that_name_or_bytes_are_no_instructions(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, jp_root_dir: Path, notebook: Path
) -> None:
    (jp_root_dir / "AGENTS.md").mkdir()
    (notebook.parent / "AGENTS.md").write_bytes(b"\xff\xfe\x00")
    replies.append([says("Hello.")])
    await call("POST", "chat", body=ask("Hi", stream=False))
    assert "Instructions of the project" not in prompt(fake)


@pytest.mark.parametrize("where", ["root", "beside", "folder"])
@pytest.mark.parametrize("target", ["outside", "within"])
async def test_instructions_are_never_read_through_a_link(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    jp_root_dir: Path,
    tmp_path: Path,
    notebook: Path,
    where: str,
    target: str,
) -> None:
    """A cloned folder may bring a link to a private key."""
    aside = tmp_path / "aside" if target == "outside" else jp_root_dir / "aside"
    aside.mkdir()
    (aside / "AGENTS.md").write_text("PRIVATE KEY")
    path = PATH
    if where == "folder":
        (aside / notebook.name).write_bytes(notebook.read_bytes())
        (jp_root_dir / "cloned").symlink_to(aside)
        path = f"cloned/{notebook.name}"
    else:
        folder = jp_root_dir if where == "root" else notebook.parent
        (folder / "AGENTS.md").symlink_to(aside / "AGENTS.md")
        (folder / "CLAUDE.md").write_text("Plot with matplotlib.")
    replies.append([says("Hello.")])
    await call("POST", "chat", body=ask("Hi", notebook=path, stream=False))
    assert "PRIVATE KEY" not in json.dumps(fake.requests)
    here = (await call("GET", "status", params={"notebook": path})).body["instructions"]
    assert [each["source"].rpartition("/")[2] for each in here] == (
        [] if where == "folder" else ["CLAUDE.md"]
    )


async def test_instructions_are_a_regular_file(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, jp_root_dir: Path, notebook: Path
) -> None:
    os.mkfifo(jp_root_dir / "AGENTS.md")
    replies.append([says("Hello.")])
    answer = await call("POST", "chat", body=ask("Hi", stream=False))
    assert answer.body["state"] == "done"
    assert "Instructions of the project" not in prompt(fake)


class NoReading(Authorizer):
    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return (action, resource) != ("read", "contents")


async def test_who_may_not_read_files_gets_no_instructions_of_them(
    call: Call, jp_serverapp: Any, files: None
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = NoReading(parent=jp_serverapp)
    assert (await call("GET", "status")).body["instructions"] == []
