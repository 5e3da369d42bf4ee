"""Which copies of notebooks the store keeps, and for how long."""

from __future__ import annotations

import base64
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.schema import MIGRATIONS

LOG = logging.getLogger("test")
SEED = 20261122
MB = 1_000_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "store.db", MIGRATIONS, LOG)
    yield database
    database.close()


def notebook(random: random.Random, *, megabytes: float) -> dict[str, Any]:
    """Cells with pictures, and one with a long text of numbers."""
    cells = []
    for number in range(20):
        picture = base64.b64encode(random.randbytes(int(megabytes * MB * 0.6 / 20))).decode()
        shown = new_output("display_data", {"image/png": picture})
        cells.append(new_code_cell(f"plot({number})", id=f"c{number}", outputs=[shown]))
    numbers = "".join(f"{random.random()}\n" for _ in range(int(megabytes * MB * 0.2 / 20)))
    printed = new_output("stream", text=numbers)
    cells.append(new_code_cell("print(numbers)", id="text", outputs=[printed]))
    content: dict[str, Any] = new_notebook(cells=cells)
    return content


def text(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True)


def size(database: Database) -> int:
    return sum(path.stat().st_size for path in database.path.parent.glob(f"{database.path.name}*"))


@pytest.mark.full
@pytest.mark.parametrize("turns", [30, pytest.param(200, marks=pytest.mark.long)])
async def test_turns_on_a_large_notebook_add_no_whole_copies(
    database: Database, turns: int
) -> None:
    chance = random.Random(SEED)
    content = notebook(chance, megabytes=5)
    copies = RecoveryCopies(database)
    kept = []
    for turn in range(turns):
        cell = chance.choice(content["cells"])
        cell["source"] += f"\n# turn {turn}"
        if turn % 5 == 0:
            content["cells"].insert(chance.randrange(20), new_code_cell(f"x = {turn}"))
        kept.append(text(content))
        await copies.keep("a.ipynb", kept[-1])
    assert len(kept[-1]) > 4 * MB
    assert size(database) < 60 * MB * turns / 200 + len(kept[-1])
    listed = await copies.of("a.ipynb")
    assert [copy["size"] for copy in listed] == [len(each) for each in kept[:-21:-1]]
    for copy, expected in zip(listed, kept[:-21:-1], strict=True):
        assert await copies.content("a.ipynb", copy["id"]) == json.loads(expected)


async def test_copies_end_with_their_days_but_for_the_newest(database: Database) -> None:
    copies = RecoveryCopies(database, days=14)
    for name in "abc":
        await copies.keep(f"{name}.ipynb", f'"{name}"')
    await database.execute("UPDATE recovery SET made = '2026-01-01T00:00:00.000Z'")
    await copies.tidy()
    assert [await copies.of(f"{name}.ipynb") == [] for name in "abc"] == [True, True, False]
    (rows,) = await database.rows("SELECT count(*) AS number FROM blocks")
    assert rows["number"] == 1


@pytest.mark.full
async def test_copies_take_no_more_than_they_may_and_the_file_shrinks(database: Database) -> None:
    chance = random.Random(SEED)
    generous = RecoveryCopies(database)
    for number in range(30):
        await generous.keep(f"{number}.ipynb", text(notebook(chance, megabytes=1)))
    before = size(database)
    assert before > 20 * MB
    frugal = RecoveryCopies(database, megabytes=5)
    await frugal.tidy()
    assert await frugal.of("29.ipynb")
    assert not await frugal.of("0.ipynb")
    await database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert size(database) < before - 10 * MB
