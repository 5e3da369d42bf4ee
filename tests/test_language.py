"""Our texts are plain English: `tests.language` lists the marks of anything else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import language


def texts(readers: str) -> Iterator[language.Text]:
    return language.for_users() if readers == "users" else language.for_developers(readers)


@pytest.mark.parametrize("readers", ["users", *language.FOLDERS])
def test_texts_are_plain_english(readers: str) -> None:
    marks = [mark for text in texts(readers) for mark in text.marks()]
    assert not marks, "\n".join(["Write these as an engineer would say them:", *marks])


def test_no_more_functions_are_named_by_a_participle_than_before() -> None:
    names = list(language.functions_named_by_participles())
    assert len(names) <= 11, "\n".join(names)
