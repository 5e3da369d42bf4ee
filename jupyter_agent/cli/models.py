"""`jupyter agent models`: available models, and which have a key."""

from __future__ import annotations

import argparse
from typing import Any
from urllib.parse import quote

from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.servers import anywhere

EXAMPLES = """\
  jupyter agent models
  jupyter agent models --of openai      # asks the provider itself, with your key
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "models",
        help="models and providers, and which of them have a key",
        description="Lists the known models as `provider:model`, with `*` before the default. "
        "Never shows keys.",
        examples=EXAMPLES,
    )
    parser.add_argument("--of", metavar="PROVIDER", help="models that the provider itself lists")
    parser.add_argument("--json", action="store_true", help="as the route answers")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per model."""
    console = standard()
    with anywhere(given.store) as server:
        if given.of:
            answer = server.ask("POST", f"providers/{quote(given.of, '')}/models", {})
        else:
            answer = server.ask("GET", "models")
    if given.json:
        console.json(answer)
    elif given.of:
        for model in answer["models"]:
            console.line(f"{given.of}:{model}")
    else:
        named = [
            (f"{provider['name']}:{model}", provider["credentials"])
            for provider in answer["providers"]
            for model in provider["models"] or ["..."]
        ]
        if answer["default"] not in dict(named):
            named.append((answer["default"], None))
        for model, ready in named:
            mark = "*" if model == answer["default"] else " "
            console.line(f"{mark} {model}{'' if ready or ready is None else '  (no key)'}")
    return 0
