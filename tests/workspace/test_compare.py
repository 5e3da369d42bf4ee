"""What counts as the same when a cell is run again, and what does not."""

from __future__ import annotations

import base64
import struct
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from jupyter_agent.analysis.compare import difference
from jupyter_agent.document.cell import Output

NOW = datetime.now(UTC)


def stream(text: str, name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> Output:
    named = {kind.replace("__", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "data": named, "metadata": {}}


def png(width: int, height: int) -> str:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return base64.b64encode(header).decode()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("", ""),
        ("accuracy 0.9127", "accuracy 0.9131"),
        ("[ 1.  -2.5e-17]", "[1. 3e-18]"),
        ("<a.B object at 0x7f3a>", "<a.B object at 0x10f4>"),
        ("id 140234987650000", "id 139999912345678"),
        ("run 2c1f6f0e-8f0a-4c7e-9f4e-0d6a1c3b5e7f", "run 7d444840-9dc0-41d1-b245-5ffdce74fad2"),
        ("took 1.2 s", "took 98 ms"),
        ("Wall time: 3 s\n7", "Wall time: 5 min 2 s\n7"),
        ("1.2 µs ± 3 ns per loop (mean ± std)", "12 ms ± 1 µs per loop (mean ± std)"),
        ("100%|████| 9/9 [00:01<00:00, 8.1it/s]\ndone", "done"),
        ("10%\r100%|██| 9/9 [00:01<00:00]\ndone", "done"),
        ("Cell In[4], line 2", "Cell In[11], line 2"),
        ("/tmp/tmpa1b2/model.bin", "/tmp/tmpzz/model.bin"),
        ("pid 4711 at localhost:8888", "pid 99 at localhost:5005"),
        ("{'a', 'b', 'c'}", "{'c', 'a', 'b'}"),
        ("2020-01-01 10:00:00,123 INFO", f"{NOW:%Y-%m-%d %H:%M:%S},456 INFO"),
        ("today is 2020-01-01", f"today is {NOW:%Y-%m-%d}"),
        ("1500000000.25", f"{time.time():.2f}"),
        ("a   b\n1   2", "a b\n1 2\n"),
    ],
)
def test_what_each_run_makes_anew_is_the_same(before: str, now: str) -> None:
    assert difference([stream(before)], [stream(now)]) is None


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        ("accuracy 0.91", "accuracy 0.92", "was `accuracy 0.91`, is now `accuracy 0.92`"),
        ("(100, 3)", "(101, 3)", "was `(100, 3)`, is now `(101, 3)`"),
        ("100000001", "100000002", "was"),
        ("-1.0", "1.0", "was"),
        ("version 1.2.3", "version 1.2.4", "was"),
        ("2020-01-01", "2020-01-02", "was `2020-01-01`"),
        ("born in the 1980s", "born in the 1990s", "was"),
        ("d41d8cd98f00b204e9800998ecf8427e", "0cc175b9c0f1b6a831c399e269772661", "was"),
        ("a\nb", "a\nc", "line 2 was `b`, is now `c`"),
        ("a\nb", "a", "ends before `b`"),
        ("a", "a\nb", "goes on with `b`"),
        ("nan", "0.5", "was `nan`"),
        ("{'a': 1}", "{'a': 2}", "was"),
        ("[" * 5_000 + "1.00001", "[" * 5_000 + "1.00002", "was"),
    ],
)
def test_what_is_a_result_has_to_be_the_same(before: str, now: str, why: str) -> None:
    told = difference([stream(before)], [stream(now)])
    assert told is not None
    assert told.startswith("stdout: ")
    assert why in told


def test_the_place_of_a_warning_does_not_count_but_its_words_do() -> None:
    def warning(path: str, line: int, text: str) -> list[Output]:
        return [stream(f"{path}:{line}: UserWarning: {text}\n", "stderr")]

    here = warning("/home/ada/.venv/lib/python3.11/site-packages/lib.py", 12, "old")
    assert difference(here, warning("/opt/conda/lib/python3.12/lib.py", 99, "old")) is None
    assert difference(here, warning("/opt/conda/lib/python3.12/lib.py", 99, "new")) is not None


def test_how_streams_and_displays_are_cut_does_not_count() -> None:
    one = [stream("a\n"), display(text__plain="1"), stream("b\n"), stream("c\n", "stderr")]
    other = [stream("c\n", "stderr"), stream("a\nb\n"), display(text__plain="1")]
    assert difference(one, other) is None


def test_pictures_are_compared_by_kind_and_size() -> None:
    stored = [display(image__png=png(640, 480), text__plain="<Figure size 640x480 with 1 Axes>")]
    assert difference(stored, [display(image__png=png(645, 478))]) is None
    assert (
        difference(stored, [display(image__png=png(800, 480))])
        == "image/png 640x480 before, 800x480 now"
    )
    assert difference(stored, [display(text__plain="x")]) == "image/png before, no picture now"
    old, new = (
        {"image/svg+xml": f'<svg width="10pt" height="9pt">{more}'} for more in ("", "<g/>")
    )
    assert difference([display(**old)], [display(**new)]) is None


def test_a_result_that_is_missing_or_new_differs() -> None:
    result = display(text__plain="1")
    assert difference([result], []) == "an output is missing: `1`"
    assert difference([], [result]) == "a new output: `1`"
    told = difference([result, result], [result, display(text__plain="2")])
    assert told == "output 2: was `1`, is now `2`"


def test_errors_are_compared_by_name_and_message() -> None:
    def error(message: str, traceback: list[str]) -> Output:
        return {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": message,
            "traceback": traceback,
        }

    assert difference([error("no", ["frame 1"])], [error("no", ["frame 2"])]) is None
    assert "was `ValueError: no`" in str(difference([error("no", [])], [error("yes", [])]))
    assert "no error" in str(difference([error("no", [])], [display(text__plain="1")]))


@pytest.mark.parametrize(
    "line",
    ["[" * 2_000 + "1" * 1_900, "a/" * 1_950, "1" * 3_900 + "x", f"[{'=' * 3_900}x"],
)
def test_hostile_lines_take_no_longer_to_compare_than_others(line: str) -> None:
    began = time.process_time()
    for _ in range(20):
        assert difference([stream(line)], [stream(f"{line}!")]) is not None
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "path",
    ["/x/y/a.py:1", "C:\\x\\a.py:2", "./a.py:3", "~/y z/a.py:4", "(/b/a.py:5", "b/c/a.py:6"],
)
def test_where_a_module_lies_is_no_difference(path: str) -> None:
    ending = path.rpartition(" ")[2].lstrip("(")
    assert difference([stream(path)], [stream(path.replace(ending, "/q/a.py:9"))]) is None
