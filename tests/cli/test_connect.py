"""`jupyter agent connect`: the entries it adds to other agents' files, and removes again."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.cli.client_files import JsonFile, TomlFile
from jupyter_agent.cli.commands import parser
from jupyter_agent.cli.connect import clients
from jupyter_agent.cli.main import main
from jupyter_agent.mcp_server.catalogue import Catalogue
from jupyter_agent.tools import toolbox

from ..programs import Server, environment
from .conftest import Desk

FILES = {
    "claude": (".claude.json", ".mcp.json", "mcpServers", ".claude/skills"),
    "codex": (".codex/config.toml", ".codex/config.toml", "mcp_servers", ".agents/skills"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", ".cursor/skills"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json", "mcpServers", ".gemini/skills"),
    "opencode": (
        ".config/opencode/opencode.json",
        "opencode.json",
        "mcp",
        ".config/opencode/skills",
    ),
    "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json", "servers", ".copilot/skills"),
}
"""By client: a person's file, a project's, the key of the servers, a person's skills."""
SKILL = "jupyter-live-notebooks/SKILL.md"
JSON = """{
\t// how it looks
\t"theme": "dark",   /* and "quoted": { */
\t"KEY": {
\t\t"other": {"command": "npx", "args": ["-y", "a,b}"]}, // mine
\t},
\t"more": [1, 2,],
}
"""
TOML = '''model = "gpt" # which
[KEY.other] # mine
command = "npx"
args = ["-y", """
[other]
"""]

[tui]
theme = "dark"
'''
every_client = pytest.mark.parametrize("client", FILES)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person on Linux without any of these agents configured."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parsed(file: Path) -> Any:
    text = file.read_text()
    return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)


def command_of(entry: Any) -> list[str]:
    if isinstance(entry["command"], list):
        return list(entry["command"])
    return [entry["command"], *entry["args"]]


def configured(home: Path, client: str) -> tuple[Path, str]:
    """The person's file with other settings in it, and its text."""
    name, _, key, _ = FILES[client]
    file = home / name
    text = (TOML if file.suffix == ".toml" else JSON).replace("KEY", key)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file, text


@every_client
def test_connecting_twice_is_connecting_once_and_removing_leaves_nothing(
    home: Path, client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {*home.rglob("*")}
    name, _, key, skills = FILES[client]
    assert main(["connect", client, "--mode", "edit"]) == 0
    told = capsys.readouterr().out
    assert str(home / name) in told
    assert "start `jupyter lab`" in told
    entry = parsed(home / name)[key]["jupyter"]
    words = command_of(entry)
    assert words[-3:] == ["mcp", "--mode", "edit"]
    assert Path(words[0]).is_absolute()
    skill = (home / skills / SKILL).read_text()
    assert skill.startswith("---\nname: jupyter-live-notebooks\ndescription: ")
    first = (home / name).read_text()
    assert main(["connect", client, "--mode", "edit"]) == 0
    assert (home / name).read_text() == first
    assert main(["connect", client, "--remove"]) == 0
    assert {path for path in home.rglob("*") if path.is_file()} <= before
    assert not (home / skills / SKILL).parent.exists()
    assert main(["connect", client, "--remove"]) == 0
    assert "was not connected" in capsys.readouterr().out


@every_client
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_else_a_file_has_stays_letter_by_letter(home: Path, client: str, end: str) -> None:
    file, text = configured(home, client)
    file.write_text(text, newline=end)
    before = file.read_bytes()
    assert main(["connect", client]) == 0
    changed = file.read_bytes()
    assert changed != before
    assert [line for line in before.splitlines(True) if line not in changed.splitlines(True)] == []
    assert changed.count(b"\n") == changed.count(end.encode())
    assert main(["connect", client, "--mode", "read"]) == 0
    assert changed.count(b"jupyter") == file.read_bytes().count(b"jupyter")
    assert main(["connect", client, "--remove"]) == 0
    assert file.read_bytes() == before


@every_client
def test_a_file_that_is_not_understood_is_left_and_the_lines_are_told(
    home: Path, client: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = configured(home, client)
    file.write_text(text + "\n}{ [")
    assert main(["connect", client]) == 1
    assert file.read_text() == text + "\n}{ ["
    told = capsys.readouterr()
    assert f"{file} was left unchanged." in told.err
    lines = tomllib.loads(told.out) if file.suffix == ".toml" else json.loads(told.out)
    assert command_of(lines[FILES[client][2]]["jupyter"])[-1] == "mcp"
    assert not (home / FILES[client][3] / SKILL).exists()
    assert main(["connect", client, "--remove"]) == 1
    assert file.read_text() == text + "\n}{ ["


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = { command = "npx" } }\n',
        'a = """\n[mcp_servers.jupyter]\n"""\n\n[mcp_servers.jupyter]\ncommand = "jupyter-agent"\n'
        'args = ["mcp"]\n',
    ],
)
def test_what_cannot_be_changed_safely_is_left_too(
    home: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text(text)
    assert main(["connect", "codex"]) == 1
    assert file.read_text() == text
    assert "[mcp_servers.jupyter]" in capsys.readouterr().out


def test_an_entry_of_another_server_is_not_replaced(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"jupyter": {"command": "uvx", "args": ["another"]}}}')
    assert main(["connect", "cursor"]) == 1
    assert "Choose another name with --name." in capsys.readouterr().err
    assert main(["connect", "cursor", "--remove"]) == 1
    assert main(["connect", "cursor", "--name", "live"]) == 0
    assert sorted(parsed(file)["mcpServers"]) == ["jupyter", "live"]


