"""The file behind a path: links and other spellings of one path, for rules and for models."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.tools import FORMER
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from .conftest import Call

SECRET = "SALARY-4711"
HOME = "home.ipynb"


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    jp_server_config["JupyterAgent"]["rules"] = [
        {"verdict": "deny", "notebook": "prod/*"},
        {"verdict": "deny", "notebook": "caf\u00e9/*"},
        {"verdict": "allow", "tool": "update_cell", "notebook": "free/*"},
    ]
    return jp_server_config


def write(path: Path, source: str = "x = 1") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[new_code_cell(source, id="a1")]), path)


# -- links


@pytest.fixture
def links(jp_root_dir: Path, tmp_path: Path) -> Path:
    """A folder as someone may have cloned it: `home.ipynb`, and links to outside of it."""
    outside = tmp_path / "outside"
    write(outside / "secret.ipynb", SECRET)
    (outside / "id_rsa").write_text(SECRET)
    (jp_root_dir / ".ssh").mkdir()
    (jp_root_dir / ".ssh" / "id_rsa").write_text(SECRET)
    write(jp_root_dir / HOME)
    (jp_root_dir / "notes.txt").write_text("harmless notes")
    (jp_root_dir / "sub").mkdir()
    for name, target in {
        "key.txt": outside / "id_rsa",
        "folder": outside,
        "again.txt": Path("key.txt"),
        "sub/up": Path("../folder"),
        "secret.ipynb": outside / "secret.ipynb",
        "new.ipynb": outside / "made.ipynb",
        "hidden.txt": Path(".ssh/id_rsa"),
        "hidden": Path(".ssh"),
        "within.txt": Path("notes.txt"),
        "within": Path("sub"),
    }.items():
        (jp_root_dir / name).symlink_to(target)
    if Path("/proc/self/environ").exists():
        (jp_root_dir / "environ").symlink_to("/proc/self/environ")
    os.mkfifo(jp_root_dir / "pipe")
    return jp_root_dir


LEADS_OUT: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "key.txt"}),
    ("read_file", {"path": "again.txt"}),
    ("read_file", {"path": "folder/id_rsa"}),
    ("read_file", {"path": "sub/../folder/id_rsa"}),
    ("read_file", {"path": "sub/up/id_rsa"}),
    ("read_file", {"path": "secret.ipynb"}),
    ("read_file", {"path": "folder/secret.ipynb"}),
    ("read_file", {"path": "environ"}),
    ("read_file", {"path": "hidden.txt"}),
    ("read_file", {"path": "hidden/id_rsa"}),
    ("read_file", {"path": "notes.txt", "notebook": "secret.ipynb"}),
    ("list_files", {"path": "folder"}),
    ("list_files", {"path": "hidden"}),
    ("get_notebook_state", {"notebook": "secret.ipynb"}),
    ("read_cells", {"notebook": "secret.ipynb", "cell_ids": ["a1"]}),
    ("search_notebook", {"notebook": "folder/secret.ipynb", "query": "SALARY"}),
    ("update_cell", {"notebook": "secret.ipynb", "cell_id": "a1", "source": "gone"}),
    ("create_cell", {"notebook": "folder/secret.ipynb", "source": "more"}),
    ("run_cells", {"notebook": "secret.ipynb"}),
    ("verify_notebook", {"notebook": "secret.ipynb"}),
    ("create_notebook", {"path": "folder/made.ipynb"}),
    ("create_notebook", {"path": "new.ipynb"}),
]


@pytest.mark.parametrize("entry", ["tools", "chat"])
@pytest.mark.plugs
async def test_what_a_model_names_stays_in_the_folder(
    call: Call,
    replies: list[FakeReply],
    fake: FakeAnthropic,
    links: Path,
    tmp_path: Path,
    entry: str,
) -> None:
    outside = tmp_path / "outside"
    before = {path.name: path.read_bytes() for path in outside.iterdir()}
    if entry == "tools":
        for tool, given in LEADS_OUT:
            body = {"notebook": HOME, "mode": "auto", "input": given}
            answer = (await call("POST", "tools", tool, body=body)).body
            assert (answer["is_error"], answer.get("reason")) == (True, "denied"), (tool, given)
            assert "link" in answer["text"], (tool, given)
            assert "a person can open it" in answer["text"], (tool, given)
            assert SECRET not in json.dumps(answer)
    else:
        replies += [[calls(tool, **given) for tool, given in LEADS_OUT], [says("Done.")]]
        question = {"messages": [{"role": "user", "content": "Look."}], "mode": "auto"}
        body = {"id": "talk", "notebook": HOME, **question, "stream": False}
        turn = (await call("POST", "chat", body=body)).body
        assert SECRET not in json.dumps(fake.requests)
        audit = (await call("GET", "turns", turn["turn_id"])).body["audit"]
        assert [entry["outcome"] for entry in audit] == ["refused"] * len(LEADS_OUT)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


async def test_what_is_no_regular_file_is_refused_at_once(call: Call, links: Path) -> None:
    body = {"notebook": HOME, "input": {"path": "pipe"}}
    answer = (await call("POST", "tools", "read_file", body=body)).body
    assert (answer["is_error"], answer["reason"]) == (True, "denied")
    assert "not a regular file" in answer["text"]


@pytest.mark.parametrize("path", ["a" * 300, "notes.txt/a", "loop", "loop/a", HOME + "/a.ipynb"])
async def test_a_path_that_the_disk_refuses_fails_its_call_and_not_the_turn(
    call: Call, links: Path, replies: list[FakeReply], path: str
) -> None:
    (links / "loop").symlink_to("loop")
    wanted = [
        calls("list_files", path=path),
        calls("read_file", path=path),
        calls("get_notebook_state", notebook=path),
        calls("create_cell", notebook=path, source="1"),
        calls("create_notebook", path=f"{path}/a.ipynb"),
    ]
    replies += [wanted, [says("None of them.")]]
    before = sorted(links.rglob("*"))
    message = {"role": "user", "content": "Look."}
    body = {"notebook": HOME, "mode": "auto", "messages": [message], "stream": False}
    turn = (await call("POST", "chat", body=body)).body
    assert turn["state"] == "done", turn["message"]
    parts = [part for part in turn["message"]["parts"] if part["type"] == "dynamic-tool"]
    assert {part["state"] for part in parts} <= {"output-error", "output-denied"}, parts
    assert sorted(links.rglob("*")) == before


async def test_links_within_the_folder_are_followed(call: Call, links: Path) -> None:
    body = {"notebook": HOME, "mode": "auto", "input": {"path": "within.txt"}}
    assert (await call("POST", "tools", "read_file", body=body)).body["text"] == "harmless notes"
    body["input"] = {"path": "within/made.ipynb"}
    assert not (await call("POST", "tools", "create_notebook", body=body)).body["is_error"]
    assert (links / "sub" / "made.ipynb").exists()


async def test_a_link_that_a_person_opens_or_attaches_is_followed(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, links: Path
) -> None:
    body: dict[str, Any] = {"notebook": "secret.ipynb", "input": {}}
    for given in ({}, {"notebook": "secret.ipynb"}, {"notebook": "./secret.ipynb"}):
        body["input"] = given
        answer = (await call("POST", "tools", "get_notebook_state", body=body)).body
        assert SECRET in answer["text"], given
    replies.append([says("Seen.")])
    context = [{"type": "file", "path": "key.txt"}]
    message = {"role": "user", "content": "What is in it?"}
    body = {"id": "talk", "notebook": HOME, "context": context, "messages": [message]}
    await call("POST", "chat", body={**body, "stream": False})
    assert SECRET in json.dumps(fake.requests[0]["messages"])


async def test_a_link_that_is_put_in_place_while_a_person_is_asked_is_not_followed(
    call: Call, replies: list[FakeReply], links: Path, tmp_path: Path
) -> None:
    replies += [[calls("create_notebook", path="sub/made.ipynb")], [says("Done.")]]
    message = {"role": "user", "content": "Make one."}
    body = {"id": "talk", "notebook": HOME, "mode": "ask", "messages": [message], "stream": False}
    (approval,) = (await call("POST", "chat", body=body)).body["approvals"]
    (links / "sub" / "up").unlink()
    (links / "sub").rmdir()
    (links / "sub").symlink_to(tmp_path / "outside")
    answers = {"approvals": [{"id": approval["id"], "approved": True}], "wait": 60}
    done = (await call("POST", "chat", "talk", "approvals", body=answers)).body
    assert done["state"] == "done"
    assert not (tmp_path / "outside" / "made.ipynb").exists()


# -- spellings

SPELLINGS = [
    "{0}/x.ipynb",
    "/{0}/x.ipynb",
    "./{0}/x.ipynb",
    "a/../{0}/x.ipynb",
    "{0}/../{0}/./x.ipynb",
    "{0}//x.ipynb",
    "//{0}/x.ipynb/",
    "{0}/x.ipynb/.",
    "{0}-link/x.ipynb",
    "{0}-link.ipynb",
    "{0}-was/x.ipynb",
]
SPELLED = {
    "deny": [
        *(spelling.format("prod") for spelling in SPELLINGS),
        *(spelling.format("cafe\u0301") for spelling in SPELLINGS[:8]),
    ],
    "allow": [spelling.format("free") for spelling in SPELLINGS],
}
"""Each path of a notebook below a rule, in every spelling."""
TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("get_notebook_state", {}),
    ("read_cells", {"cell_ids": ["a1"]}),
    ("search_notebook", {"query": "x"}),
    ("inspect_variables", {}),
    ("create_cell", {"source": "y"}),
    ("update_cell", {"cell_id": "a1", "source": "x = 2"}),
    ("delete_cell", {"cell_id": "a1"}),
    ("run_cell", {"cell_id": "a1"}),
    ("verify_notebook", {}),
    ("restart_kernel", {}),
]


@pytest.fixture
def spelled(
    jp_root_dir: Path, jp_asyncio_loop: asyncio.AbstractEventLoop, jp_serverapp: Any, call: Call
) -> Path:
    """`prod`, `free` and `café` have a notebook each, old names, and links to them."""
    write(jp_root_dir / HOME)
    write(jp_root_dir / "cafe\u0301" / "x.ipynb")  # as a Mac spells it

    async def rename(name: str) -> None:
        await jp_serverapp.contents_manager.rename(f"{name}-was", name)
        while (await call("GET", "notebooks", f"{name}-was/x.ipynb")).status != 200:
            pass  # the news of it is still on its way

    for name in ("prod", "free"):
        write(jp_root_dir / f"{name}-was" / "x.ipynb")
        jp_asyncio_loop.run_until_complete(rename(name))
        (jp_root_dir / f"{name}-link").symlink_to(name)
        (jp_root_dir / f"{name}-link.ipynb").symlink_to(f"{name}/x.ipynb")
    return jp_root_dir


def refusal(tool: str) -> str:
    """A rule's message about a call by that name, which may be an old name of the tool."""
    name = FORMER[tool].name if tool in FORMER else tool
    return f"A rule forbids `{name}` here."


