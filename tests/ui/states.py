"""Every state of the panel, reached through the page, the model scripted. For pictures and axe."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from playwright.sync_api import Page, Route, expect

from jupyter_agent.models.base import Block
from tests.fakes import Scripted, calls, says, thinks
from tests.fakes.script import FakeReply
from tests.ui.conftest import new_file
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel

SALES = 'sales = {"north": [120, 132, 141], "south": [98, 104, 99]}'
TOTALS = "totals = {shop: sum(months) for shop, months in sales.items()}\ntotals"
CELLS: list[str | NotebookNode] = [
    new_markdown_cell("# Sales\nMonthly revenue of two shops.", id="title"),
    new_code_cell(SALES, id="sales"),
    new_code_cell(TOTALS, id="totals"),
    new_code_cell('totals["harbour"]', id="fails"),
]
BEST = "best = max(totals, key=totals.get)\nprint(best)"
PLOTS = """\
import matplotlib.pyplot as plt

for n in range(40):
    plt.figure(figsize=(3, 2))
    plt.plot([n, 1, 40 - n])
    plt.show()"""
LIVE = """\
import threading

print("epoch 1: loss 0.731", flush=True)
threading.Event().wait()"""
ANSWER = """\
## What the data says

North sold **393 k€**, south *301 k€*; see `totals`.

| shop | January | February | March | total | share | last year | growth |
|---|---|---|---|---|---|---|---|
| north | 120,000 | 132,000 | 141,000 | 393,000 | 57 % | 371,000 | 5.9 % |
| south | 98,000 | 104,000 | 99,000 | 301,000 | 43 % | 290,000 | 3.8 % |

### In code

```python
share = {shop: total / sum(totals.values()) for shop, total in totals.items()}
```

