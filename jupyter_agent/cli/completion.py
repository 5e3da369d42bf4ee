"""`jupyter agent completion`: shell completion for commands and options."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import put

Commands: TypeAlias = Mapping[str, argparse.ArgumentParser]

EXAMPLES = """\
  source <(jupyter agent completion bash)                                  # in ~/.bashrc
  source <(jupyter agent completion zsh)                                   # in ~/.zshrc
  jupyter agent completion fish > ~/.config/fish/completions/jupyter-agent.fish
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "completion",
        help="print a completion script for bash, zsh or fish",
        description="Completes `jupyter agent` and `jupyter-agent`.",
        examples=EXAMPLES,
    )
    parser.add_argument("shell", choices=_SCRIPTS)
    parser.set_defaults(command=partial(run, commands.choices))


def run(commands: Commands, given: argparse.Namespace) -> int:
    """Prints the script."""
    put(sys.stdout, "".join(f"{line}\n" for line in _SCRIPTS[given.shell](commands)))
    return 0


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a command; argparse has no public list of them."""
    return (action for action in parser._actions if action.option_strings)


def _long(parser: argparse.ArgumentParser) -> list[str]:
    return [action.option_strings[-1] for action in _options(parser)]


def _choices(commands: Commands) -> dict[str, list[str]]:
    """The allowed values after an option or a command, if there is a fixed list."""
    found: dict[str, list[str]] = {}
    for name, parser in commands.items():
        for action in parser._actions:
            if action.choices is not None:
                key = action.option_strings[-1] if action.option_strings else name
                found[key] = [str(choice) for choice in action.choices]
    return found


def _bash(commands: Commands) -> Iterator[str]:
    yield "_jupyter_agent() {"
    yield '  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at=1 list=""'
    yield "  [[ ${COMP_WORDS[0]##*/} == jupyter ]] && at=2"
    yield "  if (( COMP_CWORD == at )); then"
    yield f"    list={shlex.quote(' '.join(commands))}"
    yield '  elif [[ "$word" == -* ]]; then'
    yield "    case ${COMP_WORDS[at]} in"
    for name, parser in commands.items():
        yield f"      {name}) list={shlex.quote(' '.join(_long(parser)))} ;;"
    yield "    esac"
    yield "  else"
    yield "    case $before in"
    for key, choices in _choices(commands).items():
        yield f"      {key}) list={shlex.quote(' '.join(choices))} ;;"
    yield "    esac"
    yield "  fi"
    yield '  COMPREPLY=($(compgen -W "$list" -- "$word"))'
    yield "}"
    earlier = "sed -n 's/.*-F \\([^ ]*\\).*/\\1/p'"
    yield f"_jupyter_agent_earlier=$(complete -p jupyter 2>/dev/null | {earlier})"
    yield "_jupyter_agent_of_jupyter() {"
    yield "  if (( COMP_CWORD > 1 )) && [[ ${COMP_WORDS[1]} == agent ]]; then _jupyter_agent"
    yield '  elif [[ -n "$_jupyter_agent_earlier" ]]; then "$_jupyter_agent_earlier" "$@"'
    yield "  fi"
    yield "}"
    yield "complete -o default -F _jupyter_agent jupyter-agent"
    yield "complete -o default -F _jupyter_agent_of_jupyter jupyter"


def _zsh(commands: Commands) -> Iterator[str]:
    yield "#compdef jupyter-agent"
    yield "_jupyter_agent() {"
    yield "  if [[ ${words[1]:t} == jupyter ]]; then"
    yield "    [[ $words[2] == agent ]] || { _default; return }"
    yield "    shift words; (( CURRENT-- ))"
    yield "  fi"
    yield f"  if (( CURRENT == 2 )); then compadd -- {' '.join(commands)}; return; fi"
    yield "  if [[ $words[CURRENT] == -* ]]; then"
    yield "    case $words[2] in"
    for name, parser in commands.items():
        yield f"      {name}) compadd -- {' '.join(_long(parser))} ;;"
    yield "    esac"
    yield "    return"
    yield "  fi"
    yield "  case $words[CURRENT-1] in"
    for key, choices in _choices(commands).items():
        yield f"    {key}) compadd -- {' '.join(choices)}; return ;;"
    yield "  esac"
    yield "  _files"
    yield "}"
    yield "compdef _jupyter_agent jupyter-agent jupyter"


_PROGRAMS = {"jupyter-agent": "", "jupyter": "__fish_seen_subcommand_from agent; and "}
"""In fish: how a command line starts."""


def _fish(commands: Commands) -> Iterator[str]:
    names = " ".join(commands)
    for program, first in _PROGRAMS.items():
        none = f"{first}not __fish_seen_subcommand_from {names}"
        yield f"complete -c {program} -n {shlex.quote(none)} -f -a {shlex.quote(names)}"
        for name, parser in commands.items():
            seen = shlex.quote(f"{first}__fish_seen_subcommand_from {name}")
            for action in _options(parser):
                option = action.option_strings[-1].removeprefix("--")
                values = " ".join(map(str, action.choices)) if action.choices else ""
                takes = f" -x -a {shlex.quote(values)}" if values else " -r" * (action.nargs != 0)
                yield f"complete -c {program} -n {seen} -l {option}{takes}"


_SCRIPTS: Mapping[str, Callable[[Commands], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