def denied(answer: dict[str, Any], tool: str) -> bool:
    return answer["is_error"] and answer["text"] == refusal(tool)


@pytest.mark.sample(8)
@pytest.mark.parametrize("spelling", SPELLED["deny"])
@pytest.mark.plugs
async def test_every_spelling_of_a_path_is_denied_alike(
    call: Call, replies: list[FakeReply], spelled: Path, spelling: str
) -> None:
    named = [(tool, {**given, "notebook": spelling}) for tool, given in TOOLS]
    named += [
        ("read_file", {"path": spelling}),
        ("create_notebook", {"path": spelling.replace("x.ipynb", "new.ipynb")}),
    ]
    if "link.ipynb" not in spelling:
        folder = spelling.replace("/x.ipynb", "")
        named.append(("list_files", {"path": folder}))
    else:
        named.pop()
    for tool, given in named:
        body = {"notebook": HOME, "mode": "auto", "input": given}
        answer = (await call("POST", "tools", tool, body=body)).body
        assert denied(answer, tool), (tool, given, answer)
    for tool, given in TOOLS:
        body = {"notebook": spelling, "mode": "auto", "input": given}
        answer = (await call("POST", "tools", tool, body=body)).body
        assert denied(answer, tool), (tool, answer)

    message = {"role": "user", "content": "Do it."}
    body = {"id": "talk", "mode": "auto", "messages": [message], "stream": False}
    for home, asked in ((HOME, named), (spelling, TOOLS)):
        replies += [[calls(tool, **given) for tool, given in asked], [says("Done.")]]
        turn = (await call("POST", "chat", body={**body, "notebook": home})).body
        audit = (await call("GET", "turns", turn["turn_id"])).body["audit"]
        assert [entry["why"] for entry in audit] == [refusal(tool) for tool, _ in asked]


