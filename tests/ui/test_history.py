"""A person by keyboard, an agent over HTTP, other programs, cut lines and dying servers at work in
one notebook, at random. What they did is logged, and `tests/history` decides what was lost.

`SEED=` repeats the choices of an earlier run (not its timing), `OPERATIONS=` says how many there
are of the people in each session.
"""

from __future__ import annotations

import os

from playwright.sync_api import BrowserContext

from tests.ui.conftest import new_file
from tests.ui.fuzz import LINES, Fuzz
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook

TEXTS = ["WEEEEEE = 0", "x = 1\ny = 2", "", "print(x)"]


def play(fuzz: Fuzz, operations: int) -> None:
    found = fuzz.run(int(os.environ.get("OPERATIONS", operations)))
    report = fuzz.report(found)
    print(report)  # noqa: T201 - shown when the test fails, or with -s
    assert not found, report


def opened(context: BrowserContext, lab: Lab, name: str, pages: int = 1) -> list[OpenNotebook]:
    context.add_init_script(LINES)
    path = new_file(lab, name, TEXTS)
    notebooks = [OpenNotebook(context.new_page(), lab, path).open() for _ in range(pages)]
    for notebook in notebooks:
        notebook.wait_for_kernel()
    return notebooks


def test_short(context: BrowserContext, lab: Lab, replies: Replies, seed: int) -> None:
    notebooks = opened(context, lab, f"fuzz{seed}")
    notebooks[0].wait_until_linked()
    trouble = frozenset(filter(None, os.environ.get("TROUBLE", "").split(",")))
    fuzz = Fuzz(seed, notebooks, replies, trouble=trouble, gate=not os.environ.get("NOGATE"))
    play(fuzz, 40)
