"""Attachments of a question: stored with it, sent again with it, refused if unusable."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image

from jupyter_agent.models.base import ModelRequest
from jupyter_agent.models.chat import chat_messages
from jupyter_agent.models.dialect import Dialect
from jupyter_agent.plugs.providers.responses import items
from jupyter_agent.text.images import pixels
from tests.fakes import FakeAnthropic, says
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask

PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def picture(data: str = PIXEL) -> dict[str, str]:
    return {
        "type": "file",
        "mediaType": "image/gif",
        "url": f"data:image/gif;base64,{data}",
        "filename": "plot.gif",
    }


async def test_a_question_that_is_asked_again_keeps_its_notebook_and_what_was_attached(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("One.")], [says("Again.")]]
    context = [{"type": "cell", "notebook": PATH, "cell_id": "b2"}]
    await call("POST", "chat", body=ask("What is it?", id="talk", context=context))
    body = {"id": "talk", "trigger": "regenerate-message", "stream": False}
    again = await call("POST", "chat", body=body)
    assert again.status == 200
    first, second = (request["messages"][-1] for request in fake.requests)
    for message in (first, second):
        assert f"Attached cell of {PATH}" in json.dumps(message)
    (question, _answer) = (await call("GET", "conversations", "talk")).body["messages"]
    assert question["metadata"] == {"notebook": PATH, "context": context}


async def test_a_picture_is_kept_with_its_name_and_a_model_that_sees_none_is_not_asked(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies.append([says("A pixel.")])
    question = {"role": "user", "parts": [{"type": "text", "text": "What?"}, picture()]}
    body = {"id": "talk", "messages": [question], "stream": False}
    assert (await call("POST", "chat", body=body)).status == 200
    kept = (await call("GET", "conversations", "talk")).body["messages"][0]
    assert kept["parts"] == question["parts"]
    refused = await call("POST", "chat", body={**body, "model": "demo:tour"})
    assert (refused.status, refused.body["reason"]) == (400, "no_images")
    assert "does not support images" in refused.body["message"]
    images = (await call("GET", "models")).body["images"]
    assert images["demo:tour"] is False
    assert images["anthropic:claude-sonnet-5-5"] is True


async def test_a_picture_that_services_refuse_for_its_size_is_refused_before(
    call: Call, fake: FakeAnthropic
) -> None:
    question = {"role": "user", "parts": [picture("AAAA" * 5_000_001)]}
    answer = await call("POST", "chat", body={"messages": [question]})
    assert (answer.status, answer.body["reason"]) == (413, "too_large")
    assert fake.requests == []


# -- files

PDF = base64.b64encode(b"%PDF-1.7\n1 0 obj << /Type /Page >> endobj\n%%EOF\n").decode()
CSV = "region,cost\n" + "".join(f"north {n},{n}\n" for n in range(3_000))


def attached(kind: str, name: str, raw: bytes | str) -> dict[str, str]:
    """A file as the panel sends it."""
    data = raw if kind == "application/pdf" else base64.b64encode(_bytes(raw)).decode()
    url = f"data:{kind};base64,{data!s}"
    return {"type": "file", "mediaType": kind, "url": url, "filename": name}


def _bytes(raw: bytes | str) -> bytes:
    return raw.encode() if isinstance(raw, str) else raw


def asks(*parts: dict[str, str], **more: object) -> dict[str, object]:
    message = {"role": "user", "parts": [{"type": "text", "text": "What is in it?"}, *parts]}
    return {"id": "talk", "messages": [message], "notebook": PATH, "stream": False, **more}


def drawn(kind: str, width: int, height: int, called: str) -> dict[str, str]:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, kind)
    return attached(f"image/{called}", f"{kind}.{called}", file.getvalue())


async def test_pictures_are_sent_as_what_they_are_and_small_enough(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply]
) -> None:
    replies += [[says("I see.")], [says("Again.")]]
    parts = [
        drawn("jpeg", 40, 30, "png"),
        drawn("webp", 40, 30, "jpeg"),
        drawn("png", 300, 9_000, "png"),
        drawn("png", 2_000, 2_000, "gif"),
    ]
    answer = await call("POST", "chat", body=asks(*parts))
    assert answer.body["state"] == "done"
    again = {"id": "talk", "trigger": "regenerate-message", "stream": False}
    assert (await call("POST", "chat", body=again)).body["state"] == "done"
    assert fake.refusals == []
    for request in fake.requests:
        blocks = request["messages"][-1]["content"]
        sources = [block["source"] for block in blocks if block["type"] == "image"]
        kinds = [source["media_type"].removeprefix("image/") for source in sources]
        assert kinds == ["jpeg", "webp", "png", "png"]
        sizes = [pixels(source["media_type"], source["data"]) for source in sources]
        assert sizes == [(40, 30), (40, 30), (52, 1568), (1568, 1568)]


NO_PICTURES = {
    "page": b"<html>Not found</html>",
    "header": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "half": base64.b64decode(drawn("png", 600, 400, "png")["url"].partition(",")[2])[:400],
}


@pytest.mark.parametrize("which", NO_PICTURES)
async def test_what_is_no_picture_is_left_out_and_said_to_be(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], which: str
) -> None:
    broken = attached("image/png", "png.png", NO_PICTURES[which])
    replies += [[says("I see one.")], [says("Yes.")]]
    answer = await call("POST", "chat", body=asks(broken, drawn("png", 9, 9, "png")))
    assert answer.body["state"] == "done"
    notices = [part["data"] for part in answer.body["message"]["parts"] if "data" in part]
    [notice] = [each for each in notices if each["kind"] == "pictures-left-out"]
    assert notice["count"] == 1
    assert "png.png is left out" in notice["text"]
    assert (await call("POST", "chat", body=asks())).body["state"] == "done"
    for request in fake.requests:
        sent = json.dumps(request["messages"])
        assert sent.count('"type": "image"') == 1
        assert "is left out: it is not a complete PNG" in sent
    assert fake.refusals == []


def told(fake: FakeAnthropic) -> list[dict[str, Any]]:
    """The blocks of the last question."""
    blocks: list[dict[str, Any]] = fake.requests[-1]["messages"][-1]["content"]
    return blocks


REPORT = attached("application/pdf", "report.pdf", PDF)


async def test_a_pdf_is_a_document_for_the_model_and_stays_in_the_conversation(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("A page.")], [says("Still one.")]]
    answer = await call("POST", "chat", body=asks(REPORT))
    assert answer.body["state"] == "done"
    (document,) = [block for block in told(fake) if block["type"] == "document"]
    assert document["title"] == "report.pdf"
    assert document["source"] == {"type": "base64", "media_type": "application/pdf", "data": PDF}
    await call("POST", "chat", body=ask("And now?"))
    assert PDF in json.dumps(fake.requests[-1])
    question = (await call("GET", "conversations", "talk")).body["messages"][0]
    assert question["parts"][1] == REPORT
    kept = (await call("GET", "turns", answer.body["turn_id"], "requests")).text
    assert PDF not in kept
    assert "bytes, not kept" in kept
    assert fake.refusals == []


async def test_files_of_the_server_are_attached_by_their_paths(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], jp_root_dir: Path, notebook: Path
) -> None:
    replies += [[says("Yes.")]]
    (jp_root_dir / "Report.PDF").write_bytes(base64.b64decode(PDF))
    (jp_root_dir / "costs.csv").write_text(CSV)
    context = [{"type": "file", "path": path} for path in ("Report.PDF", "costs.csv", "gone.pdf")]
    assert (await call("POST", "chat", body=asks(context=context))).body["state"] == "done"
    (document,) = [block for block in told(fake) if block["type"] == "document"]
    assert (document["title"], document["source"]["data"]) == ("Report.PDF", PDF)
    text = json.dumps(told(fake))
    assert "Attached file costs.csv (3,000 rows below the first, 2 columns)" in text
    assert "Attached file: not available. There is nothing at `gone.pdf`" in text


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("kind", "name", "text", "shape"),
    [
        ("text/csv", "a.csv", CSV, "3,000 rows below the first, 2 columns"),
        ("text/csv", "b.csv", "a;b;c\n1,5;2;3\n", "1 row below the first, 3 columns"),
        ("text/csv", "q.csv", 'a,b\n"two\nlines",2\n', "1 row below the first, 2 columns"),
        ("text/csv", "e.csv", "\n", "empty"),
        ("text/tab-separated-values", "c.tsv", "a\tb\n1\t2\n", "1 row below the first, 2 columns"),
        ("application/json", "d.json", '[{"a": 1}, {"a": 2}]', "a list of 2 items"),
        ("application/json", "f.json", '{"a": ', "not valid JSON"),
        ("text/plain", "g.txt", "one\ntwo\n", "2 lines"),
        ("text/csv", "file", "a,b\n1,2\n", "1 row below the first, 2 columns"),
        ("text/csv", "export.txt", "a,b\n1,2\n", "1 row below the first, 2 columns"),
        ("text/plain", "h.csv", "a,b\n1,2\n", "1 row below the first, 2 columns"),
        ("text/plain", "i.txt", "a\tb\n1\t2\n", "1 row below the first, 2 columns"),
        ("application/json", "file", "[1]", "a list of 1 item"),
    ],
)
async def test_a_file_of_data_is_told_by_its_beginning_and_its_shape(
    call: Call,
    fake: FakeAnthropic,
    replies: list[FakeReply],
    notebook: Path,
    kind: str,
    name: str,
    text: str,
    shape: str,
) -> None:
    replies += [[says("Yes.")]]
    part = attached(kind, name, text)
    if name == "file":
        del part["filename"]
    await call("POST", "chat", body=asks(part))
    block = next(block["text"] for block in told(fake) if f"file {name}" in block.get("text", ""))
    head, mark, rest = re.fullmatch(r"(.*?):\n<(\w+)>\n(.*)", block, re.DOTALL).groups()  # type: ignore[union-attr]
    assert head == f"Attached file {name} ({shape})"
    data, _, note = rest.partition(f"\n</{mark}>")
    assert text.startswith(data)
    assert len(data) <= 20_000
    left = f"[{len(text) - len(data):,} more characters; read the rest with code]"
    assert note.strip() == (left if len(data) < len(text) else "")
    assert data == text or text[len(data)] == "\n", "lines are whole"


async def test_a_file_that_excel_wrote_keeps_its_letters(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    table = "größe;1\nhöhe;2\n"
    shape = "1 row below the first, 2 columns"
    for encoding, note in (
        ("cp1252", "; read as windows-1252"),
        ("utf-8-sig", ""),
        ("utf-16", "; read as utf-16"),
    ):
        replies.append([says("Yes.")])
        raw = table.encode(encoding)
        await call("POST", "chat", body=asks(attached("text/csv", "a.csv", raw)))
        text = json.dumps(told(fake), ensure_ascii=False)
        assert f"Attached file a.csv ({shape}{note})" in text
        assert "größe;1" in text
        assert "\ufeff" not in text


async def test_an_empty_file_is_attached_as_what_it_is(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies.append([says("Yes.")])
    answer = await call("POST", "chat", body=asks(attached("text/csv", "a.csv", "")))
    assert answer.body["state"] == "done"
    assert "Attached file a.csv (empty)" in json.dumps(told(fake))


@pytest.mark.full
@pytest.mark.parametrize("by_path", [False, True])
async def test_where_only_code_is_shared_no_file_of_data_is(
    call: Call,
    fake: FakeAnthropic,
    replies: list[FakeReply],
    jp_root_dir: Path,
    notebook: Path,
    by_path: bool,
) -> None:
    replies += [[says("No.")]]
    (jp_root_dir / "report.pdf").write_bytes(base64.b64decode(PDF))
    (jp_root_dir / "a.csv").write_text(CSV)
    files = [REPORT, attached("text/csv", "a.csv", CSV)]
    context = [{"type": "file", "path": name} for name in ("report.pdf", "a.csv")]
    body = asks(context=context) if by_path else asks(*files)
    await call("POST", "chat", body={**body, "share": "code-only"})
    text = json.dumps(fake.requests)
    assert PDF not in text
    assert "north 1" not in text
    assert text.count("is not shared with you: only code is") == 2


async def test_a_hidden_cell_is_not_told_by_a_file_that_has_its_text(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], notebook: Path
) -> None:
    replies += [[says("No.")]]
    book = nbformat.read(notebook, as_version=4)
    book.cells[1].source = "password = 'correct horse battery'"
    book.cells[1].metadata["tags"] = ["agent-hidden"]
    nbformat.write(book, notebook)
    text = "a\npassword = 'correct horse battery'\n"
    await call("POST", "chat", body=asks(attached("text/plain", "a.txt", text)))
    assert "correct horse" not in json.dumps(fake.requests)


async def test_a_model_that_reads_no_pdf_is_not_asked_and_the_answer_names_what_helps(
    call: Call, fake: FakeAnthropic, jp_root_dir: Path, notebook: Path
) -> None:
    (jp_root_dir / "report.pdf").write_bytes(base64.b64decode(PDF))
    by_path = asks(context=[{"type": "file", "path": "report.pdf"}])
    for body in (asks(REPORT), by_path):
        refused = await call("POST", "chat", body={**body, "model": "ollama:qwen3"})
        assert (refused.status, refused.body["reason"]) == (400, "no_documents")
        assert "Choose one of Anthropic or OpenAI, or attach the text" in refused.body["message"]
    documents = (await call("GET", "models")).body["documents"]
    assert documents["anthropic:claude-sonnet-5-5"] is True
    assert documents["demo:tour"] is False


async def test_a_notebook_under_the_name_of_a_pdf_does_not_leave(
    call: Call, fake: FakeAnthropic, replies: list[FakeReply], jp_root_dir: Path, notebook: Path
) -> None:
    replies += [[says("No.")]]
    (jp_root_dir / "copy.pdf").write_bytes(notebook.read_bytes())
    await call("POST", "chat", body=asks(context=[{"type": "file", "path": "copy.pdf"}]))
    assert "`copy.pdf` is not a PDF" in json.dumps(told(fake))
    assert [block["type"] for block in told(fake)] == ["text"] * len(told(fake))


@pytest.mark.parametrize(
    ("part", "status", "said"),
    [
        (attached("application/pdf", "a.pdf", "aGk="), 400, "is not application/pdf, as"),
        (attached("text/csv", "a.csv", b"PK\0\0"), 400, "is not text/csv, as"),
        (attached("text/csv", "a.csv", "a" * 5_300_000), 413, "at most 5 MB"),
        (attached("application/zip", "a.zip", "a"), 400, "application/pdf"),
    ],
)
async def test_a_file_that_cannot_be_read_is_refused_before_anything_is_asked(
    call: Call, fake: FakeAnthropic, part: dict[str, str], status: int, said: str
) -> None:
    refused = await call("POST", "chat", body=asks(part))
    assert (refused.status, said in refused.body["message"]) == (status, True)
    assert fake.requests == []


async def test_a_pdf_of_before_is_a_word_for_a_service_that_takes_none() -> None:
    document = {
        "type": "document", "title": "report.pdf",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
    }  # fmt: skip
    request = ModelRequest(system="", messages=[{"role": "user", "content": [document]}])
    [_, plain] = chat_messages(request, Dialect())
    assert plain["content"] == "[a PDF file, which this model cannot read]"
    [_, read] = chat_messages(request, Dialect(documents=True))
    url = f"data:application/pdf;base64,{PDF}"
    assert read["content"] == [
        {"type": "file", "file": {"filename": "report.pdf", "file_data": url}}
    ]
    [item] = items(request)
    assert item["content"] == [{"type": "input_file", "filename": "report.pdf", "file_data": url}]
