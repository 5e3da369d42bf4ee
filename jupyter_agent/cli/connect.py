"""`jupyter agent connect`: gives an agent that you already use access to live notebooks."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jupyter_agent.cli.client_files import JsonFile, TomlFile, Unfit, read, write
from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.mcp import add_address, address_of
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, standard
from jupyter_agent.client.servers import running, with_assistant

SKILL = "jupyter-live-notebooks"
_OURS = "Written by `jupyter agent connect`"
"""Marks a skill that may be replaced or removed."""
_STDIO = {"type": "stdio"}
EXAMPLES = """\
  jupyter agent connect claude
  jupyter agent connect codex --mode edit
  jupyter agent connect vscode --project
  jupyter agent connect claude --remove

exit codes: 0 done, 1 a file was left unchanged, with the lines to add, 2 usage
"""


@dataclass(frozen=True)
class AgentProgram:
    """An agent, and where its MCP servers and skills are configured."""

    title: str
    user_file: Path
    project_file: str
    key: str
    """The key of the object with the servers."""
    user_skills: Path
    project_skills: str
    extra: Mapping[str, Any]
    """Fields of its entries besides the command."""
    one_list: bool = False
    """Whether the program and its arguments form one list."""

    @property
    def format(self) -> JsonFile | TomlFile:
        return TomlFile() if self.user_file.suffix == ".toml" else JsonFile()

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        """The entry that starts a program."""
        if self.one_list:
            return {**self.extra, "command": list(command)}
        return {**self.extra, "command": command[0], "args": list(command[1:])}


def clients(home: Path, environment: Mapping[str, str], platform: str) -> dict[str, AgentProgram]:
    """The agents by their names on the command line; `platform` as in `sys`."""
    config = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    editors = _editors(home, _code_folder(home, environment, config, platform))
    return _terminal_agents(home, environment, config) | editors


def _terminal_agents(
    home: Path, environment: Mapping[str, str], config: Path
) -> dict[str, AgentProgram]:
    claude = environment.get("CLAUDE_CONFIG_DIR")
    opencode = config / "opencode"
    with_comments = opencode / "opencode.jsonc"
    return {
        "claude": AgentProgram(
            "Claude Code",
            Path(claude or home, ".claude.json"),
            ".mcp.json",
            "mcpServers",
            Path(claude or home / ".claude", "skills"),
            ".claude/skills",
            _STDIO,
        ),
        "codex": AgentProgram(
            "Codex",
            Path(environment.get("CODEX_HOME") or home / ".codex", "config.toml"),
            ".codex/config.toml",
            "mcp_servers",
            home / ".agents/skills",
            ".agents/skills",
            {},
        ),
        "gemini": AgentProgram(
            "Gemini CLI",
            home / ".gemini/settings.json",
            ".gemini/settings.json",
            "mcpServers",
            home / ".gemini/skills",
            ".gemini/skills",
            {},
        ),
        "opencode": AgentProgram(
            "opencode",
            with_comments if with_comments.exists() else opencode / "opencode.json",
            "opencode.json",
            "mcp",
            opencode / "skills",
            ".opencode/skills",
            {"type": "local", "enabled": True},
            one_list=True,
        ),
    }


def _editors(home: Path, code: Path) -> dict[str, AgentProgram]:
    return {
        "cursor": AgentProgram(
            "Cursor",
            home / ".cursor/mcp.json",
            ".cursor/mcp.json",
            "mcpServers",
            home / ".cursor/skills",
            ".cursor/skills",
            _STDIO,
        ),
        "vscode": AgentProgram(
            "VS Code",
            code / "User/mcp.json",
            ".vscode/mcp.json",
            "servers",
            home / ".copilot/skills",
            ".github/skills",
            _STDIO,
        ),
    }


def _code_folder(home: Path, environment: Mapping[str, str], config: Path, platform: str) -> Path:
    if platform == "darwin":
        return home / "Library/Application Support/Code"
    if platform == "win32":
        return Path(environment.get("APPDATA") or home / "AppData/Roaming", "Code")
    return config / "Code"


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "connect",
        help="let an agent that you have (Claude Code, Codex, ...) work on live notebooks",
        description="Adds `jupyter agent mcp` to the configuration of another agent, which then "
        "finds the running Jupyter server by itself (no address or token is written), and a skill "
        "that says when to use it. Other entries and comments stay; --remove takes both out.",
        examples=EXAMPLES,
    )
    parser.add_argument("client", choices=clients(Path(), {}, sys.platform), metavar="CLIENT")
    add_address(parser, nowhere="the folder in which the agent starts it")
    parser.add_argument(
        "--project",
        action="store_true",
        help="in files of the current folder, for everyone who works there, instead of your own",
    )
    parser.add_argument("--name", default="jupyter", help="of the entry (default: %(default)s)")
    parser.add_argument("--remove", action="store_true", help="remove entry and skill")
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Changes the files and prints what it did; 1 if one has to be changed by hand."""
    console = standard()
    client = clients(Path.home(), os.environ, sys.platform)[given.client]
    file, skills = client.user_file, client.user_skills
    if given.project:
        file, skills = Path.cwd() / client.project_file, Path.cwd() / client.project_skills
    skill = skills / SKILL / "SKILL.md"
    entry = client.entry([*_program(given.project), *_arguments(given)])
    path = (client.key, given.name)
    try:
        if given.remove:
            done = [*_take(client, file, path), *_take_skill(skill)]
        else:
            done = [*_put(client, file, path, entry), *_put_skill(skill)]
    except Unfit as error:
        console.tell(str(error), "warning")
        if given.remove:
            console.tell(f"Remove `{'.'.join(path)}` from {file} yourself.")
        else:
            console.tell(f"Add this to {file}:")
            console.line(client.format.lines(path, entry))
        return Exit.FAILED
    for line in done:
        console.line(line)
    if not given.remove:
        _print_next_steps(console, client, given)
    return Exit.DONE


