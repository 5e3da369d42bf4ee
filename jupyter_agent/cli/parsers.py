"""Shared parser set-up for all commands: wrapped text, then examples verbatim."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

_WIDTH = 80


def add_command(
    commands: Any, name: str, help: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Adds a parser for a command of `jupyter agent`."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=textwrap.fill(description, _WIDTH),
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser
