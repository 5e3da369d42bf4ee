"""Model calls and tokens of 30 scripted tasks: `python -m tests.bench.steps` (about a minute).

Each task is a conversation over real tools and a real kernel; the model is a script that does the
work as a careful one would, once with a call for each thing (`single`: the tools before
`create_cells`, `edit_cells` and `run_code`, and before the notebook came with the question) and
once with the tools of today. Beside today's figures are those that `--single` gave at commit
b65440d. Tokens are characters / 4. The price is in tokens of fresh input: cache reads 0.1, cache
writes 1.25, output 5; the start shared with any earlier request of the session is cached.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jupyter_agent.models.base import Block
from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.fakes.server import in_thread
from tests.programs import jupyter_server

BASELINE = Path(__file__).with_name("steps_single.json")
Step = Sequence[Block]
LOOK = [calls("get_notebook_state")]
_MADE = re.compile(r"Inserted cell `([^`]+)`")


@dataclass(frozen=True)
class Task:
    """One request of a person, and two ways of doing it."""

    name: str
    notebook: str
    single: Sequence[Step]
    today: Sequence[Step]


def new(*sources: str, answer: str, kind: str = "code") -> tuple[list[Step], list[Step]]:
    """Makes cells and runs them."""
    made = [calls("create_cell", source=source, type=kind) for source in sources]
    runs = [calls("run_cell", cell_id=f"${n}") for n in range(len(sources))]
    cells = [{"source": source} for source in sources]
    return (
        [LOOK, made, runs, [says(answer)]],
        [[calls("create_cells", cells=cells, run=True)], [says(answer)]],
    )


def change(*edits: tuple[str, str, str], answer: str) -> tuple[list[Step], list[Step]]:
    """Edits cells and runs them."""
    given = [
        {"cell_id": cell_id, "old_string": old, "new_string": text} for cell_id, old, text in edits
    ]
    return (
        [
            LOOK,
            [calls("update_cell", **edit) for edit in given],
            [calls("run_cells", cell_ids=[edit["cell_id"] for edit in given])],
            [says(answer)],
        ],
        [[calls("edit_cells", edits=given, run=True)], [says(answer)]],
    )


def quick(code: str, answer: str) -> tuple[list[Step], list[Step]]:
    """A question about the data, answered with a temporary cell."""
    return (
        [
            LOOK,
            [calls("create_cell", source=code)],
            [calls("run_cell", cell_id="$0")],
            [calls("delete_cell", cell_id="$0")],
            [says(answer)],
        ],
        [[calls("run_code", code=code)], [says(answer)]],
    )


def only(*blocks: Block, answer: str) -> tuple[list[Step], list[Step]]:
    """The same calls, with a look first or without."""
    steps = [list(blocks)] if blocks else []
    return [LOOK, *steps, [says(answer)]], [*steps, [says(answer)]]


def then(*ways: tuple[list[Step], list[Step]]) -> tuple[list[Step], list[Step]]:
    """One after the other in one turn: one look, one answer."""
    single: list[Step] = []
    for way, _ in ways:
        made = json.dumps(single).count('"name": "create_cell"')
        single += [moved_on(step, made) for step in way[1:-1]]
    today = [step for _, way in ways for step in way[:-1]]
    last = ways[-1][0][-1]
    return [LOOK, *single, last], [*today, last]


def moved_on(step: Step, made: int) -> Step:
    """The step if that many cells were made before it."""
    text = re.sub(r'"\$(\d+)"', lambda found: f'"${int(found[1]) + made}"', json.dumps(list(step)))
    return list(json.loads(text))


LOAD = (
    "import csv\nrows = [{'region': r['region'], 'price': float(r['price']), "
    "'units': int(r['units'])} for r in csv.DictReader(open('sales.csv'))]"
)
LOADED = "The table has 6 rows and 3 columns: region, price and units; no value is missing."
PLOT = (
    "totals = [sum(r['units'] for r in rows if r['region'] == name) for name in ('N', 'S')]\n"
    "print(dict(zip(('N', 'S'), totals)))"
)
SUM = "total = sum(r['price'] * r['units'] for r in rows)\nprint(round(total, 2))"
FIX = ("fails", "r['cost']", "r['price']")
FIRST = [calls("run_cells", cell_ids=["load"])]
READ = [calls("list_files"), calls("read_file", path="sales.csv", limit=5)]
FAR = [calls("search_notebook", query="rate_117 =")]
DEEP = [calls("read_cells", cell_ids=["c117", "c118"])]

WAYS: dict[str, tuple[str, tuple[list[Step], list[Step]]]] = {
    "explain the notebook": ("sales", only(answer="It loads sales and sums them by region.")),
    "explain a cell": ("sales", only(answer="The second cell reads the file line by line.")),
    "what is wrong here": (
        "broken",
        only(answer="The last cell names a column that is not there."),
    ),
    "run all": ("sales", only(calls("run_cells"), answer="All cells ran without an error.")),
    "does it run from the top": (
        "sales",
        only(calls("verify_notebook"), answer="Yes, from top to bottom."),
    ),
    "which variables": (
        "sales",
        then(only(*FIRST, answer=""), only(calls("inspect_variables"), answer="rows, a list.")),
    ),
    "load a file": (
        "empty",
        then(
            only(*READ, answer=""),
            new(
                "import csv\nrows = list(csv.DictReader(open('sales.csv')))\nlen(rows)",
                answer=LOADED,
            ),
        ),
    ),
    "how many rows": ("sales", then(only(*FIRST, answer=""), quick("len(rows)", "6 rows."))),
    "missing values": (
        "sales",
        then(only(*FIRST, answer=""), quick("[r for r in rows if not all(r.values())]", "None.")),
    ),
    "types of columns": (
        "sales",
        then(
            only(*FIRST, answer=""),
            quick("{k: type(v) for k, v in rows[0].items()}", "Text, two numbers."),
        ),
    ),
    "plot by region": ("sales", then(only(*FIRST, answer=""), new(PLOT, answer="South leads."))),
    "plot and explain": (
        "sales",
        then(only(*FIRST, answer=""), new(PLOT, "max(totals)", answer="South leads with 12.")),
    ),
    "total sales": ("sales", then(only(*FIRST, answer=""), new(SUM, answer="The total is 67.5."))),
    "mean price": (
        "sales",
        then(
            only(*FIRST, answer=""), new("sum(r['price'] for r in rows) / len(rows)", answer="2.5.")
        ),
    ),
    "a section of three cells": (
        "sales",
        then(only(*FIRST, answer=""), new(SUM, PLOT, "total / len(rows)", answer="Three results.")),
    ),
    "fix the error": ("broken", then(only(*FIRST, answer=""), change(FIX, answer="Fixed."))),
    "fix and go on": (
        "broken",
        then(
            only(*FIRST, answer=""), change(FIX, answer=""), new(PLOT, answer="Fixed; South leads.")
        ),
    ),
    "fix at the second attempt": (
        "broken",
        then(
            only(*FIRST, answer=""),
            change(("fails", "r['cost']", "r['prize']"), answer=""),
            change(("fails", "r['prize']", "r['price']"), answer="Fixed: the column is price."),
        ),
    ),
    "rename a variable": (
        "sales",
        change(
            ("load", "rows =", "sales ="),
            ("load", "len(rows)", "len(sales)"),
            ("sums", "in rows", "in sales"),
            answer="rows is called sales now, in both cells.",
        ),
    ),
    "refactor into a function": (
        "sales",
        change(
            ("sums", "print(sum(", "def total():\n    return sum("),
            ("sums", "for r in rows))", "for r in rows)\ntotal()"),
            answer="The sum is a function now.",
        ),
    ),
    "refactor and verify": (
        "sales",
        then(
            change(("load", "len(rows)", "print(len(rows))"), answer=""),
            only(calls("verify_notebook"), answer="It runs, and shows what it did."),
        ),
    ),
    "change a parameter": (
        "sales",
        change(("load", "'sales.csv'", "'./sales.csv'"), answer="It reads ./sales.csv now."),
    ),
    "add a heading": (
        "sales",
        (
            [
                LOOK,
                [calls("create_cell", source="## Sums", type="markdown", after="load")],
                [says("Added.")],
            ],
            [
                [calls("create_cell", source="## Sums", type="markdown", after="load")],
                [says("Added.")],
            ],
        ),
    ),
    "document each cell": (
        "sales",
        (
            [
                LOOK,
                [
                    calls("create_cell", source="Loading", type="markdown", before="load"),
                    calls("create_cell", source="Summing", type="markdown", before="sums"),
                ],
                [says("Documented.")],
            ],
            [
                [
                    calls("create_cell", source="Loading", type="markdown", before="load"),
                    calls("create_cell", source="Summing", type="markdown", before="sums"),
                ],
                [says("Documented.")],
            ],
        ),
    ),
    "delete a cell": ("sales", only(calls("delete_cell", cell_id="sums"), answer="Deleted.")),
    "move a cell": (
        "sales",
        only(calls("move_cell", cell_id="sums", before="load"), answer="Moved up."),
    ),
    "find in a long notebook": ("long", only(*FAR, answer="It is set in cell 119.")),
    "change in a long notebook": (
        "long",
        then(
            only(*FAR, answer=""),
            only(*DEEP, answer=""),
            change(("c117", "= 117", "= 1170"), answer="rate_117 is 1170 now."),
        ),
    ),
    "explore, then write": (
        "sales",
        then(
            only(*FIRST, answer=""),
            quick("rows[:2]", ""),
            quick("{r['region'] for r in rows}", ""),
            new(PLOT, answer="Two regions; South leads."),
        ),
    ),
    "a whole analysis": (
        "empty",
        then(
            only(*READ, answer=""),
            new(
                LOAD,
                SUM,
                PLOT,
                answer="",
            ),
            only(calls("verify_notebook"), answer="Total 67.5; South leads; it runs from the top."),
        ),
    ),
}
TASKS = [Task(name, notebook, *way) for name, (notebook, way) in WAYS.items()]


def write_notebooks(folder: Path) -> None:
    """Writes the notebooks of the tasks, and their data."""
    lines = ["region,price,units", *(f"{'NS'[n % 2]},{n + 0.0},{n + 1}" for n in range(6))]
    (folder / "sales.csv").write_text("\n".join(lines))
    load = f"{LOAD}\nlen(rows)"
    intro = new_markdown_cell("# Sales\nUnits by region and month, from the till.", id="intro")
    books = {
        "empty": [],
        "sales": [
            intro,
            new_code_cell(load, id="load"),
            new_code_cell("print(sum(r['units'] for r in rows))", id="sums"),
        ],
        "broken": [
            intro,
            new_code_cell(load, id="load"),
            new_code_cell("max(r['cost'] for r in rows)", id="fails"),
        ],
        "long": [
            intro,
            *(
                new_code_cell(f"# rate no. {n}\nrate_{n} = {n}\n" + "# \n" * 20, id=f"c{n}")
                for n in range(200)
            ),
        ],
    }
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    for name, cells in books.items():
        book = new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
        nbformat.write(book, folder / f"{name}.ipynb")


class Typist:
    """Replies with the steps of one task after the other; `$n` is the n-th new cell."""

    def __init__(self) -> None:
        self.api: FakeAnthropic | None = None
        self.steps: list[Step] = []
        self.written = 0

    def __iter__(self) -> Iterator[FakeReply]:
        while self.steps:
            assert self.api is not None
            made = _MADE.findall(json.dumps(self.api.requests[-1]["messages"]))
            text = json.dumps(list(self.steps.pop(0)))
            self.written += len(text)
            for n in reversed(range(len(made))):
                text = text.replace(f'"${n}"', json.dumps(made[n]))
            yield json.loads(text)


@dataclass
class Figures:
    """The cost of one task."""

    calls: int = 0
    tokens: int = 0
    price: float = 0.0


def blocks(request: dict[str, Any]) -> list[str]:
    """A request as the cache sees it: tools, system, and the parts of the messages in order."""
    parts = [*request["tools"], *request["system"]]
    for message in request["messages"]:
        parts += [{"role": message["role"], **block} for block in message["content"]]
    return [json.dumps({k: v for k, v in p.items() if k != "cache_control"}) for p in parts]


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common prefix in characters."""
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += len(a)
    return shared


