"""Takes the pictures of the docs: `python -m tests.ui.screenshots` writes `docs/panel-*.png`."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image
from playwright.sync_api import Browser, Page, ViewportSize

from tests.fakes import Scripted, calls, says, thinks
from tests.fakes.script import FakeReply
from tests.ui.conftest import launched
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook

DOCS = Path(__file__).parents[2] / "docs"
SIZE: ViewportSize = {"width": 1280, "height": 800}

TABLE = """\
import pandas as pd

sales = pd.DataFrame({
    "month": pd.date_range("2026-01-31", periods=8, freq="ME"),
    "revenue": [120, 132, 141, 155, 168, 183, 171, 160],
})"""
CELLS = [
    new_markdown_cell("# Sales, first look\nMonthly revenue of three shops, in k€.", id="title"),
    new_code_cell(TABLE, id="table"),
    new_code_cell("sales.plot()", id="plot"),
]
PLOT = """\
monthly = sales.set_index("month").revenue
ax = monthly.plot(marker="o", figsize=(5, 2.2), ylabel="k€")"""
ANSWER = r"""Revenue **grows until June**, then falls. Over the eight months it grew by

$$\bar g = \Big(\frac{r_8}{r_1}\Big)^{1/7} - 1 \approx 4.2\,\%$$

a month; without July and August it would be $8.8\,\%$."""
PLOTTING = [
    [
        thinks("First what is there, then a plot over the months, then the growth."),
        says("I'll look at the data first."),
        calls("get_notebook_state"),
    ],
    [
        says("The plot has no months on its axis."),
        calls("update_cell", cell_id="plot", old_string="sales.plot()", new_string=PLOT),
    ],
    [calls("run_cells")],
    [says(ANSWER)],
]
CLEANING = """\
from pathlib import Path

