"""Kernels that lose messages, mix them up, start slowly or not at all."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
import zmq
from jupyter_client import BlockingKernelClient
from jupyter_server.serverapp import ServerApp
from shown import Shown, report_interrupt

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Insert
from jupyter_agent.document.values import as_shared
from jupyter_agent.errors import Busy, KernelUnavailable
from jupyter_agent.kernel import notes
from jupyter_agent.kernel.channels import KernelMessage, from_socket
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.outputs import as_output
from jupyter_agent.kernel.variables import variables
from jupyter_agent.workspace.run import RunOrigin
from jupyter_agent.workspace.runs import Runs
from tests.gates import FOREVER, Gate
from tests.notebook.editing import make_edit
from tests.waiting import soon, until

Install = Callable[..., None]


@pytest.fixture
def install(jp_data_dir: Path) -> Install:
    """Creates a kernelspec that starts this command."""

    def installed(name: str, *command: str) -> None:
        folder = jp_data_dir / "kernels" / name
        folder.mkdir(parents=True)
        spec = {"argv": list(command), "display_name": name, "language": "odd"}
        (folder / "kernel.json").write_text(json.dumps(spec))

    return installed


@pytest.fixture
def odd(install: Install) -> str:
    script = str(Path(__file__).with_name("odd_kernel.py"))
    install("odd", sys.executable, script, "-f", "{connection_file}")
    return "odd"


@pytest.mark.full
async def test_a_lost_idle_does_not_keep_a_run_for_ever(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    reply = await asyncio.wait_for(kernel.execute("idle is lost", shown), 20)
    assert (reply.status, shown.text) == ("ok", "ours")
    assert (await asyncio.wait_for(kernel.execute("next", Shown()), 20)).status == "ok"


@pytest.mark.parametrize(
    "code",
    ["outputs are dropped", pytest.param("the last outputs are dropped", marks=pytest.mark.full)],
)
async def test_outputs_that_the_kernel_drops_are_said_to_be_missing(
    kernels: Kernels, odd: str, code: str
) -> None:
    kernel, shown = await kernels.get("a.ipynb", name=odd), Shown()
    reply = await asyncio.wait_for(kernel.execute(code, shown), 20)
    assert (reply.status, reply.note) == ("ok", notes.LOST_MESSAGES)
    assert shown.text.startswith("first ")
    assert f"[{notes.LOST_MESSAGES}]" in str(shown.events)
    reply = await asyncio.wait_for(kernel.execute("next", Shown()), 20)
    assert (reply.status, reply.note) == ("ok", "")


async def test_a_request_that_the_kernel_leaves_where_it_is_still_runs(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    await kernel.execute("leave the next request", Shown())
    shown = Shown()
    reply = await asyncio.wait_for(kernel.execute("next", shown), 20)
    assert (reply.status, shown.text) == ("ok", "ours")


@pytest.mark.full
async def test_a_kernel_that_says_nothing_of_a_request_is_not_asked_for_ever(
    kernels: Kernels, odd: str, jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer would count as activity, so the kernel would never be culled as idle."""
    kernel = await kernels.get("a.ipynb", name=odd)
    connection = await kernel.connect()
    person = jp_serverapp.kernel_manager.get_kernel(kernel.id).client()
    person.start_channels()
    await person.wait_for_ready(60)
    monkeypatch.setattr("jupyter_agent.kernel.client._WAKE_S", 0.01)
    monkeypatch.setattr("jupyter_agent.kernel.client._MAX_WAKE_S", 0.01)
    with connection.request("comm_msg", {"comm_id": "none", "data": {}}):
        for _ in range(2):  # half a second each; our wake-up request comes before the second
            person.execute("outputs come late")
            kinds: list[str] = []
            async with asyncio.timeout(60):
                while (message := await person.get_iopub_msg())["content"].get("text") != " late":
                    kinds.append(message["parent_header"].get("msg_type", ""))
    assert kinds.count("kernel_info_request") <= 1
    person.stop_channels()


