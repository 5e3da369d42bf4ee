"""One way to shorten a text, and to quote names in our own sentences."""

from __future__ import annotations

import pytest

from jupyter_agent.legible import clip, with_names_quoted


@pytest.mark.parametrize(
    ("text", "most", "head", "shown"),
    [
        ("", 0, 1.0, ""),
        ("0123456789", 10, 1.0, "0123456789"),
        ("0123456789", 9, 1.0, "012345678[1]"),
        ("0123456789", 0, 1.0, "[10]"),
        ("0123456789", 5, 0.6, "012[5]89"),
        ("0123456789", 4, 0.25, "0[6]789"),
        ("0123456789", 4, 0.0, "[6]6789"),
    ],
)
def test_a_text_is_cut_with_a_note_of_how_much(
    text: str, most: int, head: float, shown: str
) -> None:
    assert clip(text, most, "[{left}]", head=head) == shown


def test_only_names_that_could_add_lines_are_quoted_in_a_sentence() -> None:
    said = "No `a\nb` in `a\nb\nc`, nor `d` or `\n`."
    quoted = with_names_quoted(said, ["a\nb", "a\nb\nc", "d", "\n"])
    assert quoted == 'No `"a\\nb"` in `"a\\nb\\nc"`, nor `d` or `\n`.'
