"""Code through real kernels of a real Jupyter server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from shown import Shown, report_interrupt

from jupyter_agent.carriers.renames import Renames
from jupyter_agent.errors import KernelNotInstalled
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from tests.gates import FOREVER, Gate
from tests.waiting import soon, until


async def test_code_shows_its_outputs_in_order_and_replies(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    reply = await kernel.execute("print('one')\ndisplay(2)\n3", shown)
    assert (reply.status, reply.execution_count) == ("ok", 1)
    # A slow kernel may send the text in chunks, or start-up warnings before it.
    assert list(dict.fromkeys(shown.kinds())) == ["stream", "display_data", "execute_result"]
    assert shown.text.endswith("one\n")
    assert shown.events[-1][1]["data"] == {"text/plain": "3"}
    assert shown.begun.is_set()
    assert (kernel.state, kernel.language, kernel.name) == ("idle", "python", "python3")


async def test_what_a_thread_prints_long_after_its_code_is_shown(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    await kernel.execute(
        "import threading, time\n"
        "def late():\n    for n in range(4):\n        time.sleep(0.3)\n        print(n)\n"
        "threading.Thread(target=late).start()",
        shown,
    )
    await until(lambda: "3" in shown.text)
    assert shown.text == "0\n1\n2\n3\n"


@pytest.mark.full
async def test_the_kernel_is_the_one_of_the_notebooks_session(
    kernels: Kernels, jp_serverapp: ServerApp
) -> None:
    assert await kernels.find("a.ipynb") is None
    session = await jp_serverapp.session_manager.create_session(
        path="a.ipynb", name="a.ipynb", type="notebook", kernel_name="python3"
    )
    found = await kernels.find("a.ipynb")
    assert found is not None
    assert found.id == session["kernel"]["id"]
    assert await kernels.get("a.ipynb") is found


async def begun_by_a_page(server: ServerApp) -> Any:
    """Create a session as its handler does after it found none."""
    return await server.session_manager.create_session(
        path="a.ipynb", name="a.ipynb", type="notebook", kernel_name="python3"
    )


async def there(server: ServerApp) -> list[str]:
    """Ids of the sessions."""
    return [session["id"] for session in await server.session_manager.list_sessions()]


@pytest.mark.full
@pytest.mark.parametrize(("old", "new"), [("a.ipynb", "b.ipynb"), ("in", "out/of")])
async def test_a_renamed_notebook_keeps_its_kernel_even_one_that_is_starting(
    jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    sessions, renamed = jp_serverapp.session_manager, Renames()
    kernels = Kernels(
        sessions,
        jp_serverapp.kernel_manager,
        jp_serverapp.kernel_spec_manager,
        follow=renamed.follow,
    )
    before, after = (path if path.endswith(".ipynb") else f"{path}/a.ipynb" for path in (old, new))
    in_between: list[asyncio.Task[Kernel]] = []
    create = sessions.create_session

    async def rename(to: str) -> None:
        former = renamed.follow(old)
        renamed.add(former, to)
        await kernels.follow_rename(former, to)

    async def is_overtaken(**options: Any) -> Any:
        await rename(new)
        in_between.append(asyncio.create_task(kernels.get(after)))
        return await create(**options)

    monkeypatch.setattr(sessions, "create_session", is_overtaken)
    kernel = await kernels.get(before)
    assert await in_between[0] is kernel
    assert await kernels.find(before) is kernel, "for a caller with the old path"
    await rename(f"{new}2.ipynb" if new.endswith("b") else f"{new}2")
    (session,) = await sessions.list_sessions()
    assert session["path"] == renamed.follow(before) != after
    assert session["name"] == session["path"].rpartition("/")[2]
    assert await kernels.get(session["path"]) is kernel
    await kernels.close()


@pytest.mark.full
async def test_of_two_kernels_started_at_one_moment_that_of_the_page_stays(
    kernels: Kernels, jp_serverapp: ServerApp
) -> None:
    kernel, theirs = await asyncio.gather(kernels.get("a.ipynb"), begun_by_a_page(jp_serverapp))
    assert kernel.id == theirs["kernel"]["id"], "in which something may run at once"
    assert await there(jp_serverapp) == [theirs["id"]]
    assert list(jp_serverapp.kernel_manager.list_kernel_ids()) == [theirs["kernel"]["id"]]


@pytest.mark.full
async def test_a_kernel_of_ours_that_runs_something_ends_after_it_when_a_page_has_another(
    kernels: Kernels, jp_serverapp: ServerApp, tmp_path: Path
) -> None:
    ours = await kernels.get("a.ipynb")
    gate, shown = Gate(tmp_path / "gate"), Shown()
    run = ours.execute(f"{gate.waits}\n'whole'", shown)
    theirs = await begun_by_a_page(jp_serverapp)
    assert (await kernels.get("a.ipynb")).id == theirs["kernel"]["id"]
    gate.open()
    assert (await run).status == "ok"
    assert shown.events[-1][1]["data"] == {"text/plain": "'whole'"}
    await kernels.find("a.ipynb")
    assert await there(jp_serverapp) == [theirs["id"]]


@pytest.mark.full
async def test_a_kernel_of_ours_that_a_page_is_connected_to_stays(
    kernels: Kernels, jp_serverapp: ServerApp, jp_ws_fetch: Callable[..., Any]
) -> None:
    ours = await kernels.get("a.ipynb")
    page = await jp_ws_fetch("api", "kernels", ours.id, "channels")
    theirs = await begun_by_a_page(jp_serverapp)
    assert (await kernels.get("a.ipynb")).id == theirs["kernel"]["id"]
    assert not ours.is_gone
    page.close()
    while await page.read_message() is not None:
        pass
    manager = jp_serverapp.kernel_manager
    await until(lambda: not manager.kernel_model(ours.id)["connections"])
    await kernels.find("a.ipynb")
    assert await there(jp_serverapp) == [theirs["id"]]


async def test_code_handed_over_together_runs_in_order(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    replies = await asyncio.gather(
        *(kernel.execute(f"x = {number}", Shown()) for number in range(4))
    )
    assert [reply.execution_count for reply in replies] == [1, 2, 3, 4]


async def test_a_failure_is_shown_and_the_next_code_still_runs(kernels: Kernels) -> None:
    kernel, shown = await kernels.get("a.ipynb"), Shown()
    first, second = await asyncio.gather(
        kernel.execute("1 / 0", shown), kernel.execute("2", Shown())
    )
    assert (first.status, second.status) == ("error", "ok")
    assert first.error is not None
    assert first.error["ename"] == "ZeroDivisionError"
    assert shown.kinds() == ["error"]


async def test_code_that_is_dropped_as_a_cell_of_a_person_fails_runs_after_it(
    kernels: Kernels, jp_serverapp: ServerApp, tmp_path: Path
) -> None:
    kernel, gate = await kernels.get("a.ipynb"), Gate(tmp_path / "gate")
    first = kernel.execute(f"print('on', flush=True)\n{gate.waits}", shown := Shown())
    await until(lambda: "on" in shown.text)
    theirs = jp_serverapp.kernel_manager.get_kernel(kernel.id).client()
    theirs.start_channels()
    for code in ("import time; time.sleep(0.5)", "1 / 0", "x = 1"):  # as "Run All" in JupyterLab
        theirs.execute(code)
    second = kernel.execute("'x' in globals()", dropped := Shown())
    await asyncio.sleep(0.5)
    gate.open()
    replies = await asyncio.gather(first, second)
    theirs.stop_channels()
    assert [(reply.status, reply.note) for reply in replies] == [("ok", ""), ("ok", "")]
    assert [event[1]["data"]["text/plain"] for event in dropped.events] == ["False"]


async def test_code_behind_code_that_a_person_interrupts_does_not_run(
    kernels: Kernels, jp_serverapp: ServerApp, tmp_path: Path
) -> None:
    kernel, begins = await kernels.get("a.ipynb"), tmp_path / "begins"
    await kernel.execute("1", Shown())
    theirs = jp_serverapp.kernel_manager.get_kernel(kernel.id).client()
    theirs.start_channels()

    class Behind(Shown):
        async def prepare(self) -> bool:
            theirs.execute(f"open({str(begins)!r}, 'w').close()\n{FOREVER}")
            await until(begins.exists)
            return True

    execution = kernel.execute("1", shown := Behind())
    await until(lambda: execution.request_id)
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel.id)
    reply = await execution
    theirs.stop_channels()
    assert reply.status == "interrupted"
    assert "It did not run" in reply.note
    assert shown.events == []


async def test_code_that_waits_for_other_code_is_withdrawn_at_once(
    kernels: Kernels, tmp_path: Path
) -> None:
    kernel, gate = await kernels.get("a.ipynb"), Gate(tmp_path / "gate")
    first = kernel.execute(f"print('on', flush=True)\n{gate.waits}", shown := Shown())
    await soon(shown.printed)
    withdrawn = kernel.execute("1", never := Shown())
    await withdrawn.interrupt()  # also before it has begun to wait
    reply = await asyncio.wait_for(withdrawn, 20)
    assert (reply.status, reply.note) == ("interrupted", "The code never started.")
    last = kernel.execute("print(2)", after := Shown())
    gate.open()
    assert [(await each).status for each in (first, last)] == ["ok", "ok"]
    assert (never.events, after.text) == ([], "2\n")


async def test_code_behind_code_that_is_withdrawn_waits_for_an_exit_too(kernels: Kernels) -> None:
    kernel, shown = await kernels.get("a.ipynb"), Shown()
    await kernel.execute("import atexit, time; atexit.register(time.sleep, 3)", Shown())
    assert (await kernel.execute("x = 1; exit()", Shown())).status == "ok"
    withdrawn = kernel.execute("1", Shown())
    await asyncio.sleep(0.3)  # it waits for the end of the process
    await withdrawn.interrupt()
    assert (await asyncio.wait_for(withdrawn, 20)).status == "interrupted"
    assert kernel.state == "starting"
    reply = await asyncio.wait_for(kernel.execute("print('x' in dir())", shown), 40)
    assert (reply.status, shown.text) == ("ok", "False\n")


async def test_code_that_waits_when_the_kernel_is_shut_down_did_not_die(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    first = kernel.execute(f"print('on', flush=True)\n{FOREVER}", shown := Shown())
    await soon(shown.printed)
    second = kernel.execute("1", Shown())
    await kernels.shutdown("a.ipynb")
    assert (await asyncio.wait_for(first, 20)).status == "restarted"
    reply = await asyncio.wait_for(second, 20)
    assert (reply.status, reply.note) == ("restarted", "The code never started.")


@pytest.mark.full
async def test_restarts_at_once_come_one_after_the_other(
    kernels: Kernels, jp_serverapp: ServerApp
) -> None:
    """Of a person and of two turns."""
    kernel, manager = await kernels.get("a.ipynb"), jp_serverapp.kernel_manager
    await kernel.execute("x = 1", Shown())
    process = manager.get_kernel(kernel.id)
    theirs = asyncio.ensure_future(manager.restart_kernel(kernel.id))
    await until(lambda: not process.ready.done())
    await asyncio.gather(kernel.restart(), kernel.restart())
    await theirs
    assert (await kernel.execute("print('x' in dir())", shown := Shown())).status == "ok"
    assert shown.text == "False\n"


@pytest.mark.full
async def test_a_restart_beside_which_someone_restarts_the_kernel_is_one(
    kernels: Kernels, jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, restart = await kernels.get("a.ipynb"), jp_serverapp.kernel_manager.restart_kernel
    await kernel.execute("x = 1", Shown())

    async def overtaken(kernel_id: str) -> None:
        await restart(kernel_id)
        raise asyncio.InvalidStateError("invalid state")  # as of jupyter_client

    monkeypatch.setattr(jp_serverapp.kernel_manager, "restart_kernel", overtaken)
    await kernel.restart()
    assert (await kernel.execute("print('x' in dir())", shown := Shown())).status == "ok"
    assert shown.text == "False\n"


async def test_a_late_report_of_our_own_interrupt_is_not_about_the_next_code(
    kernels: Kernels, jp_serverapp: ServerApp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel, gate = await kernels.get("a.ipynb"), Gate(tmp_path / "gate")
    manager, answers = jp_serverapp.kernel_manager.get_kernel(kernel.id), asyncio.Event()

    async def interrupt() -> None:  # as with a gateway, whose answer comes later
        await manager.signal_kernel(signal.SIGINT)
        await answers.wait()
        report_interrupt(kernel, jp_serverapp)

    monkeypatch.setattr(manager, "interrupt_kernel", interrupt)
    first = kernel.execute(f"print('on', flush=True)\n{FOREVER}", shown := Shown())
    await soon(shown.printed)
    stopping = asyncio.create_task(first.interrupt())
    assert (await first).status == "interrupted"
    second = kernel.execute(f"print('on', flush=True)\n{gate.waits}", later := Shown())
    await soon(later.printed)
    answers.set()
    await stopping
    gate.open()
    assert (await second).status == "ok"


ENDLESS = {
    "awaits": "import asyncio\nprint('on', flush=True)\nawait asyncio.sleep(600)",
    "runs a program": "%%bash\necho on\nsleep 600",
    "cleans up badly": f"try:\n  print('on', flush=True)\n  {FOREVER}\nfinally:\n  1 / 0",
    "is plain": f"print('on', flush=True)\n{FOREVER}",
}
PROGRAM = "!echo on; sleep 600"
"""It ends without an error, whatever happens to it."""


@pytest.mark.parametrize("status", ["timeout", "interrupted"])
@pytest.mark.parametrize("code", ENDLESS.values(), ids=list(ENDLESS))
async def test_interrupted_code_counts_as_interrupted_whatever_error_ends_it(
    kernels: Kernels, code: str, status: str
) -> None:
    kernel, shown = await kernels.get("a.ipynb"), Shown()
    timed = status == "timeout"
    run = kernel.execute(code, shown, timeout=0.5 if timed else None)
    await until(lambda: "on" in shown.text)
    if not timed:
        await run.interrupt()
    reply = await run
    assert (reply.status, reply.error is not None, reply.note) == (status, True, "")


@pytest.mark.parametrize("status", ["timeout", "interrupted"])
async def test_interrupted_code_that_ends_without_an_error_is_no_success(
    kernels: Kernels, status: str
) -> None:
    kernel, shown = await kernels.get("a.ipynb"), Shown()
    timed = status == "timeout"
    run = kernel.execute(PROGRAM, shown, timeout=0.5 if timed else None)
    await until(lambda: "on" in shown.text)
    if not timed:
        await run.interrupt()
    reply = await run
    assert (reply.status, "may be incomplete" in reply.note) == (status, True)


@pytest.mark.parametrize("code", [*ENDLESS.values(), PROGRAM], ids=[*ENDLESS, "ends well"])
async def test_code_that_someone_else_interrupts_counts_as_interrupted(
    kernels: Kernels, jp_serverapp: ServerApp, code: str
) -> None:
    kernel, shown = await kernels.get("a.ipynb"), Shown()
    run = kernel.execute(code, shown)
    await until(lambda: "on" in shown.text)
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel.id)  # as the button in JupyterLab
    reply = await run
    assert (reply.status, "Someone else interrupted it." in reply.note) == ("interrupted", True)
    assert not reply.raised_error
    assert ("may be incomplete" in reply.note) == (code == PROGRAM)
    assert (await kernel.execute("1", Shown())).note == ""


async def test_code_that_raises_the_error_of_an_interrupt_may_have_been_interrupted(
    kernels: Kernels,
) -> None:
    kernel = await kernels.get("a.ipynb")
    reply = await kernel.execute("raise KeyboardInterrupt", Shown())
    assert (reply.status, reply.raised_error) == ("interrupted", True)
    assert "or the code raised the error itself" in reply.note


async def test_an_error_that_was_there_before_the_interrupt_stays_an_error(
    kernels: Kernels, tmp_path: Path
) -> None:
    kernel, shown, gate = await kernels.get("a.ipynb"), Shown(), Gate(tmp_path / "gate")
    hook = f"def wait(*_):\n  {gate.waits}\nget_ipython().events.register('post_run_cell', wait)"
    run = kernel.execute(f"{hook}\n1 / 0", shown)
    await until(lambda: "error" in shown.kinds())
    await run.interrupt()
    gate.open()
    reply = await run
    assert reply.status == "error"  # its own, or the hook's, which may replace it


async def test_cancelling_who_waits_does_not_stop_the_code(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    execution = kernel.execute("print('still here')", shown)

    waits = asyncio.Event()

    async def caller() -> None:
        waits.set()
        await execution

    task = asyncio.create_task(caller())
    await waits.wait()
    task.cancel()
    assert (await execution).status == "ok"
    assert shown.text == "still here\n"


@pytest.mark.full
async def test_code_that_ignores_the_interrupt_is_told_to_be_still_busy(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("jupyter_agent.kernel.execution._INTERRUPT_GRACE_S", 0.3)
    kernel, gate = await kernels.get("a.ipynb"), Gate(tmp_path / "gate")
    stubborn = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{gate.waits}"
    reply = await kernel.execute(stubborn, Shown(), timeout=0.2)
    assert reply.status == "timeout"
    assert "still busy" in reply.note
    assert kernel.state == "busy"
    assert kernel.busy_seconds is not None
    gate.open()
    assert (await kernel.execute("1", Shown())).status == "ok"


@pytest.mark.full
@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("import os; os._exit(3)", "The kernel died: its process exited with code 3."),
        (
            "import os; os.kill(os.getpid(), 9)",
            "The kernel died: its process was ended by SIGKILL (-9), probably because memory ran "
            "out.",
        ),
        (
            "import faulthandler, os; faulthandler.disable(); os.kill(os.getpid(), 11)",
            "The kernel died: its process was ended by SIGSEGV (-11), a crash.",
        ),
    ],
)
async def test_a_death_is_told_with_its_cause(kernels: Kernels, code: str, note: str) -> None:
    kernel = await kernels.get("a.ipynb")
    reply = await kernel.execute(code, Shown())
    assert (reply.status, reply.note) == ("died", note)


async def test_a_kernel_that_is_kept_though_exit_was_called_goes_on(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("x = 7", Shown())
    reply = await kernel.execute("exit(keep_kernel=True)", Shown())
    assert (reply.status, reply.note) == ("ok", "")
    assert (await kernel.execute("print(x)", shown := Shown())).status == "ok"
    assert shown.text == "7\n"


class Person:
    """Another client of the same kernel, like a notebook in the browser."""

    def __init__(self, app: ServerApp, kernel: Kernel) -> None:
        manager = app.kernel_manager.get_kernel(kernel.id)
        self.client = manager.client()
        self.client.start_channels(stdin=False, hb=False)

    async def ready(self) -> None:
        await self.client.wait_for_ready(timeout=60)

    def close(self) -> None:
        self.client.stop_channels()


@pytest.mark.full
async def test_a_persons_own_cell_goes_first_and_is_not_interrupted(
    kernels: Kernels, jp_serverapp: ServerApp, tmp_path: Path
) -> None:
    kernel, gate = await kernels.get("a.ipynb"), Gate(tmp_path / "gate")
    person = Person(jp_serverapp, kernel)
    await person.ready()
    theirs = person.client.execute(f"{gate.waits}\nx = 'theirs'", reply=True, timeout=60)
    await until(lambda: kernel.state == "busy")
    withdrawn, waiting = kernel.execute("x = 'withdrawn'", Shown()), kernel.execute("x", Shown())
    await withdrawn.interrupt()
    assert (await withdrawn).status == "interrupted"
    assert waiting.began is None
    assert kernel.busy_seconds is not None
    gate.open()
    assert (await theirs)["content"]["status"] == "ok"
    reply = await waiting
    assert reply.status == "ok"
    person.close()


async def test_a_kernel_that_was_busy_before_we_came_is_waited_for(
    kernels: Kernels, jp_serverapp: ServerApp, tmp_path: Path
) -> None:
    kernel, gate = await kernels.get("a.ipynb"), Gate(tmp_path / "gate")
    person = Person(jp_serverapp, kernel)
    await person.ready()
    theirs = person.client.execute(f"{gate.waits}\nx = 1", reply=True, timeout=60)
    await until(lambda: kernel.state == "busy")
    shown = Shown()
    waiting = kernel.execute("x", shown)
    await until(lambda: kernel.busy_seconds is not None)
    assert waiting.began is None
    gate.open()
    assert (await theirs)["content"]["status"] == "ok"
    assert (await waiting).status == "ok"
    person.close()


async def test_a_kernel_that_is_not_installed_is_answered_with_those_that_are(
    kernels: Kernels,
) -> None:
    with pytest.raises(
        KernelNotInstalled, match="No kernel `none`: it is not installed.*python3.*`kernel`"
    ) as raised:
        await kernels.get("a.ipynb", name="none")
    assert "python3" in raised.value.facts["installed"]
    with pytest.raises(KernelNotInstalled, match=r"Installed: .*python3"):
        await kernels.kernelspec("none")
    assert (await kernels.kernelspec())["name"] == "python3"


@pytest.mark.full
async def test_a_shut_down_kernel_is_gone_and_the_next_is_a_new_one(kernels: Kernels) -> None:
    first = await kernels.get("a.ipynb")
    await first.execute("1", Shown())
    await kernels.shutdown("a.ipynb")
    assert first.state == "dead"
    assert await kernels.find("a.ipynb") is None
    second = await kernels.get("a.ipynb")
    assert second.id != first.id


async def test_calls_side_by_side_start_one_kernel(kernels: Kernels) -> None:
    one, other = await asyncio.gather(kernels.get("a.ipynb"), kernels.get("a.ipynb"))
    assert one is other


async def test_the_kernel_tells_about_a_name(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("answer = 42", Shown())
    told = await kernel.inspect("answer", 6)
    assert told["found"]
    assert "42" in told["data"]["text/plain"]
