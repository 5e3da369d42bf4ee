"""Three-way merge of texts and of notebooks, and the small operations that write a text."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Sequence
from typing import Any

import pytest
from pycrdt import Doc, Text, UndoManager

from jupyter_agent.document.crdt import rewrite
from jupyter_agent.document.merge import (
    MergeConflict,
    keeps_edit,
    merge,
    merge_typing,
    text_operations,
)
from jupyter_agent.document.merge_cells import base_of, merge_cells, outline

BASE = "import os\n\nx = 1\ny = 2\nprint(x)"


@pytest.mark.parametrize(
    ("current", "new", "result"),
    [
        (BASE, BASE.replace("x = 1", "x = 5"), BASE.replace("x = 1", "x = 5")),
        (BASE + "\n# mine", BASE, BASE + "\n# mine"),
        (
            BASE.replace("import os", "import sys"),
            BASE.replace("print(x)", "print(y)"),
            "import sys\n\nx = 1\ny = 2\nprint(y)",
        ),
        (
            BASE.replace("x = 1", "x = 7"),
            BASE.replace("y = 2", "y = 8"),
            "import os\n\nx = 7\ny = 8\nprint(x)",
        ),
        (BASE + "\n# mine", BASE + "\n# its", BASE + "\n# mine\n# its"),
        (BASE.replace("1", "3"), BASE.replace("1", "3"), BASE.replace("1", "3")),
        (
            "# top\n" + BASE.replace("x = 1", "x = 3"),
            BASE.replace("x = 1", "x = 3").replace("print(x)", "print(y)"),
            "# top\n" + BASE.replace("x = 1", "x = 3").replace("print(x)", "print(y)"),
        ),
        (
            "# top\n" + BASE,
            BASE.replace("import os", "import re"),
            "# top\n" + BASE.replace("os", "re"),
        ),
    ],
    ids=[
        "only-new",
        "only-current",
        "far",
        "neighbours",
        "both-append",
        "alike",
        "alike-and-more",
        "above-a-change",
    ],
)
def test_what_both_changed_is_in_the_merged_text(current: str, new: str, result: str) -> None:
    assert merge(BASE, current, new) == result


@pytest.mark.parametrize(
    ("current", "new"),
    [
        (BASE.replace("x = 1", "x = 3"), BASE.replace("x = 1", "x = 4")),
        (BASE.replace("x = 1\ny = 2\n", ""), BASE.replace("y = 2", "y = 4")),
        ("mine", "its"),
        (BASE.replace("x = 1\n", "x = 1\nmine\n"), BASE.replace("x = 1\ny = 2\n", "z = 3\n")),
        ("import sys\n\nx = 1\ny = 2\nprint(x)!\n", BASE.replace("\nprint(x)", "")),
    ],
    ids=["same-line", "deleted-and-changed", "all", "inside-what-was-replaced", "beside-a-blank"],
)
def test_changes_of_the_same_lines_are_a_conflict(current: str, new: str) -> None:
    with pytest.raises(MergeConflict):
        merge(BASE, current, new)


def test_a_blank_line_is_not_taken_for_another() -> None:
    with pytest.raises(MergeConflict):  # by the blank one, the second line would count as deleted
        merge("\nits", "mine\nits, mine\n", "")


@pytest.fixture(params=["few lines", "many lines"])
def compared_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of many lines are compared in another way, which would otherwise take a minute."""
    if request.param == "many lines":
        monkeypatch.setattr("jupyter_agent.document.merge.LARGEST_MATCH", 0)


@pytest.mark.usefixtures("compared_as")
def test_no_line_that_either_side_wrote_is_lost() -> None:
    random_ = random.Random(20261121)
    for _ in range(2000):
        base = [str(random_.randrange(6)) for _ in range(random_.randrange(2, 9))]
        sides = []
        for name in ("mine", "its"):
            side = list(base)
            for number in range(random_.randrange(3)):
                side.insert(random_.randrange(len(side) + 1), f"{name} {number}")
            sides.append(side)
        merged = merge("\n".join(base), *("\n".join(side) for side in sides)).split("\n")
        for side in sides:
            written = [line for line in side if line.startswith(("mine", "its"))]
            assert [line for line in merged if line in written] == written


