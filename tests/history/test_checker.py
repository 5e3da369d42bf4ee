"""The checker of histories finds each kind of loss, and accepts all legitimate histories."""

from __future__ import annotations

import ast
import itertools
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from . import checker
from .checker import (
    KEEPING,
    Cell,
    Did,
    Edit,
    End,
    Event,
    Moved,
    Question,
    Told,
    Typed,
    Wrote,
    faults,
    tokens,
)

P, P2 = "WEEEEEEW", "WEEEEEGW"
A, A2 = "WGGGGGGW", "WGGGGGEW"
O = "WTTTTTTW"  # noqa: E741 - of others


def typed(token: str = P, at: float = 1, *, who: str = "person", sure: bool = True) -> Typed:
    return Typed(at, who, token, sure)


def edited(
    *adds: str,
    begin: float = 2,
    end: float = 3,
    outcome: Any = "done",
    removes: Sequence[str] = (),
    kind: str = "patch",
    **more: Any,
) -> Edit:
    return Edit(begin, end, "agent", kind, outcome, adds, dict.fromkeys(removes, 1), **more)


def did(kind: str, at: float = 4, *, gone: Mapping[str, str] | None = None, **more: Any) -> Did:
    """An action after which each token of `gone` is no longer in the cell that it names."""
    moved = tuple(Moved(token, cell, -1) for token, cell in (gone or {}).items())
    return Did(at, at + 0.5, "person", kind, moved=more.pop("moved", moved), **more)


def cells(*sources: str) -> list[Cell]:
    return [Cell(f"c{number}", "code", source) for number, source in enumerate(sources)]


def same(*sources: str) -> End:
    there = cells(*sources)
    return End({"page": there, "server": there, "disk": there})


def kinds(events: Sequence[Event], end: End, **more: Any) -> list[str]:
    return [fault.kind for fault in faults(events, end, **more)]


# ---- losses to find

