"""Which outputs of a second run count as the same, and which do not."""

from __future__ import annotations

import base64
import io
import random
import time
from typing import Any

import pytest
from PIL import Image

from jupyter_agent.plugs.verify.compare import compare
from jupyter_agent.plugs.verify.pixels import png
from tests.plugs.verify.verdicts import PAIRS, Pair, blank, card, display, drawn, line, stream


def test_hand_made_pairs_get_their_true_verdicts() -> None:
    def verdict(pair: Pair) -> str:
        return compare(pair.stored, pair.fresh, pair.again, source=pair.source).likeness

    wrong = [
        (pair.name, pair.truth, told) for pair in PAIRS if (told := verdict(pair)) != pair.truth
    ]
    assert len(PAIRS) >= 80
    assert wrong == []


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.truth == "same"], ids=lambda p: p.name
)
def test_what_was_not_compared_is_said_and_nothing_else(pair: Pair) -> None:
    told = compare(pair.stored, pair.fresh, pair.again, source=pair.source)
    assert bool(told.not_compared) == pair.anew


def test_without_a_second_run_only_what_is_surely_measured_is_left_out() -> None:
    stored = [stream("id 7\n"), display(text__plain="<a.B object at 0x7f3a>")]
    fresh = [stream("id 8\n"), display(text__plain="<a.B object at 0x10f4>")]
    assert compare(stored, fresh).likeness == "differs"
    assert compare(stored, fresh, [stream("id 9\n"), fresh[1]]).likeness == "same"
    assert compare(stored[1:], fresh[1:]).likeness == "same"


def said(before: str, now: str) -> str:
    told = compare([stream(before)], [stream(now)])
    assert told.likeness == "differs"
    return told.why


def test_a_difference_is_told_with_its_place() -> None:
    assert said("accuracy 0.91", "accuracy 0.92") == (
        "stdout: was `accuracy 0.91`, is now `accuracy 0.92`"
    )
    assert said("a\nb", "a\nc") == "stdout: line 2 was `b`, is now `c`"
    assert said("a\nb", "a") == "stdout: ends before `b`"
    assert said("a", "a\nb") == "stdout: continues with `b`"
    assert said("a:\n  b", "a:\n b") == "stdout: line 2 `b` is indented differently"


def test_what_each_run_makes_anew_is_named() -> None:
    told = compare([stream("run 7f\nn 1")], [stream("run 8e\nn 1")], [stream("run 9d\nn 1")])
    assert told.likeness == "same"
    assert told.not_compared == "Different in every run: `run 8e`."


def test_pictures_are_told_with_what_is_known_of_them() -> None:
    stored = drawn(line(0.5))
    assert compare(stored, drawn(line(0.9))).why == "the picture shows something else"
    assert compare(stored, drawn(blank, width=200)).why == ("image/png 160x120 before, 200x120 now")
    gone = compare(stored, [display(text__plain="x")])
    assert gone.why == "image/png before, no picture now"
    (jpeg, other) = ([display(**{"image/jpeg": data})] for data in ("/9j/4AAQ", "/9j/4AAR"))
    assert "by its bytes, not by its pixels" in compare(jpeg, other).why


@pytest.mark.parametrize("mode", ["RGBA", "RGB", "LA", "L", "P", "1", "I;16"])
@pytest.mark.parametrize("smooth", [True, False])
def test_a_thumbnail_has_the_mean_of_each_field(mode: str, smooth: bool) -> None:
    size = (128, 96)
    picture = Image.frombytes("RGBA", size, random.Random(7).randbytes(4 * 128 * 96))
    if smooth:
        picture = Image.linear_gradient("L").resize(size).convert("RGBA")
    seen = picture.convert("L" if mode == "I;16" else mode)
    file = seen
    if mode == "I;16":
        file = Image.frombytes(mode, size, bytes(b for grey in seen.tobytes() for b in (0, grey)))
    ours = png(_encoded(file))
    assert ours is not None
    for number, channel in enumerate(seen.convert("RGBA").split()):
        exact = channel.resize((32, 32), Image.Resampling.BOX).tobytes()
        found = b"".join(ours.thumbnail[number::4])
        assert max(abs(a - b) for a, b in zip(exact, found, strict=True)) <= 2


def _encoded(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


@pytest.mark.parametrize("broken", ["", "x", "iVBORw0KGgo=", _encoded(Image.new("L", (9, 9)))[:90]])
def test_a_broken_picture_is_compared_by_its_bytes(broken: str) -> None:
    whole = drawn(blank)
    odd = [{**whole[0], "data": {**whole[0]["data"], "image/png": broken}}]
    assert png(broken) is None
    assert compare(odd, odd).likeness == "same"
    assert compare(odd, whole).likeness == compare(whole, odd).likeness == "differs"


def test_other_ids_are_no_difference_where_a_page_is_all_that_is_shown() -> None:
    first, second = (card(f"c-{n}", f"i-{n}", f"l-{n}") for n in (1, 2))
    for output in (*first, *second):
        output["data"]["text/plain"] = "<IPython.core.display.HTML object>"
    assert compare(first, second).likeness == "same"


def test_a_result_that_is_missing_or_new_differs() -> None:
    result = display(text__plain="1")
    assert compare([result], []).why == "an output is missing: `1`"
    assert compare([], [result]).why == "a new output: `1`"
    told = compare([result, result], [result, display(text__plain="2")])
    assert told.why == "output 2: was `1`, is now `2`"


def test_errors_are_compared_by_name_and_message() -> None:
    def error(message: str, traceback: list[str]) -> dict[str, Any]:
        return {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": message,
            "traceback": traceback,
        }

    assert compare([error("no", ["frame 1"])], [error("no", ["frame 2"])]).likeness == "same"
    assert "was `ValueError: no`" in compare([error("no", [])], [error("yes", [])]).why
    assert "no error" in compare([error("no", [])], [display(text__plain="1")]).why


@pytest.mark.parametrize(
    "line",
    ["[" * 2_000 + "1" * 1_900, "a/" * 1_950, "1" * 3_900 + "x", f"[{'=' * 3_900}x", "{" * 3_900]
    + ["1:" * 1_950, "1 s " * 950, "Mon " * 950, "2020-01-01 " * 350],
)
def test_hostile_lines_take_no_longer_to_compare_than_others(line: str) -> None:
    began = time.process_time()
    for _ in range(20):
        told = compare([stream(line)], [stream(f"{line}!")], [stream(f"{line}?")])
        assert told.likeness in ("same", "differs")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("begun", ["<a ", "<a id=", "<a id='", "<!--", "<style>a{#", "<script>'a"])
def test_hostile_pages_take_no_longer_to_compare_than_others(begun: str) -> None:
    pages = [[display(text__html=f"<p id={n}>" + begun * 10_000)] for n in range(3)]
    began = time.process_time()
    assert compare(*pages).likeness == "same"
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "path",
    ["/x/y/a.py:1", "C:\\x\\a.py:2", "./a.py:3", "~/y/a.py:4", "(/b/a.py:5", "b/c/a.py:6"],
)
def test_where_a_warnings_module_lies_is_no_difference(path: str) -> None:
    before, now = f"{path}: UserWarning: old", "/q/a.py:9: UserWarning: old"
    assert compare([stream(before)], [stream(now)]).likeness == "same"
    assert compare([stream(before)], [stream(now.replace("old", "new"))]).likeness == "differs"
