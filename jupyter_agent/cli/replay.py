"""`jupyter agent replay`: shows a recorded answer, without a server and without a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_agent.cli.answer import AnswerPrinter
from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.cli.words import Cells
from jupyter_agent.client.server import ServerRefused
from jupyter_agent.words import Phrasebook

EXAMPLES = """\
  jupyter agent conversations cli-4f0c --json > talk.json && jupyter agent replay talk.json
  jupyter agent replay turn.sse      # the saved event stream of POST chat
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "replay",
        help="show a recorded answer again; nothing is run or sent",
        description="Shows the turns of an exported conversation, or of a saved event stream, as "
        "`ask` showed them. Runs, changes and sends nothing. Exits as the last turn did.",
        examples=EXAMPLES,
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints the turns; returns the exit code of the last one."""
    console = standard()
    code = Exit.FAILED
    from jupyter_agent.tools import toolbox  # takes a second: only here

    phrases = Phrasebook(toolbox().describe())
    with console.working() as working:
        for question, events in _turns(given.file):
            if question:
                console.line(f"> {question}", "strong")
            answer = AnswerPrinter(console, working, Cells(), phrases)
            try:
                for event in events:
                    answer.show(event)
            except (LookupError, TypeError, AttributeError):
                raise _unusable(given.file) from None
            for line in answer.summary():
                console.line(line, "faint")
            code = answer.exit_code
    return code


def _turns(file: Path) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Questions and events of a recording. Raises ServerRefused if the file is not a recording."""
    try:
        text = file.read_text(encoding="utf-8")
        if not text.lstrip().startswith("{"):
            yield "", list(_frames(text))
            return
        recorded = json.loads(text)
        questions = [each for each in recorded["messages"] if each["role"] == "user"]
        for turn, question in zip(recorded["turns"], questions, strict=True):
            parts = [part["text"] for part in question["parts"] if part["type"] == "text"]
            yield " ".join(parts), turn["events"]
    except FileNotFoundError:
        raise ServerRefused(f"There is no file {file}.", 404, "not_found") from None
    except (OSError, ValueError, LookupError, TypeError):
        raise _unusable(file) from None


def _frames(text: str) -> Iterator[Mapping[str, Any]]:
    frames = [
        line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")
    ]
    if not frames:
        raise ValueError
    for data in frames:
        if data != "[DONE]":
            yield json.loads(data)


def _unusable(file: Path) -> ServerRefused:
    return ServerRefused(
        f"{file} is not a recording: neither `jupyter agent conversations ID --json` nor the event "
        "stream of POST chat.",
        400,
        "invalid_input",
    )