LOSSES: dict[str, tuple[list[Event], End, str]] = {
    "a typed token is gone": ([typed()], same("x"), "lost"),
    "a typed token is torn": ([typed()], same("WEEE = 1 EEEW"), "lost"),
    "a typed token is there twice": ([typed()], same(P, P), "doubled"),
    "a typed token is twice in one cell": ([typed()], same(f"{P}{P}"), "doubled"),
    "a confirmed edit is gone": ([edited(A)], same("x"), "lost"),
    "a confirmed edit is there twice": ([edited(A)], same(A, A), "doubled"),
    "a refused edit is there": ([edited(A, outcome="refused")], same(A), "returned"),
    "a token that was confirmed to be removed is back": (
        [edited(A), edited(A2, begin=4, end=5, removes=[A])],
        same(f"{A}\n{A2}"),
        "returned",
    ),
    "a text is as it was before the edit": (
        [edited(A), edited(A2, begin=4, end=5, removes=[A])],
        same(A),
        "lost",
    ),
    "a refused deletion was done all the same": (
        [typed(), edited(removes=[P], outcome="refused", kind="delete")],
        same("x"),
        "lost",
    ),
    "the agent deletes what it had not read": (
        [typed(), typed(P2), edited(removes=[P], kind="delete")],
        same("x"),
        "lost",
    ),
    "what is typed after the agent's deletion is gone": (
        [typed(), edited(removes=[P], kind="delete"), typed(P2, at=4)],
        same("x"),
        "lost",
    ),
    "the person's undo takes an agent's edit": (
        [edited(A), did("undo", gone={A: "c0"})],
        same("x"),
        "lost",
    ),
    "another person's undo takes a token": (
        [typed(who="somebody else"), did("undo", gone={P: "c0"})],
        same("x"),
        "lost",
    ),
    "a cut of one cell takes another": (
        [typed(), did("cut", gone={P: "c1"}, cells=frozenset({"c0"}))],
        same("x"),
        "lost",
    ),
    "a token goes during a cut, but not because of the page": (
        [typed(), did("cut", cells=frozenset({"c0"}))],
        same("x"),
        "lost",
    ),
    "a cut takes another cell, in which the agent is just writing": (
        [edited(A, begin=3, end=9), did("cut", gone={A: "c1"}, cells=frozenset({"c0"}))],
        same("x"),
        "lost",
    ),
    "a cell is cut in which the agent is just writing, and is there after all": (
        [edited(A, begin=3, end=9), did("cut", gone={A: "c0"}, cells=frozenset({"c0"}))],
        same(A),
        "returned",
    ),
    "a cut cell is there after all": (
        [typed(), did("cut", gone={P: "c0"}, cells=frozenset({"c0"}))],
        same(P),
        "returned",
    ),
    "a paste takes something away": ([typed(), did("paste", gone={P: "c0"})], same("x"), "lost"),
    "a reload loses what was in the file": (
        [typed(), did("reload", file={P: 1}, after={})],
        same("x"),
        "lost",
    ),
    "a reload finds that a token is gone": (
        [typed(), did("reload", before={}, file={}, after={})],
        same("x"),
        "lost",
    ),
    "a checkpoint is restored after a token is gone": (
        [typed(), did("restore", before={}, file={}, after={})],
        same("x"),
        "lost",
    ),
    "an edit confirmed and saved during a reload is gone": (
        [edited(A, begin=4.1, end=4.4), did("reload", file={}, after={})],
        same("x"),
        "lost",
    ),
    "a reload is followed by a loss": (
        [typed(), did("reload", file={P: 1}, after={P: 1})],
        same("x"),
        "lost",
    ),
    "a revert brings back what was undone and shown to be gone": (
        [typed(), did("undo", gone={P: "c0"}), did("revert", at=6, file={}, after={})],
        same(P),
        "returned",
    ),
    "an edit confirmed during a reload is gone": (
        [edited(A, begin=4.1, end=4.9), did("reload", file={}, after={})],
        same("x"),
        "lost",
    ),
    "what was typed after a checkpoint was restored is gone": (
        [did("restore"), typed(at=6)],
        same("x"),
        "lost",
    ),
    "what another program wrote is gone": ([Wrote(1, "editor", (O,))], same("x"), "lost"),
    "something else was told": (
        [typed(), Told(2, frozenset({P2}), "dialog")],
        same("x"),
        "lost",
    ),
    "what was told is there twice": (
        [typed(), Told(2, frozenset({P}), "dialog")],
        same(P, P),
        "doubled",
    ),
    "a token that nobody wrote": ([typed()], same(P, P2), "stray"),
    "the disk is older than the page": (
        [],
        End({"page": cells("x = 2"), "server": cells("x = 2"), "disk": cells("x = 1")}),
        "differs",
    ),
    "the server sees something else": (
        [],
        End({"page": cells("x = 2"), "server": cells("x"), "disk": cells("x = 2")}),
        "differs",
    ),
    "the disk has the cells in another order": (
        [],
        End({"page": cells("x", "y"), "disk": cells("x", "y")[::-1]}),
        "differs",
    ),
    "a cell is there twice": (
        [],
        End(dict.fromkeys(("page", "disk"), [*cells("x"), *cells("x")])),
        "same id",
    ),
    "a confirmed type is not there": (
        [edited(kind="retype", types={"c0": "markdown"})],
        same("x"),
        "type",
    ),
    "a person's type is not there": ([did("retype", types={"c0": "raw"})], same("x"), "type"),
    "JupyterLab asks because of the agent": ([Question(1, "page")], same("x"), "question"),
    "only one place is looked at": ([typed()], End({"page": cells(P)}), "history"),
    "an act that nobody knows": ([did("dance")], same("x"), "history"),
    "a token is written twice": ([typed(), typed(at=2)], same(P), "history"),
    "a token is none": ([typed("word")], same("word"), "history"),
}


@pytest.mark.parametrize("case", LOSSES)
def test_it_finds(case: str) -> None:
    events, end, kind = LOSSES[case]
    assert kind in kinds(events, end)


@pytest.mark.parametrize("kind", sorted(KEEPING))
def test_what_keeps_everything_is_no_reason_for_a_loss(kind: str) -> None:
    assert kinds([typed(), did(kind, gone={P: "c0"}, cells=frozenset({"c0"}))], same("x")) == [
        "lost"
    ]


def test_a_loss_on_disk_alone_is_found_too() -> None:
    there = End({"page": cells(P), "server": cells(P), "disk": cells("x")})
    assert set(kinds([typed()], there)) == {"differs", "lost"}


# ---- legitimate histories

