"""Runs that continue in a kernel which outlives the server: the next server follows them again, or
reports them as lost.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest

from ..gates import Gate
from ..programs import Server, environment, jupyter_server
from ..waiting import until

pytestmark = pytest.mark.full

TELLS = "print('after' if os.path.exists({restarted!r}) else 'before', flush=True)"


class Desk:
    """A notebook whose first cell keeps printing until the gate is open."""

    def __init__(self, folder: Path, options: str = "") -> None:
        self.folder = folder
        self.options = options
        self.gate, self.restarted = Gate(folder / "gate"), folder / "restarted"
        self.file = folder / "a.ipynb"
        tells = self.gate.repeats(TELLS.format(restarted=str(self.restarted)))
        sources = {"waits": f"import os\nx = 7\n{tells}\nx", "next": "print(x)"}
        cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in sources.items()]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), self.file)

    def server(self) -> Any:
        command = f"jupyter server --port 8888 {self.options} --IdentityProvider.token=secret"
        return jupyter_server(self.folder, command)

    def outputs(self) -> list[Any]:
        return list(nbformat.read(self.file, as_version=4).cells[0].outputs)


def start(server: Server, cell: str = "waits") -> str:
    run = server.request("POST", f"notebooks/a.ipynb/cells/{cell}/run", {"wait": 0})
    return str(run["run_id"])


def known(server: Server, run_id: str) -> Any:
    return server.request("GET", f"runs/{run_id}")


def shows(server: Server, run_id: str, text: str) -> bool:
    return text in json.dumps(known(server, run_id)["outputs"])


async def recorded(desk: Desk, run_id: str, key: str = "id") -> None:
    """Waits until the next server would know that about it."""
    await until(lambda: any(run["id"] == run_id and run[key] for run in records(desk)))


def records(desk: Desk) -> list[Any]:
    """The stored runs."""
    with closing(sqlite3.connect(desk.folder / ".data" / "agent" / "conversations.db")) as store:
        rows = store.execute("SELECT entry FROM leftovers WHERE kind = 'runs'").fetchall()
        return [json.loads(entry) for (entry,) in rows]


def kill(server: Server) -> None:
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(60)


async def ended(server: Server, run_id: str) -> Any:
    await until(lambda: known(server, run_id)["status"] not in ("queued", "running"))
    return known(server, run_id)


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Desk]:
    """A desk whose kernels are behind a gateway."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    elsewhere = tmp_path / "gateway"
    elsewhere.mkdir()
    command = [sys.executable, "-m", "kernel_gateway", f"--KernelGatewayApp.port={port}"]
    process = subprocess.Popen(
        command, env=environment(elsewhere), cwd=elsewhere, stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=5):
                return True
        except OSError:
            return False

    asyncio.run(until(answers))
    work = tmp_path / "work"
    work.mkdir()
    yield Desk(work, f"--gateway-url=http://127.0.0.1:{port}")
    process.terminate()
    process.wait()


async def left_running(desk: Desk) -> str:
    """A run that its server was killed in; its kernel knows when the next server runs."""
    with desk.server() as first:
        run_id = start(first)
        await until(lambda: shows(first, run_id, "before"))
        await recorded(desk, run_id, "began")
        kill(first)
    desk.restarted.touch()
    return run_id


async def test_a_run_behind_a_gateway_is_followed_again_by_the_next_server(far: Desk) -> None:
    run_id = await left_running(far)
    with far.server() as second:
        assert known(second, run_id)["status"] == "running"
        await until(lambda: shows(second, run_id, "after"))
        assert known(second, run_id)["status"] == "running"
        far.gate.open()
        run = await ended(second, run_id)
        assert run["status"] == "ok"
        assert (
            "The Jupyter server was restarted in the meantime: outputs may be missing"
            in run["note"]
        )
        (result,) = [each for each in far.outputs() if each.output_type == "execute_result"]
        assert result.data["text/plain"] == "7"
        after = second.request("POST", "notebooks/a.ipynb/cells/next/run", {})
        assert (after["status"], after["outputs"][0]["text"]) == ("ok", "7\n")
    assert records(far) == []


