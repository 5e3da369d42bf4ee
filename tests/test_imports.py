"""Imports go one way between rooms, and loading the extension is cheap."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import run

PACKAGE = Path(__file__).parent.parent / "jupyter_agent"

MAY_IMPORT = {
    "errors": "legible",
    "choices": "",
    "tasks": "",
    "events": "",
    "legible": "",
    "words": "legible",
    "packages": "",
    "foreign": "",
    "entry_points": "",
    "document": "errors legible tasks",
    "carriers": "choices entry_points errors foreign legible packages tasks document",
    "text": "errors legible tasks document",
    "analysis": "errors legible document text",
    "kernel": "errors legible tasks",
    "workspace": "choices errors foreign legible tasks document carriers text analysis kernel",
    "models": "entry_points errors foreign legible packages tasks",
    "tools": "entry_points errors foreign legible tasks words document text workspace",
    "agent": "choices errors foreign legible tasks events document text analysis workspace "
    "tools models",
    "conversations": "choices errors legible tasks events document text workspace tools "
    "models agent",
    "mcp_server": "errors legible words tools workspace agent conversations",
    "server": "choices entry_points errors foreign legible tasks words events document carriers "
    "text workspace tools models agent conversations mcp_server packages",
    "client": "choices errors tasks events document carriers text agent conversations server",
    "cli": "entry_points carriers client conversations legible packages text tools words "
    "mcp_server extension",
    "plugs/mcp": "errors foreign legible tasks text workspace models tools mcp_server",
    "plugs/providers": "errors models",
    "plugs/rooms": "errors tasks document carriers",
    "plugs/verify": "errors legible words document text analysis kernel workspace tools server "
    "client cli",
}
"""The direction of imports: `assistant` knows everything, only `extension` knows it, and only the
command line knows that."""


def imported(path: Path) -> set[str]:
    """The rooms of our package that a module imports from, at whatever depth."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "write the whole name of a module"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {_room(name) for name in names if name.startswith("jupyter_agent.")}
    return rooms - {"__version__"}


def _room(name: str) -> str:
    """The room of a module; a plug is one of its own."""
    first, *rest = name.split(".")[1:]
    return f"{first}/{rest[0]}" if first == "plugs" and rest else first


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_from_the_rooms_below_it(room: str) -> None:
    modules = [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").exists() else []
    modules += (PACKAGE / room).rglob("*.py")
    assert modules
    for module in modules:
        forbidden = imported(module) - {room, *MAY_IMPORT[room].split()}
        assert not forbidden, f"{module.relative_to(PACKAGE)} imports {forbidden}"


def test_nothing_else_imports_a_plug() -> None:
    others = (path for path in PACKAGE.rglob("*.py") if PACKAGE / "plugs" not in path.parents)
    assert not [path for path in others if "plugs" in str(imported(path))]


STARTED = """\
import asyncio, json, sys
from jupyter_server.serverapp import ServerApp
app = ServerApp(jpserver_extensions=json.loads(sys.argv[1]), log_level="ERROR")
app.initialize(["--allow-root", "--port=0", "--no-browser"])
asyncio.run(app.extension_manager.start_all_extensions())
print(*sorted(sys.modules))"""
"""Prints the modules of a freshly started server, before any request."""


@pytest.mark.full
@pytest.mark.parametrize(("rooms", "most"), [(False, 14), (True, 20)], ids=["alone", "with rooms"])
def test_starting_jupyter_imports_little_of_ours(rooms: bool, most: int, tmp_path: Path) -> None:
    def imported(ours: bool) -> set[str]:
        extensions = {
            "jupyter_server_fileid": rooms,
            "jupyter_server_ydoc": rooms,
            "jupyter_agent": ours,
        }
        started = run(tmp_path, sys.executable, "-c", STARTED, json.dumps(extensions))
        assert ("jupyter_server_ydoc.rooms" in started.stdout.split()) == rooms, started.stderr
        return set(started.stdout.split())

    added = imported(True) - imported(False) - sys.stdlib_module_names
    assert "jupyter_agent.extension" in added
    assert {name.split(".")[0] for name in added} == {"jupyter_agent"}  # no SDK, pydantic, pycrdt
    assert len(added) <= most


@pytest.mark.full
def test_the_assistant_imports_no_sdk_before_it_is_asked() -> None:
    code = (
        "import sys; from jupyter_agent import assistant, extension;"
        "assistant.Plugs.load(extension.JupyterAgent());"
        "print({'anthropic', 'openai'} & set(sys.modules))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "set()"


def test_the_loop_fits_on_one_screen() -> None:
    tree = ast.parse((PACKAGE / "agent" / "loop.py").read_text(encoding="utf-8"))
    loop = next(node for node in tree.body if getattr(node, "name", "") == "run_turn")
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno < 50