@pytest.mark.usefixtures("compared_as")
def test_operations_make_the_new_text_from_right_to_left() -> None:
    random_ = random.Random(7)
    alphabet = "ab \n\r\u2028é😀\u0301א"
    for _ in range(3000):
        old = "".join(random_.choices(alphabet, k=random_.randrange(40)))
        new = list(old)
        for _ in range(random_.randrange(5)):
            at = random_.randrange(len(new) + 1)
            new[at : at + random_.randrange(3)] = random_.choices(alphabet, k=random_.randrange(3))
        text, last = old, len(old)
        for start, end, replacement in text_operations(old, "".join(new)):
            assert start <= end <= last
            text, last = text[:start] + replacement + text[end:], start
        assert text == "".join(new)


@pytest.mark.parametrize(("old", "new"), [("x" * 10**6, "\n"), ("\n", "x" * 10**6)])
def test_a_million_characters_and_a_short_text_are_compared_at_once(old: str, new: str) -> None:
    began = time.process_time()
    operations = list(text_operations(old, new))
    assert time.process_time() - began < 10  # a minute, if each character costs as much as all
    assert operations == [(0, len(old), new)]


def test_unchanged_text_is_never_touched() -> None:
    old = "a = 1\nb = 2\nc = 3\n"
    assert list(text_operations(old, old)) == []
    assert list(text_operations(old, old.replace("2", "20"))) == [(11, 11, "0")]
    assert list(text_operations(old, "a = 10\nb = 2\nc = 30\n")) == [(17, 17, "0"), (5, 5, "0")]
    moved = "c = 3\n\na = 1\n\nb = 2\n"
    assert [moved[start:end] for start, end, _ in text_operations(moved, old)] == [
        "",
        "\n",
        "c = 3\n\n",
    ]


@pytest.mark.parametrize(
    ("old", "new", "operation"),
    [
        ("f(x_max)", "f(x_mean, x_max)", (2, 2, "x_mean, ")),
        ("f(x_mean, x_max)", "f(x_max)", (2, 10, "")),
        ("x_max = 1\n", "x_min = 0\nx_max = 1\n", (0, 0, "x_min = 0\n")),
        ("a\nreturn x\n", "a\nreturn\nreturn x\n", (2, 2, "return\n")),
        ("if a:\n    b\n    c", "if a:\n    b\n    d\n    c", (12, 12, "    d\n")),
        ("f(été)", "f(étage, été)", (2, 2, "étage, ")),
        ("f(की)", "f(कीमत, की)", (2, 2, "कीमत, ")),
        ("f(x_max)", "f(x_min)", (2, 7, "x_min")),
        ("f(x_max)", "f(x_mean, y_max)", (2, 7, "x_mean, y_max")),
        ("color", "colour", (4, 4, "u")),
        ("v00 = 3Typed", "v00 = 4Typed", (6, 7, "4")),
        ("f(x)abc\nnew = 2typed", "f(x)abctyped", (7, 15, "")),
    ],
    ids=[
        "a-word",
        "a-word-gone",
        "a-line",
        "a-line-that-begins-alike",
        "indented",
        "accents",
        "vowel-signs",
        "another-word",
        "two-words-for-one",
        "a-letter",
        "a-number-with-a-word-behind-it",
        "a-line-between-two-words",
    ],
)
def test_what_is_added_or_taken_away_tears_no_word(
    old: str, new: str, operation: tuple[int, int, str]
) -> None:
    assert list(text_operations(old, new)) == [operation]


