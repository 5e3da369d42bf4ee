"""Kernels of other programs: the server does not know their processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.serverapp import ServerApp
from shown import Shown

from jupyter_agent.errors import KernelUnavailable
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from tests.gates import FOREVER
from tests.waiting import soon, until

pytestmark = pytest.mark.full


@dataclass(frozen=True)
class Outside:
    """A kernel, and its process."""

    kernel: Kernel
    process: subprocess.Popen[bytes]


@pytest.fixture
def outside(
    jp_environ: None,
    tmp_path: Path,
    jp_configurable_serverapp: Any,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[Outside]:
    run = jp_asyncio_loop.run_until_complete
    folder = tmp_path / "outside"
    folder.mkdir()
    file = folder / "kernel-outside.json"
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", str(file)]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    run(until(file.exists))
    app: ServerApp = jp_configurable_serverapp(
        argv=[
            "--ServerApp.allow_external_kernels=True",
            f"--ServerApp.external_connection_dir={folder}",
        ]
    )
    kernels = Kernels(
        app.session_manager, app.kernel_manager, app.kernel_spec_manager, start_timeout=5
    )
    kernel = run(kernels.attach("a.ipynb", "none", str(file)))
    assert kernel is not None
    run(asyncio.wait_for(up(kernel), 60))
    yield Outside(kernel, process)
    process.kill()
    process.wait()
    run(kernels.close())


async def up(kernel: Kernel) -> None:
    """Wait until the process answers, however slow the machine is."""
    while True:
        with suppress(KernelUnavailable):
            await kernel.execute("1", Shown())
            return


async def test_a_kernel_that_computes_for_long_is_not_given_up(outside: Outside) -> None:
    code = "print('on', flush=True)\nsum(range(10**8))"
    reply = await asyncio.wait_for(outside.kernel.execute(code, Shown()), 120)
    assert (reply.status, reply.note) == ("ok", "")


async def test_a_death_that_nobody_reports_ends_the_run(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.kernel.execution._CONNECT_AGAIN_S", 2.0)
    running = outside.kernel.execute(f"print('on', flush=True)\n{FOREVER}", on := Shown())
    await soon(on.printed)
    outside.process.kill()
    reply = await asyncio.wait_for(running, 60)
    assert reply.status == "error"
    assert "how the code ended is unknown" in reply.note
    with pytest.raises(KernelUnavailable):
        await asyncio.wait_for(outside.kernel.execute("1", Shown()), 60)
