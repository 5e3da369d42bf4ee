"""Parsed Yjs updates match what pycrdt wrote, and only the given deletions are left out."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pycrdt import Array, Doc, Map, Text

from jupyter_agent.document.insertions import clocks
from jupyter_agent.plugs.rooms.room_updates import (
    RoomUpdate,
    brings_nothing,
    deletes_nothing,
    union,
)

OUTPUT = {"data": {"a": [1.0, 2.5, None, True, {"😀": -7}], "b": b"12", "c": 2**60}}


def test_updates_are_read_and_written_as_they_were() -> None:
    updates, document = _played()
    for update in [*updates, document.get_update()]:
        read = RoomUpdate.read(update)
        assert RoomUpdate.read(read.encode()) == read
        assert len(read.encode()) == len(update)
        assert deletes_nothing(update) == (read.deletes == {})
        assert brings_nothing(update) == (read.brings == {})
    ends = {client: ranges[-1][1] for client, ranges in read.brings.items()}
    assert ends == clocks(document.get_state())


def test_a_deletion_that_is_left_out_leaves_what_it_deleted() -> None:
    one: Doc[Any] = Doc()
    cells = one.get("cells", type=Array)
    cells.extend([Map({"source": Text(name)}) for name in "abc"])
    other: Doc[Any] = Doc()
    other.apply_update(one.get_update())
    updates: list[bytes] = []
    one.observe(lambda event: updates.append(event.update))
    del cells[0]
    del cells[1]
    spared, kept = map(RoomUpdate.read, updates)
    together = RoomUpdate.read(one.get_update()).drop_deletions(spared.deletes)
    other.apply_update(together.encode())
    assert [str(cell["source"]) for cell in other.get("cells", type=Array)] == ["a", "b"]
    assert (
        RoomUpdate.read(one.get_update())
        .drop_deletions(union(spared.deletes, kept.deletes))
        .deletes
        == {}
    )


def test_what_an_update_brings_and_deletes_is_dead_on_arrival() -> None:
    update = RoomUpdate(b"", {1: [(0, 9)], 2: [(3, 4)]}, {1: [(2, 4), (7, 12)], 3: [(0, 1)]})
    assert update.dead_on_arrival == {1: [(2, 4), (7, 9)]}
    assert update.drop_deletions({1: [(0, 3), (8, 10)], 3: [(0, 5)]}).deletes == {
        1: [(3, 4), (7, 8), (10, 12)]
    }


@pytest.mark.parametrize("garbage", [b"", b"\x01\x01", b"\x01\x01\x01\x00\x1f"])
def test_garbage_is_a_value_error(garbage: bytes) -> None:
    with pytest.raises(ValueError, match="update"):
        RoomUpdate.read(garbage)


def _played() -> tuple[list[bytes], Doc[Any]]:
    random_ = random.Random(1)
    document: Doc[Any] = Doc()
    updates: list[bytes] = []
    document.observe(lambda event: updates.append(event.update))
    cells = document.get("cells", type=Array)
    for step in range(300):
        with document.transaction():
            if random_.random() < 0.3 or not len(cells):
                cell = {"id": f"é{step}", "source": Text("a😀é"), "outputs": Array([Map(OUTPUT)])}
                cells.insert(random_.randrange(len(cells) + 1), Map(cell))
            elif random_.random() < 0.3:
                del cells[random_.randrange(len(cells))]
            else:
                source = random_.choice(list(cells))["source"]
                if random_.random() < 0.3:
                    source.clear()
                else:
                    source.insert(0, "😀zu")
    return updates, document
