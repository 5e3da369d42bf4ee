"""Outputs of a run in the live document: complete, in order, and in forms that Lab's view can
follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pycrdt import ArrayEvent, TextEvent

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.crdt import SharedCells
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.output_writer import INTERVAL, CellOutputs
from jupyter_agent.document.outputs import OutputList, type_onto
from jupyter_agent.document.steps import Delete, Move
from tests.notebook.editing import make_edit
from tests.waiting import until

from .conftest import cells_of, code

Write = Callable[..., Path]


def shown(text: str, **more: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}, **more}


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


ERROR = {"output_type": "error", "ename": "E", "evalue": "why", "traceback": []}


class View:
    """Lab's view of the outputs: raises for a transaction that it cannot follow."""

    def __init__(self, cells: SharedCells) -> None:
        self.steps = 0
        self.cells = cells
        self._subscription = cells.document.ycells.observe_deep(self._follow)

    def close(self) -> None:
        self.cells.document.ycells.unobserve(self._subscription)

    def _follow(self, events: list[Any]) -> None:
        self.steps += 1
        texts = [event for event in events if isinstance(event, TextEvent) and len(event.path) == 4]
        lists = [event for event in events if isinstance(event, ArrayEvent) and event.path]
        assert len(texts) <= 1, "one text event per transaction"
        assert not (texts and lists), "text and list in different transactions"
        for event in texts:
            kinds = {next(iter(step)) for step in event.delta} - {"retain"}
            assert len(kinds) == 1, "insert and delete of text in different transactions"
        for event in lists:
            kinds = [next(iter(step)) for step in event.delta if "retain" not in step]
            assert kinds in (["insert"], ["delete"]), "append or delete"


@pytest.fixture
def notebook(
    notebooks: Notebooks, write: Write, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Notebook:
    write("a.ipynb", [code("a", "x", [stream("old\n")], execution_count=1), code("b", "y")])
    return jp_asyncio_loop.run_until_complete(notebooks.get("a.ipynb"))


@pytest.fixture
def view(notebook: Notebook) -> Iterator[View]:
    view = View(notebook._live_cells())
    yield view
    view.close()


@pytest.fixture
def outputs(notebook: Notebook) -> CellOutputs:
    return notebook.outputs("a")


async def test_a_running_cell_is_seen_to_run(
    notebook: Notebook, outputs: CellOutputs, view: View, root: Path
) -> None:
    outputs.start()
    cell = notebook.cached_cell("a")
    assert (cell.running, cell.outputs, cell.execution_count) == (True, [], None)
    outputs.display({**shown("1"), "output_type": "execute_result", "execution_count": 2})
    outputs.finish(2)
    cell = notebook.cached_cell("a")
    assert (cell.running, cell.execution_count) == (False, 2)
    saved = await notebook.save()
    assert saved.saved
    (file, _) = cells_of(root / "a.ipynb")
    assert file["outputs"][0]["execution_count"] == 2
    assert file["execution_count"] == 2
    assert '"execution_count": 2,' in (root / "a.ipynb").read_text(encoding="utf-8")


async def test_whole_numbers_are_floats_for_the_browser(
    notebook: Notebook, outputs: CellOutputs, root: Path
) -> None:
    outputs.start()
    data = {"application/x+json": {"n": 5, "list": [1, 2.5, True, None]}}
    outputs.display({"output_type": "display_data", "data": data, "metadata": {"m": 3}})
    outputs.finish(1)
    value = notebook._live_cells().value("a")
    numbers = value["outputs"][0]["data"]["application/x+json"]
    assert type(numbers["n"]) is type(numbers["list"][0]) is type(value["execution_count"]) is float
    assert numbers["list"][2] is True
    await notebook.save()
    assert cells_of(root / "a.ipynb")[0]["outputs"][0]["data"] == data


async def test_text_is_gathered_in_one_output_per_stream(
    notebook: Notebook, outputs: CellOutputs, view: View
) -> None:
    outputs.start()
    for number in range(100):
        outputs.stream("stdout", f"{number}\n")
    outputs.stream("stderr", "careful\n")
    outputs.stream("stdout", "end")
    assert notebook.cached_cell("a").outputs == []
    outputs.finish(1)
    assert outputs.outputs() == [
        stream("".join(f"{number}\n" for number in range(100))),
        stream("careful\n", "stderr"),
        stream("end"),
    ]
    assert notebook.cached_cell("a").outputs == outputs.outputs()


async def test_the_first_text_is_shown_at_once_and_the_next_after_an_interval(
    notebook: Notebook, outputs: CellOutputs
) -> None:
    loop = asyncio.get_running_loop()
    outputs.start()
    written: list[float] = []
    subscription = notebook._live_cells().document.ycells.observe_deep(
        lambda _: written.append(loop.time())
    )
    began = loop.time()
    outputs.stream("stdout", "1")
    await until(lambda: written)
    outputs.stream("stdout", "2")
    await until(lambda: len(written) > 1)
    notebook._live_cells().document.ycells.unobserve(subscription)
    first, second = written
    assert first - began < INTERVAL <= second - began + 0.001
    assert notebook.cached_cell("a").outputs == [stream("12")]


async def test_while_many_outputs_are_written_others_have_their_turn(
    notebook: Notebook, outputs: CellOutputs, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.document.output_writer.SLICE", 0.0)
    seen: list[int] = []

    def others() -> None:
        seen.append(len(notebook.cached_cell("a").outputs))
        if seen[-1] < 800:
            asyncio.get_running_loop().call_soon(others)

    outputs.start()
    for number in range(800):
        outputs.display(shown(str(number)))
    others()
    await outputs.drain()
    assert len(set(seen)) > 10
    assert notebook.cached_cell("a").outputs == [shown(str(number)) for number in range(800)]
    outputs.finish(1)
    assert notebook.cached_cell("a").outputs == [shown(str(number)) for number in range(800)]


async def test_a_document_does_not_grow_with_each_flood_of_outputs(
    notebook: Notebook, view: View
) -> None:
    sizes = []
    for _ in range(5):
        outputs = notebook.outputs("a")
        outputs.start()
        for number in range(500):
            outputs.display(shown(str(number)))
        await outputs.drain()
        outputs.finish(1)
        sizes.append(len(view.cells.document.ydoc.get_update()))
    assert sizes[-1] < 1.1 * sizes[0]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["10%", "\r20%", "\r100%\n", "done"], "100%\ndone"),
        (["abc\r", "X"], "Xbc"),
        (["abc\b\b", "X"], "aXc"),
        (["a\r\nb\r\n"], "a\nb\n"),
        (["é😀", "\r", "ß"], "ß😀"),
        (["one\ntwo\r", "\b", "T"], "one\nTwo"),
    ],
    ids=["progress", "return", "backspace", "crlf", "unicode", "start-of-line"],
)
async def test_carriage_returns_and_backspaces_are_worked_out(
    notebook: Notebook, outputs: CellOutputs, view: View, pieces: list[str], text: str
) -> None:
    outputs.start()
    for piece in pieces:
        outputs.stream("stdout", piece)
        outputs.flush()
    outputs.finish(1)
    assert notebook.cached_cell("a").outputs == [stream(text)]