@pytest.mark.parametrize(
    ("edited", "left"), [("f(x_mean, x_max)", "x_mean, "), ("f(x_mean)", "x_mean")]
)
def test_a_person_who_undoes_their_own_word_leaves_the_whole_word_of_an_agent(
    edited: str, left: str
) -> None:
    person, agent = Doc[Text](client_id=1), Doc[Text](client_id=2)
    theirs, ours = person.get("text", type=Text), agent.get("text", type=Text)
    undo = UndoManager(scopes=[theirs])
    undo.include_origin("person")
    with person.transaction(origin="person"):
        theirs += "f(x_max)"
    agent.apply_update(person.get_update())
    rewrite(ours, edited)
    person.apply_update(agent.get_update())
    undo.undo()
    assert str(theirs) == left


def test_of_a_long_line_only_the_words_that_changed_are_touched() -> None:
    line = ", ".join(map(str, range(50_000)))
    (operation,) = text_operations(line, line.replace(" 777,", " 888,"))
    assert operation == (line.index(" 777,") + 1, line.index(" 777,") + 4, "888")
    thousand = ", ".join(map(str, range(1000, 2000)))
    other = thousand.replace("1", "3")
    start, end, text = next(text_operations(f"a, {thousand}, b", f"a, {other}, b"))
    assert (start >= 3, end <= 3 + len(thousand), text in other) == (True, True, True)


def insert(random_: random.Random, text: str, word: str) -> tuple[str, int]:
    """The start of a line, or a line of its own; and the place after it."""
    at = random_.choice([place for place in range(len(text)) if text[place - 1] == "\n"])
    line = random_.choice(["", "\n"]) + word
    return text[:at] + line + text[at:], at + len(line)


def grown(random_: random.Random, text: str, words: Sequence[str]) -> str:
    """With these words at random places."""
    for word in words:
        text, _ = insert(random_, text, word)
    return text


def test_where_text_was_only_added_or_only_taken_away_nothing_else_is_touched() -> None:
    random_ = random.Random(5)
    for trial in range(500):
        words = [f"{chr(0x4E00 + number)}abc" for number in range(8)]
        short = grown(random_, "x = 1\ny = 2\n", words[:4])
        long = grown(random_, short, words[4:])
        assert all(start == end for start, end, _ in text_operations(short, long)), trial
        assert all(text == "" for _, _, text in text_operations(long, short)), trial


@pytest.mark.parametrize(
    ("text", "before", "now", "result"),
    [
        ("new\nx = 1\ny", "x = 1\ny", "x = 1!\ny", "new\nx = 1!\ny"),
        ("x = 1 # é", "x = 1", "x = 12", "x = 12 # é"),
        ("x = 3", "x = 1", "x = 1\ny", "x = 3\ny"),
        ("# 0\nx = 1\ny\nz\n", "x = 1\ny\n", "x = 1\nyes\n", "# 0\nx = 1\nyes\nz\n"),
        ("x = 1\n", "x = 1\ny = 2\n", "x = 1\ny = 2😀\n", "x = 1\n😀"),
        ("a\nc", "a\nb\nc", "a\nb\n", "a\n"),
    ],
    ids=["above", "same-place", "beside-an-edit", "two-below-each-other", "gone", "deleted"],
)
def test_letters_that_come_late_go_where_they_were_typed(
    text: str, before: str, now: str, result: str
) -> None:
    assert merge_typing(text, before, now) == result


def test_a_word_of_which_the_end_comes_late_stays_in_one_piece() -> None:
    random_ = random.Random(5)

    for trial in range(500):
        words = [f"{chr(0x4E00 + number)}abc" for number in range(8)]
        before = grown(random_, "x = 1\ny = 2\n", words[:4])
        typed = random_.randrange(1, 4)
        before, at = insert(random_, before, words[4][:typed])
        text = grown(random_, before, words[5:])
        merged = merge_typing(text, before, before[:at] + words[4][typed:] + before[at:])
        assert [merged.count(word) for word in words] == [1] * len(words), trial


