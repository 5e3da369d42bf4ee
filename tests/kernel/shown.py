"""A sink that records outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Shown:
    """Records the outputs of a piece of code, in order."""

    events: list[tuple[Any, ...]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    printed: asyncio.Event = field(default_factory=asyncio.Event)
    is_wanted: bool = True

    @property
    def text(self) -> str:
        return "".join(event[2] for event in self.events if event[0] == "stream")

    def kinds(self) -> list[str]:
        return [event[0] for event in self.events]

    async def prepare(self) -> bool:
        return self.is_wanted

    def on_start(self) -> None:
        assert not self.begun.is_set(), "code starts once"
        self.begun.set()

    def stream(self, name: str, text: str) -> None:
        self.events.append(("stream", name, text))
        self.printed.set()

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None:
        self.events.append((output["output_type"], output, display_id))

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        self.events.append(("update", display_id, data))

    def clear(self, wait: bool) -> None:
        self.events.append(("clear", wait))
