"""`jupyter agent conversations`: questions and answers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jupyter_agent.cli.offline import add_store, local, shorten
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.servers import anywhere, existing, serving

EXAMPLES = """\
  jupyter agent conversations
  jupyter agent conversations --notebook sales.ipynb --search median
  jupyter agent conversations cli-4f0c > talk.md
"""
_TITLE_CHARS = 60


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "conversations",
        help="list conversations, or print one",
        description="Lists your conversations, newest first, or prints one as Markdown.",
        examples=EXAMPLES,
    )
    parser.add_argument("conversation", nargs="?", metavar="ID", help="print this one")
    parser.add_argument("--notebook", type=Path, metavar="NOTEBOOK", help="only about this one")
    parser.add_argument("--search", metavar="TEXT", help="only those with this text")
    parser.add_argument(
        "--json",
        action="store_true",
        help="as GET conversations; of one, the export with all events (see `replay`)",
    )
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per conversation, or the named one."""
    console = standard()
    notebook = existing(given.notebook) if given.notebook else None
    about = serving(notebook, given.store) if notebook else anywhere(given.store)
    with about as server:
        if given.conversation:
            form = "json" if given.json else "md"
            route = f"conversations/{quote(given.conversation, '')}/export?format={form}"
            answer = server.ask("GET", route)
        else:
            query = {
                **({"notebook": server.path(notebook)} if notebook else {}),
                **({"q": given.search} if given.search else {}),
            }
            answer, page = {"conversations": [], "next_page": 1}, 1
            while page:
                more = server.ask("GET", f"conversations?{urlencode({**query, 'page': page})}")
                answer["conversations"] += more["conversations"]
                page = more["next_page"]
            answer["next_page"] = None
    if given.json:
        console.json(answer)
    elif given.conversation:
        console.line(answer.rstrip("\n"))
    else:
        for each in answer["conversations"]:
            title = shorten(" ".join((each["title"] or "").split()), _TITLE_CHARS)
            facts = [each["id"], local(each["updated"]), each["state"] or "", title]
            console.line("  ".join([*facts, each["notebook"] or ""]).rstrip())
    return 0