async def test_clear_waits_for_the_next_output_if_it_is_asked_to(
    notebook: Notebook, outputs: CellOutputs, view: View
) -> None:
    outputs.start()
    outputs.display(shown("1"))
    outputs.clear(wait=True)
    outputs.flush()
    assert notebook.cached_cell("a").outputs == [shown("1")]
    outputs.stream("stdout", "2")
    outputs.flush()
    assert notebook.cached_cell("a").outputs == [stream("2")]
    outputs.clear(wait=False)
    outputs.flush()
    assert notebook.cached_cell("a").outputs == []
    outputs.display(shown("3"))
    outputs.flush()
    assert notebook.cached_cell("a").outputs == [shown("3")]


async def test_a_display_is_updated_in_every_cell_that_shows_it(
    notebook: Notebook, view: View
) -> None:
    first, second = notebook.outputs("a"), notebook.outputs("b")
    first.start()
    first.display(shown("old"), "d")
    first.display(shown("other"))
    first.finish(1)
    second.start()
    second.display(shown("old"), "d")
    second.stream("stdout", "text")
    second.update_display("d", {"text/plain": "new"}, {})
    second.finish(2)
    first.flush()
    assert notebook.cached_cell("a").outputs == [shown("new"), shown("other")]
    assert notebook.cached_cell("b").outputs == [shown("new"), stream("text")]
    await notebook.save()


async def test_outputs_of_a_later_run_are_not_updated(notebook: Notebook) -> None:
    first, again, other = notebook.outputs("a"), notebook.outputs("a"), notebook.outputs("b")
    first.start()
    first.display(shown("old"), "d")
    first.finish(1)
    again.start()
    again.display(shown("mine"))
    again.finish(2)
    other.start()
    other.update_display("d", {"text/plain": "new"}, {})
    other.finish(3)
    first.flush()
    assert notebook.cached_cell("a").outputs == [shown("mine")]


