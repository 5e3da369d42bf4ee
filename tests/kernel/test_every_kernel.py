"""The same behaviour for every kernel: local Python, another language, and a gateway.

The gateway is a real `jupyter-kernel-gateway`, reached by HTTP and websockets alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gateway import up
from jupyter_server.serverapp import ServerApp
from shown import Shown

from jupyter_agent.errors import Busy, KernelUnavailable
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import FreshKernels, Kernels
from jupyter_agent.kernel.variables import variables
from tests.gates import FOREVER, Gate
from tests.waiting import soon

pytestmark = pytest.mark.full


@dataclass(frozen=True)
class Language:
    """Code snippets of the tests in one language."""

    spec: str
    name: str
    hello: str
    fail: str
    wait: str
    """Prints `on`, then does nothing for a minute."""
    die: str
    """Prints `on`, then dies once a gate is open."""
    set: str
    get: str
    """Prints the value set before, 7; nothing or an error if it is not set."""
    told: str
    """The expected summary of variables."""


PYTHON = Language(
    spec="python3",
    name="python",
    hello="print('hello')",
    fail="1 / 0",
    wait=f"print('on', flush=True)\n{FOREVER}",
    die="print('on', flush=True)\nopen({gate!r}, 'rb', 0).read(1)\nimport os; os._exit(1)",
    set="x = 7",
    get="print(x)",
    told="x: int 7",
)
BASH = Language(
    spec="bash",
    name="bash",
    hello="echo hello",
    fail="false",
    wait="echo on; sleep 60",
    die="echo on; read < {gate}; kill -9 $PPID",
    set="x=7",
    get="echo $x",
    told="Variables of a bash kernel cannot be listed: give their `names`.",
)


@dataclass(frozen=True)
class Place:
    """A place where kernels run, and their language."""

    language: Language
    app: ServerApp
    kernels: Kernels

    async def kernel(self) -> Kernel:
        return await self.kernels.get("a.ipynb", name=self.language.spec)


@pytest.fixture(params=["python", "bash", "gateway"])
def place(
    request: pytest.FixtureRequest,
    jp_environ: None,
    jp_data_dir: Path,
    jp_configurable_serverapp: Any,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[Place]:
    argv = []
    if request.param == "gateway":
        url = request.getfixturevalue("gateway")
        jp_asyncio_loop.run_until_complete(up(url))
        argv = [f"--gateway-url={url}"]
    folder = jp_data_dir / "kernels" / "bash"
    folder.mkdir(parents=True)
    start = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    spec = {"argv": start, "display_name": "Bash", "language": "bash", "env": {"PS1": "$"}}
    (folder / "kernel.json").write_text(json.dumps(spec))
    app: ServerApp = jp_configurable_serverapp(argv=argv)
    kernels = Kernels(app.session_manager, app.kernel_manager, app.kernel_spec_manager)
    yield Place(BASH if request.param == "bash" else PYTHON, app, kernels)
    jp_asyncio_loop.run_until_complete(kernels.shutdown("a.ipynb"))
    jp_asyncio_loop.run_until_complete(kernels.close())


async def test_code_runs_fails_and_keeps_its_order(place: Place) -> None:
    kernel, language, shown, failed = await place.kernel(), place.language, Shown(), Shown()
    first, second, third, fourth = await asyncio.gather(
        kernel.execute(language.hello, shown),
        kernel.execute(language.fail, failed),
        kernel.execute(language.set, Shown()),
        kernel.execute(language.get, got := Shown()),
    )
    assert [reply.status for reply in (first, second, third, fourth)] == ["ok", "error", "ok", "ok"]
    assert shown.text.split() == ["hello"]
    assert failed.kinds() == ["error"]
    assert got.text.split() == ["7"]
    assert kernel.language == language.name
    assert language.told in await variables(kernel)


async def test_an_interrupt_ends_the_code_and_nothing_else(place: Place) -> None:
    kernel, language, shown = await place.kernel(), place.language, Shown()
    await kernel.execute(language.set, Shown())
    execution = kernel.execute(language.wait, shown)
    await soon(shown.printed)
    assert kernel.state == "busy"
    with pytest.raises(Busy):
        await variables(kernel)
    await execution.interrupt()
    assert (await execution).status == "interrupted"
    await kernel.execute(language.get, got := Shown())
    assert got.text.split() == ["7"]


async def test_a_fresh_kernel_knows_nothing_and_ends_with_its_use(place: Place) -> None:
    kernel, language = await place.kernel(), place.language
    await kernel.execute(language.set, Shown())
    fresh = FreshKernels(place.app.session_manager, place.app.kernel_manager)
    async with fresh.kernel("a.ipynb", language.spec) as other:
        await other.execute(language.get, got := Shown())
        running = other.execute(language.wait, shown := Shown())
        await soon(shown.printed)
    assert "7" not in got.text
    assert running.is_done
    assert other.is_gone
    await fresh.close()
    assert not kernel.is_gone
    await kernel.execute(language.get, got := Shown())
    assert got.text.split() == ["7"]


async def test_after_a_timeout_the_code_is_interrupted(place: Place) -> None:
    kernel = await place.kernel()
    reply = await kernel.execute(place.language.wait, Shown(), timeout=0.5)
    assert reply.status == "timeout"
    assert (await kernel.execute(place.language.hello, Shown())).status == "ok"


@pytest.mark.parametrize("who", ["we", "a person"])
async def test_a_restart_ends_the_code_and_forgets_the_variables(place: Place, who: str) -> None:
    kernel, language, shown = await place.kernel(), place.language, Shown()
    await kernel.execute(language.set, Shown())
    life = kernel.life
    execution = kernel.execute(language.wait, shown)
    await soon(shown.printed)
    if who == "we":
        await kernel.restart()
    else:
        answered = await place.app.kernel_manager.restart_kernel(kernel.id)
        if answered is not None:
            await answered
    async with asyncio.timeout(60):
        assert (await execution).status == "restarted"
    await kernel.execute(language.get, got := Shown())
    assert "7" not in got.text
    assert kernel.life != life


async def test_a_death_ends_the_code_and_the_next_waits_for_the_new_kernel(
    place: Place, tmp_path: Path
) -> None:
    kernel, language, shown = await place.kernel(), place.language, Shown()
    life, gate = kernel.life, Gate(tmp_path / "gate")
    dying = kernel.execute(language.die.format(gate=str(gate.path)), shown)
    await soon(shown.printed)  # a process that dies at once may lose unsent messages
    gate.open()
    async with asyncio.timeout(90):
        assert (await dying).status == "died"
        assert shown.text.split() == ["on"]
        assert (await kernel.execute(language.hello, Shown())).status == "ok"
    assert kernel.life != life


async def test_after_an_exit_the_next_code_waits_for_the_new_kernel(place: Place) -> None:
    if place.language is not PYTHON:
        return  # bash ends with its shell, without a message
    kernel, language, shown = await place.kernel(), place.language, Shown()
    await kernel.execute(language.set, Shown())
    life = kernel.life
    reply = await kernel.execute("print('last')\nexit()", shown)
    behind = await kernel.execute(language.hello, hello := Shown())
    assert (reply.status, shown.text) == ("ok", "last\n")
    assert "its variables are gone" in reply.note
    assert (behind.status, hello.text) == ("ok", "hello\n")
    assert kernel.life != life
    assert (await kernel.execute("print('x' in dir())", known := Shown())).status == "ok"
    assert known.text == "False\n"


async def test_code_that_was_queued_behind_an_exit_never_starts(place: Place) -> None:
    if place.language is not PYTHON:
        return
    kernel, shown = await place.kernel(), Shown()
    first, second = kernel.execute("exit()", Shown()), kernel.execute("1", shown)
    assert (await first).status == "ok"
    reply = await second
    assert (reply.status, reply.note) == ("restarted", "The code never started.")
    assert not shown.begun.is_set()


async def test_a_shutdown_during_a_run_ends_it(place: Place) -> None:
    kernel, shown = await place.kernel(), Shown()
    execution = kernel.execute(place.language.wait, shown)
    await soon(shown.printed)
    await place.kernels.shutdown("a.ipynb")
    async with asyncio.timeout(60):
        assert (await execution).status == "restarted"
    assert kernel.state == "dead"
    with pytest.raises(KernelUnavailable, match="Start it again"):
        await kernel.execute(place.language.hello, Shown())


async def test_input_fails_at_once_with_a_reason(place: Place) -> None:
    if place.language is not PYTHON:
        return  # bash reads from its terminal, without an input request
    kernel = await place.kernel()
    reply = await kernel.execute("import getpass; getpass.getpass()", Shown())
    assert reply.error is not None
    assert "does not support input" in reply.error["evalue"]