@pytest.mark.sample(4)
@pytest.mark.parametrize("spelling", SPELLED["allow"])
async def test_every_spelling_of_a_path_is_allowed_alike(
    call: Call, spelled: Path, spelling: str
) -> None:
    given = {"cell_id": "a1", "old_string": "x = 1", "new_string": "x = 2"}
    for home, input in ((HOME, {**given, "notebook": spelling}), (spelling, given)):
        write(spelled / "free" / "x.ipynb")
        body = {"notebook": home, "mode": "ask", "input": input}
        answer = (await call("POST", "tools", "update_cell", body=body)).body
        assert not answer["is_error"], answer
        assert "x = 2" in (spelled / "free" / "x.ipynb").read_text()


async def test_a_rule_for_what_is_in_a_folder_leaves_the_folder_beside_it_alone(
    call: Call, spelled: Path
) -> None:
    write(spelled / "production" / "y.ipynb")
    for path in ("", ".", "/", "production", "free"):
        body = {"notebook": HOME, "input": {"path": path}}
        answer = (await call("POST", "tools", "list_files", body=body)).body
        assert not answer["is_error"], (path, answer)
    body = {"notebook": HOME, "input": {"path": "production/y.ipynb"}}
    assert not (await call("POST", "tools", "read_file", body=body)).body["is_error"]


