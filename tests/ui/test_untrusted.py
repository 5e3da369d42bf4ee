"""Text from models, outputs, file names and titles never acts in the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, Page, Request, expect

from tests.fakes import Scripted, calls, says, thinks
from tests.security.shown import BUNDLES, JSON_BUNDLES, formulas, payloads
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.ui.stranger import Stranger, stranger
from tests.waiting import eventually

CANARY = "window.canaries = []; window.canary = () => window.canaries.push(Error().stack);"
SHOW = """\
import json, sys
from IPython.display import display

shown = json.load(open("payloads.json"))
for html in shown["texts"]:
    display({"text/html": html, "text/plain": html}, raw=True)
for text in shown["formulas"]:
    for media_type in ("text/latex", "text/markdown"):
        display({media_type: text, "text/plain": text}, raw=True)
for media_type, data in shown["bundles"]:
    display({media_type: data, "text/plain": "a bundle"}, raw=True)
print("\\n".join(shown["texts"]))
print("\\n".join(shown["texts"]), file=sys.stderr)
raise type(shown["texts"][6], (Exception,), {})("\\n".join(shown["texts"]))"""
NAME = "<img src=x onerror=canary()>.ipynb"
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
# A link to `data:` is no more than its text: no browser goes there.
AUDIT = """region => [...region.querySelectorAll('*')].flatMap(element => {
  const forbidden = element.matches(
    'script, iframe, object, embed, form, link, meta, base, frame, audio, video, source, track,'
    + '[data-commandlinker-command], [srcset], [ping], [formaction], [background], [autofocus]');
  const handlers = element.getAttributeNames().filter(name => /^on/i.test(name));
  const addresses = ['href', 'xlink:href', 'action'].flatMap(
    name => element.getAttribute(name) ?? []);
  const bad = addresses.filter(
    href => !/^(https?|mailto|data):/.test(new URL(href, location.href)));
  const remote = [element.getAttribute('src'), element.getAttribute('style')].filter(
    value => /^(?!data:image)[^]*(https?:|\\/\\/|url\\()/.test(value ?? ''));
  return forbidden || handlers.length || bad.length || remote.length ? [element.outerHTML] : [];
})"""


@dataclass
class Watched:
    """A page, and all events in it that its user did not cause."""

    page: Page
    lab: Lab
    stranger: Stranger
    left: list[str] = field(default_factory=list)
    """Requests to hosts other than the server, without the policy's reports."""
    known: set[tuple[str, str]] = field(default_factory=set)
    """JupyterLab's own violations of the policy."""

    def note(self, request: Request) -> None:
        own = request.url.startswith((self.lab.url, "data:", "blob:", "ws"))
        if not own and "/report" not in request.url:
            self.left.append(request.url)

    def happened(self) -> dict[str, Any]:
        """Empty if nothing acted."""
        seen = {
            "scripts": self.page.evaluate("window.canaries"),
            "requests": list(self.left),
            "visits": list(self.stranger.visits),
            "reports": sorted(set(self.stranger.reports) - self.known),
        }
        return {what: found for what, found in seen.items() if found}

    def settle(self) -> None:
        """Wait until new content has been laid out and has requested whatever it would load."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))"
        )


@pytest.fixture(scope="module")
def strange() -> Iterator[Stranger]:
    with stranger() as server:
        yield server


@pytest.fixture(scope="module")
def texts(strange: Stranger) -> list[str]:
    """The payloads, with a canary and an address that reveal their effect."""
    return [_armed(text, strange, number) for number, text in enumerate(payloads())]


@pytest.fixture(scope="module")
def guarded(
    script: Replies, strange: Stranger, texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A server whose pages are under a policy that reports to the stranger."""
    policy = {"Content-Security-Policy-Report-Only": strange.policy}
    config = {"ServerApp": {}, "JupyterAgent": {}}
    folder = tmp_path_factory.mktemp("guarded") / "lab"
    config["ServerApp"] = {"tornado_settings": {"headers": policy}}
    with running_lab(folder, script, config=config) as lab:
        yield lab


@pytest.fixture
def watched(
    browser: Browser, guarded: Lab, strange: Stranger, texts: list[str]
) -> Iterator[Watched]:
    """A notebook in a page that is watched; its file's name wants to run too."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    watched = Watched(page, guarded, strange)
    context.on("request", watched.note)
    page.add_init_script(CANARY)
    cells = [new_code_cell("x = 1", id="c0")]
    nbformat.write(new_notebook(cells=cells, metadata=PYTHON), guarded.root / NAME)
    OpenNotebook(page, guarded, NAME).open()
    watched.settle()
    watched.known = set(strange.reports)
    yield watched
    context.close()
    guarded.shut_down_kernels()
    strange.visits.clear()
    strange.reports.clear()


def test_nothing_that_is_shown_runs_or_loads(
    watched: Watched, replies: Replies, texts: list[str], strange: Stranger
) -> None:
    assert len(texts) >= 100
    page, lab = watched.page, watched.lab
    bundles = [[kind, _armed(data, strange)] for kind, data in BUNDLES]
    bundles += [
        [kind, json.loads(_armed(json.dumps(data), strange))] for kind, data in JSON_BUNDLES
    ]
    shown = {"texts": texts, "formulas": texts[-len(formulas()) :], "bundles": bundles}
    (lab.root / "payloads.json").write_text(json.dumps(shown))
    _other(lab, texts)
    panel = Panel(page).open("auto")
    names = texts[:12]
    replies.append([thinks("\n\n".join(texts)), *map(says, texts)])  # a block for each
    panel.ask("\n".join(texts))
    expect(panel.button("Send")).to_be_visible()
    expect(panel.log.locator(".jp-Agent-markdown")).to_have_count(len(texts))
    expect(panel.log.locator("mjx-container").first).to_be_attached()  # MathJax is there
    panel.log.get_by_role("button", name="Thought").click()
    _nothing(watched, panel, "said")

    replies.append([calls(f"tool{n}", cell_id=text) for n, text in enumerate(names)])
    replies.append([calls("search_notebook", query=text) for text in names])
    replies.append([calls("read_file", path=text) for text in names])
    replies.append([calls("inspect_variables", names=[text]) for text in names])
    replies.append([calls("run_cell", notebook="other.ipynb", cell_id="show")])
    edit = calls("update_cell", notebook="other.ipynb", cell_id="texts", source=texts[6])
    replies.append([calls("create_cell", notebook="other.ipynb", source="\n".join(texts)), edit])
    replies.append([says("All shown.")])
    panel.ask("Show them.")
    expect(panel.log).to_contain_text("All shown.")
    panel.unfold()
    for head in panel.log.locator(".jp-Agent-call > button").all():
        head.click()
    for details in panel.log.get_by_role("button", name="Details").all():
        details.click()
    expect(panel.log.locator(".jp-Agent-diff").first).to_be_attached()
    _nothing(watched, panel, "live outputs and calls")

    replies.append(Scripted(status=400, error=("invalid_request_error", "\n".join(texts))))
    panel.ask("Fail.")
    expect(panel.region.get_by_role("alert")).to_be_visible()
    _nothing(watched, panel, "an error")

    listed = lab.call("GET", "conversations").body["conversations"]
    title = {"title": " ".join(names)[:200]}
    lab.call("PATCH", f"conversations/{listed[0]['id']}", title)
    OpenNotebook(page, lab, NAME).reload()
    panel.open()
    expect(panel.log).to_contain_text("All shown.")
    panel.unfold()
    panel.opened("Ran a cell in other.ipynb")
    expect(panel.log.locator(".jp-RenderedHTML").first).to_be_visible()
    _nothing(watched, panel, "stored")
    panel.button("Conversations").click()
    expect(panel.region.get_by_text(title["title"][:40]).first).to_be_visible()
    _nothing(watched, panel, "titles")


@pytest.mark.story
def test_nothing_that_is_asked_about_runs_or_loads(
    watched: Watched, replies: Replies, texts: list[str]
) -> None:
    page, lab = watched.page, watched.lab
    _other(lab, texts)
    panel = Panel(page).open("ask")
    replies.append(
        [
            calls("create_cell", source="\n".join(texts)),
            calls("update_cell", cell_id="c0", old_string="x = 1", new_string=texts[6]),
            calls("create_notebook", path=f"{texts[7].replace('/', '')}.ipynb"),
            calls("run_cell", notebook="other.ipynb", cell_id="texts"),
        ]
    )
    replies.append([says("As you like.")])
    panel.ask("Do it.")
    seen = 0
    while seen < 2:
        card = panel.region.locator(".jp-Agent-approval")
        expect(card).to_be_visible()
        seen += 1
        _nothing(watched, panel, card.get_attribute("aria-label") or "")
        words = card.get_attribute("aria-label")
        panel.button("Deny").click()
        if seen < 2:
            expect(card).not_to_have_attribute("aria-label", words or "")
    expect(panel.log).to_contain_text("As you like.")


def test_the_same_page_without_our_care_runs_and_loads_them(
    watched: Watched, texts: list[str], strange: Stranger
) -> None:
    assert watched.happened() == {}
    watched.page.evaluate(
        """async ([path, texts]) => {
            for (const text of texts.filter(text => text.startsWith('$'))) {
                const place = document.createElement('div');
                document.body.append(place);
                place.textContent = text;
                await agentTest.notebook(path).rendermime.latexTypesetter.typeset(place);
            }
        }""",
        [NAME, texts[-len(formulas()) :]],
    )
    eventually(watched.happened, lambda seen: len(set(seen.get("visits", []))) > 24, timeout=60)
    watched.settle()
    for seen in (strange.visits, strange.reports, watched.left):
        seen.clear()
    watched.page.evaluate(
        """texts => {
            for (const text of texts.filter(text => !/http-equiv|<base/.test(text))) {
                const place = document.createElement('div');
                document.body.append(place);
                place.innerHTML = text;
            }
        }""",
        texts,
    )
    eventually(watched.happened, lambda seen: len(seen) == 4, timeout=60)
    eventually(watched.happened, lambda seen: len(seen["scripts"]) > 20, timeout=60)
    eventually(watched.happened, lambda seen: len(seen["visits"]) > 10, timeout=60)


def test_what_an_answer_defines_holds_nowhere_else(
    watched: Watched, replies: Replies, strange: Stranger
) -> None:
    panel = Panel(watched.page).open("read")
    define = r"$\def\gimel{\unicode[Arial;background:url(LEAK)]{x41}}\let\daleth=\frac$"
    replies.append([says(_armed(rf"{define} and $\daleth12$" + "\n\n$x$", strange))])
    panel.ask("Define.")
    expect(panel.log.locator("mjx-container")).to_have_count(1)
    typeset = watched.page.evaluate(
        """async path => {
            const place = document.createElement('div');
            document.body.append(place);
            place.textContent = '$\\\\gimel$ $\\\\daleth12$';
            await agentTest.notebook(path).rendermime.latexTypesetter.typeset(place);
            return place.innerHTML;
        }""",
        NAME,
    )
    assert "mfrac" not in typeset
    watched.settle()
    assert watched.happened() == {}


def _armed(text: str, strange: Stranger, number: int = 0) -> str:
    address = f"http://{strange.host}/leak{number}"
    return text.replace("JS", "top.canary()").replace("LEAK", address).replace("HOST", strange.host)


def _other(lab: Lab, texts: list[str]) -> None:
    """A notebook that is not open: its outputs are shown only in the panel."""
    cells = [new_code_cell(SHOW, id="show"), new_code_cell("\n".join(texts), id="texts")]
    nbformat.write(new_notebook(cells=cells, metadata=PYTHON), lab.root / "other.ipynb")


def _nothing(watched: Watched, panel: Panel, where: str) -> None:
    """Nothing happened, and the page has nothing that would act if someone pressed it."""
    watched.settle()
    assert watched.happened() == {}, where
    assert panel.region.evaluate(AUDIT) == [], where