async def test_a_reply_that_comes_as_something_is_sent_is_read_at_once(
    kernels: Kernels, odd: str, jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    connection = await kernel.connect()
    watching = BlockingKernelClient()
    manager = jp_serverapp.kernel_manager.get_kernel(kernel.id)
    watching.load_connection_info(manager.get_connection_info())
    watching.start_channels()
    watching.wait_for_ready(60)
    monkeypatch.setattr("jupyter_agent.kernel.client._WAKE_S", 60)
    code = {"code": "leave the next request", "silent": False}
    with connection.request("execute_request", code) as inbox:
        while watching.get_iopub_msg(60)["content"].get("execution_state") != "idle":
            pass  # blocks the event loop while the reply arrives
        watching.stop_channels()
        with connection.request("kernel_info_request", {}):
            async with asyncio.timeout(20):
                while (message := await inbox.next(20)) is None or message.channel != "shell":
                    pass


async def test_a_cell_of_a_person_that_the_kernel_leaves_as_ours_ends_still_runs(
    kernels: Kernels, odd: str, jp_serverapp: ServerApp
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    person = jp_serverapp.kernel_manager.get_kernel(kernel.id).client()
    person.start_channels()
    await person.wait_for_ready(60)
    await kernel.execute("leave the next request", Shown())
    request = person.execute("theirs")
    async with asyncio.timeout(20):
        while (await person.get_shell_msg())["parent_header"].get("msg_id") != request:
            pass
    person.stop_channels()


@pytest.mark.full
async def test_outputs_after_the_reply_belong_to_the_run(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    await kernel.execute("outputs come late", shown)
    assert shown.text == "ours late"


@pytest.mark.full
async def test_outputs_of_others_are_not_taken_but_updates_of_displays_are(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    await kernel.execute("somebody else's outputs", shown)
    assert shown.text == "ours"
    assert ("update", "d", {}) in shown.events


@pytest.mark.full
async def test_outputs_after_idle_belong_to_the_run(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown, next_one = Shown(), Shown()
    await kernel.execute("outputs come after idle", shown)
    await kernel.execute("next", next_one)
    await until(lambda: shown.text == "ours later")
    assert next_one.text == "ours"


@pytest.mark.full
@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("the reply is lost", "without saying how the code ended"),
        ("the reply of an error is lost", "reply was lost"),
    ],
)
async def test_a_lost_reply_does_not_keep_a_run_for_ever(
    kernels: Kernels, odd: str, monkeypatch: pytest.MonkeyPatch, code: str, note: str
) -> None:
    monkeypatch.setattr("jupyter_agent.kernel.execution._LOST_S", 0.5)
    kernel = await kernels.get("a.ipynb", name=odd)
    reply = await asyncio.wait_for(kernel.execute(code, Shown()), 20)
    assert reply.status == "error"
    assert note in reply.note
    assert (await asyncio.wait_for(kernel.execute("next", Shown()), 20)).status == "ok"


async def test_an_interrupt_as_the_code_begins_is_never_told_as_a_success(
    kernels: Kernels, odd: str
) -> None:
    # Like ipykernel, it sends no reply in this case.
    kernel = await kernels.get("a.ipynb", name=odd)
    execution = kernel.execute("wait", shown := Shown())
    await shown.begun.wait()
    await execution.interrupt()
    reply = await asyncio.wait_for(execution, 20)
    assert reply.status == "interrupted"
    assert "it may never have started" in reply.note
    assert (await asyncio.wait_for(kernel.execute("next", Shown()), 20)).status == "ok"


@pytest.mark.full
@pytest.mark.parametrize("silent", [False, True])
async def test_an_interrupt_before_the_kernel_accepts_the_code_is_not_lost(
    kernels: Kernels, odd: str, silent: bool
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    await kernel.execute("be slow to accept", Shown())
    execution = kernel.execute("wait", shown := Shown(), silent=silent)
    await shown.begun.wait()
    await execution.interrupt()
    assert (await asyncio.wait_for(execution, 20)).status == "interrupted"


@pytest.mark.full
async def test_an_interrupt_by_somebody_else_as_the_code_begins_is_no_success(
    kernels: Kernels, odd: str, jp_serverapp: ServerApp
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    execution = kernel.execute("wait", shown := Shown())
    await shown.printed.wait()
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel.id)
    reply = await asyncio.wait_for(execution, 20)
    assert reply.status == "interrupted"
    assert reply.note.startswith("Someone else interrupted it. The kernel did not say how far")


@pytest.mark.full
async def test_an_interrupt_after_the_reply_does_not_change_it(
    kernels: Kernels, odd: str, jp_serverapp: ServerApp
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    execution = kernel.execute("idle is lost", shown := Shown())
    await soon(shown.begun)
    # Its reply comes at once; for the lost `idle` it waits two seconds.
    asyncio.get_running_loop().call_later(1, report_interrupt, kernel, jp_serverapp)
    assert (await asyncio.wait_for(execution, 20)).status == "ok"


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        *((odd, None) for odd in (float("nan"), float("inf"), float("-inf"), 10**400)),
        *((fine, fine) for fine in (1.7e308, -(10**307), 2**70, 1.5, 0, True)),
    ],
)
def test_numbers_that_no_page_can_read_are_null_in_outputs(number: Any, kept: Any) -> None:
    content = {"data": {"application/json": {"n": [number]}}, "metadata": {"n": number}}
    output = as_output("display_data", content)
    assert output is not None
    assert output["data"] == {"application/json": {"n": [kept]}}
    assert output["metadata"] == {"n": kept}
    json.dumps(as_shared(output), allow_nan=False)


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"k": value}])
def test_what_is_nested_too_deeply_for_a_reader_is_null_in_outputs(
    wrap: Callable[[Any], Any],
) -> None:
    value: Any = 1
    for _ in range(2_000):
        value = wrap(value)
    output = as_output("display_data", {"data": {"application/json": value}})
    assert output is not None
    text = json.dumps(as_shared(output), allow_nan=False)
    assert "null" in text
    assert text.count("[") + text.count("{") > 400


