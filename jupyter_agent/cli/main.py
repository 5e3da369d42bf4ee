"""The program `jupyter agent`. It imports nothing before it can take Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_STOPPED = 130
"""`Exit.STOPPED`, which takes a while to import."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        from jupyter_agent.cli.commands import run

        return run(arguments)
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("Interrupted.\n")
        return _STOPPED


if __name__ == "__main__":
    sys.exit(main())