@pytest.mark.full
async def test_always_allow_here_holds_for_the_notebook_however_it_is_spelled(
    call: Call, replies: list[FakeReply], spelled: Path
) -> None:
    message = {"role": "user", "content": "Do it."}
    body = {"id": "talk", "mode": "ask", "messages": [message], "notebook": HOME, "stream": False}
    replies += [[calls("create_cell", notebook="./free-link.ipynb", source="y")], [says("Done.")]]
    (approval,) = (await call("POST", "chat", body=body)).body["approvals"]
    assert approval["notebook"] == "free-link.ipynb"
    answer = {"id": approval["id"], "approved": True, "remember": "conversation"}
    await call("POST", "chat", "talk", "approvals", body={"approvals": [answer], "wait": 60})
    for spelling in SPELLED["allow"]:
        replies += [[calls("create_cell", notebook=spelling, source="y")], [says("Done.")]]
        turn = (await call("POST", "chat", body=body)).body
        assert turn["state"] == "done", spelling


@pytest.mark.full
@pytest.mark.parametrize("entry", ["home", "named"])
@pytest.mark.parametrize("spelling", [each for each in SPELLED["allow"] if "link" not in each])
async def test_every_spelling_of_a_path_has_the_same_journal_copies_and_undo(
    call: Call, replies: list[FakeReply], spelled: Path, spelling: str, entry: str
) -> None:
    path, file = "free/x.ipynb", spelled / "free" / "x.ipynb"
    named = {"notebook": spelling} if entry == "named" else {}
    given = {"cell_id": "a1", "old_string": "x = 1", "new_string": "x = 2", **named}
    replies += [[calls("update_cell", **given)], [says("Done.")]]
    message = {"role": "user", "content": "Do it."}
    body = {"id": "talk", "mode": "auto", "messages": [message], "stream": False}
    home = HOME if entry == "named" else spelling
    turn = (await call("POST", "chat", body={**body, "notebook": home})).body
    (change,) = (await call("GET", "turns", turn["turn_id"], "changes")).body
    assert change["notebook"] == path
    if entry == "home":
        for asked in (path, spelling):
            about = (await call("GET", "conversations", params={"notebook": asked})).body
            assert [each["notebook"] for each in about["conversations"]] == [path], asked
    (copy,) = (await call("GET", "notebooks", path, "recovery")).body["copies"]
    for asked in (path, spelling):
        (pending,) = (await call("GET", "notebooks", asked, "changes")).body
        assert pending["turn_id"] == turn["turn_id"]
        assert (await call("GET", "notebooks", asked, "recovery")).body["copies"] == [copy]
        kept = await call("GET", "notebooks", asked, "recovery", str(copy["id"]))
        assert [cell["source"] for cell in kept.body["cells"]] == ["x = 1"]
        (cell,) = (await call("GET", "notebooks", asked, "blame")).body["cells"]
        assert cell["turn_id"] == turn["turn_id"]
    cells = [{"notebook": spelling, "cell_id": "a1"}]
    assert "x = 2" in file.read_text()
    undone = (await call("POST", "turns", turn["turn_id"], "undo", body={"cells": cells})).body
    assert (len(undone["undone"]), undone["conflicts"]) == (1, [])
    assert "x = 1" in file.read_text()