async def test_what_ended_while_no_server_listened_says_that_nobody_knows_how(far: Desk) -> None:
    with far.server() as first:
        run_id = start(first)
        queued = start(first, "next")
        await until(lambda: shows(first, run_id, "before"))
        await recorded(far, run_id, "began")
        await recorded(far, queued)
        kill(first)
    far.gate.open()
    with far.server() as second:
        run = await ended(second, run_id)
        assert run["status"] == "error"
        assert "how it ended is unknown, outputs are missing" in run["note"]
        never = await ended(second, queued)
        assert never["status"] == "interrupted"
        assert "it never started" in never["note"]
        after = second.request("POST", "notebooks/a.ipynb/cells/next/run", {})
        assert (after["status"], after["outputs"][0]["text"]) == ("ok", "7\n")


async def test_a_run_that_follows_again_can_be_interrupted(far: Desk) -> None:
    run_id = await left_running(far)
    with far.server() as second:
        await until(lambda: shows(second, run_id, "after"))
        second.request("POST", f"runs/{run_id}/interrupt", {})
        assert (await ended(second, run_id))["status"] in ("interrupted", "error")
        assert "KeyboardInterrupt" in json.dumps(far.outputs())


@pytest.mark.parametrize("end", [kill, lambda server: server.process.terminate()])
async def test_a_run_whose_kernel_went_with_its_server_is_lost_and_says_so(
    tmp_path: Path, end: Any
) -> None:
    desk = Desk(tmp_path)
    with desk.server() as first:
        run_id = start(first)
        await until(lambda: shows(first, run_id, "before"))
        await recorded(desk, run_id, "began")
        end(first)
        first.process.wait(60)
    before = desk.file.read_bytes()
    with desk.server() as second:
        run = await ended(second, run_id)
        assert run["status"] == "died"
        assert "the kernel is gone: its variables are lost" in run["note"]
        assert desk.file.read_bytes() == before
        desk.gate.open()
        again = second.request("POST", "notebooks/a.ipynb/cells/waits/run", {})
        assert again["status"] == "ok"


@contextmanager
def outside_kernel(folder: Path) -> Iterator[None]:
    """A kernel that no server started."""
    folder.mkdir()
    file = folder / "kernel-outside.json"
    process = subprocess.Popen(
        [sys.executable, "-m", "ipykernel_launcher", "-f", str(file)],
        env=environment(folder.parent),
        cwd=folder.parent,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        asyncio.run(until(file.exists))
        yield
    finally:
        process.kill()
        process.wait()


def api(server: Server, route: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://localhost:{server.port}/api/{route}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"token {server.token}"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def test_a_run_in_a_kernel_that_another_program_started_is_followed_again(
    tmp_path: Path,
) -> None:
    outside = tmp_path / "outside"
    desk = Desk(
        tmp_path,
        f"--ServerApp.allow_external_kernels=True --ServerApp.external_connection_dir={outside}",
    )

    async def check() -> None:
        with desk.server() as first:
            (kernel,) = api(first, "kernels")
            session = {"path": "a.ipynb", "type": "notebook", "name": "", "kernel": kernel}
            api(first, "sessions", session)
            run_id = start(first)
            await until(lambda: shows(first, run_id, "before"))
            await recorded(desk, run_id, "connection_file")
            await recorded(desk, run_id, "began")
            kill(first)
        desk.restarted.touch()
        with desk.server() as second:
            await until(lambda: shows(second, run_id, "after"))
            desk.gate.open()
            assert (await ended(second, run_id))["status"] == "ok"
            after = second.request("POST", "notebooks/a.ipynb/cells/next/run", {})
            assert (after["status"], after["outputs"][0]["text"]) == ("ok", "7\n")

    with outside_kernel(outside):
        asyncio.run(check())
