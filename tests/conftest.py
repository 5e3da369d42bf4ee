"""Shared by all tests: fixtures of a real Jupyter server, run without pytest-asyncio; the levels in
pyproject.toml; and the order in which workers take the files.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import certifi
import pytest
from jupyter_client.connect import LocalPortCache
from jupyter_server.serverapp import ServerApp
from xdist.scheduler import LoadFileScheduling

from jupyter_agent import entry_points
from tests.waiting import until

pytest_plugins = ["pytest_jupyter.jupyter_server"]

BROWSER = "tests/ui/"
CORES = os.cpu_count() or 1
BROWSERS = max(1, CORES // 2)
"""A page keeps two cores busy, and each browser has its own JupyterLab."""
ON_REQUEST = ("long", "quarantine")
"""Marks of tests that only run if `-m` names them, whatever other marks they have."""
_QUARANTINE = pytest.StashKey[dict[str, str]]()
"""Why tests are quarantined, by their ids."""
_WORKER_KEY = "quarantine"
"""The key of a pytest-xdist worker's last report."""

_FIRST_PORT, _PORTS = 12_000, 20_000
"""Below the system's range for arbitrary free ports (from 32,768)."""


# ---- levels


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests that run on request only. Orders the others for the workers: tests with a
    browser first, then the files with the most tests.
    """
    _sample(items)
    _skip_without_plugs(items)
    named = config.option.markexpr
    left_out = [mark for mark in ON_REQUEST if mark not in named]
    dropped = [item for item in items if any(map(item.get_closest_marker, left_out))]
    config.stash[_QUARANTINE] = {
        item.nodeid: str(mark.args[0])
        for item in dropped
        if (mark := item.get_closest_marker("quarantine"))
    }
    config.hook.pytest_deselected(items=dropped)
    gone = set(dropped)
    items[:] = [item for item in items if item not in gone]
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (not item.nodeid.startswith(BROWSER), -sizes[item.path], item.path))


def _skip_without_plugs(items: Sequence[pytest.Item]) -> None:
    """Skips what needs plugs, if the environment leaves them out."""
    if entry_points.ONLY in os.environ:
        for item in items:
            if item.get_closest_marker("plugs") or item.nodeid.startswith("tests/plugs/"):
                item.add_marker(pytest.mark.skip(reason=f"{entry_points.ONLY} is set"))


def _sample(items: Sequence[pytest.Item]) -> None:
    """Marks as full the tests outside of a sample, which is chosen by name, so that another set of
    parameters changes little; not every second one, which could all be of one kind.
    """
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        others = any(map(item.get_closest_marker, ("full", *ON_REQUEST)))
        if item.get_closest_marker("sample") and not others:
            tables[item.nodeid.partition("[")[0]].append(item)
    for table in tables.values():
        count = next(table[0].iter_markers("sample")).args[0]
        for item in sorted(table, key=lambda item: crc32(item.name.encode()))[count:]:
            item.add_marker("full")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker reports what it left out to the process that prints the summary."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_WORKER_KEY] = session.config.stash.get(_QUARANTINE, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """pytest-xdist: a worker has ended."""
    found = getattr(node, "workeroutput", {}).get(_WORKER_KEY, {})
    node.config.stash.setdefault(_QUARANTINE, {}).update(found)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Lists the quarantined tests and those that only passed in their second attempt."""
    for name, reason in sorted(config.stash.get(_QUARANTINE, {}).items()):
        terminalreporter.write_line(f"quarantine: {name}: {reason}", yellow=True)
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.write_line(f"flaky: {report.nodeid}", yellow=True)
        terminalreporter.write_line(report.longreprtext)


# ---- workers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: the worker with a browser waits most of the time."""
    return CORES + 1


class _Groups(LoadFileScheduling):  # type: ignore[misc]
    """Gives a worker whole files, and all files that share a browser."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return f"{BROWSER}{crc32(file.encode()) % BROWSERS}" if file.startswith(BROWSER) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Groups:
    """pytest-xdist: distributes the tests."""
    return _Groups(config, log)


# ---- fixtures


@pytest.fixture(scope="session", autouse=True)
def ports_of_their_own() -> Iterator[None]:
    """Gives kernels of this process ports that no one else takes. jupyter_client finds a free one
    long before the kernel opens it: https://github.com/jupyter/jupyter_client/issues/487
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = _PORTS // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    first = _FIRST_PORT + worker * share
    ports = itertools.cycle(range(first, first + share))

    def find(cache: LocalPortCache, ip: str) -> int:
        for port in ports:
            with socket.socket() as trial, suppress(OSError):
                trial.bind((ip, port))
                if port not in cache.currently_used_ports:
                    cache.currently_used_ports.add(port)
                    return port
        raise AssertionError("a cycle has no end")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalPortCache, "find_available_port", find)
        yield


@pytest.fixture(scope="session", autouse=True)
def few_authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One certificate authority instead of 140: reading them takes a client longer than most tests
    take, and no test reaches a host with a certificate of one of them.
    """
    end = "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0]
    bundle = tmp_path_factory.mktemp("authorities") / "one.pem"
    bundle.write_text(first + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(bundle))
        yield


@pytest.fixture
def jp_nbconvert_templates() -> None:
    """pytest-jupyter copies nbconvert's for each server. Our tests do not use them."""


@pytest.fixture(autouse=True)
def no_restarts_at_the_end(
    jp_server_cleanup: None, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[None]:
    """Kernels that tests have killed are not restarted while their server stops: jupyter_client
    cannot shut down a kernel that it is starting (`InvalidStateError`).
    """
    yield
    server = ServerApp.instance() if ServerApp.initialized() else None
    kernels = getattr(server, "kernel_manager", None)
    for kernel_id in kernels.list_kernel_ids() if kernels is not None else ():
        kernel = kernels.get_kernel(kernel_id)
        if hasattr(kernel, "stop_restarter"):  # else it runs on another machine
            kernel.stop_restarter()
            jp_asyncio_loop.run_until_complete(until(kernel.ready.done))


@pytest.fixture(autouse=True)
def jp_asyncio_loop(
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[asyncio.AbstractEventLoop]:
    """pytest-jupyter's loop, which also ends the tasks that a failed test leaves behind: AnyIO's
    threads for them live as long as they do, and would keep pytest from exiting.
    """
    yield jp_asyncio_loop
    if left := asyncio.all_tasks(jp_asyncio_loop):
        for task in left:
            task.cancel()
        jp_asyncio_loop.run_until_complete(asyncio.wait(left, timeout=10))