@pytest.mark.parametrize(
    ("count", "kept"), [(3, 3), (0, 0), (-1, None), (2**60, None), (True, None), ("4", None)]
)
def test_a_count_that_no_notebook_may_have_is_left_out(count: Any, kept: int | None) -> None:
    output = as_output("execute_result", {"data": {}, "execution_count": count})
    assert output is not None
    assert output["execution_count"] == kept


def test_a_type_without_a_value_is_left_out() -> None:
    """JupyterLab would show `null` in place of the text; only JSON has such a value."""
    data = {"text/html": None, "text/plain": "x", "application/json": None, "image/png": 1}
    output = as_output("display_data", {"data": data})
    assert output is not None
    assert output["data"] == {"text/plain": "x", "application/json": None, "image/png": "1"}


async def test_messages_that_are_unknown_or_bare_harm_nothing(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    assert (await kernel.execute("strange messages", shown)).status == "ok"
    assert shown.kinds() == ["clear", "display_data", "stream", "stream", "error", "stream"]
    assert shown.text == "logged ours"
    assert shown.events[1][1:] == (
        {"output_type": "display_data", "data": {"text/plain": "bare"}, "metadata": {}},
        None,
    )
    assert shown.events[4][1]["ename"] == "Error"
    assert shown.events[4][1]["traceback"] == []


@pytest.mark.parametrize(
    ("code", "text"),
    [("a status without a state", "ours"), ("malformed messages", "between ours")],
)
async def test_messages_that_cannot_be_read_are_logged_and_left_out(
    kernels: Kernels, odd: str, caplog: pytest.LogCaptureFixture, code: str, text: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    for _ in range(2):
        shown, after = Shown(), Shown()
        reply = await asyncio.wait_for(kernel.execute(code, shown), 60)
        assert (reply.status, shown.text, reply.note) == ("ok", text, "")
        await asyncio.wait_for(kernel.execute("next", after), 60)
        assert after.text == "ours"
    assert kernel.state == "idle"
    left_out = [each for each in caplog.records if "left out" in each.message]
    assert left_out
    assert all(each.exc_info for each in left_out)


async def test_a_reply_that_says_nothing_ends_the_run_and_is_told(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    reply = await asyncio.wait_for(kernel.execute("a reply that says nothing", Shown()), 60)
    assert reply.status == "error"
    assert "does not say how the code ended" in reply.note
    assert (await asyncio.wait_for(kernel.execute("next", Shown()), 60)).status == "ok"


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
async def test_ten_thousand_random_messages_end_no_run_and_harm_no_notebook(
    kernels: Kernels, odd: str, jp_serverapp: ServerApp, jp_root_dir: Path, seed: int
) -> None:
    file = jp_root_dir / "a.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), file)
    kernel = await kernels.get("a.ipynb", name=odd)
    notebooks, runs = Notebooks(jp_serverapp.contents_manager, Tabs()), Runs()
    notebook = await notebooks.get("a.ipynb")
    for source in (f"random messages {seed}", "next"):
        cell = (await make_edit(notebook, Insert(source=source))).cell
        assert cell is not None
        run = runs.start(notebook, kernel, cell, RunOrigin("ada"))
        assert await run.wait(120)
        assert (run.status, run.note) == ("ok", "")
        assert run.outputs()[-1]["text"].endswith("ours")
    assert kernel.state == "idle"
    await runs.close()
    await notebooks.close()
    written = nbformat.read(file, as_version=4)
    nbformat.validate(written)
    assert len(written.cells) == 2


class Breaking(Shown):
    """A sink that has a bug."""

    def stream(self, name: str, text: str) -> None:
        super().stream(name, text)
        if text.strip() != "fine":
            raise ZeroDivisionError("a bug in the sink")


async def test_a_sink_that_fails_is_told_by_its_own_run_and_harms_no_other(
    kernels: Kernels, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = await kernels.get("a.ipynb")
    breaking, fine = Breaking(), Shown()
    code = "print('fine', flush=True)\nprint('broken', flush=True)\nx = 1\nprint('fine')"
    first, second = kernel.execute(code, breaking), kernel.execute("print(x)", fine)
    reply = await asyncio.wait_for(first, 60)
    assert (reply.status, reply.execution_count) == ("error", 1)
    assert "not be shown" in reply.note
    assert breaking.text == "fine\nbroken\nfine\n"
    assert (await asyncio.wait_for(second, 60)).status == "ok"
    assert fine.text == "1\n"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.full
async def test_a_sink_that_fails_late_harms_no_other(
    kernels: Kernels, odd: str, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)

    class BreakingLate(Shown):
        def stream(self, name: str, text: str) -> None:
            super().stream(name, text)
            if "later" in text:
                raise ZeroDivisionError("a bug in the sink")

    late, fine = BreakingLate(), Shown()
    assert (await kernel.execute("outputs come after idle", late)).status == "ok"
    await until(lambda: late.text == "ours later")
    assert (await asyncio.wait_for(kernel.execute("next", fine), 60)).status == "ok"
    assert fine.text == "ours"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.full
async def test_a_run_begins_though_the_kernels_first_answers_on_shell_are_lost(
    kernels: Kernels, jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = await kernels.get("a.ipynb")
    ports = jp_serverapp.kernel_manager.get_kernel(kernel.id).get_connection_info()
    lost = 0

    async def receive(channel: Any) -> list[KernelMessage]:
        nonlocal lost
        messages = await from_socket(channel)
        if channel.socket.LAST_ENDPOINT.endswith(f":{ports['shell_port']}".encode()) and lost < 2:
            dropped = messages[: 2 - lost]  # on a slow machine several may arrive at once
            lost += len(dropped)
            return messages[len(dropped) :]
        return messages

    monkeypatch.setattr("jupyter_agent.kernel.client.from_socket", receive)
    shown = Shown()
    reply = await asyncio.wait_for(kernel.execute("print('ran')", shown), 60)
    assert (reply.status, shown.text, lost) == ("ok", "ran\n", 2)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """An event; once set, the next message on iopub breaks the connection."""
    event = asyncio.Event()

    async def receive(channel: Any) -> list[KernelMessage]:
        messages = await from_socket(channel)
        if event.is_set() and any(each["msg_type"] == "stream" for each in messages):
            event.clear()
            raise zmq.ZMQError(zmq.ENOTSOCK)
        return messages

    monkeypatch.setattr("jupyter_agent.kernel.client.from_socket", receive)
    return event


async def test_a_connection_that_breaks_is_made_again_and_told(
    kernels: Kernels, cut: asyncio.Event, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = await kernels.get("a.ipynb")
    gate, end = Gate(tmp_path / "gate"), Gate(tmp_path / "end")
    third = end.repeats("print('third', flush=True)")
    code = f"x = 1\nprint('first', flush=True)\n{gate.waits}\nprint('second', flush=True)\n{third}"
    generation = kernel.generation
    shown, after = Shown(), Shown()
    first, second = kernel.execute(code, shown), kernel.execute("print(x)", after)
    await until(lambda: shown.text == "first\n")
    cut.set()
    gate.open()
    await until(lambda: "third" in shown.text)
    end.open()
    reply = await asyncio.wait_for(first, 60)
    assert (reply.status, set(shown.text.split())) == ("ok", {"first", "third"})
    assert "outputs may be missing" in reply.note
    assert (await asyncio.wait_for(second, 60)).status == "ok"
    assert after.text == "1\n", "the variables are still there"
    assert kernel.generation == generation
    assert kernel.state == "idle"
    assert "ZMQError" in caplog.text


@pytest.mark.full
async def test_a_run_whose_end_is_known_when_the_connection_breaks_says_what_may_be_missing(
    kernels: Kernels, odd: str, cut: asyncio.Event
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    running = kernel.execute("outputs come late", shown)
    await until(lambda: shown.text == "ours")
    cut.set()
    reply = await asyncio.wait_for(running, 60)
    assert (reply.status, shown.text) == ("ok", "ours")
    assert "outputs may be missing" in reply.note


async def test_a_connection_that_breaks_between_runs_is_made_again(
    kernels: Kernels, cut: asyncio.Event
) -> None:
    kernel = await kernels.get("a.ipynb")
    background = "import threading; threading.Timer(0.2, lambda: print('late')).start()"
    assert (await kernel.execute(background, Shown())).status == "ok"
    cut.set()
    await until(lambda: not cut.is_set())
    shown = Shown()
    assert (await asyncio.wait_for(kernel.execute("print(1)", shown), 60)).status == "ok"
    assert shown.text == "1\n"


@pytest.mark.full
async def test_code_that_waits_when_the_connection_breaks_still_runs(
    kernels: Kernels, cut: asyncio.Event, jp_serverapp: ServerApp, tmp_path: Path
) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("x = 1", Shown())
    gate, end = Gate(tmp_path / "gate"), Gate(tmp_path / "end")
    theirs = jp_serverapp.kernel_manager.get_kernel(kernel.id).client()
    theirs.start_channels()
    theirs.execute(f"{gate.waits}\nprint('theirs', flush=True)\n{end.waits}")
    await until(lambda: kernel.state == "busy")
    shown = Shown()
    ours = kernel.execute("print(x)", shown)
    cut.set()
    gate.open()
    await until(lambda: not cut.is_set())
    end.open()
    reply = await asyncio.wait_for(ours, 60)
    theirs.stop_channels()
    assert (reply.status, shown.text, cut.is_set()) == ("ok", "1\n", False)


@pytest.mark.full
async def test_a_connection_that_cannot_be_made_is_given_up(
    jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def receive(channel: Any) -> list[KernelMessage]:
        raise zmq.ZMQError(zmq.ENOTSOCK)

    monkeypatch.setattr("jupyter_agent.kernel.client.from_socket", receive)
    kernels = Kernels(
        jp_serverapp.session_manager,
        jp_serverapp.kernel_manager,
        jp_serverapp.kernel_spec_manager,
        start_timeout=2,
    )
    kernel = await kernels.get("a.ipynb")
    with pytest.raises(KernelUnavailable, match="did not answer within 2 s"):
        await asyncio.wait_for(kernel.execute("1", Shown()), 60)
    await kernels.close()


async def test_code_that_ends_the_kernel_before_its_first_message_has_begun(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    execution = kernel.execute("die unheard", Shown())
    assert (await asyncio.wait_for(execution, 60)).status == "died"
    assert execution.began is not None, "so the cell shows why it has no outputs"


async def test_code_that_the_kernel_dropped_is_said_not_to_have_run(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    reply = await kernel.execute("aborted", Shown())
    assert reply.status == "error"
    assert "did not run" in reply.note


async def test_a_kernel_without_a_list_of_variables_is_asked_by_name(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    assert kernel.language == "odd"
    assert "give their `names`" in await variables(kernel)
    assert await variables(kernel, ["x"]) == "x: not defined"


@pytest.fixture
def gate(install: Install, tmp_path: Path) -> Gate:
    """The kernel `slow` starts once it is open."""
    gate = Gate(tmp_path / "gate")
    script = str(Path(__file__).with_name("odd_kernel.py"))
    slowly = (
        f"import sys, runpy\n{gate.waits}\n"
        f"sys.argv = [{script!r}, *sys.argv[1:]]\nrunpy.run_path({script!r}, run_name='__main__')"
    )
    install("slow", sys.executable, "-c", slowly, "-f", "{connection_file}")
    return gate


async def test_a_kernel_that_is_slow_to_start_is_waited_for_and_is_not_called_busy(
    kernels: Kernels, gate: Gate
) -> None:
    kernel = await kernels.get("a.ipynb", name="slow")
    with pytest.raises(Busy, match="is starting"):
        await kernel.interrupt()
    waiting, shown = Shown(), Shown()
    execution, other = kernel.execute("1", waiting), kernel.execute("2", shown)
    await until(lambda: kernel.state == "starting")
    assert (kernel.busy_seconds, execution.began) == (None, None)
    gate.open()
    assert (await execution).status == "ok"
    assert (await other).status == "ok"
    assert kernel.state == "idle"


@pytest.mark.parametrize("by", ["us", "someone"])
async def test_code_that_waits_for_the_start_of_its_kernel_can_be_interrupted(
    kernels: Kernels, gate: Gate, jp_serverapp: ServerApp, by: str
) -> None:
    """Nothing else can be meant; it does not run once the kernel is there."""
    kernel, shown = await kernels.get("a.ipynb", name="slow"), Shown()
    executions = [kernel.execute("1", shown), kernel.execute("2", shown)]
    await until(lambda: kernel.state == "starting")
    if by == "us":
        await kernel.interrupt()
    else:
        report_interrupt(kernel, jp_serverapp)
        assert jp_serverapp.event_logger is not None
        await jp_serverapp.event_logger.gather_listeners()
    note = "The code never started."
    for execution in executions:
        reply = await asyncio.wait_for(execution, 20)
        assert reply.status == "interrupted"
        assert reply.note == (note if by == "us" else f"Someone else interrupted it. {note}")
    assert shown.events == []
    gate.open()
    assert (await kernel.execute("3", shown)).status == "ok"


@pytest.mark.full
@pytest.mark.parametrize("asked", [False, True])
async def test_code_waits_for_another_process_where_the_first_dies_before_it_answers(
    kernels: Kernels, install: Install, tmp_path: Path, asked: bool
) -> None:
    """For instance, another program takes one of its ports; Jupyter then chooses others."""
    gate, once = Gate(tmp_path / "gate"), tmp_path / "once"
    begin = (
        "import os, runpy, sys\n"
        f"if not os.path.exists(once := {str(once)!r}):\n"
        f"    open(once, 'w').close(); {gate.waits}; sys.exit(1)\n"
        "runpy.run_module('ipykernel_launcher', run_name='__main__')"
    )
    install("unlucky", sys.executable, "-c", begin, "-f", "{connection_file}")
    if not asked:
        gate.open()
    kernel = await kernels.get("a.ipynb", name="unlucky")
    life, first, second = kernel.life, Shown(), Shown()
    ours, other = kernel.execute("x = 1; print(x)", first), kernel.execute("print(x)", second)
    await until(once.exists)
    gate.open()
    assert [(await asyncio.wait_for(each, 60)).status for each in (ours, other)] == ["ok", "ok"]
    assert (first.text, second.text) == ("1\n", "1\n")
    assert kernel.life == life  # no state was lost
    assert once.exists()


@pytest.mark.full
@pytest.mark.parametrize("restarts", [True, False])
async def test_a_kernel_that_dies_at_each_start_is_told_with_its_cause(
    kernels: Kernels, install: Install, jp_serverapp: ServerApp, restarts: bool
) -> None:
    jp_serverapp.config.KernelManager.autorestart = restarts
    install("dies", sys.executable, "-c", "raise SystemExit(3)")
    kernel = await kernels.get("a.ipynb", name="dies")
    with pytest.raises(KernelUnavailable, match="dies at its start: .* exited with code 3"):
        await asyncio.wait_for(kernel.execute("1", Shown()), 50)


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "exit()"])
async def test_code_for_a_dead_kernel_that_nothing_starts_again_is_refused(
    kernels: Kernels, jp_serverapp: ServerApp, code: str
) -> None:
    jp_serverapp.config.KernelManager.autorestart = False
    kernel = await kernels.get("a.ipynb")
    await kernel.execute(code, Shown())
    with pytest.raises(KernelUnavailable, match="has ended, and Jupyter starts no other"):
        await asyncio.wait_for(kernel.execute("1", Shown()), 20)
    await kernel.restart()
    assert (await kernel.execute("1", Shown())).status == "ok"


async def test_a_kernel_that_never_answers_is_given_up(
    jp_serverapp: ServerApp, install: Install
) -> None:
    install("deaf", sys.executable, "-c", FOREVER)
    kernels = Kernels(
        jp_serverapp.session_manager,
        jp_serverapp.kernel_manager,
        jp_serverapp.kernel_spec_manager,
        start_timeout=1,
    )
    kernel = await kernels.get("a.ipynb", name="deaf")
    with pytest.raises(KernelUnavailable, match="did not answer within 1 s"):
        await kernel.execute("1", Shown())
    await kernels.close()


async def test_a_kernel_that_cannot_start_is_answered_with_those_installed(
    kernels: Kernels, install: Install
) -> None:
    install("broken", "/nowhere/to/be/found")
    with pytest.raises(KernelUnavailable, match="No kernel `broken`.*Installed: .*python3"):
        await kernels.get("a.ipynb", name="broken")
