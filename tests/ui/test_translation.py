"""The panel in another language: that of a language pack with each sentence in brackets."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.fakes import Scripted, calls, says
from tests.fakes.script import FakeReply
from tests.ui.conftest import new_file
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook

SOURCES = Path(__file__).parents[2] / "labextension" / "src"
PACKAGE = Path(__file__).parents[2] / "jupyter_agent"
STRING = r"\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
ONE = re.compile(rf"trans\.__\({STRING}")
MANY = re.compile(rf"trans\._n\({STRING},{STRING}")

OURS = (
    ".jp-Agent, .jp-Agent-bar, .jp-Agent-markHead, .jp-Agent-removed, .jp-Agent-pill, .jp-Agent-fix"
)
READ = """ours => {
  const found = [];
  for (const part of document.querySelectorAll(ours)) {
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      if (!texts.currentNode.parentElement.closest('code, kbd, pre, style, .cm-editor')) {
        found.push(texts.currentNode.data);
      }
    }
    for (const element of [part, ...part.querySelectorAll('*')]) {
      found.push(...['aria-label', 'title', 'placeholder'].map(n => element.getAttribute(n) ?? ''));
    }
  }
  const {commands} = jupyterapp;
  for (const id of commands.listCommands().filter(id => id.startsWith('jupyter-agent:'))) {
    found.push(commands.label(id), commands.caption(id));
  }
  return found;
}"""
"""All that is read, or spoken, of the panel and the marks in a notebook; not code."""

NAMES = re.compile(r"(Sonnet|Opus|Haiku) [\d.]+|Demo|notebook\.ipynb|/\w+|x = 10?|\d+ seconds? ago")


def text(literal: str) -> str:
    """The string that a literal of TypeScript stands for."""
    inner = literal[1:-1].replace("\\'", "'")
    unquoted: str = json.loads('"' + inner.replace('\\"', '"').replace('"', '\\"') + '"')
    return unquoted


def catalog() -> dict[str, Any]:
    head = {"domain": "jupyter_agent", "language": "eo", "version": "1"}
    found: dict[str, Any] = {
        "": {**head, "plural_forms": "nplurals=2; plural=(n != 1);"},
    }
    for path in SOURCES.rglob("*.ts*"):
        code = path.read_text(encoding="utf-8")
        for literal in ONE.findall(code):
            found[text(literal)] = [f"⟦{text(literal)}⟧"]
        for one, many in MANY.findall(code):
            found[text(one)] = [f"⟦{text(one)}⟧", f"⟦{text(many)}⟧"]
    for one, many in words_of_tools():
        found[one] = [f"⟦{one}⟧", f"⟦{many}⟧"] if many else [f"⟦{one}⟧"]
    return found


def words_of_tools() -> Iterator[tuple[str, str]]:
    """The texts in calls of `Words` and `phrase`, with their plurals."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Words", "phrase"):
                for given in [*node.args, *(one.value for one in node.keywords)]:
                    with contextlib.suppress(ValueError):
                        value = ast.literal_eval(given)
                        yield (value, "") if isinstance(value, str) else value


def install(folder: Path) -> None:
    """A language pack as `pip install` leaves it."""
    package = folder / "language_pack_eo"
    messages = package / "locale" / "eo" / "LC_MESSAGES"
    messages.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (messages / "jupyter_agent.json").write_text(json.dumps(catalog()))
    about = folder / "language_pack_eo-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: language-pack-eo\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[jupyterlab.languagepack]\neo = language_pack_eo\n")