def test_an_edit_is_found_whatever_somebody_types_at_the_same_moment() -> None:
    random_ = random.Random(7)
    for trial in range(500):
        words = [random_.choice(["x = 1", "y = 2", "z"]) for _ in range(10)]
        before = grown(random_, "x = 1\ny = 2\n", words[:4])
        line = random_.choice(before.splitlines())
        after = grown(random_, before.replace(line, random_.choice(words), 1), words[4:7])
        documents = [Doc[Text](client_id=number) for number in (1, 2)]
        ours, theirs = (document.get("text", type=Text) for document in documents)
        ours += before
        documents[1].apply_update(documents[0].get_update())
        rewrite(ours, after)
        for word in words[7:]:
            typed, at = insert(random_, str(theirs), word)
            start = at - len(word) - (typed[at - len(word) - 1 : at - len(word)] == "\n")
            theirs.insert(start, typed[start:at])
        documents[0].apply_update(documents[1].get_update())
        assert keeps_edit(before, after, str(ours)), (trial, before, after, str(ours))


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ("x = 1", "x = 2", "x = 1"),
        ("x = 1\ny = 2", "x = 2\ny = 2", "x = 1\ny = 2 # mine"),
        ("x", "x\ny = 2\nz", "x\nz"),
    ],
    ids=["taken-back", "other-text", "half"],
)
def test_an_edit_that_somebody_took_away_is_not_found(before: str, after: str, now: str) -> None:
    assert not keeps_edit(before, after, now)


def worked_on(random_: random.Random, content: Any, who: str) -> tuple[Any, set[str]]:
    """The notebook after random changes, and the words that they left in it."""
    content = copy.deepcopy(content)
    cells: list[dict[str, Any]] = content["cells"]
    for number in range(random_.randrange(6)):
        word = f"{who}{number}"
        cell = random_.choice(cells)
        match random_.choice(["type", "type", "insert", "delete", "move", "run"]):
            case "type":
                cell["source"] = random_.choice([f"{word}\n{{}}", f"{{}}\n{word}"]).format(
                    cell["source"]
                )
            case "insert":
                new = {"id": word, "cell_type": "raw", "metadata": {}, "source": word}
                cells.insert(random_.randrange(len(cells) + 1), new)
            case "delete" if len(cells) > 1:
                cells.remove(cell)
            case "move":
                cells.remove(cell)
                cells.insert(random_.randrange(len(cells) + 1), cell)
            case "run" if cell["cell_type"] == "code":
                cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": word}]
                cell["metadata"] = {"trusted": who == "mine"}
    return content, {
        line for cell in cells for line in cell["source"].split("\n") if line.startswith(who)
    }


def test_whatever_both_sides_do_to_a_notebook_no_word_is_lost_and_no_cell_doubled() -> None:
    random_ = random.Random(11)
    for trial in range(1000):
        base: dict[str, Any] = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5, "cells": []}
        for number in range(random_.randrange(1, 5)):
            empty = {"metadata": {}, "outputs": [], "execution_count": None}
            cell = {"id": f"c{number}", "cell_type": "code", "source": f"x = {number}"}
            base["cells"].append({**cell, **empty})
        mine, typed = worked_on(random_, base, "mine")
        theirs, pulled = worked_on(random_, base, "theirs")
        merged, conflicts = merge_cells(outline(base), mine, theirs)
        ids = [cell["id"] for cell in merged["cells"]]
        assert len(set(ids)) == len(ids), trial
        text = "\n".join(cell["source"] for cell in merged["cells"]).split("\n")
        assert typed <= set(text), trial
        offered = [cell["source"] for cell in theirs["cells"] if cell["id"] in conflicts]
        assert pulled <= {*text, *"\n".join(offered).split("\n")}, trial
        assert len(set(text)) == len(text), trial
        for cell in merged["cells"]:
            if any("theirs" in output["text"] for output in cell.get("outputs", [])):
                assert not cell["metadata"]["trusted"], trial
        assert merge_cells(outline(base), mine, base).content == mine
        assert merge_cells(outline(base), base, theirs).content == theirs
        assert merge_cells(outline(theirs), merged, theirs).content == merged, trial


