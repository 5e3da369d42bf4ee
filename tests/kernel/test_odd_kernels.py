"""Kernels that lose messages, mix them up, start slowly or not at all."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from jupyter_server.serverapp import ServerApp
from shown import Shown

from jupyter_agent.errors import Busy, KernelUnavailable
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.variables import variables

Install = Callable[..., None]


@pytest.fixture
def install(jp_data_dir: Path) -> Install:
    """Makes a kernelspec that starts that command."""

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


async def test_k9_a_lost_idle_does_not_keep_a_run_for_ever(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    reply = await asyncio.wait_for(kernel.execute("idle is lost", shown), 20)
    assert (reply.status, shown.text) == ("ok", "ours")
    assert (await asyncio.wait_for(kernel.execute("next", Shown()), 20)).status == "ok"


async def test_k9_outputs_after_the_reply_belong_to_the_run(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    await kernel.execute("outputs come late", shown)
    assert shown.text == "ours late"


async def test_k9_outputs_of_others_are_not_taken_but_updates_of_displays_are(
    kernels: Kernels, odd: str
) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown = Shown()
    await kernel.execute("somebody else's outputs", shown)
    assert shown.text == "ours"
    assert ("update", "d", {}) in shown.events


async def test_k9_outputs_after_idle_belong_to_the_run(kernels: Kernels, odd: str) -> None:
    kernel = await kernels.get("a.ipynb", name=odd)
    shown, next_one = Shown(), Shown()
    await kernel.execute("outputs come after idle", shown)
    await kernel.execute("next", next_one)
    async with asyncio.timeout(60):
        while shown.text != "ours later":
            await asyncio.sleep(0.01)
    assert next_one.text == "ours"


@pytest.mark.parametrize(
    ("code", "status"), [("the reply is lost", "ok"), ("the reply of an error is lost", "error")]
)
async def test_k9_a_lost_reply_does_not_keep_a_run_for_ever(
    kernels: Kernels, odd: str, monkeypatch: pytest.MonkeyPatch, code: str, status: str
) -> None:
    monkeypatch.setattr("jupyter_agent.kernel.run._LOST", 0.5)
    kernel = await kernels.get("a.ipynb", name=odd)
    reply = await asyncio.wait_for(kernel.execute(code, Shown()), 20)
    assert reply.status == status
    assert "reply was lost" in reply.note
    assert (await asyncio.wait_for(kernel.execute("next", Shown()), 20)).status == "ok"


async def test_k9_messages_that_are_unknown_or_bare_harm_nothing(
    kernels: Kernels, odd: str
) -> None:
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


async def test_k7_a_kernel_that_is_slow_to_start_is_waited_for_and_is_not_called_busy(
    kernels: Kernels, install: Install, jp_root_dir: Path
) -> None:
    gate = jp_root_dir / "gate"
    script = str(Path(__file__).with_name("odd_kernel.py"))
    slowly = (
        f"import os, sys, runpy, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        f"sys.argv = [{script!r}, *sys.argv[1:]]\nrunpy.run_path({script!r}, run_name='__main__')"
    )
    install("slow", sys.executable, "-c", slowly, "-f", "{connection_file}")
    kernel = await kernels.get("a.ipynb", name="slow")
    waiting, shown = Shown(), Shown()
    execution, other = kernel.execute("1", waiting), kernel.execute("2", shown)
    async with asyncio.timeout(60):
        while kernel.state != "starting":
            await asyncio.sleep(0.01)
    assert (kernel.busy_seconds, execution.began) == (None, None)
    with pytest.raises(Busy, match="is starting"):
        await kernel.interrupt()
    gate.touch()
    assert (await execution).status == "ok"
    assert (await other).status == "ok"
    assert kernel.state == "idle"


async def test_k7_a_kernel_that_never_answers_is_given_up(
    jp_serverapp: ServerApp, install: Install
) -> None:
    install("deaf", sys.executable, "-c", "import time; time.sleep(600)")
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


async def test_k7_a_kernel_that_cannot_start_is_answered_with_those_installed(
    kernels: Kernels, install: Install
) -> None:
    install("broken", "/nowhere/to/be/found")
    with pytest.raises(KernelUnavailable, match="No kernel `broken`.*Installed: .*python3"):
        await kernels.get("a.ipynb", name="broken")