def play(single: bool) -> dict[str, Figures]:
    """Plays all tasks in one server."""
    typist = Typist()
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as name, in_thread(FakeAnthropic(typist)) as api:
        typist.api = api
        folder = Path(name)
        config = {
            "ServerApp": {"jpserver_extensions": {"jupyter_agent": True}},
            "JupyterAgent": {
                "default_model": "anthropic:claude-sonnet-5-5",
                "providers": {"anthropic": {"base_url": api.url, "api_key": api.api_key}},
            },
        }
        (folder / ".config").mkdir()
        (folder / ".config" / "jupyter_server_config.json").write_text(json.dumps(config))
        earlier: list[list[str]] = []
        with jupyter_server(folder) as server:
            for task in TASKS:
                write_notebooks(folder)
                typist.steps = [*(task.single if single else task.today)]
                api.script._left = iter(typist)
                asked, typist.written = len(api.requests), 0
                body = {
                    "id": task.name.replace(" ", "-").replace(",", ""),
                    "notebook": f"{task.notebook}.ipynb",
                    "mode": "auto",
                    "messages": [{"role": "user", "content": task.name}],
                    "stream": False,
                }
                done = server.request("POST", "chat", body)
                assert done["state"] == "done", (task.name, done)
                assert not typist.steps, task.name
                failed = [p for p in done["message"]["parts"] if p.get("state") == "output-error"]
                assert not failed, (task.name, failed)
                figures = found[task.name] = Figures()
                for request in api.requests[asked:]:
                    sent = blocks(request)
                    length = sum(map(len, sent))
                    cached = max((common(sent, other) for other in earlier), default=0)
                    figures.calls += 1
                    figures.tokens += length // 4
                    figures.price += (cached * 0.1 + (length - cached) * 1.25) / 4
                    earlier.append(sent)
                figures.tokens += typist.written // 4
                figures.price += typist.written / 4 * 5
    return found