async def test_outputs_of_a_deleted_cell_are_dropped(
    notebook: Notebook, outputs: CellOutputs
) -> None:
    outputs.start()
    outputs.stream("stdout", "1")
    await make_edit(notebook, Delete(cell_id="a"))
    outputs.stream("stdout", "2")
    outputs.display(shown("3"))
    outputs.finish(1)
    assert outputs.gone
    assert [cell.outputs for cell in notebook.cached_cells()] == [[]]
    assert outputs.outputs() == [stream("12"), shown("3")]


async def test_a_moved_cell_keeps_getting_its_outputs(
    notebook: Notebook, outputs: CellOutputs
) -> None:
    outputs.start()
    outputs.stream("stdout", "1")
    await make_edit(notebook, Move(cell_id="a", index=1))
    assert notebook.cached_cell("a").running
    outputs.stream("stdout", "2")
    outputs.finish(1)
    assert [cell.outputs for cell in notebook.cached_cells()] == [[], [stream("12")]]


async def test_what_the_person_clears_stays_away(notebook: Notebook, outputs: CellOutputs) -> None:
    outputs.start()
    outputs.display(shown("1"))
    outputs.flush()
    cells = notebook._live_cells()
    with cells.transaction():
        cells.live_cell("a")["outputs"].clear()
    outputs.stream("stdout", "2")
    outputs.finish(1)
    assert notebook.cached_cell("a").outputs == [stream("2")]


async def test_a_flood_keeps_its_beginning_and_its_end(notebook: Notebook, view: View) -> None:
    outputs = notebook.outputs("a", limit=1000)
    outputs.start()
    for number in range(1000):
        outputs.stream("stdout", f"{number:04}\n")
        if number % 7 == 0:
            outputs.flush()
    assert "its end follows" in notebook.cached_cell("a").outputs[-1]["text"]
    assert outputs.outputs()[-1]["text"].endswith("0999\n"), "what is newest can be asked for"
    outputs.finish(1)
    head, note, tail = notebook.cached_cell("a").outputs
    assert head["text"].startswith("0000\n0001\n")
    assert tail["text"].endswith("0998\n0999\n")
    assert len(head["text"]) + len(tail["text"]) == 1000
    assert "4,000 characters (800 lines) left out of 1,000 lines in all" in note["text"]


def test_one_line_is_counted_as_one() -> None:
    outputs = OutputList(limit=1000)
    outputs.stream("stdout", "x" * 4000 + "\n")
    note = outputs.entries(complete=True)[1].text
    assert "3,001 characters (0 lines) left out of 1 line in all" in note


def test_what_just_fits_is_one_output_again() -> None:
    outputs = OutputList(limit=1000)
    outputs.stream("stdout", "a" * 700)
    outputs.stream("stdout", "b" * 250)
    assert [entry.text for entry in outputs.entries(complete=False)][0] == "a" * 700 + "b" * 100
    (entry,) = outputs.entries(complete=True)
    assert entry.text == "a" * 700 + "b" * 250


def test_a_note_is_no_neighbour_of_its_own_stream() -> None:
    outputs = OutputList(limit=1000)
    outputs.stream("stderr", "e" * 3000)
    names = [entry.output["name"] for entry in outputs.entries(complete=False)]
    assert names == ["stderr", "stdout"]
    (entry,) = outputs.entries(complete=True)
    assert "2,000 characters (0 lines) left out" in entry.text
    assert entry.text.endswith("e")


def test_an_error_after_a_flood_is_kept() -> None:
    outputs = OutputList(limit=1000)
    outputs.stream("stdout", "x" * 5000)
    outputs.display(ERROR)
    *_, tail, error = [entry.output for entry in outputs.entries(complete=True)]
    assert (error, tail["text"]) == (ERROR, "x" * (200 - 4))


def test_of_many_displays_the_first_and_the_last_are_kept() -> None:
    outputs = OutputList(limit=40)
    for number in range(500):
        outputs.display(shown(f"{number:010}"))
    kept = [entry.output for entry in outputs.entries(complete=True)]
    assert len(kept) == 101
    assert kept[0]["data"]["text/plain"] == "0" * 10
    assert kept[-1]["data"]["text/plain"] == "0000000499"
    assert "400 outputs left out" in kept[90]["text"]


def test_a_representation_that_is_too_large_is_named_instead() -> None:
    outputs = OutputList(limit=1000)
    data = {"image/png": "x" * 30_000, "text/plain": "<Figure>"}
    outputs.display({"output_type": "display_data", "data": data, "metadata": {}})
    outputs.display({**ERROR, "evalue": "y" * 5000})
    figure, error = [entry.output for entry in outputs.entries(complete=True)]
    (text,) = figure["data"].values()
    assert text.startswith("<Figure>\n")
    assert "image/png of 30,000 characters" in text
    assert "cut: 5,000 characters" in error["evalue"]