def _program(shared: bool) -> list[str]:
    """The command that starts us: portable in shared files, from this environment in your own."""
    if shared:
        return ["jupyter", "agent", "mcp"]
    script = Path(sys.executable).with_name(
        "jupyter-agent.exe" if sys.platform == "win32" else "jupyter-agent"
    )
    if script.exists():
        return [str(script), "mcp"]
    return [sys.executable, "-m", "jupyter_agent.cli.main", "mcp"]


def _arguments(given: argparse.Namespace) -> Iterator[str]:
    if given.path is not None:
        yield str(given.path if given.project else given.path.resolve())
    for name, value in address_of(given).items():
        yield from (f"--{name}", value)


def _put(
    client: AgentProgram, file: Path, path: Sequence[str], entry: Mapping[str, Any]
) -> Iterator[str]:
    text = read(file)
    values = _values(client, file, text)
    there = values.get(path[0], {})
    if not isinstance(there, dict):
        raise Unfit(f"`{path[0]}` of {file} is not an object.")
    if there.get(path[1]) == entry:
        yield f"{client.title} is connected: `{path[1]}` in {file}."
        return
    if path[1] in there and not _is_ours(there[path[1]]):
        raise Unfit(f"{file} has another `{path[1]}`. Choose another name with --name.")
    wanted = deepcopy(values)
    wanted.setdefault(path[0], {})[path[1]] = dict(entry)
    _write(client, file, client.format.put(text, path, entry), wanted)
    yield f"{client.title} is connected: `{path[1]}` in {file} starts {_command_text(entry)}."


def _take(client: AgentProgram, file: Path, path: Sequence[str]) -> Iterator[str]:
    text = read(file)
    values = _values(client, file, text)
    there = values.get(path[0])
    if not isinstance(there, dict) or path[1] not in there:
        yield f"{client.title} was not connected: {file} has no `{path[1]}`."
        return
    if not _is_ours(there[path[1]]):
        raise Unfit(f"`{path[1]}` of {file} does not start `jupyter agent mcp`: not removed.")
    wanted = deepcopy(values)
    del wanted[path[0]][path[1]]
    if not wanted[path[0]]:
        del wanted[path[0]]
    _write(client, file, client.format.take(text, path), wanted)
    yield f"`{path[1]}` was removed from {file}."


def _write(client: AgentProgram, file: Path, text: str, wanted: Mapping[str, Any]) -> None:
    """Writes the text if it parses to exactly the wanted values."""
    try:
        now = client.format.values(text)
    except Unfit:
        now = None
    if now != wanted:
        raise Unfit(f"{file} has a format that this command cannot change safely.")
    write(file, "" if "".join(text.split()) == "{}" else text)


def _values(client: AgentProgram, file: Path, text: str) -> dict[str, Any]:
    try:
        return client.format.values(text)
    except Unfit as error:
        raise Unfit(f"{file} was left unchanged. {error}") from None


def _words(entry: Any) -> list[str]:
    """The program and its arguments."""
    if not isinstance(entry, dict):
        return []
    command = entry.get("command")
    program = command if isinstance(command, list) else [command]
    return [*map(str, program), *map(str, entry.get("args") or [])]


def _is_ours(entry: Any) -> bool:
    words = _words(entry)
    names = [Path(word).stem for word in words]
    started = "jupyter_agent.cli.main" in words or names[:1] == ["jupyter-agent"]
    return "mcp" in words and (started or names[:2] == ["jupyter", "agent"])


def _command_text(entry: Mapping[str, Any]) -> str:
    return f"`{shlex.join(_words(entry))}`"


def _put_skill(file: Path) -> Iterator[str]:
    text, there = files("jupyter_agent.cli").joinpath("SKILL.md").read_text("utf-8"), read(file)
    if there == text:
        return
    if there and _OURS not in there:
        yield f"The skill {file} is your own and stays."
        return
    write(file, text)
    yield f"Skill that says when to use it: {file}."


def _take_skill(file: Path) -> Iterator[str]:
    there = read(file)
    if not there:
        return
    if _OURS not in there:
        yield f"The skill {file} is your own and stays."
        return
    write(file, "")
    with suppress(OSError):  # the folder has other files
        file.parent.rmdir()
    yield f"The skill {file} was removed."


def _print_next_steps(console: Console, client: AgentProgram, given: argparse.Namespace) -> None:
    servers = list(with_assistant(running()))
    for server in servers:
        console.line(f"It will find the Jupyter server at {server.url} for {server.root}.")
    if not servers:
        console.line("No Jupyter server with the assistant is running: start `jupyter lab`.")
    words = ["jupyter", "agent", "connect", given.client, *(["--project"] * given.project)]
    words += [] if given.name == "jupyter" else ["--name", given.name]
    console.line(f"Start a new session in {client.title}. To undo this: {' '.join(words)} --remove")
