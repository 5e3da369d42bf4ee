"""`jupyter agent --help-all`: the commands, and the configuration of the server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

_HEAD = """\
configuration of the server, as options of `jupyter lab` and `jupyter server`, or in
jupyter_server_config.py as `c.JupyterAgent.NAME = ...`:"""


class HelpAll(argparse.Action):
    """Prints the help with all traits, and ends."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **more)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        from jupyter_agent.extension import JupyterAgent  # a second, only for this

        traits = JupyterAgent.class_own_traits(config=True)
        told = [JupyterAgent.class_get_trait_help(trait) for _, trait in sorted(traits.items())]
        sys.stdout.write(f"{parser.format_help()}\n{_HEAD}\n\n" + "\n".join(told) + "\n")
        parser.exit()