@pytest.fixture
def foreign(
    tmp_path: Path, script: Replies, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Lab, Page]]:
    """A server with the language pack and a page whose user has chosen it."""
    install(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    chosen = tmp_path / "lab" / "settings" / "@jupyterlab" / "translation-extension"
    chosen.mkdir(parents=True)
    (chosen / "plugin.jupyterlab-settings").write_text(json.dumps({"locale": "eo"}))
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    with running_lab(tmp_path / "lab", script) as lab:
        yield lab, context.new_page()
        context.close()


def untranslated(page: Page) -> set[str]:
    """The texts outside of brackets, except names and numbers."""
    left = set()
    for line in page.evaluate(READ, OURS):
        rest = line
        while rest != (rest := re.sub(r"⟦[^⟦⟧]*⟧", "", rest)):
            pass
        if re.search("[A-Za-z]", NAMES.sub("", rest)):
            left.add(line)
    return left


@pytest.mark.story
def test_every_word_of_the_panel_the_marks_errors_and_notices_is_translated(
    foreign: tuple[Lab, Page], replies: Replies
) -> None:
    lab, page = foreign
    OpenNotebook(page, lab, new_file(lab, "notebook", ["x = 1", "1 / 0"])).open()
    page.keyboard.press("Control+Alt+g")
    region = page.get_by_role("region", name="⟦Assistant⟧")
    message = region.get_by_role("textbox", name="⟦Message⟧")

    def button(name: str) -> Locator:
        return region.get_by_role("button", name=f"⟦{name}⟧", exact=True)

    def ask(text: str, *answers: FakeReply) -> None:
        for answer in answers:
            replies.append(answer)
        message.fill(text)
        message.press("Enter")

    expect(message).to_be_focused()
    assert untranslated(page) == set()
    for typed in "/@":
        message.fill("")
        message.press_sequentially(typed)
        expect(region.get_by_role("listbox", name="⟦Suggestions⟧")).to_be_visible()
        assert untranslated(page) == set()
    ask(
        "2 + 2?",
        [
            calls("update_cell", cell_id="c0", old_string="1", new_string="10"),
            calls("create_cell", source="2 + 2", after="c0"),
            calls("run_cell", cell_id="c1"),
        ],
        [calls("get_notebook_state"), calls("delete_cell", cell_id="c1")],
        [says("4")],
    )
    for question in ("dit .*dd a cell", "Run", "Delete"):
        card = region.get_by_role("group", name=re.compile(f"{question}.*[?]"))
        allow = card.get_by_role("button", name="⟦Allow⟧", exact=True)
        expect(allow).to_be_visible()
        assert untranslated(page) == set()
        allow.click()
    expect(page.locator(".jp-Agent-markHead")).to_have_count(2)
    expect(page.locator(".jp-Agent-pill")).to_contain_text("⟦3 changes⟧")
    assert untranslated(page) == set()
    button("Next change").click()
    expect(page.locator(".jp-Agent-pill")).to_contain_text("⟦Change 1 of 3⟧")
    assert untranslated(page) == set()
    page.locator(".jp-Agent-removedLine").click()
    assert untranslated(page) == set()
    button("Undo").first.click()
    expect(region).to_contain_text("⟦Changes undone⟧")
    assert untranslated(page) == set()
    button("Conversations").click()
    expect(region.get_by_role("list", name="⟦Conversations⟧")).to_contain_text("notebook.ipynb")
    assert untranslated(page) == set()
    button("Settings").click()
    expect(region.get_by_role("heading", name="⟦Settings⟧")).to_be_visible()
    assert untranslated(page) == set()
    button("New conversation").click()
    ask("/help")
    expect(region.get_by_role("heading", name="⟦Keys⟧")).to_be_visible()
    assert untranslated(page) == set()
    button("New conversation").click()
    limited = {"retry-after": "100"}
    ask("1", Scripted(status=429, error=("rate_limit_error", "42"), headers=limited), [says("7")])
    expect(region.get_by_role("group", name="⟦Waiting to retry⟧")).to_contain_text("⟦Rate limit")
    assert untranslated(page) == set()
    button("Retry now").click()
    expect(region).to_contain_text("7")
    ask("2", Scripted(status=401, error=("authentication_error", "42")))
    expect(region.get_by_role("alert")).to_contain_text("⟦Anthropic rejected the API key.⟧")
    button("Details").click()
    assert untranslated(page) == set()
    ask("3", Scripted(status=404, error=("not_found_error", "42")))
    expect(region.get_by_role("alert")).to_contain_text("Choose another one.⟧")
    assert untranslated(page) == set()
    steps = [[calls("get_notebook_state")] for _ in range(24)]
    ask("4", *steps, [says("8")])
    expect(region).to_contain_text("⟦The step limit is reached. This is the last answer.⟧")
    expect(button("Continue")).to_be_visible()
    assert untranslated(page) == set()
