"""Programs that run through nbclient and through us have the same outputs in the notebook file.

nbclient stores each chunk of a stream as it came; adjacent ones are joined here before comparing,
and values that differ between processes (addresses, process ids, widget ids) are normalised.

The outputs of nbclient 0.11 for Output widgets are recorded: it sends their contents to the kernel
while code runs, and ipykernel 7 then leaves the next cell in its queue in every second run.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.document.steps import Insert
from jupyter_agent.workspace.run import RunOrigin
from jupyter_agent.workspace.runs import Runs
from tests.notebook.editing import make_edit
from tests.workshop import workshop

pytestmark = pytest.mark.full

PROGRAMS: dict[str, list[str]] = {
    "nothing": ["pass"],
    "empty": [""],
    "comment": ["# nothing to do"],
    "print": ["print('hello')"],
    "prints are one stream": ["for i in range(5): print(i, flush=True)"],
    "without a newline": ["print('a', end='', flush=True)", "print('b', end='')"],
    "print of nothing": ["print()", "print('', end='')"],
    "stderr": ["import sys; print('careful', file=sys.stderr)"],
    "stdout and stderr interleaved": [
        "for i in range(3):\n"
        "    print('out', i, flush=True)\n"
        "    print('err', i, file=sys.stderr, flush=True)"
    ],
    "result": ["6 * 7"],
    "no result after a semicolon": ["6 * 7;"],
    "None is no result": ["None"],
    "print and result": ["print('first')\n'second'"],
    "display and result": ["display(1)\n2"],
    "several displays": ["display(1, 2, 'three')"],
    "nested displays": [
        "class Outer:\n"
        "    def _repr_html_(self):\n"
        "        display('inner')\n"
        "        return '<b>outer</b>'\n"
        "Outer()"
    ],
    "displayhook": ["sys.displayhook('by hand')"],
    "display_pub": [
        "get_ipython().display_pub.publish({'text/plain': 'p', 'x/y': 'z'}, {'m': {'k': 1}})"
    ],
    "last_expr of a loop": ["for i in range(3):\n    i"],
    "huge int": ["10 ** 60", "2**53 + 1"],
    "unicode": ["print('é😀\\u2028 שלום')\n'日本'"],
    "bytes": [r"b'\x00\xff'"],
    "lone quote and backslash": [r"print('\\ \" \'')"],
    "long repr": ["list(range(2000))"],
    "ansi": [r"print('\x1b[31mred\x1b[0m')"],
    "progress bar": [
        "for i in range(10, 13): sys.stdout.write(f'\\r{i} %'); sys.stdout.flush()\nprint()"
    ],
    "windows newlines": [r"print('one\r\ntwo\r\n', end='')"],
    "error": ["1 / 0"],
    "error after output": ["print('before')\nraise ValueError('why')"],
    "error with a cause": ["try:\n    {}['a']\nexcept KeyError as e:\n    raise OSError() from e"],
    "syntax error": ["for"],
    "name error": ["not_there"],
    "assertion": ["assert 1 == 2, 'no'"],
    "exception group": ["raise ExceptionGroup('all', [ValueError(1), TypeError(2)])"],
    "error in a function": ["def f(x):\n    return 1 / x\nf(0)"],
    "system exit": ["raise SystemExit('done')"],
    "exit with a number": ["sys.exit(3)"],
    "keyboard interrupt": ["raise KeyboardInterrupt"],
    "warning": ["import warnings; warnings.warn('careful')"],
    "html": ["from IPython.display import *\nHTML('<b>x</b>')"],
    "markdown": ["Markdown('**x**')"],
    "latex": ["Latex(r'$\\alpha$')", "Math(r'\\beta')"],
    "json": ["JSON({'a': [1, 2.5, None, True], 'n': 3}, expanded=True)"],
    "svg": ["SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>')"],
    "javascript": ["Javascript('1 + 1')"],
    "png with metadata": ["Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + bytes(40), width=3, height=4)"],
    "jpeg": ["Image(data=b'\\xff\\xd8\\xff' + bytes(40), format='jpeg')"],
    "mime bundle": [
        "class Rich:\n"
        "    def _repr_mimebundle_(self, include, exclude):\n"
        "        data = {'text/plain': 't', 'application/x+json': {'a': 1}}\n"
        "        return data, {'text/plain': {'m': 2}}\n"
        "Rich()",
        "display(Rich())",
    ],
    "raw display with metadata": ["display({'text/plain': 'x'}, raw=True, metadata={'m': [1, 2]})"],
    "clear": ["print('gone')\nclear_output()\nprint('stays')"],
    "clear, wait": ["print('gone')\nclear_output(wait=True)\nprint('stays')"],
    "clear, wait, nothing follows": ["print('stays')\nclear_output(wait=True)"],
    "clear twice": ["display(1)\nclear_output(wait=True)\nclear_output()\ndisplay(2)"],
    "clear in a loop": ["for i in range(5):\n    clear_output(wait=True)\n    display(i)"],
    "update": ["h = display('old', display_id='one')\nh.update('new')"],
    "update in an earlier cell": ["h = display('old', display_id='two')", "h.update('new')"],
    "update everywhere": [
        "display(1, display_id='three')\ndisplay(2, display_id='three')",
        "display(3, display_id='three')",
        "update_display('all', display_id='three')",
    ],
    "update after clear": [
        "h = display('old', display_id='four')\nclear_output()\nprint('x')\nh.update('new')"
    ],
    "update of an unknown display": ["update_display('x', display_id='nowhere')"],
    "update with metadata": [
        "display({'text/plain': 'a'}, raw=True, display_id='five', metadata={'k': 1})",
        "update_display({'text/plain': 'b'}, raw=True, display_id='five', metadata={'k': 2})",
    ],
    "display of a result": ["_ = display(Pretty('p'), display_id='six')"],
    "capture": ["from IPython.utils.capture import capture_output\n"
        "with capture_output() as c: print('inside')\nprint('outside')\nc.show()"],
    "captured by a magic": ["%%capture told\nprint('inside')", "told.stdout"],
    "bash": ["%%bash\necho out\necho err >&2"],
    "shell": ["!echo shell"],
    "subprocess": ["import subprocess\n"
        "print(subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout)"],
    "subprocess that keeps stdout": ["import subprocess\n_ = subprocess.Popen(['sleep', '30'])"],
    "timeit": ["%timeit -n1 -r1 -q pass"],
    "thread": ["import threading\nt = threading.Thread(target=print, args=('t',))\n"
        "t.start(); t.join()"],
    "async": ["import asyncio\nawait asyncio.to_thread(int)\nprint('awaited')"],
    "logging": ["import logging; logging.warning('logged')"],
    "page": ["get_ipython().display_formatter.format(1)[0]"],
    "data frame": ["import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})"],
    "figure": [
        "%matplotlib inline\nimport matplotlib.pyplot as plt\n"
        "fig, ax = plt.subplots(figsize=(1, 1)); ax.plot([1, 2]); plt.show()"
    ],
    "widget": ["import ipywidgets\nipywidgets.IntSlider(value=3)"],
    "output widget": [
        "from ipywidgets import Output\nfrom IPython.display import clear_output\n"
        "one = Output()\none",
        "print('hi')\nwith one:\n    print('in one')\nprint('after')",
        "one.outputs",
        "with one:\n    print('in', end=''); print('to', file=sys.stderr); display(3)\none.outputs",
        "[each['output_type'] for each in one.outputs]",
        "with one:\n    raise ValueError('inside')",
        "one.outputs[-1]['ename']",
    ],
    "output widget, cleared": [
        "two = Output()\nprint('hi2')\n"
        "with two:\n    print('hello'); clear_output(); print('world')",
        "two.outputs",
        "print('hi3')\nwith two:\n    print('hello'); clear_output(wait=True); print('world')",
        "two.outputs",
        "print('hi4')\nwith two:\n    clear_output()",
        "two.outputs",
        "print('gone')\nclear_output(wait=True)\nwith two:\n    print('kept')\nprint('stays')",
        "print('hi5')\ntwo.clear_output()\nprint('hi6')",
    ],
    "output widgets in each other": [
        "three, four = Output(), Output()\n"
        "with three:\n    print('a')\n    with four:\n        print('b')\n    print('c')\n"
        "print('d')",
        "three.outputs, four.outputs",
    ],
    "captured function": [
        "five = Output()\n@five.capture(clear_output=True)\ndef f(x): print('f', x)\n"
        "f(1); f(2); print('outside')",
        "five.outputs",
        "display(five)\nf(3)",
        "five.append_stdout('more')\nfive.outputs",
    ],
    "interact": ["_ = ipywidgets.interact(lambda x: x, x=3)"],
    "widget in a box": ["ipywidgets.HBox([ipywidgets.IntProgress(2, max=5)])"],
    "widget closed": ["six = Output()\nwith six: print(1)\nsix.close()\nprint(2)"],
}  # fmt: skip

RECORDED: dict[str, list[Any]] = json.loads(
    Path(__file__).with_name("widgets_through_nbclient.json").read_text(encoding="utf-8")
)
"""By program, the outputs of each cell through nbclient."""

Outputs = list[dict[str, Any]]


def cells() -> list[tuple[str, str]]:
    """(name of the program, source) of each cell, in order."""
    return [(name, source) for name, sources in PROGRAMS.items() for source in sources]


async def through_nbclient(folder: Path) -> list[Outputs]:
    sources = ["" if name in RECORDED else source for name, source in cells()]
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, allow_errors=True, resources={"metadata": {"path": folder}})
    await client.async_execute()
    return [cell.outputs for cell in notebook.cells]


async def through_us(folder: Path) -> list[Outputs]:
    async with workshop(folder) as (notebook, kernel, _):
        runs = Runs()
        for number, (_, source) in enumerate(cells()):
            edit = await make_edit(notebook, Insert(source=source, index=number))
            assert edit.cell is not None
            if source:  # nbclient skips empty cells
                await runs.start(notebook, kernel, edit.cell, RunOrigin("ada")).wait(60)
        await runs.close()
    written = nbformat.read(folder / "a.ipynb", as_version=4)
    nbformat.validate(written)
    return [cell.outputs for cell in written.cells]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Name -> (nbclient's outputs, ours) of each program, in one kernel each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        theirs = asyncio.run(through_nbclient(tmp_path_factory.mktemp("theirs")))
        ours = asyncio.run(through_us(tmp_path_factory.mktemp("ours")))
    found: dict[str, tuple[Any, Any]] = {name: ([], []) for name in PROGRAMS}
    for (name, _), their, our in zip(cells(), theirs, ours, strict=True):
        found[name][0].append(comparable(their))
        found[name][1].append(comparable(our))
    return {name: (RECORDED.get(name, theirs), ours) for name, (theirs, ours) in found.items()}


def comparable(outputs: Outputs) -> Outputs:
    """Outputs as JSON, with adjacent stream texts joined and process-specific values normalised."""
    joined: Outputs = []
    for output in json.loads(json.dumps(outputs)):
        last: Mapping[str, Any] = joined[-1] if joined else {}
        same = output["output_type"] == "stream" == last.get("output_type")
        if same and last["name"] == output["name"]:
            joined[-1]["text"] += output["text"]
        else:
            joined.append(output)
    for output in joined:
        if output["output_type"] == "stream":
            output["text"] = shown(output["text"])
    text = re.sub(r"0x[0-9a-f]{6,}", "ADDRESS", json.dumps(joined))
    text = re.sub(r"ipykernel_\d+/\d+", "FILE", text)
    text = re.sub(r'"model_id": "\w{32}"', '"model_id": "ID"', text)
    return list(json.loads(text))


def shown(text: str) -> str:
    """A text with its carriage returns applied, for lines overwritten by others of equal length."""
    text = text.replace("\r\n", "\n")
    return re.sub(r"[^\n]*\r(?=[^\n])", "", text)


@pytest.mark.parametrize("name", PROGRAMS)
def test_outputs_are_those_of_nbclient(name: str, outputs: dict[str, tuple[Any, Any]]) -> None:
    theirs, ours = outputs[name]
    assert ours == theirs


def test_the_programs_show_what_they_are_meant_to_show(
    outputs: dict[str, tuple[Any, Any]],
) -> None:
    shown = [(name, output) for name, (_, ours) in outputs.items() for o in ours for output in o]
    kinds = [output["output_type"] for _, output in shown]
    assert all(kinds.count(kind) > 10 for kind in ("stream", "display_data", "execute_result"))
    assert [name for name, output in shown if output["output_type"] == "error"] == [
        "error",
        "error after output",
        "error with a cause",
        "syntax error",
        "name error",
        "assertion",
        "error in a function",
        "system exit",
        "exit with a number",
        "keyboard interrupt",
    ]  # IPython writes exception groups to stderr
    assert len(PROGRAMS) >= 40