@every_client
def test_a_project_has_its_own_files_without_anything_of_this_machine(
    home: Path, client: str
) -> None:
    assert main(["connect", client, "work", "--project"]) == 0
    written = home / FILES[client][1]
    words = command_of(parsed(written)[FILES[client][2]]["jupyter"])
    assert words == ["jupyter", "agent", "mcp", "work"]
    assert str(home) not in written.read_text()
    skills = [*home.rglob("SKILL.md")]
    assert len(skills) == 1
    assert main(["connect", client, "--project", "--remove"]) == 0
    assert not written.exists()
    assert not skills[0].exists()


def test_a_skill_that_the_person_made_their_own_stays(home: Path) -> None:
    skill = home / ".claude/skills" / SKILL
    skill.parent.mkdir(parents=True)
    skill.write_text("mine")
    assert main(["connect", "claude"]) == 0
    assert main(["connect", "claude", "--remove"]) == 0
    assert skill.read_text() == "mine"


def test_links_and_permissions_of_files_stay(home: Path) -> None:
    real = home / "dotfiles.json"
    real.write_text('{"a": 1}\n')
    real.chmod(0o600)
    (home / ".claude.json").symlink_to(real)
    assert main(["connect", "claude"]) == 0
    assert (home / ".claude.json").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert parsed(real)["mcpServers"]["jupyter"]["type"] == "stdio"


def test_where_the_files_are_on_other_systems_and_by_their_variables() -> None:
    home = Path("/h")
    assert clients(home, {}, "darwin")["vscode"].user_file == Path(
        "/h/Library/Application Support/Code/User/mcp.json"
    )
    assert clients(home, {"APPDATA": "/r"}, "win32")["vscode"].user_file == Path(
        "/r/Code/User/mcp.json"
    )
    moved = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "XDG_CONFIG_HOME": "/g"}
    found = clients(home, moved, "linux")
    assert found["claude"].user_file == Path("/c/.claude.json")
    assert found["codex"].user_file == Path("/x/config.toml")
    assert found["opencode"].user_file == Path("/g/opencode/opencode.json")


@pytest.mark.plugs
def test_the_skill_names_only_tools_and_commands_that_there_are(home: Path) -> None:
    assert main(["connect", "gemini"]) == 0
    text = (home / ".gemini/skills" / SKILL).read_text()
    table = text[text.index("| task |") : text.index("- Cells")].strip()
    tools = {word for line in table.splitlines() for word in line.split("|")[2].split("`")[1::2]}
    assert tools - {"run: true"} <= {*Catalogue(toolbox()).names}
    for line in table.splitlines()[2:]:
        for command in line.split("|")[3].split("`")[1::2]:
            for placeholder in ("NOTEBOOK", "TURN"):
                command = command.replace(placeholder, "x")
            assert parser().parse_args(command.split()[2:]).command


@pytest.mark.full
def test_what_was_written_leads_to_the_running_server_and_holds_no_token(
    desk: Desk, served: Server
) -> None:
    done = desk.type("connect", "claude")
    assert f"It will find the Jupyter server at http://localhost:{served.port}/" in done.out
    file = desk.folder / ".claude.json"
    assert "secret" not in file.read_text()
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    with subprocess.Popen(
        command_of(json.loads(file.read_text())["mcpServers"]["jupyter"]),
        cwd=desk.folder,
        env=environment(desk.folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        bridge.stdin.write(json.dumps(hello) + "\n")
        bridge.stdin.flush()
        answer = json.loads(bridge.stdout.readline())
        bridge.stdin.close()
    assert answer["result"]["protocolVersion"] == "2025-11-25"
    assert desk.type("connect", "claude", "--remove").code == 0
    assert not file.exists()


@pytest.mark.parametrize("seed", range(200))
def test_putting_in_and_taking_out_leaves_any_file_as_it_was(seed: int) -> None:
    dice = random.Random(seed)
    space = [" ", "", "\n", "\n  ", "\t", ' // a, "b": {\n', "/* } , */"]

    def gap() -> str:
        return "".join(dice.choices(space, k=dice.randint(0, 2)))

    def value(depth: int) -> str:
        if depth == 0 or dice.random() < 0.3:
            return dice.choice(['"x // \\" ,}"', "1", "null", "[]", "[1, {}]"])
        return thing(depth - 1, [f"k{n}" for n in range(dice.randint(0, 3))])

    def thing(depth: int, keys: list[str]) -> str:
        pairs = [f'{gap()}"{key}"{gap()}:{gap()}{value(depth)}{gap()}' for key in keys]
        comma = dice.choice(["", ",", " ,"]) if pairs else ""
        return "{" + ",".join(pairs) + comma + gap() + "}"

    servers = f'"servers": {thing(1, ["other"])}'
    others = thing(2, ["a", "b"])
    text = dice.choice([others, others.replace("{", "{" + servers + ",", 1)])
    kind, path, entry = JsonFile(), ("servers", "jupyter"), {"command": "x", "args": ["y"]}
    values = kind.values(text)
    put = kind.put(text, path, entry)
    values.setdefault("servers", {})["jupyter"] = entry
    assert kind.values(put) == values
    assert "".join(kind.take(put, path).split()) == "".join(text.split())
    assert kind.values(kind.take(put, path)) == kind.values(text)


def test_a_table_of_toml_goes_with_its_subtables() -> None:
    kind, path = TomlFile(), ("mcp_servers", "jupyter")
    text = (
        '[mcp_servers."jupyter"]\ncommand = "x"\n[mcp_servers.jupyter.env]\nA = "1"\n[b]\nc = 1\n'
    )
    assert kind.take(text, path) == "[b]\nc = 1\n"
