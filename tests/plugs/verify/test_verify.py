"""Verification runs a notebook in a fresh kernel and leaves the user's state unchanged."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from jupyter_server.serverapp import ServerApp
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Update
from jupyter_agent.errors import Conflict, InvalidInput, KernelNotInstalled, NotPermitted
from jupyter_agent.kernel.kernels import FreshKernels, Kernels
from jupyter_agent.plugs.verify.tool import VerifyNotebook
from jupyter_agent.plugs.verify.verification import Verification, assignments_of, plan, verify
from jupyter_agent.plugs.verify.write import update
from jupyter_agent.tools.base import Progress, Result
from jupyter_agent.workspace.files import Files
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.paths import Identities
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.workspace import Services, Workspace
from tests.gates import FOREVER
from tests.notebook.browser import Tab
from tests.waiting import until

PATH = "reports/a.ipynb"


@dataclass
class Desk:
    """A server's services with a notebook."""

    work: Workspace
    file: Path
    server: ServerApp
    tabs: Tabs

    def write(self, *cells: Any, **metadata: Any) -> None:
        for number, cell in enumerate(cells):
            cell["id"] = f"c{number}"
        nbformat.write(new_notebook(cells=list(cells), metadata=metadata), self.file)

    async def verify(self, on_cell: Callable[[Any], Awaitable[None]] | None = None) -> Verification:
        async with lease(self.work, PATH) as nb:
            return await verify(nb, on_cell)

    async def verify_by_tool(self, progress: Progress | None = None) -> Result:
        async with lease(self.work, PATH) as nb:
            return await VerifyNotebook().run(nb, progress)

    async def notebook(self) -> Notebook:
        async with lease(self.work, PATH) as nb:
            return (await nb.read()).notebook

    def kernels(self) -> list[str]:
        return list(self.server.kernel_manager.list_kernel_ids())


