"""Content that an edit may write without approval makes no request when JupyterLab shows it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from nbformat.v4 import new_markdown_cell
from playwright.sync_api import Page, Request

from jupyter_agent.analysis.remote_content import loaded_addresses
from tests.security.test_remote_content import LOADS, QUIET
from tests.ui.conftest import OpenPage
from tests.ui.stranger import Stranger, stranger
from tests.waiting import eventually

FRAGMENTS = (
    "![", "![", "[", "]", "](", "](", "]: ", "][", "(", ")", "!", "\\", "`", "``", "$", "$$", "<",
    ">", "\"", "'", "\n", "\n\n", "\n> ", "> ", "- ", "    ", "|", "a", "b", "ref", "[ref]",
    "\n\n[ref]: ", "\n[a]: ", "![ref]", "![a]", "//HOST/p", "//HOST/p", "http://HOST/p",
    "http:\\/\\/HOST/p", "http&colon;//HOST/p", "\\\\\\\\HOST/p", "/\\HOST/p", "<img src=", "<img ",
    " src=\"", " href=\"", "<a href=\"", "<a ", "<image ", "<svg>", "<b style=\"background:url(",
    "<source srcset=", "<video poster=", "<!--", "-->", "</a>", "</style>", "<style>", " title=\"",
    "=", "&quot;", "&lt;", "*", "_", "~~", "@@0@@", "{", "}", "\\(", "\\)", "\\begin{a}",
    "\\end{a}", "\\unicode", "[x;background:url(", ")]{x41}", "{x41}", "\\def\\u{", "\\let\\u",
    "\\u[", "```", "```mermaid\nflowchart TD\nA@{img: ", "~~~", "\x00", "\t", "\u00a0", "\r", "#",
    "\\let\\u\\unicode", "\\mmlToken{mi}[\nfontfamily='a;background:url(", ")']{x}",
    "\\u[a;background:url(", "```\u00a0mermaid\nflowchart TD\nA@{img: ", "\n```\n", "\n``` y\n",
    "$\"", "$\" ", " $](", " $](x.png)", "\"$", "\\\\(", "\\\\)", "@@1",
    " style=\"background:url(//HOST/p)\"", "style='background:url(//HOST/p)'", "[a](x \"",
    "[t](http://HOST/p)", "[t](http://HOST/p 'a b')", "![l](x.png)", "![$", "http://a.example/$",
    "<a href=\"http://HOST/p\">", "<b title=\"http://HOST/p\">", "<b title=\"a\">",
    "<img src=\"x.png\">", "<http://HOST/p>", "\n[t]: http://HOST/p\n", "\n\n[ref]: x.png\n",
    "![t]", "\\href{http://HOST/p}", "\n```mermaid\nflowchart TD\nA\n```\n",
    "![a](data:image/png;base64,AA//AA)", "\uff0f\uff0fHOST/p", "\n|---|---|\n", "| a | b |",
    "![t](<x", "![t](x 'a", "\x01", "\ufeff", "\n[a]: ![t]", "<b\n\ntitle=\"",
)  # fmt: skip
SHOW = """async ([path, texts]) => {
    const {rendermime} = agentTest.notebook(path);
    const place = document.createElement('div');
    document.body.append(place);
    for (const text of texts) {
        const renderer = rendermime.createRenderer('text/markdown');
        place.append(renderer.node);
        try {
            await renderer.renderModel(rendermime.createModel({data: {'text/markdown': text}}));
            await rendermime.latexTypesetter.typeset(renderer.node);
        } catch {
            // what JupyterLab cannot show may still have loaded something
        }
    }
    await new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)));
    place.remove();
}"""


@pytest.fixture(scope="module")
def strange() -> Iterator[Stranger]:
    with stranger() as server:
        yield server


class Watched:
    """A page with a notebook, and the numbers of the texts for which it asked the stranger."""

    def __init__(self, page: Page, path: str, host: str) -> None:
        self.page, self.path, self.host = page, path, host
        self.left: set[int] = set()
        page.context.on("request", self._note)

    def _note(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.netloc == self.host:
            number = re.match(r"/(\d+)", address.path)
            self.left.add(int(number[1]) if number else -1)

    def show(self, texts: list[str]) -> set[int]:
        """Which of these, by their places, made a request as Markdown that is shown."""
        self.left.clear()
        for first in range(0, len(texts), 250):
            armed = [self.armed(text, first + n) for n, text in enumerate(texts[first:][:250])]
            self.page.evaluate(SHOW, [self.path, armed])
        return set(self.left)

    def armed(self, text: str, number: int) -> str:
        return text.replace("HOST", f"{self.host}/{number}")


@pytest.fixture
def watched(open_page: OpenPage, strange: Stranger) -> Watched:
    notebook = open_page()
    return Watched(notebook.page, notebook.path, strange.host)


def test_what_is_asked_about_does_load_and_what_is_not_does_not(watched: Watched) -> None:
    assert watched.show(QUIET) == set()
    attacks = [text for group in LOADS.values() for text in group]
    loaded = watched.show(attacks)
    assert len(loaded) > len(attacks) / 4  # the others are for other pages than JupyterLab's


def test_whatever_is_put_together_loads_only_what_is_asked_about(watched: Watched) -> None:
    chance = random.Random(15)
    made = ["".join(chance.choices(FRAGMENTS, k=chance.randint(3, 14))) for _ in range(30_000)]
    texts = [text for text in made if "HOST" in text]
    quiet = [text for text in texts if not loaded_addresses(text.replace("HOST", "host.example"))]
    assert len(quiet) > 1_000
    assert [quiet[number] for number in watched.show(quiet)] == []


def test_no_attack_passes_because_it_is_written_a_little_otherwise(watched: Watched) -> None:
    chance = random.Random(35)
    attacks = [text for group in LOADS.values() for text in group]
    made = [changed(chance.choice(attacks), chance) for _ in range(20_000)]
    quiet = [text for text in made if not loaded_addresses(text.replace("HOST", "host.example"))]
    assert len(quiet) > 1_000
    assert [quiet[number] for number in watched.show(quiet)] == []


def changed(text: str, chance: random.Random) -> str:
    """With one to three fragments put in, or put in place of up to a dozen characters."""
    for _ in range(chance.randint(1, 3)):
        start = chance.randint(0, len(text))
        end = start + chance.choice((0, 0, 0, 1, 3, 12))
        text = text[:start] + chance.choice(("", *FRAGMENTS)) + text[end:]
    return text


def test_cells_of_a_notebook_that_need_no_question_load_nothing(
    open_page: OpenPage, strange: Stranger
) -> None:
    cells = [new_markdown_cell(text.replace("HOST", strange.host)) for text in QUIET]
    cells.append(new_markdown_cell(f"![the last](http://{strange.host}/last)"))
    strange.visits.clear()
    page = open_page(cells=cells).page
    page.evaluate("() => agentTest")
    notebook = page.locator(".jp-WindowedPanel-outer").first
    for _ in range(40):
        notebook.evaluate("panel => { panel.scrollTop += 500 }")
        page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => done(true)))")
    eventually(lambda: list(strange.visits), lambda seen: "/last" in seen)
    assert set(strange.visits) == {"/last"}