def table(before: dict[str, Figures], now: dict[str, Figures]) -> Iterator[str]:
    """A line per task, and the sums."""
    yield f"{'task':28} {'calls':>9} {'tokens':>17} {'price':>17}"
    for name, old in [*before.items(), ("all", total(before))]:
        new = now[name] if name in now else total(now)
        yield (
            f"{name:28} {old.calls:>3} ->{new.calls:>3} {old.tokens:>7,} ->{new.tokens:>7,}"
            f" {old.price:>7,.0f} ->{new.price:>7,.0f}"
        )


def total(found: dict[str, Figures]) -> Figures:
    """All tasks together."""
    return Figures(
        sum(each.calls for each in found.values()),
        sum(each.tokens for each in found.values()),
        sum(each.price for each in found.values()),
    )


def main() -> None:
    """Prints the table, or writes the figures of the single calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--single", action="store_true", help="write what single calls take")
    if parser.parse_args().single:
        figures = {name: vars(each) for name, each in play(single=True).items()}
        BASELINE.write_text(json.dumps(figures, indent=1) + "\n")
        return
    before = {name: Figures(**each) for name, each in json.loads(BASELINE.read_text()).items()}
    sys.stdout.write("\n".join(table(before, play(single=False))) + "\n")


if __name__ == "__main__":
    main()
