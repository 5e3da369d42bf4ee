"""A gateway that is slow, out of reach for a while, or gone."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gateway import Line, up
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.serverapp import ServerApp
from shown import Shown

from jupyter_agent.errors import KernelUnavailable
from jupyter_agent.kernel.kernels import Kernels
from tests.gates import FOREVER, Gate
from tests.waiting import soon, until

pytestmark = pytest.mark.full


@dataclass(frozen=True)
class Far:
    """Kernels of a gateway behind an interruptible connection."""

    line: Line
    app: ServerApp
    kernels: Kernels


@pytest.fixture
def far(
    gateway: str,
    jp_environ: None,
    jp_configurable_serverapp: Any,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[Far]:
    run = jp_asyncio_loop.run_until_complete
    run(up(gateway))
    line = Line(int(gateway.rpartition(":")[2]))
    run(line.open())
    url = f"--gateway-url=http://127.0.0.1:{line.port}"
    app: ServerApp = jp_configurable_serverapp(argv=[url, "--GatewayClient.gateway_retry_max=0"])
    kernels = Kernels(
        app.session_manager, app.kernel_manager, app.kernel_spec_manager, start_timeout=20
    )
    yield Far(line, app, kernels)
    run(kernels.close())
    run(app.kernel_manager.shutdown_all())
    run(line.cut())


def state_at(gateway: str, kernel_id: str) -> str:
    """The execution state of a kernel according to the gateway."""
    with urllib.request.urlopen(f"{gateway}/api/kernels/{kernel_id}") as answer:
        return str(json.load(answer)["execution_state"])


async def test_behind_a_slow_line_all_is_as_usual(far: Far) -> None:
    far.line.delay = 0.2
    kernel = await far.kernels.get("a.ipynb")
    shown = Shown()
    reply = await kernel.execute("for i in range(5): print(i, flush=True)", shown)
    assert (reply.status, reply.note, shown.text) == ("ok", "", "0\n1\n2\n3\n4\n")
    running = kernel.execute(f"print('on', flush=True)\n{FOREVER}", on := Shown())
    await soon(on.printed)
    await running.interrupt()
    assert (await running).status == "interrupted"
    life = kernel.life
    await kernel.restart()
    assert kernel.life != life


async def test_while_it_connects_over_a_slow_line_the_server_goes_on(far: Far) -> None:
    kernel = await far.kernels.get("a.ipynb")
    far.line.delay = 0.2
    longest, done = 0.0, asyncio.Event()

    async def beat() -> None:
        nonlocal longest
        while not done.is_set():
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    beating = asyncio.create_task(beat())
    assert (await kernel.execute("1", Shown())).status == "ok"
    await kernel.close()
    done.set()
    await beating
    assert longest < 0.2, "seconds in which nothing else was done"


async def test_a_cell_that_says_nothing_for_longer_than_a_kernel_may_take_to_start(
    far: Far, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(GatewayClient, "KERNEL_LAUNCH_TIMEOUT", 1)
    kernel = await far.kernels.get("a.ipynb")
    gate, shown = Gate(tmp_path / "gate"), Shown()
    running = kernel.execute(f"{gate.waits}\nprint('done')", shown)
    await until(lambda: (kernel.busy_seconds or 0) > 2)
    gate.open()
    reply = await running
    assert (reply.status, reply.note, shown.text) == ("ok", "", "done\n")


async def test_a_run_over_a_line_that_was_cut_is_followed_again(far: Far, tmp_path: Path) -> None:
    kernel = await far.kernels.get("a.ipynb")
    cut, gate, shown = tmp_path / "cut", Gate(tmp_path / "gate"), Shown()
    tells = f"print('after' if os.path.exists({str(cut)!r}) else 'before', flush=True)"
    running = kernel.execute(f"import os\nx = 7\n{gate.repeats(tells)}\nx", shown)
    await soon(shown.printed)
    life = kernel.life
    await far.line.cut()
    cut.touch()
    await far.line.open()
    await until(lambda: "after" in shown.text)
    gate.open()
    reply = await asyncio.wait_for(running, 60)
    assert reply.status == "ok"
    assert shown.events[-1][1]["data"] == {"text/plain": "7"}
    assert "outputs may be missing" in reply.note
    assert (await kernel.execute("print(x)", after := Shown())).status == "ok"
    assert (after.text, kernel.life) == ("7\n", life)


async def test_a_run_that_ended_while_the_line_was_cut_says_that_nobody_knows_how(
    far: Far, gateway: str, tmp_path: Path
) -> None:
    kernel = await far.kernels.get("a.ipynb")
    gate, shown = Gate(tmp_path / "gate"), Shown()
    code = f"print('on', flush=True)\n{gate.repeats('print(flush=True)')}"
    running = kernel.execute(code, shown)
    await soon(shown.printed)
    await far.line.cut()
    gate.open()
    await until(lambda: state_at(gateway, kernel.id) == "idle")  # only the gateway knows it
    await far.line.open()
    reply = await asyncio.wait_for(running, 60)
    assert (reply.status, shown.text.strip()) == ("error", "on")
    assert "how it ended is unknown" in reply.note
    assert (await kernel.execute("1", Shown())).status == "ok"


async def test_where_the_gateway_stays_away_it_is_told(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.kernel.execution._CONNECT_AGAIN_S", 1.0)
    kernel = await far.kernels.get("a.ipynb")
    shown = Shown()
    running = kernel.execute(f"print('on', flush=True)\n{FOREVER}", shown)
    await soon(shown.printed)
    await far.line.cut()
    reply = await asyncio.wait_for(running, 60)
    assert reply.status == "error"
    assert "it may still be running" in reply.note
    with pytest.raises(KernelUnavailable, match="gateway cannot be reached"):
        await kernel.execute("1", Shown())
    with pytest.raises(KernelUnavailable):
        await kernel.restart()
    with pytest.raises(KernelUnavailable):
        await kernel.interrupt()
    with pytest.raises(KernelUnavailable):
        await far.kernels.get("other.ipynb")
    with pytest.raises(KernelUnavailable):
        await far.kernels.kernelspec("python3")
    await far.line.open()
    await kernel.interrupt()
    assert (await kernel.execute("1", Shown())).status == "ok"


async def test_a_kernel_that_the_gateway_culled_is_replaced(far: Far, gateway: str) -> None:
    kernel = await far.kernels.get("a.ipynb")
    assert (await kernel.execute("1", Shown())).status == "ok"
    await far.line.cut()
    request = urllib.request.Request(f"{gateway}/api/kernels/{kernel.id}", method="DELETE")
    (await asyncio.to_thread(urllib.request.urlopen, request)).close()
    await far.line.open()
    with pytest.raises(KernelUnavailable, match="Start it again"):
        await kernel.execute("1", Shown())
    other = await far.kernels.get("a.ipynb")
    assert other.id != kernel.id
    assert (await other.execute("1", Shown())).status == "ok"