ALLOWED: dict[str, tuple[list[Event], End]] = {
    "nothing happened": ([], same("x")),
    "everything is there": (
        [typed(), edited(A), Wrote(4, "editor", (O,))],
        same(f"{P}{A}", O),
    ),
    "an edit that was refused is not there": ([edited(A, outcome="refused")], same("x")),
    "an edit of which nobody knows is there": ([edited(A, outcome="unknown")], same(A)),
    "an edit of which nobody knows is not there": ([edited(A, outcome="unknown")], same("x")),
    "a deletion of which nobody knows took place": (
        [typed(), edited(removes=[P], outcome="unknown", kind="delete")],
        same("x"),
    ),
    "a deletion of which nobody knows did not take place": (
        [typed(), edited(removes=[P], outcome="unknown", kind="delete")],
        same(P),
    ),
    "the agent deletes what it had read": (
        [typed(), edited(removes=[P], kind="delete")],
        same("x"),
    ),
    "a later edit is merged over an earlier one": (
        [edited(A), edited(A2, begin=4, end=5, removes=[A])],
        same(A2),
    ),
    "a turn is undone": (
        [edited(A), edited(kind="undo", begin=4, end=5, removes=[A])],
        same("x"),
    ),
    "an undo brings back what the turn removed": (
        [
            edited(A),
            edited(kind="delete", begin=4, end=5, removes=[A]),
            edited(A, kind="undo", begin=6, end=7),
        ],
        same(A),
    ),
    "a person undoes their own typing": ([typed(), did("undo", gone={P: "c0"})], same("x")),
    "a person does it again": (
        [typed(), did("undo", gone={P: "c0"}), did("redo", 6, moved=(Moved(P, "c0", 1),))],
        same(P),
    ),
    "a person cuts a cell, whoever wrote it": (
        [typed(), edited(A), did("cut", gone={P: "c0", A: "c0"}, cells=frozenset({"c0"}))],
        same("x"),
    ),
    "a person cuts a cell in which the agent is just writing": (
        [edited(A, begin=3, end=9), did("cut", gone={A: "c0"}, cells=frozenset({"c0"}))],
        same("x"),
    ),
    "a person cuts a cell and pastes it twice": (
        [
            typed(),
            did("cut", gone={P: "c0"}, cells=frozenset({"c0"})),
            did("paste", 5, moved=(Moved(P, "c1", 1),)),
            did("paste", 6, moved=(Moved(P, "c2", 1),)),
        ],
        same(P, P),
    ),
    "a person takes back a paste of what the agent wrote": (
        [
            edited(A),
            did("paste", 5, moved=(Moved(A, "c1", 1),)),
            did("undo", 6, gone={A: "c1"}),
        ],
        same(A),
    ),
    "a cell is moved while somebody pastes": (
        [typed(), did("paste", moved=(Moved(P, "c0", 1), Moved(P, "c0", -1)))],
        same(P),
    ),
    "a split puts a token elsewhere": (
        [typed(), did("split", moved=(Moved(P, "c0", -1), Moved(P, "c1", 1)))],
        same("x", P),
    ),
    "what was not saved is given up by a reload": (
        [typed(), did("reload", before={P: 1}, file={}, after={})],
        same("x"),
    ),
    "an edit that was not saved is given up by a reload": (
        [edited(A, begin=4.1, end=4.4, saved=False), did("reload", file={}, after={})],
        same("x"),
    ),
    "what was saved at the last moment is there after a reload": (
        [typed(), did("reload", before={P: 1}, file={}, after={P: 1})],
        same(P),
    ),
    "what a reload brings back is there": (
        [typed(), did("undo", gone={P: "c0"}), did("reload", 6, file={P: 1}, after={P: 1})],
        same(P),
    ),
    "a checkpoint is restored": (
        [
            typed(),
            typed(P2, at=2),
            did("restore", before={P: 1, P2: 1}, file={P: 1}, after={P: 1}),
        ],
        same(P),
    ),
    "what was told is gone": ([typed(), Told(2, frozenset({P}), "dialog")], same("x")),
    "what was told is there": ([typed(), Told(2, frozenset({P}), "dialog")], same(P)),
    "keys that a dialog may have taken": ([typed(sure=False)], same("x")),
    "keys that no dialog took": ([typed(sure=False)], same(P)),
    "the type of two who were at it at the same time": (
        [
            edited(kind="retype", types={"c0": "markdown"}, begin=4, end=5),
            did("retype", 4.2, types={"c0": "code"}),
        ],
        same("x"),
    ),
    "a type that was given back": (
        [
            edited(kind="retype", types={"c0": "markdown"}),
            did("retype", types={"c0": "code"}),
        ],
        same("x"),
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_it_accepts(case: str) -> None:
    events, end = ALLOWED[case]
    assert faults(events, end) == []


def test_where_others_write_the_file_jupyterlab_may_ask() -> None:
    assert faults([Question(1, "page")], same("x"), alone=False) == []


@pytest.mark.parametrize("case", ALLOWED)
def test_of_whatever_is_accepted_no_word_may_be_taken_away_or_doubled(case: str) -> None:
    """If the history leaves something open, only that may vary."""
    events, end = ALLOWED[case]
    expected = checker.expectations(events)
    for token, known in expected.items():
        source = " ".join(cell.source for cell in end.places["page"])
        less, more = source.replace(token, "", 1), f"{source} {token}"
        if known.low and known.low == tokens(source)[token]:
            assert "lost" in kinds(events, same(less))
        while tokens(more)[token] <= known.high:
            more += f" {token}"
        assert {"doubled", "returned"} & set(kinds(events, same(more)))


@pytest.mark.full
def test_a_long_history_hides_no_loss() -> None:
    """Among a thousand random events, the one thing that goes wrong at the end is found."""
    choose = random.Random(16)
    letters = itertools.product("EGNQTU", repeat=6)
    events: list[Event] = []
    there: list[str] = []
    for at in range(0, 1000, 2):
        token = f"W{''.join(next(letters))}W"
        match choose.randrange(5):
            case 0:
                events.append(typed(token, at))
                there.append(token)
            case 1:
                events.append(edited(token, begin=at, end=at + 1))
                there.append(token)
            case 2:
                events.append(edited(token, begin=at, end=at + 1, outcome="refused"))
            case 3 if there:
                taken = there.pop(choose.randrange(len(there)))
                gone = did("cut", at, gone={taken: "c0"}, cells=frozenset({"c0"}))
                events.append(gone)
            case 4:
                events.append(did("reload", at, file=dict.fromkeys(there, 1), after=None))
            case _:
                events.append(did("split", at))
    assert faults(events, same(*there)) == []
    for missing in there:
        rest = [token for token in there if token != missing]
        assert [(one.kind, one.what) for one in faults(events, same(*rest))] == [("lost", missing)]


def test_the_order_in_which_the_log_was_written_does_not_matter() -> None:
    events: list[Event] = [typed(), did("undo", gone={P: "c0"}), typed(P2, at=9)]
    for order in itertools.permutations(events):
        assert faults(order, same(P2)) == []
        assert kinds(order, same(P, P2)) == ["returned"]


def test_a_fault_says_what_was_known_of_the_token() -> None:
    (fault,) = faults([typed(), replace(edited(), removes={P: 1}, outcome="refused")], same("x"))
    assert "written by person" in str(fault)
    assert "0 in page, expected 1..1" in str(fault)


def test_it_knows_nothing_of_the_product() -> None:
    tree = ast.parse(Path(checker.__file__).read_text(encoding="utf-8"))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= set(sys.stdlib_module_names)


def test_what_a_person_takes_away_before_the_agent_is_answered_is_not_lost() -> None:
    """Their page did not have the edit yet, so it says nothing about its words."""
    edit = edited(A, begin=2, end=5, cell="c1")
    gone = did("delete", 3, cells=frozenset({"c1"}))
    assert kinds([edit, gone], same("")) == []
    assert kinds([edit, replace(gone, cells=frozenset({"c2"}))], same("")) == ["lost"]
    assert kinds([edit, replace(gone, begin=1, end=1.5)], same("")) == ["lost"]


def test_a_file_that_is_loaded_in_the_midst_of_a_turn_may_be_from_before_its_edits() -> None:
    load = did("revert", 3, after={})
    assert kinds([edited(A, begin=2, end=9, kind="turn"), load], same("")) == []
    assert kinds([edited(A, begin=4, end=9, kind="turn"), load], same("")) == ["lost"]
    assert kinds([edited(A, begin=2, end=9), load], same("")) == ["lost"]
