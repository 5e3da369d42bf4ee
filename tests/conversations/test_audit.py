"""The audit under load."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_agent.conversations.audit import AuditEntry, AuditLog
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.schema import MIGRATIONS


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads switch far more often than by default."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_many_calls_that_end_at_once_are_all_in_the_audit(tmp_path: Path, hurried: None) -> None:
    database = Database(tmp_path / "a.db", MIGRATIONS, logging.getLogger())
    audit = AuditLog(database)
    entry = AuditEntry(
        owner="o", entry="chat", tool="t", decision="run", outcome="done", turn_id="t1"
    )

    async def many() -> int:
        for _ in range(150):
            await asyncio.gather(*(audit.add([entry]) for _ in range(30)))
        return len(await audit.of_turn("t1"))

    assert asyncio.run(many()) == 4500
    database.close()
