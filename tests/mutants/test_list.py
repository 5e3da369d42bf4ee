"""The list of bugs is up to date; running their tests takes hours and is manual."""

from __future__ import annotations

from tests.mutants.mutant import ROOT, listed, near


def test_each_bug_can_still_be_made_in_its_file_and_has_tests_beside_it() -> None:
    for mutant in listed():
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert mutant.made_in(text) != text
        if mutant.file.endswith(".py"):
            assert all((ROOT / test).exists() for test in near(mutant.file)), mutant.file
