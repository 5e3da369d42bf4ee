"""Work that must not be interrupted."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_agent.tasks import gather_or_cancel, surely
from tests.waiting import until


async def test_a_timeout_fires_after_the_work_has_ended() -> None:
    limit, done = asyncio.timeout(0.01), asyncio.Event()

    async def work() -> None:
        await until(limit.expired)
        done.set()

    async def within_limit() -> None:
        async with limit:
            await surely(work())

    with pytest.raises(TimeoutError):
        await within_limit()
    assert done.is_set()


async def test_work_ends_however_often_its_caller_is_cancelled() -> None:
    asked, answered = asyncio.Queue[bool](), asyncio.Queue[str]()

    async def work() -> str:
        while await asked.get():
            await answered.put("at work")
        return "whole"

    results: list[str] = []

    async def call() -> None:
        results.append(await surely(work()))

    caller = asyncio.create_task(call())
    for _ in range(4):
        await asked.put(True)
        assert await answered.get() == "at work"
        assert not caller.done()
        caller.cancel()
    await asked.put(False)
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not results


async def test_an_error_of_the_work_is_raised_and_known_after_a_cancellation() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await release.wait()
        raise ValueError("full")

    caller = asyncio.create_task(surely(work()))
    await begun.wait()
    caller.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await caller
    assert isinstance(caught.value.__cause__, ValueError)
    release.set()
    with pytest.raises(ValueError, match="full"):
        await surely(work())


async def test_what_is_done_together_tidies_up_before_its_first_error_is_raised() -> None:
    tidied: list[int] = []

    async def work(number: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01 * number)
            tidied.append(number)
        return number

    async def fails() -> int:
        await asyncio.sleep(0)
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await gather_or_cancel([work(1), fails(), work(2)])
    assert tidied == [1, 2]
    caller = asyncio.create_task(gather_or_cancel([work(3), work(4)]))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert tidied == [1, 2, 3, 4]
