"""The side panel, as a person uses it: asked, watched, answered and undone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests import gates
from tests.fakes import Scripted, calls, says, thinks
from tests.ui.conftest import OpenPage, new_file
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

ANSWER = r"""It is **seven**:

$$x = \sum_{i=1}^{7} 1$$

- the sum of `7` ones"""


@pytest.mark.story
def test_each_step_shows_in_its_place_the_cells_change_and_the_answer_is_rendered(
    panel: Panel, notebook: OpenNotebook, replies: Replies, lab: Lab
) -> None:
    replies.append([thinks("Look first."), says("I look first."), calls("get_notebook_state")])
    replies.append([says("Now I set it."), calls("update_cell", cell_id="c0", source="x = 7")])
    replies.append([calls("run_cells")])
    replies.append([says(ANSWER)])
    panel.page.keyboard.type("Make x seven.\n")  # as fast as keys can be: none is lost
    expect(panel.log.locator("article").first).to_contain_text("Make x seven.")
    expect(panel.message).to_have_value("")
    expect(panel.button("Undo")).to_be_visible()
    panel.unfold()
    shown = panel.log.locator("article").last.inner_text()
    places = [
        shown.rindex(words)
        for words in ("Thought", "I look first.", "Read the notebook", "Now I set it.",
                      "Cell 1 edited", "Ran cells 1–2", "seven", "Copy")
    ]  # fmt: skip
    assert places == sorted(places)
    expect(panel.opened("Cell 1 edited")).to_contain_text("x = 7")
    expect(panel.opened("Ran cells 1–2")).to_contain_text("x is 7")
    assert notebook.shown()["c0"] == "x = 7"
    assert (notebook.prompt("c0"), notebook.prompt("c1")) == ("[1]:", "[2]:")
    assert notebook.output_text("c1").strip() == "x is 7"
    expect(panel.log.locator("strong", has_text="seven")).to_be_visible()
    expect(panel.log.locator("mjx-container")).to_be_visible()
    expect(panel.log.locator("li code")).to_have_text("7")
    expect(panel.log).not_to_contain_text("$$")
    replies.append([says("It prints x.")])
    assert notebook.go_to(1) == [{"op": "cell", "cell": "c1"}]
    panel.ask("And this one?")
    expect(panel.log).to_contain_text("It prints x.")
    assert "Active cell: c1" in str(lab.fake.requests[-1]["messages"][-1])


@pytest.mark.story
def test_what_the_turn_waits_for_and_what_a_run_prints_are_shown_at_once(
    open_page: OpenPage, replies: Replies, gate: Gate, tmp_path: Path
) -> None:
    end = gates.Gate(tmp_path / "end")
    notebook = open_page(cells=[f'print("before")\n{end.waits}\nprint("after")'])
    panel = Panel(notebook.page).open("ask")
    replies.append(Scripted(blocks=[calls("run_cell", cell_id="c0")], then="wait", gate=gate,
                            stop_after=0))  # fmt: skip
    replies.append([says("It ended.")])
    panel.ask("Run it.")
    life = panel.log.get_by_role("timer")
    expect(life).to_have_text(re.compile(r"^Waiting for Sonnet 5\.5, [1-9] s$"))
    expect(panel.button("Stop")).to_be_visible()
    expect(panel.button("Stop")).to_contain_text("Stop")
    gate.set()
    expect(life).to_have_text(re.compile(r"^Waiting for your approval(, \d+ s)?$"))
    panel.button("Allow").click()
    expect(life).to_have_text(re.compile(r"^Running cell 1, [1-9] s$"))
    prompt = notebook.cell("c0").locator(".jp-InputPrompt")
    expect(panel.call("Running cell 1…")).to_contain_text("before")
    expect(prompt).to_have_text("[*]:")
    expect(notebook.cell("c0").locator(".jp-OutputArea-output")).to_have_text("before\n")
    end.open()
    panel.unfold()
    expect(panel.opened("Ran cell 1")).to_contain_text("after")
    expect(prompt).to_have_text("[1]:")
    expect(panel.log).to_contain_text("It ended.")
    expect(life).to_have_count(0)


@pytest.mark.story
def test_nothing_happens_before_it_is_allowed_and_a_refusal_reaches_the_model(
    panel: Panel, notebook: OpenNotebook, replies: Replies
) -> None:
    replies.append([calls("update_cell", cell_id="c0", old_string="1", new_string="2")])
    replies.append([calls("run_cell", cell_id="c0")])
    replies.append([says("As you like.")])
    panel.region.get_by_label("Mode", exact=True).select_option("ask")
    panel.ask("Set it to two and run it.")
    question = panel.region.get_by_role("group", name="Edit cell 1?")
    expect(question).to_contain_text("x = 2")
    expect(panel.call("Edit cell 1")).to_contain_text("needs approval")
    assert notebook.sources()["c0"] == "x = 1"
    panel.button("Allow").click()
    question = panel.region.get_by_role("group", name="Run cell 1?")
    expect(question).to_contain_text("x = 2")
    assert notebook.sources()["c0"] == "x = 2"
    panel.message.press("Escape")  # neither denies nor stops
    panel.message.fill("Do not run anything.")
    panel.message.press("Enter")
    expect(panel.log).to_contain_text("As you like.")
    panel.unfold()
    expect(panel.call("Run cell 1")).to_contain_text("denied")
    expect(question).to_be_hidden()
    assert notebook.prompt("c0") == "[ ]:"
    assert "Do not run anything." in str(notebook.lab.fake.requests[-1]["messages"][-1])


@pytest.mark.story
def test_a_turn_is_followed_in_a_reloaded_page_and_in_a_second_one(
    panel: Panel, notebook: OpenNotebook, open_page: OpenPage, replies: Replies, gate: Gate
) -> None:
    half = Scripted(
        blocks=[says("The beginning and the end.")], stop_after=5, then="wait", gate=gate
    )
    replies.append([calls("update_cell", cell_id="c0", source="x = 9")])
    replies.append(half)
    panel.ask("Take your time.")
    expect(panel.log).to_contain_text("The beginning")
    notebook.reload()
    panel.open()  # JupyterLab saves its layout only after a while
    other = Panel(open_page(path=notebook.path).page).open()
    for log in (panel.log, other.log):
        expect(log).to_contain_text("Take your time.")
        expect(log).to_contain_text("The beginning")
        expect(log).not_to_contain_text("the end.")
    gate.set()
    for one in (panel, other):
        expect(one.log).to_contain_text("The beginning and the end.")
        expect(one.button("Undo")).to_be_visible()
        one.unfold()
        expect(one.call("Cell 1 edited")).to_have_count(1)


def test_escape_stops_a_turn_then_leaves_the_panel_and_what_waits_is_asked_on_request(
    panel: Panel, notebook: OpenNotebook, replies: Replies, gate: Gate
) -> None:
    replies.append(Scripted(blocks=[says("Never ready")], stop_after=0, then="wait", gate=gate))
    replies.append([says("The second.")])
    asked = len(notebook.lab.fake.requests)
    panel.ask("Take for ever.")
    expect(panel.log.get_by_role("timer")).to_contain_text("Waiting for Sonnet 5.5")
    eventually(lambda: len(notebook.lab.fake.requests) > asked, bool)
    panel.ask("Two?")
    panel.message.press("Escape")
    expect(panel.log).to_contain_text("Stopped.")
    panel.message.press("Escape")
    expect(panel.message).not_to_be_focused()
    expect(panel.page.locator(".jp-Notebook")).to_have_class(re.compile("jp-mod-commandMode"))
    panel.button("Send now").click()
    expect(panel.log).to_contain_text("The second.")


def test_conversations_are_renamed_and_deleted_only_once_the_server_has_done_it(
    panel: Panel, replies: Replies
) -> None:
    page = panel.page
    replies.append([says("First answer.")])
    replies.append([says("Second answer.")])
    panel.ask("A first question")
    expect(panel.log).to_contain_text("First answer.")
    panel.button("New conversation").click()
    expect(panel.log).not_to_contain_text("First answer.")
    panel.ask("A second question")
    expect(panel.log).to_contain_text("Second answer.")
    panel.button("Conversations").click()
    dialog = page.get_by_role("dialog")

    def change() -> None:
        """Rename one and delete the other."""
        panel.button("Rename “A first question”").click()
        dialog.get_by_role("textbox").fill("The oldest")
        dialog.get_by_role("textbox").press("Enter")
        expect(dialog).to_be_hidden()
        panel.button("Delete “A second question”").click()
        dialog.get_by_role("button", name="Delete").click()

    routes = "**/api/agent/conversations**/**"
    page.route(routes, lambda route: route.abort())
    change()
    expect(page.get_by_text("The server does not answer.")).to_have_count(2)
    for title in ("A first question", "A second question"):
        expect(panel.region.get_by_role("button").filter(has_text=title)).to_have_count(1)
    page.unroute(routes)
    change()
    expect(panel.button("Delete “A second question”")).to_be_hidden()
    panel.region.get_by_role("button", name="The oldest").first.click()
    expect(panel.log).to_contain_text("First answer.")


def test_undo_turn_takes_back_the_agents_steps_and_undo_keys_then_the_persons(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(["x = 1\nmine = 0"])
    panel = Panel(notebook.page).open("auto")
    notebook.edit("c0")
    notebook.type(" + ONE")
    replies.append([calls("update_cell", cell_id="c0", old_string="x = 1", new_string="y = 100")])
    replies.append([calls("create_cell", source="z = 3", after="c0")])
    replies.append([says("Changed and added.")])
    panel.ask("Change one, add one.")
    expect(panel.button("Undo")).to_be_visible()
    notebook.edit("c0")
    notebook.type(" + TWO")
    assert list(notebook.sources().values()) == ["y = 100\nmine = 0 + ONE + TWO", "z = 3"]
    panel.button("Undo").click()
    expect(panel.log).to_contain_text("Changes undone")
    assert notebook.sources() == {"c0": "x = 1\nmine = 0 + ONE + TWO"}
    notebook.edit("c0")
    for _ in range(5):
        notebook.page.keyboard.press("Control+z")
    assert notebook.sources() == {"c0": "x = 1\nmine = 0"}


def test_a_failing_model_names_the_next_step_which_then_works(
    panel: Panel, replies: Replies
) -> None:
    replies.append(Scripted(status=401, error=("authentication_error", "invalid x-api-key")))
    replies.append([says("Here I am.")])
    panel.ask("Are you there?")
    alert = panel.region.get_by_role("alert")
    expect(alert).to_contain_text("Anthropic rejected the API key.")
    expect(alert).not_to_contain_text("req_")
    expect(alert.get_by_role("button", name="Settings")).to_be_visible()
    alert.get_by_role("button", name="Try again").click()
    expect(panel.log).to_contain_text("Here I am.")
    expect(alert).to_be_hidden()
    expect(panel.log.locator(".jp-Agent-question")).to_have_count(1)


def test_the_panel_follows_the_theme_and_fits_in_300_pixels(panel: Panel, replies: Replies) -> None:
    replies.append([says(ANSWER), calls("update_cell", cell_id="c0", source="x = 'long'" * 20)])
    replies.append([says("Done.")])
    panel.ask("Write a long line.")
    expect(panel.button("Undo")).to_be_visible()
    panel.unfold()
    panel.opened("Cell 1 edited")
    light = panel.region.evaluate("panel => getComputedStyle(panel).backgroundColor")
    panel.page.evaluate(
        "jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    )
    expect(panel.region).not_to_have_css("background-color", light)
    try:
        panel.page.evaluate(NARROW)
        eventually(panel.region.bounding_box, lambda box: box and abs(box["width"] - 300) < 3)
        wider = (
            "panel => [...panel.querySelectorAll('.jp-Agent-panel > *, .jp-Agent-log')]"
            ".filter(box => box.scrollWidth > box.clientWidth).map(box => box.className)"
        )
        assert panel.region.evaluate(wider) == []
        for name in ("Keep", "Keep all", "Undo all", "Copy", "Retry", "New conversation"):
            expect(panel.button(name).last).to_be_in_viewport(ratio=1)
    finally:
        panel.page.evaluate(
            "jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})"
        )


def test_code_in_an_answer_is_copied_or_becomes_a_cell(
    panel: Panel, notebook: OpenNotebook, replies: Replies
) -> None:
    notebook.edit("c0")
    replies.append([says("Like this:\n\n```python\nimport math\nmath.pi\n```\n\nThat is all.")])
    panel.ask("How?")
    panel.button("Insert as cell").click()
    eventually(
        lambda: list(notebook.sources().values()),
        lambda now: now == ["x = 1", "import math\nmath.pi", "print('x is', x)"],
    )
    panel.button("Copy").first.click()  # of the code
    panel.message.focus()
    panel.page.keyboard.press("Control+v")
    expect(panel.message).to_have_value("import math\nmath.pi")
    panel.page.evaluate("[...jupyterapp.shell.widgets('main')].forEach(one => one.dispose())")
    panel.button("Insert as cell").click()
    expect(panel.region.get_by_role("alert")).to_have_text("Open a notebook first.")


PLACES = """log => [...log.querySelectorAll('.jp-RenderedMarkdown :is(pre, p)')].map(block => {
  const text = document.createRange();
  text.selectNodeContents(block);
  const outer = block.closest('.jp-Agent-markdown').getBoundingClientRect();
  const [box, inner] = [block.getBoundingClientRect(), text.getBoundingClientRect()];
  return [Math.round(box.left - outer.left), Math.round(outer.right - inner.right) < 2];
})"""
"""Of each block: how far it is indented, and whether its text ends at the right edge."""


def test_blocks_of_an_answer_are_aligned_each_in_the_direction_of_its_script(
    panel: Panel, replies: Replies
) -> None:
    code = "```\nno language\n```\n```python\nx = 1\n```\n<b>HTML</b>"
    replies.append([says(f"Text:\n\n{code}\n\nשלום `x`\n\nEnd.")])
    panel.ask("How?")
    expect(panel.log).to_contain_text("End.")
    left = [0, False]
    expected = [left, left, left, left, [0, True], left]
    eventually(lambda: panel.log.evaluate(PLACES), lambda places: places == expected)


MOVES = ("move-cell-down", "move-cell-up", "merge-cell-below", "undo-cell-action")


def test_an_empty_conversation_stays_while_cells_are_moved_and_merged(
    notebook: OpenNotebook, panel: Panel
) -> None:
    suggestion = panel.log.get_by_role("button", name="Run all cells and fix errors")
    expect(suggestion).to_be_visible()
    notebook.go_to(0)
    for move in MOVES:
        notebook.page.evaluate("move => jupyterapp.commands.execute(`notebook:${move}`)", move)
        expect(suggestion).to_be_visible()
    assert list(notebook.sources()) == ["c0", "c1"]


def test_without_its_server_part_the_panel_says_what_to_do(
    context: BrowserContext, lab: Lab
) -> None:
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.route("**/api/agent/**", lambda route: route.fulfill(status=404, body="404 : Not Found"))
    panel = Panel(OpenNotebook(page, lab, new_file(lab, "alone", ["x = 1"])).open().page).open()
    alert = panel.region.get_by_role("alert")
    expect(alert).to_contain_text("Install jupyter_agent where the server runs")
    page.unroute("**/api/agent/**")
    alert.get_by_role("button", name="Try again").click()
    expect(panel.log).to_contain_text("Using Sonnet 5.5.")
    assert errors == []


@pytest.mark.fresh
def test_a_page_whose_code_is_gone_from_the_server_says_to_reload_it(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(["x = 1"])
    notebook.wait_until_linked()
    page = notebook.page
    code = "**/jupyter-agent/static/*.js*"
    page.route(code, lambda route: route.fulfill(status=404))
    replies.append([calls("update_cell", cell_id="c0", old_string="1", new_string="2")])
    replies.append([says("Done.")])
    notebook.lab.ask("Use 2.", notebook.path)
    expect(page.get_by_text("changes cannot be shown in the cells")).to_be_visible()
    page.keyboard.press("Control+Alt+g")
    panel = Panel(page)
    expect(panel.region.get_by_role("alert")).to_contain_text("reload this page")
    page.unroute(code)
    with page.expect_navigation():
        panel.button("Reload").click()
    page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
    panel.open()


NARROW = """() => {
    let area = [...jupyterapp.shell.widgets('right')].find(one => one.id === 'jupyter-agent');
    while (!area.parent.layout.absoluteSizes) area = area.parent;
    const sizes = area.parent.layout.absoluteSizes();
    const own = area.parent.widgets.indexOf(area);
    [sizes[own - 1], sizes[own]] = [sizes[own - 1] + sizes[own] - 300, 300];
    area.parent.setRelativeSizes(sizes);
}"""


PATH = "/home/user/projects/" + "a_very_long_name_of_a_folder/" * 6
WIDE = f"""\
# In {PATH}

