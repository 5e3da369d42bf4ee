"""Code in a kernel or another program that stands still until a test lets it go on."""

from __future__ import annotations

import os
from pathlib import Path

FOREVER = "import threading; threading.Event().wait()"
"""A cell that runs until it is interrupted."""


class Gate:
    """A named pipe: who reads it waits for who writes it. An interrupt ends the waiting too."""

    def __init__(self, pipe: Path) -> None:
        os.mkfifo(pipe)
        self._pipe = pipe
        self.wait = f"open({str(pipe)!r}).read()"
        """The statement that stands still."""

    def open(self) -> None:
        """Lets it go on, once it stands there."""
        self._pipe.write_text("open")
