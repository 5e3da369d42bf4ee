"""The message field: attachments, suggestions, the queue and the history."""

from __future__ import annotations

import base64
import io
import json
import re

import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from tests.fakes import Scripted, calls, says
from tests.ui.conftest import OpenPage, new_file
from tests.ui.gate import Gate
from tests.ui.lab import Lab, Replies
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually


def sent(lab: Lab) -> str:
    """The question as the model got it."""
    return json.dumps(lab.fake.requests[-1]["messages"][-1])


def suggestions(panel: Panel) -> Locator:
    return panel.region.get_by_role("listbox", name="Suggestions").get_by_role("option")


def picture(width: int, height: int, kind: str = "PNG") -> str:
    """In base64."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), "teal").save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


PASTE = """([data, name, type]) => {
    const bytes = Uint8Array.from(atob(data), char => char.charCodeAt(0));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([bytes], name, {type}));
    const field = document.querySelector('.jp-Agent-composer textarea');
    field.dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true}));
}"""
DROP = PASTE.replace(
    "ClipboardEvent('paste', {clipboardData", "DragEvent('drop', {dataTransfer: clipboardData"
)
TAKES_TEXT = """field => {
    const dataTransfer = new DataTransfer();
    dataTransfer.setData('text/plain', 'a word');
    const drop = new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true});
    return field.dispatchEvent(drop);
}"""
PDF = base64.b64encode(b"%PDF-1.7\n%%EOF\n").decode()


def test_what_is_asked_while_an_answer_is_written_waits_can_be_changed_and_outlives_a_reload(
    panel: Panel, notebook: OpenNotebook, replies: Replies, gate: Gate
) -> None:
    replies.append(Scripted(blocks=[says("The first.")], stop_after=3, then="wait", gate=gate))
    replies.append([says("The second.")])
    panel.ask("One?")
    expect(panel.button("Stop")).to_be_visible()
    panel.ask("Two?")
    panel.ask("Never?")
    panel.ask("Three?")
    waiting = panel.region.get_by_role("region", name="Queued")
    expect(waiting.get_by_role("listitem")).to_have_text(["Two?", "Never?", "Three?"])
    panel.button("Remove “Never?”").click()
    panel.button("Edit “Three?”").click()
    expect(panel.message).to_have_value("Three?")
    expect(panel.message).to_be_focused()
    notebook.reload()
    panel.open()
    expect(panel.message).to_have_value("Three?")
    expect(waiting.get_by_role("listitem")).to_have_text(["Two?"])
    gate.set()
    expect(panel.log).to_contain_text("The second.")
    expect(waiting).to_be_hidden()
    expect(panel.log.locator(".jp-Agent-question")).to_have_count(2)


def test_arrow_keys_bring_back_what_was_asked_also_in_another_conversation(
    panel: Panel, replies: Replies
) -> None:
    for text in ("First question", "Second question"):
        replies.append([says(f"Answer to: {text}")])
        panel.ask(text)
        expect(panel.log).to_contain_text(f"Answer to: {text}")
    panel.button("New conversation").click()
    panel.message.press("ArrowUp")
    expect(panel.message).to_have_value("Second question")
    panel.message.press("ArrowUp")
    expect(panel.message).to_have_value("First question")
    panel.message.press("ArrowDown")
    panel.message.press("ArrowDown")
    expect(panel.message).to_have_value("")
    panel.message.fill("My own")
    panel.message.press("ArrowUp")
    expect(panel.message).to_have_value("My own")


def test_a_cell_is_found_by_the_label_that_the_list_shows(open_page: OpenPage) -> None:
    notebook = open_page(cells=[f"x{number} = 0" for number in range(12)])
    panel = Panel(notebook.page).open()
    for typed, first, count in (
        ("@", "cell 1", 7),
        ("@ce", "cell 1", 7),
        ("@cell", "cell 1", 7),
        ("@cell ", "cell 1", 7),
        ("@Cell 3", "cell 3", 1),
        ("@cell12", "cell 12", 1),
        ("@cell 1", "cell 1", 4),
        ("@12", "cell 12", 1),
    ):
        panel.message.fill("")
        panel.message.press_sequentially(f"Explain {typed}")
        cells = suggestions(panel).filter(has_text=re.compile("^cell "))
        expect(cells).to_have_count(count)
        expect(suggestions(panel).first).to_contain_text(re.compile(rf"^{first}(?!\d)"))
    panel.message.fill("")
    panel.message.press_sequentially("Explain @cell 3")
    panel.message.press("Enter")
    expect(panel.message).to_have_value("Explain cell 3 ")
    expect(panel.button("Remove @ cell 3")).to_be_visible()


@pytest.mark.story
def test_cells_variables_files_and_notebooks_are_attached_with_an_at_sign_and_reach_the_model(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    (lab.root / "shops.csv").write_text("shop,revenue\nnorth,17\n")
    new_file(lab, "other", ["elsewhere = 'in the other notebook'"])
    notebook = open_page(cells=["sales = [4711, 2]", "print('the quokka')", "# far away"])
    lab.run(notebook.path, "c0")
    notebook.edit("c2")
    panel = Panel(notebook.page).open("auto")
    panel.page.keyboard.type("Compare @quok")
    expect(suggestions(panel).first).to_contain_text("cell 2")
    field = panel.message
    expect(field).to_have_attribute("aria-activedescendant", "jp-Agent-suggestions-0")
    panel.page.keyboard.press("Enter")
    expect(panel.message).to_have_value("Compare cell 2 ")
    for typed, label in (("sal", "sales"), ("shops", "shops.csv"), ("other.ipy", "other.ipynb")):
        panel.page.keyboard.type(f"@{typed}")
        expect(suggestions(panel).first).to_have_text(re.compile(f"^{label}"))
        expect(suggestions(panel).first).to_have_attribute("aria-selected", "true")
        panel.page.keyboard.press("Tab")
    chosen = "Compare cell 2 `sales` `shops.csv` `other.ipynb` "
    expect(panel.message).to_have_value(chosen)
    expect(suggestions(panel)).to_have_count(0)
    chips = ["@ cell 3", "@ cell 2", "@ sales", "@ shops.csv", "@ other.ipynb"]
    for chip in chips:
        expect(panel.button(f"Remove {chip}")).to_be_visible()
    panel.button("Remove @ cell 3").click()
    replies.append([says("I see them.")])
    panel.message.press("Enter")
    expect(panel.log).to_contain_text("I see them.")
    for told in ("quokka", "4711", "north,17", "in the other notebook"):
        assert told in sent(lab)
    assert sent(lab).count("far away") == 1  # in the notebook; it is not attached
    question = panel.log.get_by_role("article", name="Your question")
    expect(question.locator(".jp-Agent-chip")).to_have_text(chips[1:])


def test_the_selection_is_attached_by_name_and_escape_closes_the_list_only(
    notebook: OpenNotebook, panel: Panel, replies: Replies, lab: Lab
) -> None:
    notebook.edit("c0", at=0)
    for _ in "x =":
        notebook.page.keyboard.press("Shift+ArrowRight")
    panel.open()
    panel.page.keyboard.type("@sel")
    options = suggestions(panel)
    expect(options.first).to_contain_text("selection")
    panel.page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(panel.message).to_be_focused()
    panel.page.keyboard.type("ection")
    expect(options).to_have_count(0)  # not again for the same word
    panel.message.fill("")
    panel.page.keyboard.type("What is @sel")
    expect(options.first).to_contain_text("selection")
    panel.page.keyboard.press("Enter")
    expect(panel.message).to_have_value("What is the selection ")
    replies.append([says("A letter.")])
    panel.message.press("Enter")
    expect(panel.log).to_contain_text("A letter.")
    assert re.search(r"Attached selection of cell `c0`:\\n<(\w+)>\\nx =\\n</\1>", sent(lab))
    expect(panel.log.locator(".jp-Agent-question .jp-Agent-chip")).to_contain_text(["selection"])


def test_pictures_pasted_and_dropped_go_along_made_smaller_and_are_shown_after_a_reload(
    notebook: OpenNotebook, panel: Panel, lab: Lab, replies: Replies
) -> None:
    panel.page.evaluate(PASTE, [picture(2400, 1200), "plot.png", "image/png"])
    expect(panel.button("Remove plot.png")).to_be_visible()
    panel.page.evaluate(PASTE, [picture(4, 4), "small.png", "image/png"])
    panel.button("Remove small.png").click()
    panel.page.evaluate(DROP, [picture(4, 4), "dropped.png", "image/png"])
    panel.button("Remove dropped.png").click()
    assert panel.message.evaluate(TAKES_TEXT)  # the browser inserts it
    replies.append([says("A plane of teal.")])
    panel.ask("What is this?")
    expect(panel.log).to_contain_text("A plane of teal.")
    content = lab.fake.requests[-1]["messages"][-1]["content"]
    (image,) = [block for block in content if block["type"] == "image"]
    shown = Image.open(io.BytesIO(base64.b64decode(image["source"]["data"])))
    assert shown.size == (1568, 784)
    notebook.reload()
    panel.open()
    expect(panel.log.locator(".jp-Agent-question img")).to_be_visible()


def test_files_that_cannot_go_along_are_named_and_none_go_to_a_model_that_cannot_read_them(
    panel: Panel, lab: Lab
) -> None:
    alert = panel.region.get_by_role("alert")
    model = panel.region.get_by_label("Model", exact=True)
    panel.page.evaluate(PASTE, ["AAAA", "broken.png", "image/png"])
    expect(alert).to_contain_text("“broken.png” cannot be read")
    for content, name, told in (
        (b"PK\x03\x04\0\0", "table.xlsx", "“table.xlsx” is neither a picture, a PDF nor text."),
        (b"\x89PNG\r\n\x1a\n\x01", "table.csv", "“table.csv” is neither"),
        (b"", "empty.csv", "“empty.csv” is empty."),
    ):
        panel.page.evaluate(PASTE, [base64.b64encode(content).decode(), name, ""])
        expect(alert).to_contain_text(told)
        expect(panel.button(f"Remove {name}")).to_have_count(0)
    for content, name in (
        ("umsatz;1\n".encode("utf-16"), "umsatz.csv"),
        ("größe;1\n".encode("cp1252"), "größe.csv"),
        (b"x = 1\n", "clean.py"),
        (b"all: install\n", "Makefile"),
        (b"<html>", "paper.pdf"),
    ):
        panel.page.evaluate(PASTE, [base64.b64encode(content).decode(), name, ""])
        panel.button(f"Remove {name}").click()
    model.select_option("demo:tour")
    panel.page.evaluate(PASTE, [picture(4, 4), "plot.png", "image/png"])
    expect(alert).to_contain_text("can't read images")
    expect(panel.button("Remove plot.png")).to_be_hidden()
    model.select_option("anthropic:claude-sonnet-5-5")
    panel.page.evaluate(PASTE, [picture(4, 4), "plot.png", "image/png"])
    model.select_option("demo:tour")
    panel.message.fill("What is this?")
    expect(panel.button("Send")).to_be_disabled()
    model.select_option("anthropic:claude-sonnet-5-5")
    expect(panel.button("Send")).to_be_enabled()
    panel.button("Remove plot.png").click()
    panel.page.evaluate(PASTE, [PDF, "report.pdf", "application/pdf"])
    expect(panel.button("Remove report.pdf")).to_be_visible()
    expect(panel.button("Send")).to_be_enabled()
    model.select_option("demo:tour")
    expect(alert).to_contain_text("can't read PDF files")
    expect(panel.button("Send")).to_be_disabled()
    panel.button("Remove report.pdf").click()
    expect(panel.button("Send")).to_be_enabled()
    model.select_option("anthropic:claude-sonnet-5-5")  # the next test has the page as it is


def test_cells_are_pasted_as_what_they_are_and_cells_that_are_gone_as_their_text(
    open_page: OpenPage, replies: Replies, lab: Lab
) -> None:
    notebook = open_page(["x = 1", "y = 2\nprint(y)", "z = 3"])
    panel = Panel(notebook.page).open("auto")
    keyboard = notebook.page.keyboard
    panel.message.fill("Compare ")

    def press(key: str, cell_id: str) -> None:
        notebook.cell(cell_id).locator(".jp-InputPrompt").click()  # command mode
        keyboard.press(key)
        panel.message.focus()
        keyboard.press("Control+v")

    press("c", "c2")
    expect(panel.button("Remove @ cell 3")).to_be_visible()
    press("x", "c1")
    expect(panel.message).to_have_value("Compare y = 2\nprint(y)")
    assert notebook.ids() == ["c0", "c2"]
    panel.message.select_text()
    keyboard.press("Control+c")
    keyboard.press("End")
    keyboard.press("Control+v")
    expect(panel.message).to_have_value("Compare y = 2\nprint(y)Compare y = 2\nprint(y)")
    replies.append([says("Compared.")])
    panel.message.press("Enter")
    expect(panel.log).to_contain_text("Compared.")
    assert "z = 3" in sent(lab)


def test_cells_of_another_window_are_pasted_where_lab_writes_them_into_the_systems_clipboard(
    panel: Panel,
) -> None:
    cells = [
        {"cell_type": "code", "id": "c1", "source": "print('x is', x)", "metadata": {}},
        {"cell_type": "markdown", "id": "far", "source": ["# Far\n", "away"], "metadata": {}},
    ]
    paste = """text => {
        const clipboardData = new DataTransfer();
        clipboardData.setData('text/plain', text);
        const event = new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true});
        document.querySelector('.jp-Agent-composer textarea').dispatchEvent(event);
        return event.defaultPrevented;
    }"""
    assert not panel.page.evaluate(paste, '[{"not": "cells"}]')
    assert panel.page.evaluate(paste, json.dumps(cells))
    expect(panel.button("Remove @ cell 2")).to_be_visible()
    expect(panel.message).to_have_value("# Far\naway")


def test_cells_dropped_on_the_panel_are_attached(notebook: OpenNotebook, panel: Panel) -> None:
    prompt = notebook.cell("c1").locator(".jp-InputPrompt").bounding_box()
    field = panel.message.bounding_box()
    assert prompt
    assert field
    mouse = panel.page.mouse
    mouse.move(prompt["x"] + 20, prompt["y"] + 10)
    mouse.down()
    mouse.move(prompt["x"] + 60, prompt["y"] + 40, steps=4)
    mouse.move(field["x"] + 40, field["y"] + 20, steps=8)
    expect(panel.region).to_have_class(re.compile("jp-mod-dropTarget"))
    mouse.up()
    expect(panel.region).not_to_have_class(re.compile("jp-mod-dropTarget"))
    notebook.edit("c0")
    expect(panel.button("Remove @ cell 2")).to_be_visible()
    assert list(notebook.sources()) == ["c0", "c1"]


def test_commands_are_completed_ask_what_they_stand_for_or_act_at_once(
    notebook: OpenNotebook, panel: Panel, lab: Lab, replies: Replies
) -> None:
    options = suggestions(panel)
    panel.page.keyboard.type("/")
    names = [text.split("\n")[0] for text in options.all_inner_texts()]
    expected = ["/clear", "/compact", "/continue", "/document", "/explain", "/export", "/fix"]
    expected += ["/help", "/mode", "/model", "/plot", "/refactor", "/test", "/undo"]
    assert names == expected
    panel.page.keyboard.type("fi")
    panel.page.keyboard.press("Enter")
    expect(panel.message).to_have_value("/fix ")
    replies.append([calls("update_cell", cell_id="c0", source="x = 2")])
    replies.append([says("It was one.")])
    panel.page.keyboard.type("and be brief\n")
    expect(panel.log).to_contain_text("It was one.")
    assert "Find out why this cell fails" in str(lab.fake.requests[-2])
    assert "and be brief" in str(lab.fake.requests[-2])
    panel.page.keyboard.type("/undo\n")
    eventually(notebook.sources, lambda now: now["c0"] == "x = 1")
    panel.page.evaluate(PASTE, [picture(4, 4), "plot.png", "image/png"])
    panel.page.keyboard.type("/mode re")
    expect(options).to_have_count(1)
    panel.page.keyboard.press("Enter")
    expect(panel.button("Remove plot.png")).to_be_visible()
    expect(panel.region.get_by_label("Mode", exact=True)).to_have_value("read")
    panel.button("Remove plot.png").click()
    panel.page.keyboard.type("/model demo")
    panel.page.keyboard.press("Enter")
    expect(panel.region.get_by_label("Model", exact=True)).to_have_value("demo:tour")
    panel.page.keyboard.type("/help\n")
    help_page = panel.region.get_by_role("region", name="Help")
    expect(help_page).to_contain_text("/refactor")
    panel.page.keyboard.type("/clear\n")
    expect(help_page).to_be_hidden()
    expect(panel.log).not_to_contain_text("It was one.")
    alert = panel.region.get_by_role("alert")
    for command, told in (
        ("/undo", "The last answer has no changes to undo."),
        ("/mode bold", "“bold” is not a mode. Modes are: read, ask, edit, auto."),
        ("/model zzz", re.compile(r"“zzz” is not a model here\. Models are: .*demo:tour")),
        ("/export", "This conversation has no messages to export yet."),
    ):
        panel.ask(command)
        expect(alert).to_have_text(told)
        expect(panel.message).to_have_value("")
    panel.page.keyboard.type("/home/me is a folder")
    expect(options).to_have_count(0)
    model = panel.region.get_by_label("Model", exact=True)
    model.select_option("anthropic:claude-sonnet-5-5")  # the next test has the page as it is


@pytest.mark.fresh
def test_keys_pressed_as_soon_as_the_field_has_the_focus_are_not_lost(
    notebook: OpenNotebook,
) -> None:
    notebook.page.evaluate(
        """() => document.addEventListener('focusin', ({target}) => {
            if (target.closest('.jp-Agent-composer')) {
                [...'/ex'].forEach(key => document.execCommand('insertText', false, key));
            }
        })"""
    )
    panel = Panel(notebook.page).open()
    expect(panel.message).to_have_value("/ex")
    expect(suggestions(panel)).not_to_have_count(0)


def test_the_field_grows_with_what_is_written(panel: Panel) -> None:
    def height() -> float:
        box = panel.message.bounding_box()
        assert box
        return box["height"]

    before = height()
    panel.message.fill("a line\n" * 8)
    assert height() > before * 2
    panel.message.fill("a line\n" * 200)
    assert height() < 0.5 * 900
