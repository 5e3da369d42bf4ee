"""`jupyter agent ...`: the assistant from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from jupyter_agent import __version__
from jupyter_agent.cli import blame, log, usage, verify
from jupyter_agent.cli.demo import headless, lab


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="jupyter agent", description="An assistant that works inside your notebooks."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="an example notebook with the assistant beside it; needs no key and no network",
        description="Opens JupyterLab with an example notebook and the assistant's panel. A "
        "scripted tour answers, so it costs nothing; --model chooses a real one.",
    )
    demo.add_argument(
        "--headless",
        action="store_true",
        help="no browser: runs the tour on a copy of the example notebook and prints what it did",
    )
    demo.add_argument("--model", default="demo:tour", help="who answers (default: %(default)s)")
    demo.add_argument(
        "server", nargs="*", help="options for Jupyter after `--`, e.g. -- --no-browser --port 8890"
    )
    demo.set_defaults(
        command=lambda given: (headless if given.headless else lab)(given.model, given.server)
    )
    blame.add_to(commands)
    log.add_to(commands)
    usage.add_to(commands)
    verify.add_to(commands)
    given = parser.parse_args(arguments)
    code: int = given.command(given)
    return code


if __name__ == "__main__":
    sys.exit(main())