1. March is the best month of north.
2. South stands still, with $g = 0.5\\,\\%$ a month.
"""


@dataclass
class Scene:
    """A notebook of CELLS with the panel beside it, in mode `ask`."""

    notebook: OpenNotebook
    lab: Lab
    replies: Replies
    gate: Gate = field(default_factory=Gate)

    @property
    def page(self) -> Page:
        return self.notebook.page

    @property
    def panel(self) -> Panel:
        return Panel(self.page)

    def ask(self, text: str, *answers: FakeReply, mode: str = "auto") -> None:
        self.panel.region.get_by_label("Mode", exact=True).select_option(mode)
        for answer in answers:
            self.replies.append(answer)
        self.panel.ask(text)

    def half(self, *blocks: Block, after: int) -> Scripted:
        """An answer that stops after so many events until the scene ends."""
        return Scripted(blocks=blocks, stop_after=after, then="wait", gate=self.gate)

    def end(self) -> None:
        """Let go of all that waits."""
        self.gate.set()
        self.lab.stop_turns()
        self.lab.shut_down_kernels()
        self.replies.clear()


def scene(page: Page, lab: Lab, replies: Replies, name: str) -> Scene:
    """The scene in which a state is reached; the notebook is called `name`."""
    replies.clear()
    notebook = OpenNotebook(page, lab, new_file(lab, name, CELLS)).open()
    Panel(page).open("ask")
    notebook.wait_until_linked()
    return Scene(notebook, lab, replies)


def empty(scene: Scene) -> None:
    expect(scene.panel.region.get_by_role("button").first).to_be_visible()


def waiting(scene: Scene) -> None:
    scene.ask("Which shop sells most?", scene.half(says("North."), after=0))
    expect(scene.panel.log.get_by_role("timer")).to_contain_text("Waiting for")


def thought(scene: Scene) -> None:
    scene.ask("Which shop sells most?", [thinks("I compare both."), says("North.")])
    expect(scene.panel.button("Retry")).to_be_visible()


def streaming(scene: Scene) -> None:
    scene.ask("Which shop sells most?", scene.half(says(ANSWER), after=60))
    expect(scene.panel.log).to_contain_text("393 k€")


def writing_a_call(scene: Scene) -> None:
    call = calls("create_cell", after="totals", source=BEST + "\n# and so on" * 10)
    scene.ask("Which shop sells most?", scene.half(says("A cell for it."), call, after=14))
    expect(scene.panel.log).to_contain_text("A cell for it.")


def live_run(scene: Scene) -> None:
    edit = calls("update_cell", cell_id="fails", source=LIVE)
    scene.ask("Train it.", [edit, calls("run_cell", cell_id="fails")])
    expect(scene.notebook.cell("fails")).to_contain_text("epoch 1: loss")
    expect(scene.panel.log.get_by_role("timer")).to_contain_text("Running cell 4")


def approval(scene: Scene) -> None:
    edit = calls("update_cell", cell_id="totals", source=TOTALS + "\n" + BEST)
    scene.ask("Name the best shop.", [says("I add it."), edit, calls("run_cells")], mode="ask")
    expect(scene.panel.button("Deny")).to_be_visible()


def approval_of_several_notebooks(scene: Scene) -> None:
    costs = new_file(scene.lab, f"costs of {scene.notebook.path[:-6]}", ["rent = 1"])
    here = calls("update_cell", cell_id="sales", old_string="120", new_string="121")
    there = calls("update_cell", notebook=costs, cell_id="c0", old_string="1", new_string="2")
    scene.ask("Correct both.", [here, there], mode="ask")
    expect(scene.panel.button("Deny")).to_be_visible()


def approval_of_60_lines(scene: Scene) -> None:
    long = "\n".join(f'row_{n} = sales["north"][{n % 3}] * {n}' for n in range(60))
    scene.ask("Spell it out.", [calls("update_cell", cell_id="totals", source=long)], mode="ask")
    expect(scene.panel.button("Show the rest")).to_be_visible()


def allow_more(scene: Scene) -> None:
    approval(scene)
    scene.panel.allow_more()
    expect(scene.panel.region.get_by_role("menu", name="Allow more")).to_be_visible()


def denied(scene: Scene) -> None:
    approval(scene)
    scene.replies.append([says("Then I leave it as it is.")])
    scene.panel.message.fill("Use a table of its own.")
    scene.panel.message.press("Enter")
    expect(scene.panel.log).to_contain_text("Then I leave it")


def error_in_a_cell(scene: Scene) -> None:
    scene.ask("Run all.", [calls("run_cells")], [says("There is no shop at the harbour.")])
    expect(scene.panel.log).to_contain_text("no shop at the harbour")
    scene.panel.unfold()


def reviewed_in_place(scene: Scene) -> None:
    edits = [
        calls("update_cell", cell_id="totals", source=TOTALS + "\n" + BEST),
        calls("create_cell", after="totals", source='print("north leads")'),
        calls("delete_cell", cell_id="fails"),
    ]
    scene.ask("Tidy up.", edits, [says("One cell is edited, one new, one gone.")])
    expect(scene.panel.button("Undo")).to_be_visible()
    scene.panel.button("Next change").click()


def _failing(status: int, kind: str, said: str, shown: str) -> Callable[[Scene], None]:
    def fail(scene: Scene) -> None:
        failure = Scripted(status=status, error=(kind, said), headers={"retry-after": "1"})
        scene.ask("Are you there?", *[failure] * 6)
        expect(scene.panel.region.get_by_role("alert")).to_contain_text(shown)

    return fail


def rate_limited(scene: Scene) -> None:
    slow = Scripted(
        status=429, error=("rate_limit_error", "Slow down."), headers={"retry-after": "600"}
    )
    scene.ask("Are you there?", slow)
    expect(scene.panel.log.get_by_role("group", name="Waiting to retry")).to_be_visible()


def stopped(scene: Scene) -> None:
    scene.ask("Count.", scene.half(says("One, two, three, four. " * 5), after=6))
    expect(scene.panel.log).to_contain_text("One")
    scene.panel.button("Stop").click()
    expect(scene.panel.button("Stop")).to_be_hidden()


def limit_reached(scene: Scene) -> None:
    def limited(route: Route) -> None:
        body = json.loads(route.request.post_data or "{}")
        route.continue_(post_data=json.dumps({**body, "max_steps": 1}))

    scene.page.route(re.compile(r"/api/agent/chat(\?|$)"), limited)
    scene.ask("A long task.", [says("As far as I came.")])
    expect(scene.panel.button("Continue")).to_be_visible()


def finished_while_hidden(scene: Scene) -> None:
    edit = [calls("update_cell", cell_id="sales", old_string="120", new_string="121")]
    scene.ask("Correct it.", edit, scene.half(says("Ready. " * 30), after=3))
    expect(scene.panel.log).to_contain_text("Ready.")
    scene.page.locator(".jp-SideBar [data-id='jupyter-agent']").click()
    scene.gate.set()
    expect(scene.page.locator(".Toastify__toast")).to_contain_text("1 cell changed")


def connection_lost(scene: Scene) -> None:
    """Of the panel only: without any network JupyterLab could not change its theme either."""
    streaming(scene)
    scene.page.route("**/api/agent/**", lambda route: route.abort())
    scene.page.evaluate("() => window.dispatchEvent(new Event('offline'))")
    scene.panel.message.fill("Still there?")
    expect(scene.panel.log).to_contain_text("Connection lost")


def long_answer(scene: Scene) -> None:
    scene.ask("Tell me all.", [says(ANSWER * 20 + "\n\nThat is all.")])
    expect(scene.panel.log).to_contain_text("That is all.")


def forty_plots(scene: Scene) -> None:
    made = [calls("update_cell", cell_id="fails", source=PLOTS), calls("run_cells")]
    scene.ask("Plot each.", made, [says("40 plots are drawn.")])
    expect(scene.panel.log).to_contain_text("40 plots are drawn.")
    expect(scene.panel.log.get_by_role("img", name=re.compile("^Plot in cell"))).to_have_count(3)


def no_notebook(scene: Scene) -> None:
    scene.page.evaluate(
        """async path => {
          await agentTest.panel(path).context.save();  // else it asks whether to
          agentTest.panel(path).close();
        }""",
        scene.notebook.path,
    )
    expect(scene.page.locator(".jp-NotebookPanel")).to_have_count(0)


def kernel_busy(scene: Scene) -> None:
    scene.notebook.wait_for_kernel()
    path, cell_id = scene.notebook.path, "fails"
    scene.page.evaluate(
        "([path, id, source]) => agentTest.widget(path, id).model.sharedModel.setSource(source)",
        [path, cell_id, LIVE],
    )
    scene.notebook.edit(cell_id)
    scene.page.keyboard.press("Control+Enter")
    expect(scene.notebook.cell(cell_id)).to_contain_text("epoch 1: loss")
    run = [calls("run_cell", cell_id="sales")]
    scene.ask("Run it.", run, [says("Cell 4 is running your code; cell 2 comes after it.")])
    expect(scene.panel.log).to_contain_text("comes after it")


def conflict(scene: Scene) -> None:
    edit = [calls("update_cell", cell_id="sales", old_string="120", new_string="121")]
    scene.ask("Correct it.", edit, [says("Corrected.")])
    expect(scene.panel.button("Undo")).to_be_visible()
    scene.notebook.edit("sales", at=30)
    scene.notebook.type("0")
    scene.panel.button("Undo").click()
    expect(scene.panel.region.get_by_text("Cell 2 kept")).to_be_visible()


def settings_page(scene: Scene) -> None:
    scene.panel.region.get_by_title("Settings", exact=True).click()


def conversations(scene: Scene) -> None:
    thought(scene)
    scene.panel.button("Conversations").click()
    expect(scene.panel.region.get_by_role("listitem").first).to_be_visible()


Reach: TypeAlias = Callable[[Scene], None]

STATES: dict[str, Reach] = {
    "empty": empty,
    "waiting": waiting,
    "thought": thought,
    "streaming": streaming,
    "writing-a-call": writing_a_call,
    "live-run": live_run,
    "approval": approval,
    "approval-several": approval_of_several_notebooks,
    "approval-60-lines": approval_of_60_lines,
    "allow-more": allow_more,
    "denied": denied,
    "error-in-a-cell": error_in_a_cell,
    "review": reviewed_in_place,
    "key-rejected": _failing(401, "authentication_error", "invalid x-api-key", "API key"),
    "credit": _failing(
        400,
        "invalid_request_error",
        "Your credit balance is too low to access",
        "credit is used up",
    ),
    "overloaded": _failing(529, "overloaded_error", "Overloaded", "Anthropic"),
    "rate-limited": rate_limited,
    "stopped": stopped,
    "limit": limit_reached,
    "hidden": finished_while_hidden,
    "offline": connection_lost,
    "long-answer": long_answer,
    "forty-plots": forty_plots,
    "no-notebook": no_notebook,
    "kernel-busy": kernel_busy,
    "conflict": conflict,
    "settings": settings_page,
    "conversations": conversations,
}
"""Those of a server that has a key; `no-key` is a server of its own."""

NO_KEY = {"JupyterAgent": {"default_model": "", "providers": {}}}
"""Configuration of that server."""