for path in Path("exports").glob("2024-*.csv"):
    path.unlink()"""
DELETING = [
    [
        thinks("Cell 4 is there for this."),
        says("Cell 4 deletes the exports of 2024. That cannot be undone, so look at it first."),
        calls("run_cell", cell_id="clean"),
    ],
]
TIDYING = [
    [
        says("The plot names its columns, and the shops get a cell of their own."),
        calls("update_cell", cell_id="plot", old_string="sales.plot()", new_string=PLOT),
        calls("create_cell", after="plot", source='shops = ["north", "south", "harbour"]'),
        calls("delete_cell", cell_id="old"),
    ],
    [says("Cell 3 is edited, cell 4 is new, and the old draft is gone.")],
]
OLD = new_code_cell("# draft\nsales.revenue.hist()", id="old")
FAILING = 'revenue.groupby("shop").sum()'
BUSY = Scripted(status=529, error=("overloaded_error", "Overloaded"))

RESIZE = """width => {
    const [panel] = [...jupyterapp.shell.widgets('right')].filter(w => w.id === 'jupyter-agent');
    let area = panel;
    while (!area.parent.layout.absoluteSizes) area = area.parent;
    const sizes = area.parent.layout.absoluteSizes();
    const own = area.parent.widgets.indexOf(area);
    sizes[own - 1] += sizes[own] - width;
    sizes[own] = width;
    area.parent.setRelativeSizes(sizes);
}"""


def main() -> None:
    """All pictures, each from its own conversation."""
    replies = Replies()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder) / "lab", replies) as lab,
        launched() as browser,
    ):
        start(browser, lab)
        answer(browser, lab, replies)
        streaming(browser, lab, replies)
        review(browser, lab, replies)
        errors(browser, lab, replies)
        conversations(browser, lab)
        approval(browser, lab, replies)  # last: what waits is found by every new page


def start(browser: Browser, lab: Lab) -> None:
    with panel(browser, lab, "start") as page:
        page.get_by_role("region", name="Assistant").get_by_role("button").first.wait_for()
        take(page, "start")


def answer(browser: Browser, lab: Lab, replies: Replies) -> None:
    with panel(browser, lab, "revenue") as page:
        ask(page, replies, "Plot revenue by month. How fast does it grow?", PLOTTING)
        page.get_by_role("button", name="Retry").wait_for()
        take(page, "light")
        page.evaluate(RESIZE, 300)
        take(page, "narrow")
        page.evaluate(RESIZE, 380)
        theme(page, "JupyterLab Dark")
        take(page, "dark")
        theme(page, "JupyterLab Light")


def streaming(browser: Browser, lab: Lab, replies: Replies) -> None:
    """A cell that appears as it is written."""
    gate = Gate()
    written = calls("create_cell", after="plot", source=PLOT + "\nmonthly.pct_change().mean()")
    half = Scripted(
        blocks=[says("First the plot."), written], stop_after=14, then="wait", gate=gate
    )
    with panel(browser, lab, "streaming") as page:
        ask(page, replies, "Plot revenue by month.", [half, [says("Done.")]])
        page.get_by_text("First the plot.").wait_for()
        take(page, "streaming")
        gate.set()
        page.get_by_text("Done.").wait_for()


def review(browser: Browser, lab: Lab, replies: Replies) -> None:
    """The changes of a turn, marked and shown in the notebook itself."""
    with panel(browser, lab, "tidy", OLD) as page:
        ask(page, replies, "Tidy this up.", TIDYING)
        answer = page.get_by_role("region", name="Assistant")
        answer.get_by_role("button", name="Undo", exact=True).wait_for()
        answer.get_by_role("button", name="Next change").click()
        take(page, "diff")


def errors(browser: Browser, lab: Lab, replies: Replies) -> None:
    with panel(browser, lab, "shops", new_code_cell(FAILING, id="failing")) as page:
        ask(page, replies, "Plot revenue by month.", [*PLOTTING[:2], *[BUSY] * 5])
        page.get_by_role("button", name="Try again").wait_for()
        page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
        page.get_by_role("button", name="Fix with the assistant").scroll_into_view_if_needed()
        take(page, "error")


def conversations(browser: Browser, lab: Lab) -> None:
    with panel(browser, lab, "list") as page:
        page.get_by_role("button", name="Conversations").click()
        page.get_by_role("searchbox").wait_for()
        take(page, "conversations")


def approval(browser: Browser, lab: Lab, replies: Replies) -> None:
    with panel(browser, lab, "exports", new_code_cell(CLEANING, id="clean")) as page:
        page.get_by_label("Mode", exact=True).select_option("ask")
        ask(page, replies, "Make room for the exports of this year.", DELETING)
        page.get_by_role("button", name="Deny").wait_for()
        take(page, "approval")


@contextmanager
def panel(browser: Browser, lab: Lab, folder: str, *more: NotebookNode) -> Iterator[Page]:
    """The example notebook in a folder of its own, with the panel open, in mode auto."""
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=[*CELLS, *more], metadata={"kernelspec": kernelspec})
    (lab.root / folder).mkdir()
    nbformat.write(notebook, lab.root / folder / "sales.ipynb")
    context = browser.new_context(viewport=SIZE, device_scale_factor=1.5)
    context.set_default_timeout(120_000)
    page = context.new_page()
    OpenNotebook(page, lab, f"{folder}/sales.ipynb").open()
    page.keyboard.press("Control+Alt+g")
    page.get_by_label("Mode", exact=True).select_option("auto")
    yield page
    lab.shut_down_kernels()
    context.close()


def ask(page: Page, replies: Replies, text: str, answer: Sequence[FakeReply]) -> None:
    replies.clear()
    for reply in answer:
        replies.append(reply)
    message = page.get_by_role("textbox", name="Message")
    message.fill(text)
    message.press("Enter")


def theme(page: Page, name: str) -> None:
    page.evaluate(
        "name => jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name
    )
    page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)


def take(page: Page, name: str) -> None:
    """Once nothing moves any more, in 256 colours: the pictures are part of the repository."""
    before = b""
    while (picture := page.screenshot(animations="disabled")) != before:
        before = picture
        page.wait_for_timeout(500)
    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    colours.save(DOCS / f"panel-{name}.png", optimize=True)


if __name__ == "__main__":
    main()
