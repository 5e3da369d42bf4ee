"""Floods of output: everything that fits is stored, and the rest is counted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from room import Room

from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.runs import Runs


async def ended(run: Run) -> list[dict[str, Any]]:
    assert await run.wait(300)
    return [dict(output) for output in run.outputs()]


def length(outputs: Any) -> int:
    return len(json.dumps(outputs))


@pytest.mark.full
@pytest.mark.parametrize("lines", [3_000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_of_flushed_prints_no_line_is_lost(room: Room, lines: int) -> None:
    code = f"for i in range({lines}): print(i, flush=True)"
    (output,) = await ended(await room.run(code))
    assert output["text"] == "".join(f"{number}\n" for number in range(lines))

    room.runs = Runs(output_limit=5_000)
    run = await room.run(code)
    head, note, tail = await ended(run)
    assert f"of {lines:,} lines in all" in note["text"]
    first, last = head["text"].split(), tail["text"].split()
    assert first[:2] == ["0", "1"]
    assert last[-1] == str(lines - 1)
    # The line at which the start was cut off may be split in two.
    left_out = int(note["text"].split("(")[1].split(" lines")[0].replace(",", ""))
    assert len(first) + left_out + len(last) - lines in (0, 1, 2)
    assert len(head["text"]) + len(tail["text"]) == 5_000
    assert len(room.on_disk(run.cell_id)["outputs"]) == 3


async def test_a_cell_that_prints_for_ever_is_read_on_and_kept_short(room: Room) -> None:
    room.runs = Runs(output_limit=20_000)
    run = await room.run("while True: print('x' * 1000)")
    async with asyncio.timeout(60):
        async for _ in run.updates(60):
            cell = room.notebook.cached_cell(run.cell_id)
            if "its end follows" in json.dumps(cell.outputs):
                break
    await run.interrupt()
    outputs = await ended(run)
    assert run.status == "interrupted"
    assert outputs[-1]["ename"] == "KeyboardInterrupt"
    assert length(outputs) < 25_000
    # The kernel's queue is empty: the outputs of the next cell come first.
    (answer,) = await ended(await room.run("6 * 7"))
    assert answer["data"]["text/plain"] == "42"


async def test_of_ten_megabytes_in_one_print_both_ends_are_kept(room: Room) -> None:
    run = await room.run("print('first', 'x' * 10_000_000, 'last')")
    head, note, tail = await ended(run)
    assert head["text"].startswith("first x")
    assert tail["text"].endswith("x last\n")
    assert "8,000,012 characters" in note["text"]
    assert length(room.on_disk(run.cell_id)["outputs"]) < 2_001_000


@pytest.mark.full
async def test_a_display_of_twenty_megabytes_stays_in_the_notebook(room: Room) -> None:
    code = (
        "display({'text/plain': '<Figure>', 'image/png': 'iVBO' * 5_000_000}, raw=True)\nprint(1)"
    )
    run = await room.run(code)
    figure, text = await ended(run)
    assert (run.status, run.saved.saved, text["text"]) == ("ok", True, "1\n")
    assert len(figure["data"]["image/png"]) == 20_000_000
    assert len("".join(room.on_disk(run.cell_id)["outputs"][0]["data"]["image/png"])) == 20_000_000


@pytest.mark.full
async def test_five_hundred_displays_are_all_there(room: Room) -> None:
    run = await room.run("for i in range(500): display(i)")
    outputs = await ended(run)
    assert [output["data"]["text/plain"] for output in outputs] == [str(n) for n in range(500)]
    assert len(room.on_disk(run.cell_id)["outputs"]) == 500


@pytest.mark.full
@pytest.mark.parametrize("megabytes", [51, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "code",
    [
        "print('x' * {})",
        "display({{'text/plain': 'x', 'a/b': 'x' * {}}}, raw=True)",
        "'x' * {}",
        "raise ValueError('x' * {})",
    ],
    ids=["print", "display", "result", "error"],
)
async def test_what_is_too_large_to_be_read_is_refused(
    room: Room, code: str, megabytes: int
) -> None:
    run = await room.run("print('before', flush=True)\n" + code.format(megabytes * 1_000_000))
    before, *after = await ended(run)
    assert before["text"] == "before\n"
    assert "MB in one output: too much for a notebook, left out" in json.dumps(after)
    assert run.status == ("error" if "raise" in code else "ok")
    assert length(room.on_disk(run.cell_id)["outputs"]) < 20_000
    assert (await ended(await room.run("1")))[0]["data"]["text/plain"] == "1"


@pytest.mark.full
async def test_an_output_that_is_long_on_its_way_is_waited_for(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.kernel.execution.LOOK_S", 0.001)
    monkeypatch.setattr("jupyter_agent.kernel.execution._SILENCE_S", 0.0)
    (output,) = await ended(await room.run("'x' * 51_000_000"))
    assert "too much for a notebook" in output["data"]["text/plain"]


@pytest.mark.full
@pytest.mark.parametrize("updates", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
async def test_of_many_updates_the_last_is_shown(room: Room, updates: int) -> None:
    writes = 0

    def written(event: Any) -> None:
        nonlocal writes
        writes += 1

    subscription = room.notebook._live_cells().document.ydoc.observe(written)
    code = f"h = display('', display_id=True)\nfor i in range({updates}): h.update(i)\n1"
    run = await room.run(code)
    display, result = await ended(run)
    assert display["data"]["text/plain"] == str(updates - 1)
    assert result["data"]["text/plain"] == "1"
    assert writes < updates / 5
    room.notebook._live_cells().document.ydoc.unobserve(subscription)
