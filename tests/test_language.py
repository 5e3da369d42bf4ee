"""Our texts are plain English: `tests.language` lists the marks of anything else."""

from __future__ import annotations

import pytest

from . import language


def test_users_read_plain_english() -> None:
    marks = [mark for text in language.for_users() for mark in text.marks()]
    assert not marks, "\n".join(["Write these as an engineer would say them:", *marks])


@pytest.mark.parametrize(
    ("folder", "ceiling"),
    [
        ("jupyter_agent", 18.7),
        ("labextension/src", 8.0),
        ("labextension/test", 0.6),
        ("tests", 4.5),
    ],
)
def test_comments_have_no_more_marks_than_before(folder: str, ceiling: float) -> None:
    marks = [mark for text in language.for_developers(folder) for mark in text.marks()]
    per_thousand = 1000 * len(marks) / language.lines_below(folder)
    assert per_thousand <= ceiling, "\n".join([f"{per_thousand:.1f} per thousand lines:", *marks])


def test_no_more_functions_are_named_by_a_participle_than_before() -> None:
    names = list(language.functions_named_by_participles())
    assert len(names) <= 367, "\n".join(names)
