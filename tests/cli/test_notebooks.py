"""Commands to read, run, edit and review a notebook: with and without a running server."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import nbformat
import pytest

from jupyter_agent.cli.main import main
from jupyter_agent.client import servers
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from ..gates import FOREVER
from ..programs import Server, environment, jupyter_server
from .conftest import ESCAPE, NOTEBOOK, Desk

pytestmark = pytest.mark.full

EDIT = calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")


def outputs(desk: Desk) -> list[Any]:
    """The outputs of the code cells in the file."""
    cells = nbformat.read(desk.notebook, as_version=4).cells
    return [[dict(each) for each in cell.outputs] for cell in cells if cell.cell_type == "code"]


def asked(desk: Desk) -> str:
    """The id of a turn that set x to 2."""
    done = desk.type("ask", NOTEBOOK, "Set x to 2", "--mode", "edit", "--json")
    assert done.code == 0
    return str(json.loads(done.out)["turn_id"])


def test_a_notebook_is_shown_with_its_outputs(somewhere: Desk) -> None:
    assert somewhere.type("run", NOTEBOOK).code == 0
    shown = somewhere.type("show", NOTEBOOK)
    assert (shown.code, shown.err) == (0, "")
    head, *lines = shown.out.splitlines()
    assert head.startswith("work/sales.ipynb: 3 cells, ")
    assert lines == [
        "",
        "1 a1 markdown",
        "    # Sales",
        "",
        "2 b2 code [1]",
        "    x = 1",
        "",
        "3 c3 code [2]",
        "    print('x is', x)",
        "  > x is 1",
    ]
    assert "x is 1" not in somewhere.type("show", NOTEBOOK, "--no-outputs").out
    as_json = json.loads(somewhere.type("show", NOTEBOOK, "--json").out)
    assert [cell["id"] for cell in as_json["cells"]] == ["a1", "b2", "c3"]
    assert "[3 code c3 In[2]]" in somewhere.type("show", NOTEBOOK, "--for-model").out


def test_what_a_notebook_holds_cannot_command_the_terminal(desk: Desk) -> None:
    odd = [{"cell": "b2", "source": "print('\x1b]0;owned\x07\b\b\r\u202eodd')"}]
    assert desk.type("edit", NOTEBOOK, "-", stdin=json.dumps(odd)).code == 0
    shown = desk.type("show", NOTEBOOK).out + desk.type("run", NOTEBOOK).out
    assert "odd" in shown
    assert not {ESCAPE, "\x07", "\b", "\r", "\u202e"} & set(shown)


def test_all_cells_run_and_the_outputs_are_in_the_file(somewhere: Desk) -> None:
    done = somewhere.type("run", NOTEBOOK)
    assert (done.code, done.err) == (0, f"Undo: jupyter agent undo {done.err.split()[-1]}\n")
    heads = [line for line in done.out.splitlines() if line.startswith("*")]
    assert [head.partition(",")[0] for head in heads] == ["* cell 2 (b2): ok", "* cell 3 (c3): ok"]
    assert "    x is 1" in done.out.splitlines()
    assert outputs(somewhere) == [
        [],
        [{"output_type": "stream", "name": "stdout", "text": "x is 1\n"}],
    ]


def test_a_cell_that_fails_ends_the_run_with_1_unless_it_is_to_keep_going(desk: Desk) -> None:
    broken = [{"cell": "b2", "source": "1 / 0"}, {"insert": "print('on')"}]
    assert desk.type("edit", NOTEBOOK, "-", stdin=json.dumps(broken)).code == 0
    done = desk.type("run", NOTEBOOK)
    assert done.code == 1
    assert "* cell 2 (b2): error" in done.out
    assert "ZeroDivisionError: division by zero" in done.out
    assert "(c3)" not in done.out
    going = desk.type("run", NOTEBOOK, "--keep-going", "--json")
    runs = json.loads(going.out)["cells"]
    assert (going.code, [run["status"] for run in runs]) == (1, ["error", "error", "ok"])
    assert {run["saved"] for run in runs} == {True}


def test_cells_run_by_id_and_by_number_and_are_interrupted_when_they_take_too_long(
    desk: Desk,
) -> None:
    done = desk.type("run", NOTEBOOK, "b2", "3")
    assert (done.code, "x is 1" in done.out) == (0, True)
    none = desk.type("run", NOTEBOOK, "nope")
    assert (none.code, none.err) == (2, "No cell `nope`. Cells now: a1, b2, c3.\n")
    slow = [{"cell": "b2", "source": FOREVER}]
    desk.type("edit", NOTEBOOK, "-", stdin=json.dumps(slow))
    late = desk.type("run", NOTEBOOK, "b2", "--timeout", "2")
    assert (late.code, "cell 2 (b2): timeout" in late.out) == (1, True)


def test_ctrl_c_interrupts_the_cell_that_runs(somewhere: Desk) -> None:
    slow = f"print('begun', flush=True); {FOREVER}"
    somewhere.type("edit", NOTEBOOK, "--cell", "b2", "--source", slow)
    with somewhere.terminal("run", NOTEBOOK) as terminal:
        terminal.expect("Running cell 2 (b2), 3 s")
        terminal.type("\x03")
        terminal.expect("cell 2 (b2): interrupted")
        assert terminal.ended() == 130
    (first, _) = outputs(somewhere)
    assert first[0]["text"] == "begun\n"


def test_several_edits_are_made_in_their_order(somewhere: Desk) -> None:
    edits = [
        {"cell": "b2", "old_string": "1", "new_string": "3"},
        {"insert": "## Results", "type": "markdown", "after": "c3"},
        {"cell": 1, "delete": True},
        {"cell": "c3", "move": {"before": "b2"}},
        {"cell": 3, "source": "print(x)"},
    ]
    done = somewhere.type("edit", NOTEBOOK, "-", stdin=json.dumps(edits))
    assert done.code == 0
    assert done.out.splitlines()[0] == "Edited cell 2 (b2)."
    assert list(somewhere.sources().values()) == ["print(x)", "x = 3", "## Results"]


def test_what_one_command_edited_is_listed_and_undone(somewhere: Desk) -> None:
    before = somewhere.sources()
    somewhere.type("edit", NOTEBOOK, "--cell", "a1", "--source", "# Revenue")
    edits = [{"cell": "b2", "source": "x = 7"}, {"insert": "y = 8"}, {"cell": "c3", "delete": True}]
    done = somewhere.type("edit", NOTEBOOK, "-", stdin=json.dumps(edits))
    turn_id = done.err.split()[-1]
    assert done.err == f"Undo: jupyter agent undo {turn_id}\n"
    assert "  cell 2 (b2) edited" in somewhere.type("changes", NOTEBOOK).out
    assert somewhere.type("undo", turn_id).code == 0
    assert somewhere.sources() == {**before, "a1": "# Revenue"}


def test_what_one_command_ran_is_in_the_log_and_undone(somewhere: Desk) -> None:
    before = nbformat.read(somewhere.notebook, as_version=4).cells
    done = somewhere.type("run", NOTEBOOK, "--json")
    ran = json.loads(done.out)
    logged = somewhere.type("log", NOTEBOOK).out
    assert "by jupyter agent run " in logged
    assert f"run_cells {NOTEBOOK}" in logged
    assert {run["turn_id"] for run in ran["cells"]} == {ran["turn_id"]}
    assert somewhere.type("undo", ran["turn_id"]).code == 0
    assert nbformat.read(somewhere.notebook, as_version=4).cells == before


def test_a_command_that_ends_its_kernel_leaves_none_behind_and_keeps_those_of_others(
    served: Server, desk: Desk
) -> None:
    kept = desk.type("run", NOTEBOOK, "b2", "nope")
    assert kept.code == 2
    done = desk.type("run", NOTEBOOK, "--end-kernel")
    assert (done.code, "x is 1" in done.out) == (0, True)
    route = f"notebooks/{NOTEBOOK}"
    assert served.request("GET", route)["kernel"] is None
    assert desk.type("run", NOTEBOOK, "b2").code == 0
    assert desk.type("run", NOTEBOOK, "--end-kernel").code == 0
    assert served.request("GET", route)["kernel"] is not None


def test_an_edit_that_is_refused_shows_the_current_text(somewhere: Desk) -> None:
    edits = [
        {"cell": "b2", "old_string": "1", "new_string": "2"},
        {"cell": "b2", "old_string": "y", "new_string": "z"},
        {"cell": "a1", "source": "# Never"},
    ]
    done = somewhere.type("edit", NOTEBOOK, "-", stdin=json.dumps(edits))
    assert done.code == 1
    assert "Refused: None of the 3 edits was made, because of edit 2. " in done.err
    assert "Cell b2 as edit 2 would have found it:\n| x = 2\n" in done.err
    assert somewhere.sources()["a1"] == "# Sales"
    assert somewhere.sources()["b2"] == "x = 1"
    late = [{"cell": "b2", "source": "x = 9", "version": "0" * 16}]
    done = somewhere.type("edit", NOTEBOOK, "-", stdin=json.dumps(late))
    assert done.code == 1
    assert "Cell b2 is now (version " in done.err
    assert somewhere.sources()["b2"] == "x = 1"


def test_one_edit_is_made_by_flags(desk: Desk) -> None:
    done = desk.type("edit", NOTEBOOK, "--cell", "2", "--old", "1", "--new", "5")
    assert (done.code, done.out) == (0, "Edited cell 2 (b2).\n")
    assert desk.type("edit", NOTEBOOK, "--insert", "y = x", "--after", "b2").code == 0
    assert list(desk.sources().values()) == ["# Sales", "x = 5", "y = x", "print('x is', x)"]
    for wrong in (
        [],
        ["--cell", "b2"],
        ["--cell", "b2", "--insert", "x"],
        ["--cell", "nope", "--delete"],
        ["--cell", "b2", "--new", "x"],
    ):
        assert desk.type("edit", NOTEBOOK, *wrong).code == 2, wrong
    for wrong in ("{", "{}", '[{"cell": "b2", "text": "x"}]'):
        assert desk.type("edit", NOTEBOOK, "-", stdin=wrong).code == 2, wrong
    empty = desk.type("edit", NOTEBOOK, "-", stdin="[]")
    assert empty.err == "The list of edits on standard input is empty.\n"


def test_changes_are_listed_until_they_are_undone_or_kept(
    somewhere: Desk, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], [says("Done.")]] * 2
    turn_id = asked(somewhere)
    listed = somewhere.type("changes", NOTEBOOK)
    assert listed.code == 0
    assert listed.out.splitlines() == [
        f"Turn {turn_id}",
        "  cell 2 (b2) edited",
        "  -x = 1",
        "  +x = 2",
    ]
    undone = somewhere.type("undo", turn_id)
    assert (undone.code, undone.out.startswith("1 change undone. ")) == (0, True)
    assert somewhere.sources()["b2"] == "x = 1"
    assert somewhere.type("changes", NOTEBOOK).err == "Nothing to review.\n"
    turn_id = asked(somewhere)
    assert len(json.loads(somewhere.type("changes", NOTEBOOK, "--json").out)) == 1
    kept = somewhere.type("changes", NOTEBOOK, "--keep", turn_id)
    assert (kept.code, kept.err) == (0, "Nothing to review.\n")
    assert somewhere.sources()["b2"] == "x = 2"


def test_what_people_wrote_since_is_not_undone(desk: Desk, replies: list[FakeReply]) -> None:
    replies += [[EDIT], [says("Done.")]]
    turn_id = asked(desk)
    desk.type("edit", NOTEBOOK, "--cell", "b2", "--source", "x = 77")
    undone = desk.type("undo", turn_id)
    assert undone.code == 1
    assert "work/sales.ipynb, cell b2 stays: " in undone.out
    assert desk.sources()["b2"] == "x = 77"
    nobody = desk.type("undo", "t_nothing")
    assert (nobody.code, nobody.err) == (2, "No turn `t_nothing`.\n")


@pytest.mark.parametrize("options", ["--port 8888", "--ServerApp.sock={}/a#socket"])
@pytest.mark.parametrize("token", ["", "secret"])
def test_commands_use_the_server_however_it_is_reached(
    desk: Desk, options: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = f"jupyter server {options.format(desk.folder)} --IdentityProvider.token={token}"
    with jupyter_server(desk.folder, command):
        monkeypatch.setenv("JUPYTER_TOKEN", "of another server")
        done = desk.type("run", NOTEBOOK, "b2")
        assert done.code == 0, done.err
        assert "kernel python3" in desk.type("show", NOTEBOOK).out  # else it had ended


@pytest.mark.parametrize(("asked_in", "root"), [(".", "work"), ("work", "."), (".", ".data")])
def test_a_turn_is_undone_through_the_server_that_serves_its_notebook(
    desk: Desk, asked_in: str, root: str
) -> None:
    """Whatever the paths of the turn and those of the server are relative to."""
    there = Desk(desk.folder / asked_in, desk.folder)
    name = str(desk.notebook.relative_to(there.folder.resolve()))
    turn_id = there.type("edit", name, "--cell", "b2", "--source", "x = 2").err.split()[-1]
    (listed,) = json.loads(there.type("changes", name, "--json").out)
    assert listed["turn_id"] == turn_id
    (desk.folder / root).mkdir(exist_ok=True)
    server = f"jupyter server --port 8888 --debug --ServerApp.root_dir={desk.folder / root}"
    log = desk.folder / "server.log"
    with jupyter_server(desk.folder, f"{server} --IdentityProvider.token=secret"):
        undone = desk.type("undo", turn_id)
    assert (undone.code, undone.out.startswith("1 change undone. ")) == (0, True)
    assert (f"POST /api/agent/turns/{turn_id}/undo" in log.read_text()) == (root != ".data")
    assert desk.sources()["b2"] == "x = 1"


def test_a_turn_is_not_undone_around_a_server_that_serves_its_notebook(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment(desk.folder).items():
        monkeypatch.setenv(name, value)
    turn_id = desk.type("edit", NOTEBOOK, "--cell", "b2", "--source", "x = 2").err.split()[-1]

    def undo() -> tuple[int, str]:
        code = main(["undo", turn_id])
        assert desk.sources()["b2"] == "x = 2"
        return code, capsys.readouterr().err

    other = f"jupyter server --port 8888 --JupyterAgent.store_dir={desk.folder / '.other'}"
    with jupyter_server(desk.folder, f"{other} --IdentityProvider.token=secret"):
        code, said = undo()
        assert (code, "has another store" in said) == (1, True)
    with jupyter_server(desk.folder) as server:
        (file,) = (desk.folder / ".runtime").glob("jpserver-*.json")
        server.process.send_signal(signal.SIGSTOP)
        with monkeypatch.context() as short:  # a server that only is slow gets the whole time
            short.setattr(servers, "_PROBE_SECONDS", 2.0)
            code, said = undo()
        assert (code, "does not answer. Try again, or stop it." in said) == (1, True)
        server.process.send_signal(signal.SIGCONT)
        file.write_text(json.dumps({**json.loads(file.read_text()), "token": "wrong"}))
        code, said = undo()
        assert (code, "denies us access. Set JUPYTER_TOKEN" in said) == (3, True)


def test_conversations_are_listed_and_printed(somewhere: Desk, replies: list[FakeReply]) -> None:
    replies += [[EDIT], [says("Two it is.")]]
    asked(somewhere)
    (line,) = somewhere.type("conversations").out.splitlines()
    talk, *_ = line.split()
    assert line.endswith("done  Set x to 2  work/sales.ipynb")
    assert somewhere.type("conversations", "--notebook", NOTEBOOK).out.strip() == line
    assert somewhere.type("conversations", "--search", "nothing like it").out == ""
    printed = somewhere.type("conversations", talk)
    assert (printed.code, "Two it is." in printed.out) == (0, True)
    assert json.loads(somewhere.type("conversations", "--json").out)["next_page"] is None
    assert somewhere.type("conversations", "nothing").code == 2


def test_models_are_listed_with_the_default_and_missing_keys(somewhere: Desk) -> None:
    done = somewhere.type("models")
    assert done.code == 0
    lines = done.out.splitlines()
    assert "* anthropic:claude-sonnet-5-5" in lines
    assert "  demo:tour" in lines
    assert any(line.startswith("  openai:") and line.endswith("(no key)") for line in lines)
    told = json.loads(somewhere.type("models", "--json").out)
    assert told["default"] == "anthropic:claude-sonnet-5-5"
    assert somewhere.type("models", "--of", "demo").out == "demo:tour\n"
    assert somewhere.type("models", "--of", "nobody").code == 2


def test_a_notebook_that_is_not_there_is_an_error_of_usage(desk: Desk) -> None:
    for command in ("show", "run", "edit", "changes", "blame"):
        done = desk.type(command, "nothing.ipynb")
        assert (done.code, done.out) == (2, "")
        assert done.err == f"There is no notebook at {desk.folder / 'nothing.ipynb'}.\n"
    (desk.folder / "loop.ipynb").symlink_to("loop.ipynb")
    for name in ("a" * 300 + ".ipynb", "loop.ipynb"):
        done = desk.type("show", name)
        assert (done.code, done.err) == (2, f"There is no notebook at {desk.folder / name}.\n")


def test_a_notebook_whose_name_no_server_can_take_is_to_be_renamed(desk: Desk) -> None:
    odd = desk.folder / os.fsdecode(b"\xff.ipynb")
    odd.touch()
    done = desk.type("show", odd.name)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("is not UTF-8, so no server can open it: rename it.\n")
    odd.unlink()