def notebook(text: str, shown: str = "") -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": shown}] if shown else []
    cell = {"id": "a", "cell_type": "code", "source": text, "metadata": {}, "outputs": outputs}
    cells = [{**cell, "execution_count": None}]
    return {"metadata": {}, "nbformat": 4, "nbformat_minor": 5, "cells": cells}


@pytest.mark.parametrize(
    ("former", "latest", "file", "merged"),
    [
        ("x\n", "x\ny = 1\nz = 2\n", "x\nz = 2\n", None),
        ("x\n", "x\ny = 'a'\n", 'x\ny = "a"\n', None),
        ("x\n", "x\ny = 1z = 2\n", "x\nz = 2\n", None),
        ("", "y = 1\nz = 2\n", "z = 2\n", None),
        ("x\n", "x\ny = 1\n", "x\n# pulled\n", "x\ny = 1\n# pulled\n"),
        ("x\n", "x\ny = 1\n", "# pulled\nx\n", "# pulled\nx\ny = 1\n"),
        ("x\n", "x\ny = 1\n", "x\ny = 1\n# pulled\n", "x\ny = 1\n# pulled\n"),
        ("x\n", "x\ny = 1\n", "x\n", "x\ny = 1\n"),
    ],
    ids=[
        "a-line-less",
        "formatted",
        "a-word-less",
        "in-an-empty-cell",
        "unaware",
        "unaware-above",
        "aware",
        "put-back",
    ],
)
@pytest.mark.parametrize("shown", ["", "outputs that the program clears"])
def test_nothing_is_doubled_whichever_of_two_texts_a_program_has_changed(
    former: str, latest: str, file: str, merged: str | None, shown: str
) -> None:
    """None: it is ambiguous, so the document's version stays and the file's is a conflict."""
    mine = notebook(latest, shown)
    base, unclear = base_of(notebook(file), outline(notebook(former)), outline(mine))
    result = merge_cells(base, mine, notebook(file), unclear)
    assert result.content["cells"][0]["source"] == (latest if merged is None else merged)
    assert result.conflicts == ([] if merged else ["a"])


def test_whatever_a_program_does_with_one_of_two_texts_no_line_is_lost_or_doubled() -> None:
    random_ = random.Random(12)
    unsettled = 0

    def edited(text: str, who: str) -> str:
        lines = text.split("\n")
        for number in range(random_.randrange(1, 4)):
            at = random_.randrange(len(lines) + 1)
            lines[at:at] = [f"{who}{number} = {number}"]
        return "\n".join(lines)

    for trial in range(1000):
        former = "\n".join(f"x{number}" for number in range(random_.randrange(4)))
        latest = edited(former, "typed")
        mine = random_.choice([latest, edited(latest, "more")])
        lines = random_.choice([former, latest]).split("\n")
        removed = set[str]()
        for _ in range(random_.randrange(1, 3)):
            at = random_.randrange(len(lines))
            match random_.choice(["add", "remove", "format"]):
                case "add":
                    lines[at:at] = [f"theirs{len(lines)}"]
                case "remove" if len(lines) > 1:
                    removed.add(lines.pop(at))
                case "format":
                    removed.add(lines[at])
                    lines[at] = lines[at].replace(" = ", "=")
        file = notebook("\n".join(lines))
        base, unclear = base_of(file, outline(notebook(former)), outline(notebook(latest)))
        result = merge_cells(base, notebook(mine), file, unclear)
        unsettled += len(result.conflicts)
        text = [line for line in result.content["cells"][0]["source"].split("\n") if line]
        words = [line.split("=")[0].strip() for line in text]
        assert len(set(words)) == len(words), (trial, former, latest, mine, lines)
        assert {*filter(None, mine.split("\n"))} - removed <= {*text}, trial
        if not result.conflicts:
            assert {line for line in lines if "theirs" in line} <= {*text}, trial
    assert unsettled < 400