@pytest.fixture
def desk(
    jp_serverapp: ServerApp, jp_root_dir: Path, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[Desk]:
    sessions, manager = jp_serverapp.session_manager, jp_serverapp.kernel_manager
    tabs = Tabs()
    notebooks = Notebooks(jp_serverapp.contents_manager, tabs)
    services = Services(
        notebooks=notebooks,
        kernels=Kernels(sessions, manager, jp_serverapp.kernel_spec_manager),
        runs=Runs(),
        files=Files(jp_serverapp.contents_manager),
        identities=Identities(jp_serverapp.contents_manager, notebooks.locate),
        fresh=FreshKernels(sessions, manager),
    )
    (jp_root_dir / "reports").mkdir()

    async def yes(action: str, resource: str) -> bool:
        return True

    async def closed() -> None:
        await services.fresh.close()
        await services.notebooks.close()
        await services.kernels.close()

    work = Workspace(services=services, user="ada", authorize=yes, home=PATH)
    yield Desk(work, jp_root_dir / PATH, jp_serverapp, tabs)
    jp_asyncio_loop.run_until_complete(closed())


def ran(source: str, *outputs: Any, tags: tuple[str, ...] = (), count: int = 1) -> Any:
    metadata = {"tags": list(tags)} if tags else {}
    return new_code_cell(source, outputs=list(outputs), execution_count=count, metadata=metadata)


def printed(text: str) -> Any:
    return new_output("stream", name="stdout", text=text)


def statuses(done: Verification) -> list[str]:
    return [verdict.status for verdict in done.cells]


@pytest.mark.full
async def test_each_cell_is_the_same_or_says_what_differs(desk: Desk) -> None:
    desk.write(
        new_markdown_cell("# Report"),
        ran("x = 2\nprint('x is', x)", printed("x is 1\n")),
        ran("x / 3", new_output("execute_result", {"text/plain": "0.66667"}, execution_count=2)),
        ran("object()", new_output("display_data", {"text/plain": "<object at 0x7f12>"})),
        new_code_cell("never = 'run before'\nnever"),
        new_code_cell(" "),
    )
    done = await desk.verify()
    assert statuses(done) == ["differs", "close", "same", "same"]
    assert done.cells[1].why == "was `0.66667`, is now `0.6666666666666666`"
    assert done.cells[0].why == "stdout: was `x is 1`, is now `x is 2`"
    assert "nothing to compare" in done.cells[3].why
    assert not done.ok
    assert done.describe()["cells"][0] == {
        "cell_id": "c1",
        "status": "differs",
        "why": done.cells[0].why,
    }


@pytest.mark.full
async def test_nothing_of_the_users_is_touched(desk: Desk) -> None:
    desk.write(ran("import os\nx = 'theirs'\nprint(os.getcwd())", printed("elsewhere\n")))
    before = desk.file.read_bytes()
    theirs = await desk.work.services.kernels.get(PATH)
    async with lease(desk.work, PATH) as nb:
        assert await (await nb.kernel.run("c0")).wait(60)
        held = (await nb.read()).cells
    begun: list[list[str]] = []

    async def on_cell(cell: Any) -> None:
        begun.append(desk.kernels())

    kept = desk.file.read_bytes()
    done = await desk.verify(on_cell)
    assert kept != before, "the user's own run is in the file"
    assert desk.file.read_bytes() == kept
    assert str(desk.file.parent) in done.cells[0].outputs[0]["text"]
    (during,) = begun
    assert len(during) == 2
    assert desk.kernels() == [theirs.id]
    assert len(await desk.server.session_manager.list_sessions()) == 1
    assert [cell.id for cell in held] == ["c0"]
    assert theirs.busy_seconds is None


async def test_what_is_typed_and_not_saved_is_what_runs(desk: Desk) -> None:
    desk.write(ran("x = 1"), ran("print(x)", printed("10\n")))
    before = desk.file.read_bytes()
    tab = await Tab(desk.tabs, desk.server.contents_manager, PATH).open()
    notebook = await desk.notebook()
    await notebook.read()
    assert notebook.carrier == "tab"
    tab.type("c0", "0")
    assert statuses(await desk.verify()) == ["same", "same"]
    assert desk.file.read_bytes() == before
    assert str(tab.cell("c0")["source"]) == "x = 10"
    assert tab.cell("c1")["outputs"][0]["text"].to_py() == "10\n"


VOLATILE = [
    "import time, uuid, sys, os, warnings, datetime, logging\nfrom pathlib import Path",
    "print(object(), uuid.uuid4(), time.time(), datetime.datetime.now())\nobject()",
    "id(object())",
    "print({'one', 'two', 'three', 'four'})\nprint(f'took {time.perf_counter():.3f} s')",
    "warnings.warn('old')",
    "%time sum(range(1000))",
    "print('pid', os.getpid())\nprint(__import__('tempfile').mkdtemp())",
    "for done in range(0, 101, 50):\n    bar = '#' * done\n"
    "    print(f'\\r{done}%|{bar}| {done}/100 [00:0{done % 7}]', end='', file=sys.stderr)",
    "logging.basicConfig(format='%(asctime)s %(message)s')\nlogging.warning('ready')",
    "from PIL import Image\nImage.frombytes('RGB', (64, 48), os.urandom(64 * 48 * 3))",
    "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None], 'c': [0.1, time.time()]})",
    "def f():\n    return 1 / 0\nf()",
]


@pytest.mark.full
async def test_what_nbclient_stored_of_volatile_code_is_the_same_again(desk: Desk) -> None:
    cells = [new_code_cell(source) for source in VOLATILE]
    cells[-1].metadata["tags"] = ["raises-exception"]
    desk.write(*cells)
    client = NotebookClient(nbformat.read(desk.file, as_version=4), kernel_name="python3")
    nbformat.write(await client.async_execute(cwd=str(desk.file.parent)), desk.file)
    stored = nbformat.read(desk.file, as_version=4).cells
    assert "image/png" in stored[9].outputs[-1].data
    done = await desk.verify()
    assert [(v.cell.source, v.why) for v in done.cells if v.status != "same"] == []
    told = [number for number, verdict in enumerate(done.cells) if verdict.not_compared]
    assert told == [1, 2, 3, 5, 6, 8, 9]
    now = [verdict.outputs for verdict in done.cells]
    assert now[1][0]["text"] != stored[1].outputs[0].text, "it is volatile"


@pytest.mark.full
async def test_what_differs_between_two_fresh_runs_is_said_and_does_not_count(desk: Desk) -> None:
    draw = "import random\nprint('of three', [random.random() for _ in range(3)])"
    desk.write(new_code_cell(draw), new_code_cell("random.seed(7)\nrandom.random()"))
    client = NotebookClient(nbformat.read(desk.file, as_version=4), kernel_name="python3")
    nbformat.write(await client.async_execute(), desk.file)
    done = await desk.verify()
    assert statuses(done) == ["same", "same"]
    assert done.runs == 2
    assert done.ok
    assert done.cells[0].not_compared.startswith("Different in every run: `of three [0.")
    assert done.describe()["cells"][0]["not_compared"] == done.cells[0].not_compared
    assert "not_compared" not in done.describe()["cells"][1]
    told = (await desk.verify_by_tool()).text
    assert told.startswith("All 2 code cells run and show the same (in a fresh `python3` kernel, ")
    assert "[1 code c0 In[1]] not compared: Different in every run: `of three" in told


@pytest.mark.full
async def test_what_was_verified_can_be_told_later(desk: Desk) -> None:
    desk.write(ran("import pandas as pd, os, no_such_thing_yet as no", tags=("raises-exception",)))
    first = await desk.verify()
    desk.write(ran("import pandas as pd\nfrom numpy import *"), ran("1", tags=("skip-execution",)))
    done = await desk.verify()
    assert done.packages == {"pandas": pd.__version__, "numpy": np.__version__}
    assert datetime.now(UTC) - done.at < timedelta(minutes=5)
    assert done.code_hash != first.code_hash
    assert done.code_hash == (await desk.verify()).code_hash
    assert done.describe()["hash"] == done.code_hash


async def test_where_all_is_the_same_it_runs_once(desk: Desk) -> None:
    begun: list[str] = []

    async def on_cell(cell: Any) -> None:
        begun.append(cell.id)

    desk.write(
        ran("print(1)", printed("1\n")),
        ran("object()", new_output("display_data", {"text/plain": "<object at 0x7f12>"})),
    )
    done = await desk.verify(on_cell)
    assert (done.runs, done.ok, begun) == (1, True, ["c0", "c1"])


@pytest.mark.full
async def test_the_second_run_ends_with_the_last_cell_that_is_not_the_same(desk: Desk) -> None:
    desk.write(
        ran("print(1)", printed("1\n")),
        ran("print(2)", printed("3\n")),
        ran("print(3)", printed("3\n")),
    )
    begun: list[str] = []

    async def on_cell(cell: Any) -> None:
        begun.append(cell.id)

    assert statuses(await desk.verify(on_cell)) == ["same", "differs", "same"]
    assert begun == ["c0", "c1", "c2", "c0", "c1"]
    assert desk.kernels() == []


@pytest.mark.full
async def test_a_second_run_that_fails_leaves_every_difference_counting(desk: Desk) -> None:
    desk.write(
        ran("import os\nos.mkdir('made')"),
        ran("print(id(object()))", printed("1\n")),
    )
    assert statuses(await desk.verify()) == ["same", "differs"]


@pytest.mark.full
async def test_a_second_kernel_that_does_not_start_is_said(desk: Desk, jp_data_dir: Path) -> None:
    desk.server.config.KernelManager.autorestart = False  # or Jupyter tries for 25 s
    started = desk.file.with_name("started")
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    once = f"import os, sys; open({str(started)!r}, 'x'); os.execv(sys.argv[1], sys.argv[1:])"
    folder = jp_data_dir / "kernels" / "once"
    folder.mkdir(parents=True)
    spec = {"argv": [sys.executable, "-c", once, *argv], "display_name": "O", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    desk.write(
        ran("print(1)", printed("2\n")),
        kernelspec={"name": "once", "display_name": "O"},
    )
    done = await desk.verify_by_tool()
    assert (done.facts["runs"], done.facts["cells"][0]["status"]) == (1, "differs")
    assert "A second run was not possible, so what differs may" in done.text


@pytest.mark.full
async def test_what_is_stored_beyond_our_limit_is_held_against_as_much(desk: Desk) -> None:
    large = "print('x' * 5_000)"
    runs = Runs(output_limit=1_000)
    desk.work = replace(desk.work, services=replace(desk.work.services, runs=runs))
    desk.write(
        ran(large, printed("x" * 5_000 + "\n")),
        ran("display({'text/html': '<b>' + 'y' * 50_000}, raw=True)"),
    )
    async with lease(desk.work, PATH) as nb:
        assert await (await nb.kernel.run("c1")).wait(60)
        assert await (await nb.kernel.run("c0")).wait(60)
    done = await desk.verify()
    assert [(each.status, each.why) for each in done.cells] == [("same", "")] * 2, "ours"
    content = nbformat.read(desk.file, as_version=4)
    assert "left out of" in content.cells[0].outputs[0].text + str(content.cells[0].outputs)
    client = NotebookClient(content, kernel_name="python3")
    nbformat.write(await client.async_execute(), desk.file)
    done = await desk.verify()
    assert [(each.status, each.why) for each in done.cells] == [("same", "")] * 2, "nbclient's"


@pytest.mark.full
async def test_parameters_are_set_where_papermill_sets_them(desk: Desk) -> None:
    desk.write(
        ran("print('first')", printed("first\n")),
        ran("n, word = 1, 'a'", tags=("parameters",)),
        ran("print(n, word)", printed("2 None\n")),
    )
    async with lease(desk.work, PATH) as nb:
        done = await verify(nb, parameters={"n": 2, "word": None})
    assert statuses(done) == ["same", "same", "same"]
    desk.write(
        ran("n = 1", tags=("parameters",)),
        ran("n = 5", tags=("injected-parameters",)),
        ran("print(n)", printed("5\n")),
    )
    async with lease(desk.work, PATH) as nb:
        assert statuses(await verify(nb)) == ["same"] * 3
        done = await verify(nb, parameters={"n": 7})
    assert done.cells[2].why == "stdout: was `5`, is now `7`"
    desk.write(ran("print(n)", printed("[1, {'a': True}]\n")))
    async with lease(desk.work, PATH) as nb:
        assert (await verify(nb, parameters={"n": [1, {"a": True}]})).ok
        for name in ("import os; n", "class", ""):
            with pytest.raises(InvalidInput, match="name of a Python variable"):
                await verify(nb, parameters={name: 1})
        with pytest.raises(InvalidInput, match="could not be set: cannot assign"):
            await verify(nb, parameters={"__debug__": 1})
    assert desk.kernels() == []


@pytest.mark.parametrize(
    "value", [nan, inf, -inf, 1e300, [nan, {"a'b": [-inf, None, True, "nan"]}]]
)
def test_parameters_are_python_whatever_their_numbers(value: Any) -> None:
    names: dict[str, Any] = {}
    exec(assignments_of({"n": value, "word": "a"}, "python"), names)
    assert (repr(names["n"]), names["word"]) == (repr(value), "a")


@pytest.mark.full
async def test_fresh_outputs_are_written_if_that_is_wanted(desk: Desk) -> None:
    desk.write(
        ran("x = 2\nprint(x)", printed("1\n"), count=8),
        ran("left", tags=("skip-execution",), count=7),
        ran("x * 2", count=3),
    )
    async with lease(desk.work, PATH) as nb:
        done = await verify(nb)
        assert statuses(done) == ["differs", "skipped", "differs"]
        assert (await update(nb, done)).saved
    cells = nbformat.read(desk.file, as_version=4).cells
    assert [cell.execution_count for cell in cells] == [1, 7, 2]
    assert cells[0].outputs[0].text == "2\n"
    assert cells[2].outputs[0].data["text/plain"] == "4"
    assert cells[2].outputs[0].execution_count == 2
    again = await desk.verify()
    assert (again.ok, again.runs) == (True, 1)


@pytest.mark.full
async def test_outputs_are_not_written_over_what_failed_or_changed(desk: Desk) -> None:
    desk.write(ran("print(1)", printed("0\n")), ran("1 / 0"))
    before = desk.file.read_bytes()
    async with lease(desk.work, PATH) as nb:
        done = await verify(nb)
        with pytest.raises(Conflict, match="A cell failed"):
            await update(nb, done)
    assert desk.file.read_bytes() == before
    desk.write(ran("print(1)", printed("0\n")))
    async with lease(desk.work, PATH) as nb:
        done = await verify(nb)
    desk.write(ran("print(5)", printed("0\n")))
    before = desk.file.read_bytes()
    async with lease(desk.work, PATH) as nb:
        with pytest.raises(Conflict, match="`c0` has changed or run since"):
            await update(nb, done)
    assert desk.file.read_bytes() == before


@pytest.mark.full
async def test_after_an_error_the_cells_that_follow_are_skipped(desk: Desk) -> None:
    desk.write(
        ran("1 / 0", tags=("raises-exception",)),
        ran("open('left out', 'w')", tags=("skip-execution",)),
        ran("undefined"),
        ran("print('never')", printed("never\n")),
    )
    done = await desk.verify()
    assert statuses(done) == ["differs", "skipped", "error", "skipped"]
    assert "ZeroDivisionError" in done.cells[0].why
    assert done.cells[1].why == "Tagged `skip-execution`."
    assert done.cells[2].why == "NameError: name 'undefined' is not defined"
    assert done.cells[3].why == "An earlier cell failed (`c2`)."
    assert not (desk.file.parent / "left out").exists()


async def test_tagged_cells_do_not_make_a_notebook_fail(desk: Desk) -> None:
    failed = new_output("error", ename="ZeroDivisionError", evalue="division by zero")
    stopped = new_output("error", ename="KeyboardInterrupt", evalue="stop")
    desk.write(
        ran("1 / 0", failed, tags=("raises-exception",)),
        ran("raise KeyboardInterrupt('stop')", stopped, tags=("raises-exception",)),
        ran("while True: pass", tags=("skip-execution",)),
    )
    done = await desk.verify()
    assert statuses(done) == ["same", "same", "skipped"]
    assert done.ok


async def test_a_display_that_a_later_cell_updates_is_compared_as_it_is_in_the_end(
    desk: Desk,
) -> None:
    desk.write(
        ran(
            "shown = display('a', display_id=True)",
            new_output("display_data", {"text/plain": "'b'"}),
        ),
        ran("shown.update('b')"),
    )
    assert statuses(await desk.verify()) == ["same", "same"]


@pytest.mark.full
async def test_the_time_limit_holds_for_all_cells_together(desk: Desk) -> None:
    desk.work = replace(desk.work, services=replace(desk.work.services, verify_seconds=0.5))
    desk.write(ran(FOREVER), ran("2"))
    async with asyncio.timeout(60):
        done = await desk.verify()
    assert statuses(done) == ["error", "skipped"]
    assert "limit of 0.5 s" in done.cells[0].why
    assert desk.kernels() == []


@pytest.mark.full
async def test_a_kernel_that_dies_is_an_error(desk: Desk) -> None:
    desk.write(ran("import os; os._exit(1)"), ran("1"))
    done = await desk.verify()
    assert statuses(done) == ["error", "skipped"]
    assert "died" in done.cells[0].why
    assert desk.kernels() == []


async def test_a_stop_interrupts_the_code_and_ends_its_kernel(desk: Desk) -> None:
    desk.write(
        ran(
            "import pathlib\n"
            f"try:\n    pathlib.Path('begun').touch(); {FOREVER}\n"
            "finally:\n    pathlib.Path('cleaned up').touch()"
        )
    )
    verifying = asyncio.ensure_future(desk.verify())
    await until((desk.file.parent / "begun").exists)
    verifying.cancel()
    await asyncio.wait([verifying], timeout=60)
    assert verifying.cancelled()
    assert desk.kernels() == []
    assert (desk.file.parent / "cleaned up").exists()


@pytest.mark.full
async def test_a_stop_while_the_kernel_starts_leaves_none_behind(desk: Desk) -> None:
    desk.write(ran("1"))
    starting = asyncio.Event()
    start = desk.server.kernel_manager.start_kernel

    async def slowly(**options: Any) -> Any:
        starting.set()
        return await start(**options)

    desk.server.kernel_manager.start_kernel = slowly
    verifying = asyncio.ensure_future(desk.verify())
    await starting.wait()
    verifying.cancel()
    await asyncio.wait([verifying])
    await desk.work.services.fresh.close()
    assert desk.kernels() == []


async def test_a_kernel_that_is_not_installed_is_answered_with_those_that_are(desk: Desk) -> None:
    desk.write(ran("1"), kernelspec={"name": "fortran", "display_name": "F", "language": "f"})
    with pytest.raises(KernelNotInstalled, match="No kernel `fortran`.*Installed: .*python3"):
        await desk.verify()


async def test_starting_a_kernel_needs_leave(desk: Desk) -> None:
    desk.write(ran("1"))

    async def authorize(action: str, resource: str) -> bool:
        return (action, resource) != ("write", "kernels")

    with pytest.raises(NotPermitted, match="write kernels"):
        async with lease(replace(desk.work, authorize=authorize), PATH) as nb:
            await verify(nb)
    assert desk.kernels() == []


async def test_the_question_lists_the_cells_with_their_exact_code(desk: Desk) -> None:
    desk.write(ran("a = 1"), new_markdown_cell("b"), ran("c", tags=("skip-execution",)), ran("d"))
    async with lease(desk.work, PATH) as nb:
        question = await VerifyNotebook().question(nb)
    assert question.codes == {"c0": "a = 1", "c3": "d"}
    assert question.code == "a = 1\n\nd"
    assert set(question.cells) == {"c0", "c3"}


async def test_what_changed_after_it_was_allowed_is_not_run(desk: Desk) -> None:
    desk.write(ran("a = 1"))
    async with lease(desk.work, PATH) as nb:
        seen = (await plan(nb)).versions
        await nb.edit_all([Update(cell_id="c0", old_string="1", new_string="2")])
    async with lease(desk.work, PATH) as nb:
        nb.approve(seen)
        with pytest.raises(Conflict, match="nothing was run"):
            await verify(nb)
    assert desk.kernels() == []


async def test_the_model_is_told_in_a_line_that_all_is_well(desk: Desk) -> None:
    desk.write(ran("print(1)", printed("1\n")), ran("2 / 0", tags=("skip-execution",)))
    told = await desk.verify_by_tool()
    assert told.text.startswith("All 1 code cells run and show the same (in a fresh `python3`")
    assert told.text.endswith("1 tagged cells were left out.")
    assert told.facts["ok"]


@pytest.mark.full
async def test_the_model_is_told_which_cells_differ_and_why(desk: Desk) -> None:
    desk.write(
        ran("print(2)", printed("1\n"), count=7),
        ran("def f():\n    return 1 / 0\nf()"),
        ran("3"),
        ran("4"),
    )
    told: list[Any] = []

    async def progress(output: Any) -> None:
        told.append(output["running"])

    result = await desk.verify_by_tool(progress)
    first, differs, failed, *frames, skipped = result.text.split("\n")
    assert first.startswith("Of 4 code cells 1 differs, 1 error, 2 skipped (in a fresh `python3`")
    assert differs == "[1 code c0 In[7]] differs: stdout: was `1`, is now `2`"
    assert failed == "[2 code c1 In[1]] error: ZeroDivisionError: division by zero"
    assert any("return 1 / 0" in frame for frame in frames)
    assert skipped == "Skipped `c2`, `c3`: An earlier cell failed (`c1`)."
    assert told == ["c0", "c1", "c0"], "once more where it differs"
    assert len(result.text) < 1_500


@pytest.mark.full
async def test_what_a_hidden_cell_shows_stays_hidden(desk: Desk) -> None:
    desk.write(ran("print('secret')", printed("other\n"), tags=("agent-hidden",)))
    told = await desk.verify_by_tool()
    assert "secret" not in told.text + str(told.facts)
    assert "differs" in told.text