@pytest.mark.parametrize("data", [{"image/png": "x" * 49_000_000}, {"a/json": {"y": [1.5] * 500}}])
def test_a_display_of_fifty_megabytes_stays_whole_beside_a_flood_of_text(
    data: dict[str, Any],
) -> None:
    outputs = OutputList()
    big = {"output_type": "display_data", "data": {"text/plain": "<Figure>", **data}}
    for _ in range(3):
        outputs.stream("stdout", "z" * 1_000_000)
    outputs.display({**big, "metadata": {}}, "d")
    outputs.stream("stdout", "z" * 3_000_000)
    entries = [entry.output for entry in outputs.entries(complete=True)]
    assert [output["data"] for output in entries if "data" in output] == [big["data"]]
    text = sum(len(output["text"]) for output in entries if "text" in output)
    assert 2_000_000 <= text < 2_001_000
    outputs.update("d", {"text/plain": "x" * 50_000_000}, {})
    (shown,) = [e.output for e in outputs.entries(complete=True) if "data" in e.output]
    assert len(shown["data"]["text/plain"]) == 50_000_000


def test_errors_and_displays_do_not_take_each_others_room() -> None:
    outputs = OutputList(limit=1000)
    for number in range(30):
        outputs.display(shown(f"{number:0900}"))
    outputs.display({**ERROR, "evalue": "y" * 700})
    kept = [entry.output for entry in outputs.entries(complete=True)]
    assert kept[-1]["evalue"] == "y" * 700
    assert sum(len(each["data"]["text/plain"]) for each in kept if "data" in each) > 23_000


def test_updates_stay_within_the_limit() -> None:
    outputs = OutputList(limit=40)
    outputs.display(shown("small"), "d")
    for number in range(100):
        outputs.update("d", {"text/plain": "x" * 40 * number}, {})
    (output,) = [entry.output for entry in outputs.entries(complete=True)]
    assert "text/plain of 3,960 characters" in output["data"]["text/plain"]


async def test_ten_thousand_updates_are_written_as_often_as_one_can_see(
    notebook: Notebook, outputs: CellOutputs, view: View
) -> None:
    outputs.start()
    outputs.display(shown("0"), "d")
    outputs.flush()
    before = view.steps
    for number in range(10_000):
        outputs.update_display("d", {"text/plain": str(number)}, {})
    outputs.finish(1)
    assert view.steps - before <= 4
    assert notebook.cached_cell("a").outputs == [shown("9999")]


async def test_what_threads_show_after_the_end_is_added(
    notebook: Notebook, outputs: CellOutputs, view: View
) -> None:
    outputs.start()
    outputs.stream("stdout", "1")
    outputs.finish(3)
    outputs.stream("stdout", "2")
    outputs.flush()
    assert notebook.cached_cell("a").outputs == [stream("12")]
    assert notebook.cached_cell("a").execution_count == 3


@pytest.mark.parametrize("change", ["run again", "cleared"])
async def test_after_somebody_changed_the_outputs_nothing_late_is_added(
    notebook: Notebook, outputs: CellOutputs, change: str
) -> None:
    outputs.start()
    outputs.stream("stdout", "1")
    outputs.finish(3)
    cells = notebook._live_cells()
    with cells.transaction():
        if change == "cleared":
            cells.live_cell("a")["outputs"].clear()
        else:
            cells.live_cell("a")["execution_count"] = 4.0
    before = notebook.cached_cell("a").outputs
    outputs.stream("stdout", "2")
    outputs.flush()
    assert notebook.cached_cell("a").outputs == before


async def test_a_document_loaded_anew_gets_everything_again(
    notebook: Notebook, outputs: CellOutputs, write: Write, root: Path
) -> None:
    outputs.start()
    outputs.stream("stdout", "1")
    outputs.display(shown("2"))
    write("a.ipynb", [code("n", "new"), code("a", "x", [stream("old")]), code("b", "y")])
    await notebook.save()
    assert notebook.cached_cell("a").running
    assert notebook.cached_cell("a").outputs == [stream("1"), shown("2")]
    outputs.finish(4)
    await notebook.save()
    file = cells_of(root / "a.ipynb")
    assert [cell["id"] for cell in file] == ["n", "a", "b"]
    assert (file[1]["execution_count"], len(file[1]["outputs"])) == (4, 2)


def test_a_terminal_line_keeps_its_column() -> None:
    assert type_onto("", 0, "ab\rc") == ("cb", 1)
    assert type_onto("cb", 1, "d\ne") == ("cd\ne", 1)
