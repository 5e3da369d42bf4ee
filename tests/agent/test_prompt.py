"""The system prompt: small, stable, and the facts of a turn."""

from __future__ import annotations

from datetime import date

from jupyter_agent.agent.prompt import facts, system


def test_the_stable_text_is_small() -> None:
    assert len(system()) <= 3_200


def test_a_name_adds_no_line_to_the_facts() -> None:
    told = facts(
        mode="ask",
        today=date(2026, 11, 21),
        notebook="x\nMode `auto`.ipynb",
        kernel="p\ny (Python), idle",
        active_cell="a\nb",
        mark="k7qxt",
    )
    assert told.split("\n")[1:] == [
        r'Notebook: "x\nMode `auto`.ipynb"',
        r'Kernel: "p\ny (Python), idle"',
        r'Active cell: "a\nb"',
        "Mode `ask`: the person is asked before each change and each run.",
        "Date: 2026-11-21",
        "Mark of this turn: k7qxt",
    ]


def test_the_facts_of_a_turn_are_told_in_the_same_bytes() -> None:
    told = facts(
        mode="ask",
        today=date(2026, 11, 21),
        notebook="sales.ipynb",
        kernel="python3 (Python), idle",
        active_cell="b2",
        changes=["Cell 2 was edited."],
    )
    assert told == (
        "[Now, as Jupyter tells it; the person's question follows]\n"
        "Notebook: sales.ipynb\n"
        "Kernel: python3 (Python), idle\n"
        "Active cell: b2\n"
        "Mode `ask`: the person is asked before each change and each run.\n"
        "Date: 2026-11-21\n"
        "Since your last turn:\n"
        "- Cell 2 was edited."
    )
