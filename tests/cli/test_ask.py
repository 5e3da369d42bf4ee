"""`jupyter agent ask`: with and without a running server, at a terminal and in a pipe."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from jupyter_agent.client import chat, servers
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply, Scripted

from ..gates import Gate
from ..programs import Server
from .conftest import ESCAPE, NOTEBOOK, Desk

pytestmark = pytest.mark.full

EDIT = calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")
ENDLESS = Scripted(blocks=[says("I begin now, and more will come.")], stop_after=4, then="ping")


def test_the_answer_the_calls_the_diff_and_a_summary_are_shown(
    somewhere: Desk, replies: list[FakeReply]
) -> None:
    replies += [
        [says("I change it."), EDIT, calls("run_cells", cell_ids=["b2", "c3"])],
        [says("Now x is 2.")],
    ]
    done = somewhere.type("ask", NOTEBOOK, "Set x to 2", "--mode", "auto")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:6] == [
        "I change it.",
        "* Edit cell 2 (b2)",
        "    cell 2 (b2) edited",
        "    -x = 1",
        "    +x = 2",
        "* Run cell 2 (b2), cell 3 (c3)",
    ]
    assert "    x is 2" in lines
    assert lines[-3:-1] == [
        "Now x is 2.",
        "Done, 1 cell changed, other outputs in 2 cells, 220 tokens.",
    ]
    assert lines[-1].startswith("Take it back: jupyter agent undo t_")
    assert somewhere.sources()["b2"] == "x = 2"


def test_without_a_terminal_what_needs_approval_is_refused_with_the_way_to_go_on(
    somewhere: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[EDIT], [says("I could not.")]]
    done = somewhere.type("ask", NOTEBOOK, "Set x to 2")
    assert done.code == 3
    assert "* Edit cell 2 (b2) - denied" in done.out
    assert "-x = 1\n  +x = 2" in done.err
    assert "`edit_cells` needs approval: run this in a terminal, or with `--yes" in done.err
    assert "Nobody can answer in this turn" in json.dumps(model.requests[0])
    assert "nobody can answer" in json.dumps(model.requests[-1]["messages"][-1])
    assert somewhere.sources()["b2"] == "x = 1"


def test_a_tool_that_was_approved_beforehand_is_not_asked_about(
    desk: Desk, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], [says("Done.")]]
    done = desk.type("ask", NOTEBOOK, "Set x to 2", "--yes", "update_cell")
    assert (done.code, desk.sources()["b2"]) == (0, "x = 2")
    done = desk.type("ask", NOTEBOOK, "Set x to 2", "--yes", "update_cel")
    assert done.code == 2
    assert "No tool `update_cel`. Tools: clear_outputs" in done.err


def test_the_prompt_comes_from_standard_input_and_the_turn_as_json(
    somewhere: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[EDIT], [says("Done.")]]
    done = somewhere.type(
        "ask", NOTEBOOK, "-", "--json", "--mode", "edit", stdin="Set x\nto 2, please"
    )
    assert (done.code, done.err) == (0, "")
    turn = json.loads(done.out)
    assert (turn["state"], turn["approvals"]) == ("done", [])
    assert [change["cell_id"] for change in turn["changes"]] == ["b2"]
    assert "Set x\\nto 2, please" in json.dumps(model.requests[0])
    assert len(model.requests) == 2  # the turn was started once, and then only read


def test_a_conversation_is_continued(
    served: Server, desk: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[says("Forty-two.")], [says("As I said.")]]
    first = json.loads(desk.type("ask", NOTEBOOK, "A number?", "--json").out)
    more = desk.type("ask", NOTEBOOK, "Again?", "--conversation", first["conversation_id"])
    assert more.code == 0
    assert "Forty-two." in json.dumps(model.requests[-1])
    for unknown in ("cli-typo", "a b"):
        none = desk.type("ask", NOTEBOOK, "Again?", "--conversation", unknown)
        assert (none.code, none.err) == (2, f"No conversation `{unknown}`.\n")


def test_the_exit_code_says_why_it_ended(desk: Desk, replies: list[FakeReply]) -> None:
    replies.append([calls("get_notebook_state")])
    limited = desk.type("ask", NOTEBOOK, "Look", "--max-steps", "1")
    assert limited.code == 4
    assert "step limit" in limited.out
    replies.append(Scripted(status=401, error=("authentication_error", "invalid x-api-key")))
    rejected = desk.type("ask", NOTEBOOK, "Look")
    assert rejected.code == 5
    assert "key" in rejected.out
    unknown = desk.type("ask", NOTEBOOK, "Look", "--model", "nobody:nothing")
    assert (unknown.code, unknown.out) == (5, "")
    assert "`nobody:nothing` is not a model." in unknown.err
    missing = desk.type("ask", "nothing.ipynb", "Look")
    assert (missing.code, missing.err) == (
        2,
        f"There is no notebook at {desk.folder / 'nothing.ipynb'}.\n",
    )
    assert desk.type("ask", NOTEBOOK).code == 2
    assert desk.type("ask", NOTEBOOK, "Look", "--mode", "yolo").code == 2


def test_a_person_at_the_terminal_sees_exactly_what_they_allow(
    somewhere: Desk, replies: list[FakeReply]
) -> None:
    hidden = "print('kind')#\rprint('\u202eevil')"
    replies += [[calls("create_cells", cells=[{"source": hidden}], run=True)], [says("Done.")]]
    with somewhere.terminal("ask", NOTEBOOK, "Go on") as terminal:
        asked = terminal.expect("or type what to do instead] ")
        assert "print('kind')#\\rprint('\\u202eevil')" in asked
        assert "\u202e" not in asked
        assert "kernel “python3”" in asked
        assert "kind" not in json.dumps(somewhere.sources())
        terminal.type("y\n")
        terminal.expect("Done, 1 cell changed")
        assert terminal.ended() == 0
    assert len(somewhere.sources()) == 4


def test_a_cell_that_was_not_run_is_said_to_be_not_run(
    desk: Desk, replies: list[FakeReply]
) -> None:
    path = desk.folder / NOTEBOOK
    content = json.loads(path.read_text())
    content["metadata"]["kernelspec"] = {"name": "nowhere", "display_name": "Nowhere"}
    path.write_text(json.dumps(content))
    replies += [[calls("create_cells", cells=[{"source": "1"}], run=True)], [says("Done.")]]
    said = desk.type("ask", NOTEBOOK, "Go on", "--mode", "auto")
    assert "Not run: No kernel `nowhere`: it is not installed." in said.out


def test_a_person_says_no_or_what_to_do_instead(
    desk: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[EDIT], [EDIT], [says("Well then.")]]
    with desk.terminal("ask", NOTEBOOK, "Set x to 2") as terminal:
        terminal.expect("or type what to do instead] ")
        terminal.type("make it three\n")
        terminal.expect("denied")
        terminal.seen = ""
        terminal.expect("or type what to do instead] ")
        terminal.type("n\n")
        assert terminal.ended() == 3
    assert "make it three" in json.dumps(model.requests[1])
    assert desk.sources()["b2"] == "x = 1"


def test_one_answer_allows_all_edits_of_the_turn(desk: Desk, replies: list[FakeReply]) -> None:
    replies += [[EDIT], [calls("delete_cell", cell_id="a1")], [says("Both done.")]]
    with desk.terminal("ask", NOTEBOOK, "Set x to 2, no title") as terminal:
        terminal.expect("e = yes to all edits")
        terminal.type("e\n")
        assert terminal.ended() == 0
    assert desk.sources() == {"b2": "x = 2", "c3": "print('x is', x)"}


def test_a_line_says_what_is_going_on_and_for_how_long(
    desk: Desk, replies: list[FakeReply]
) -> None:
    gate = Gate(desk.folder / "gate")
    replies += [[calls("run_code", code=gate.waits)], [says("Waited.")]]
    with desk.terminal("ask", NOTEBOOK, "Wait", "--mode", "auto") as terminal:
        terminal.expect("Run code..., 2 s\r\x1b[K")
        gate.open()
        terminal.expect("Waited.\n")
        assert terminal.ended() == 0


def test_ctrl_c_stops_the_turn_and_tells_what_was_done(
    somewhere: Desk, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], ENDLESS]
    with somewhere.terminal("ask", NOTEBOOK, "Set x to 2", "--mode", "edit") as terminal:
        terminal.expect("I begin")
        terminal.type("\x03")
        terminal.expect("Stopped, 1 cell changed")
        assert terminal.ended() == 130
    assert somewhere.sources()["b2"] == "x = 2"


def test_ctrl_c_during_a_run_tells_what_takes_its_outputs_back(
    desk: Desk, replies: list[FakeReply]
) -> None:
    gate = Gate(desk.folder / "gate")
    replies += [[calls("create_cells", cells=[{"source": gate.waits}], run=True)], [says("Never.")]]
    with desk.terminal("ask", NOTEBOOK, "Wait", "--mode", "auto") as terminal:
        terminal.expect("run it..., 2 s")
        terminal.type("\x03")
        terminal.expect("Stopped, 1 cell changed, other outputs in 1 cell.")
        terminal.expect("Take it back: jupyter agent undo t_")
        assert terminal.ended() == 130


def test_ctrl_c_at_a_question_stops_the_turn(desk: Desk, replies: list[FakeReply]) -> None:
    replies += [[EDIT], [says("Never.")]]
    with desk.terminal("ask", NOTEBOOK, "Set x to 2") as terminal:
        terminal.expect("or type what to do instead] ")
        terminal.type("\x03")
        terminal.expect("Stopped, 0 cells changed")
        assert terminal.ended() == 130
    assert desk.sources()["b2"] == "x = 1"


def test_what_a_model_writes_cannot_command_the_terminal(
    desk: Desk, replies: list[FakeReply]
) -> None:
    replies.append([says("\x1b]0;owned\x07\x1b[2JHello\b\b\rthere \x1b[31mred\x1b[0m.")])
    done = desk.type("ask", NOTEBOOK, "Say it")
    assert ESCAPE not in done.out
    assert not {"\b", "\r", "\x07"} & set(done.out)
    assert "Hello" in done.out


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_are_for_terminals_and_for_those_who_want_them(
    desk: Desk, replies: list[FakeReply], no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    replies += [[EDIT], [says("Done.")]]
    with desk.terminal("ask", NOTEBOOK, "Set x to 2", "--mode", "edit") as terminal:
        assert terminal.ended() == 0
    assert ("\x1b[32m" in terminal.seen) is not no_color


def test_a_server_that_keeps_the_command_out_is_not_worked_around(
    desk: Desk, served: Server
) -> None:
    (info,) = (desk.folder / ".runtime").glob("jpserver-*.json")
    told = json.loads(info.read_text())
    info.write_text(json.dumps({**told, "token": ""}))
    done = desk.type("ask", NOTEBOOK, "Go")
    assert done.code == 3
    assert "Set JUPYTER_TOKEN to its token, or stop that server." in done.err
    let_in = desk.type("ask", NOTEBOOK, "run all", "--model", "demo:tour", JUPYTER_TOKEN="secret")
    assert let_in.code == 3
    assert "needs approval" in let_in.err


def test_a_server_whose_name_the_machine_does_not_know_is_not_worked_around(
    desk: Desk, served: Server
) -> None:
    """As in a container, or after a change of network."""
    (info,) = (desk.folder / ".runtime").glob("jpserver-*.json")
    told = {**json.loads(info.read_text()), "url": f"http://nowhere.invalid:{served.port}/"}
    info.write_text(json.dumps({**told, "hostname": "0.0.0.0"}))
    assert desk.type("edit", NOTEBOOK, "--cell", "b2", "--source", "x = 2").code == 0
    (opened,) = served.request("GET", "status")["notebooks"]
    assert opened["path"] == NOTEBOOK
    info.write_text(json.dumps({**told, "hostname": "nowhere.invalid"}))
    done = desk.type("edit", NOTEBOOK, "--cell", "b2", "--source", "x = 3")
    assert done.code == 3
    assert "this machine does not know that name" in done.err
    assert desk.sources()["b2"] == "x = 2"


def test_the_terminal_is_asked_also_where_the_prompt_comes_through_a_pipe(
    desk: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[EDIT], [says("Done.")]]
    with desk.terminal("ask", NOTEBOOK, "-", piped="Set x to 2") as terminal:
        terminal.expect("or type what to do instead] ")
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert "Set x to 2" in json.dumps(model.requests[0])
    assert "Nobody can answer" not in json.dumps(model.requests)
    assert desk.sources()["b2"] == "x = 2"


def test_a_question_that_was_answered_elsewhere_is_not_answered_twice(
    desk: Desk, served: Server, replies: list[FakeReply]
) -> None:
    replies += [[EDIT], [says("As you like.")]]
    with desk.terminal("ask", NOTEBOOK, "Set x to 2") as terminal:
        terminal.expect("or type what to do instead] ")
        (turn,) = served.request("GET", "status")["turns"]
        (question,) = served.request("GET", f"turns/{turn['id']}")["approvals"]
        answer = {"approvals": [{"id": question["id"], "approved": False}], "wait": 60}
        served.request("POST", f"chat/{turn['conversation_id']}/approvals", answer)
        terminal.type("y\n")
        terminal.expect("That was answered elsewhere, or is over.")
        assert terminal.ended() == 3
    assert desk.sources()["b2"] == "x = 1"


def test_an_answer_is_shown_to_its_end_although_the_connection_is_cut(
    desk: Desk, served: Server, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[says("I begin."), EDIT], [says("I end.")]]
    (info,) = (desk.folder / ".runtime").glob("jpserver-*.json")
    told = json.loads(info.read_text())
    with cutting(served.port) as port:
        info.write_text(json.dumps({**told, "url": f"http://localhost:{port}/"}))
        done = desk.type("ask", NOTEBOOK, "Set x to 2", "--mode", "edit")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == "I begin."
    assert done.out.count("I end.") == 1
    assert len(model.requests) == 2
    assert desk.sources()["b2"] == "x = 2"


def test_an_answer_comes_to_its_end_although_its_connection_falls_silent(
    desk: Desk, served: Server, replies: list[FakeReply], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like behind a proxy that lost its server, or after a change of network."""
    replies += [[says("Hello.")], [says("I begin."), EDIT], [says("I end.")]]
    (info,) = (desk.folder / ".runtime").glob("jpserver-*.json")
    token = json.loads(info.read_text())["token"]
    question = {"role": "user", "parts": [{"type": "text", "text": "Set x to 2"}]}
    body = {"messages": [question], "mode": "edit", "notebook": NOTEBOOK}

    def answer(port: int, conversation: str) -> str:
        there = servers.Server(f"http://localhost:{port}/", token, desk.folder)
        chunks = chat.Chat(there, {**body, "id": conversation}).chunks()
        return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")

    assert answer(served.port, "c1") == "Hello."  # the first one loads what the others share
    monkeypatch.setattr(chat, "_SILENT_SECONDS", 1.0)
    with cutting(served.port, silently=True) as port:
        assert answer(port, "c2") == "I begin.I end."
    assert desk.sources()["b2"] == "x = 2"


@contextmanager
def cutting(port: int, *, silently: bool = False) -> Iterator[int]:
    """A port to a server that breaks in the middle of the first answer to `POST chat`; `silently`:
    without closing.
    """
    cut, over = threading.Event(), threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def pass_on(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            asked = client.recv(65536)
            breaks = b"POST /api/agent/chat " in asked and not cut.is_set()
            server.sendall(asked)
            forth = threading.Thread(target=copy, args=(client, server), daemon=True)
            forth.start()
            answered = b""
            while piece := server.recv(4096):
                answered += piece
                client.sendall(piece)
                if breaks and answered.count(b"id: ") > 3:
                    cut.set()
                    if silently:
                        over.wait()
                    else:
                        client.shutdown(socket.SHUT_RDWR)
                    return

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # the other direction ended first
            while piece := source.recv(65536):
                target.sendall(piece)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=pass_on, args=(client,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1]
    over.set()
    listening.close()
    assert cut.is_set()
