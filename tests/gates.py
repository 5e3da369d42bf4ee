"""Gates for code in a kernel, or in another process, that waits until a test opens them."""

from __future__ import annotations

import os
from pathlib import Path

FOREVER = "import itertools, threading; any(map(threading.Event().wait, itertools.repeat(0.5)))"
"""Code that runs until it is interrupted or its process ends. It wakes now and then, because Python
can miss a signal that comes just as it begins to wait for ever.
"""


class Gate:
    """Closed until it is opened; then it stays open for everyone."""

    def __init__(self, path: Path) -> None:
        """`path`: must not exist yet."""
        self.path = path
        os.mkfifo(path)
        self._pipe = os.open(path, os.O_RDWR)

    def open(self) -> None:
        """Lets all pass; each reads one line from the pipe."""
        os.write(self._pipe, b"\n" * 1_000)

    @property
    def waits(self) -> str:
        """A line of Python that waits until the gate is open."""
        return f"_ = {self._opened}.read(1)"

    def repeats(self, line: str) -> str:
        """Python code that repeats a line until the gate is open."""
        shut = f"not select.select([{self._opened}], [], [], 0.02)[0]"
        return f"import select\nwhile {shut}:\n    {line}"

    @property
    def _opened(self) -> str:
        return f"open({str(self.path)!r}, 'rb', 0)"
