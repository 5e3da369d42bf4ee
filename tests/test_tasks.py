"""Work that must not be left half done."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_agent.tasks import surely


async def test_a_timeout_fires_after_the_work_has_ended() -> None:
    release, done = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await release.wait()
        done.set()

    async def within_limit() -> None:
        async with asyncio.timeout(0.01):
            await surely(work())

    asyncio.get_running_loop().call_later(0.05, release.set)
    with pytest.raises(TimeoutError):
        await within_limit()
    assert done.is_set()


async def test_work_ends_however_often_its_caller_is_cancelled() -> None:
    release, begun = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await release.wait()
        return "whole"

    results: list[str] = []

    async def call() -> None:
        results.append(await surely(work()))

    caller = asyncio.create_task(call())
    await begun.wait()
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0)
        assert not caller.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not results


async def test_an_error_of_the_work_is_raised_and_known_after_a_cancellation() -> None:
    release = asyncio.Event()

    async def work() -> None:
        await release.wait()
        raise ValueError("full")

    caller = asyncio.create_task(surely(work()))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await caller
    assert isinstance(caught.value.__cause__, ValueError)
    release.set()
    with pytest.raises(ValueError, match="full"):
        await surely(work())
