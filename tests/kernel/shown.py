"""A sink that records outputs, and an interrupt that is only reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jupyter_server.serverapp import ServerApp

from jupyter_agent.kernel.kernel import Kernel


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


def report_interrupt(kernel: Kernel, app: ServerApp) -> None:
    """As Jupyter does after an interrupt."""
    data = {"kernel_id": kernel.id, "kernel_name": "python3", "action": "interrupt"}
    schema = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
    manager = app.kernel_manager.get_kernel(kernel.id)
    manager.emit(schema_id=schema, data={**data, "status": "success", "msg": "Interrupted."})