- {PATH}
- `{PATH}` and **{PATH}**

> {PATH}

| region | revenue | cost | margin | share | last year | growth | forecast |
|---|---|---|---|---|---|---|---|
| Northern provinces | 1,412,000 | 1,203,000 | 209,000 | 34 % | 1,388,000 | 1.7 % | 1,440,000 |

```python
forecast = make_a_forecast_of_the_revenue(first_argument=1, second_argument="quarterly", third=3)
```
"""
OUT_OF_REACH = """log => {
    const reachable = box => box.scrollWidth <= box.clientWidth + 1
        || getComputedStyle(box).overflowX === 'auto';
    return [...log.querySelectorAll('.jp-Agent-markdown, .jp-Agent-markdown *')]
        .filter(box => box.clientWidth && !reachable(box))
        .filter(box => !box.closest('.jp-Agent-wide'))
        .map(box => box.outerHTML.slice(0, 80));
}"""


def test_wide_tables_and_long_code_of_an_answer_are_within_reach_in_a_narrow_panel(
    panel: Panel, replies: Replies
) -> None:
    replies.append([says(WIDE)])
    panel.ask("Compare the regions.")
    last = panel.log.get_by_role("cell", name="1,440,000")
    expect(last).to_be_attached()
    panel.page.evaluate(NARROW)
    eventually(panel.region.bounding_box, lambda box: box and abs(box["width"] - 300) < 3)
    assert panel.log.evaluate(OUT_OF_REACH) == []
    table = panel.log.get_by_role("group", name="Table")
    table.focus()
    for _ in range(30):
        panel.page.keyboard.press("ArrowRight")
    expect(last).to_be_in_viewport(ratio=0.95)
    code = panel.log.locator("pre")
    assert code.evaluate("pre => pre.scrollWidth <= pre.clientWidth")
