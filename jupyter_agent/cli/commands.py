"""All commands of `jupyter agent`, and how each ends."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from types import FunctionType
from typing import Any

from jupyter_agent import __version__, entry_points
from jupyter_agent.cli.exits import Exit, of_refusal
from jupyter_agent.cli.terminal import drop, printable, put
from jupyter_agent.client.server import ServerRefused
from jupyter_agent.entry_points import UnusablePlug

_HEAD = """\
configuration of the server, as options of `jupyter lab` and `jupyter server`, or in
jupyter_server_config.py as `c.JupyterAgent.NAME = ...`:"""


class HelpAll(argparse.Action):
    """Prints the help with all traits and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **more)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        from jupyter_agent.extension import JupyterAgent  # slow to import: about a second

        traits = JupyterAgent.class_own_traits(config=True)
        helps = [JupyterAgent.class_get_trait_help(trait) for _, trait in sorted(traits.items())]
        put(sys.stdout, f"{parser.format_help()}\n{_HEAD}\n\n" + "\n".join(helps) + "\n")
        parser.exit()


class _Command(argparse.ArgumentParser):
    """Refuses unknown options with its own usage, which lists the known ones, and not with that of
    all commands."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return given, unknown


COMMANDS = (
    "ask", "blame", "changes", "completion", "connect", "conversations", "demo", "doctor", "edit",
    "log", "mcp", "models", "replay", "run", "show", "undo", "usage",
)  # fmt: skip
"""The modules of the commands, with the same names."""
EXAMPLES = """\
examples:
  jupyter agent demo
  jupyter agent ask sales.ipynb "Plot the sales by month"
  jupyter agent COMMAND --help
"""


def parser(word: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands, plugs included. If `word` is the name of a command that is not a
    plug, it has only that one: to load the others takes longer than many commands.
    """
    whole = argparse.ArgumentParser(
        prog="jupyter agent",
        description="An assistant that works inside your notebooks.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=__version__)
    whole.add_argument("--help-all", action=HelpAll, help="this help with the configuration")
    commands = whole.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)
    alone = word in COMMANDS and word != "completion"  # which lists them all
    for name in [word] if alone else COMMANDS:
        import_module(f"jupyter_agent.cli.{name}").add_to(commands)
    if not alone:
        plugs = entry_points.find("commands")
        wanted = {word: plugs[word]} if word is not None and word in plugs else plugs
        entry_points.usable(wanted, partial(_add_plug, commands))
    return whole


def _add_plug(commands: Any, point: EntryPoint) -> None:
    """Raises UnusablePlug; then nothing was added."""
    if point.name in commands.choices:
        raise UnusablePlug(point, "has the name of a command of jupyter_agent")
    add_to = entry_points.load(point, FunctionType)
    trial = argparse.ArgumentParser()
    with _failures_of(point):
        add_to(added := trial.add_subparsers())
        trial.format_help()
    if taken := commands.choices.keys() & added.choices.keys():
        raise UnusablePlug(point, f"adds `{min(taken)}`, which is another command")
    if point.name not in added.choices:
        raise UnusablePlug(point, "adds a command of another name")
    if not callable(added.choices[point.name].get_default("command")):
        raise UnusablePlug(point, "adds a command without a function, its default for `command`")
    with _failures_of(point):
        add_to(commands)


@contextmanager
def _failures_of(point: EntryPoint) -> Iterator[None]:
    """Raises UnusablePlug for whatever the function of a plug raises."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise UnusablePlug(point, f"cannot be added: {entry_points.describe(error)}") from error


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Raises KeyboardInterrupt."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters the terminal lacks appear as escapes
            stream.reconfigure(errors="backslashreplace")
    try:
        given = _parse(sys.argv[1:] if arguments is None else arguments)
        code: int = given.command(given)
        sys.stdout.flush()
    except ServerRefused as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        return of_refusal(error)
    except BrokenPipeError:  # the reader, such as `head`, has enough
        drop(sys.stdout)
        return Exit.DONE
    return code


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Raises SystemExit after a help or for a wrong command line."""
    try:
        return parser(words[0] if words else None).parse_args(words)
    except SystemExit:
        put(sys.stdout, "")  # argparse leaves it to Python's end to notice a full disk
        raise


def _open_closed_streams() -> None:
    """What a command writes to a stream that it was started without is lost, and nothing else."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
