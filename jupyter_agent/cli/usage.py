"""`jupyter agent usage`: tokens, costs, steps and time by day, model or notebook."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store, shorten
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.client.servers import ask_any
from jupyter_agent.client.stores import Unknown, open_store
from jupyter_agent.conversations.usage import GROUPINGS, cost_of, report, tokens_of

_SECONDS = 30.0
"""Timeout for a running server."""
_WIDEST = 60
"""Maximum characters of a name."""
_COLUMNS = ("turns", "steps", "input", "cache read", "cache write", "output", "cost", "seconds")

EXAMPLES = """\
  jupyter agent usage --by model
  jupyter agent usage --by notebook --from 2026-11-01 --json
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "usage",
        help="tokens, costs, steps and time of your turns by day, model or notebook",
        description="Asks a running Jupyter server, or reads the store if none runs. A day is "
        "the UTC day on which a turn started. Steps and seconds are averages per turn, tokens and "
        "cost are sums; a cost is known if the model has a price (JupyterAgent.model_facts).",
        examples=EXAMPLES,
    )
    parser.add_argument("--by", choices=GROUPINGS, default="day", help="default: %(default)s")
    parser.add_argument(
        "--from", dest="first", type=_day, metavar="DAY", help="e.g. 2026-11-01; default: the first"
    )
    parser.add_argument("--to", dest="last", type=_day, metavar="DAY", help="default: today")
    parser.add_argument("--json", action="store_true", help="as GET usage")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints a line per day, model or notebook, and the sum; 1 with a message if there is no
    data."""
    console = standard()
    if given.first and given.last and given.first > given.last:
        console.tell("`--from` has to be no later than `--to`.")
        return Exit.USAGE
    try:
        report = (None if given.store else _ask(given)) or _look_up(given)
    except Unknown as error:
        console.tell(shorten(str(error), 1000))
        return 1
    if given.json:
        console.json(report)
    else:
        for line in _lines(report):
            console.line(line)
    return 0


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        message = f"`{text}` is not a day such as 2026-11-23"
        raise argparse.ArgumentTypeError(message) from None


def _ask(given: argparse.Namespace) -> dict[str, Any] | None:
    query = {"by": given.by, "from": given.first, "to": given.last}
    query_string = urlencode(
        {name: str(value) for name, value in query.items() if value is not None}
    )
    return ask_any(Path.cwd(), f"usage?{query_string}", seconds=_SECONDS)


def _look_up(given: argparse.Namespace) -> dict[str, Any]:
    """Reads the usage of all owners from the store."""
    with open_store(given.store, "No Jupyter server with the assistant runs. ") as db:
        return report(db, None, given.by, given.first, given.last)


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    by = report["by"]
    rows = [[by, *_COLUMNS]]
    rows += [_row(shorten(str(group[by] or "-"), _WIDEST), group) for group in report["groups"]]
    rows.append(_row("all", report["total"]))
    yield from _align(rows)
    if "month" in report:
        yield from _budget(report["month"])


def _budget(month: Mapping[str, Any]) -> Iterator[str]:
    """How much of this month's budget was used, if there is one."""
    tokens, cost = month["token_budget"], month["cost_budget"]
    spent = []
    if tokens is not None:
        spent.append(tokens_of(month["tokens"], tokens))
    if cost is not None:
        spent.append(cost_of(month["usage"]["cost"] or 0, cost))
    if spent:
        yield f"Used this month, until {month['until']} at 00:00 UTC: {' and '.join(spent)}."


def _row(name: str, group: Mapping[str, Any]) -> list[str]:
    usage, average = group["usage"], group["average"]
    kinds = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
    return [
        name,
        f"{group['turns']:,}",
        _number(average["steps"], 1),
        *(f"{usage[kind]:,}" for kind in kinds),
        _number(usage["cost"], 4),
        _number(average["seconds"], 1),
    ]


def _number(value: float | None, places: int) -> str:
    return "-" if value is None else f"{value:,.{places}f}"


def _align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of equal width; names left-aligned, numbers right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        cells = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *cells])
