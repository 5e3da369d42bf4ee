"""The arrows of import go one way, and loading the extension costs little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "jupyter_agent"

MAY_IMPORT = {
    "errors": {"legible"},
    "tasks": set(),
    "events": set(),
    "legible": set(),
    "document": {"errors", "tasks"},
    "carriers": {"errors", "legible", "tasks", "document"},
    "text": {"errors", "legible", "tasks", "document"},
    "analysis": {"errors", "legible", "document", "text"},
    "kernel": {"errors", "legible", "tasks"},
    "workspace": {
        "errors",
        "legible",
        "tasks",
        "document",
        "carriers",
        "text",
        "analysis",
        "kernel",
    },
    "models": {"errors", "tasks"},
    "mcp": {"errors", "legible", "tasks", "models"},
    "tools": {"errors", "legible", "tasks", "document", "text", "workspace", "mcp"},
    "agent": {
        "errors",
        "legible",
        "tasks",
        "events",
        "document",
        "text",
        "workspace",
        "tools",
        "models",
    },
    "conversations": {
        "errors",
        "legible",
        "tasks",
        "events",
        "document",
        "text",
        "workspace",
        "tools",
        "models",
        "mcp",
        "agent",
    },
    "server": {
        "errors",
        "legible",
        "tasks",
        "events",
        "document",
        "carriers",
        "text",
        "workspace",
        "tools",
        "models",
        "mcp",
        "agent",
        "conversations",
    },
    "cli": {"conversations"},
}
"""The way of the arrows: `extension` knows everything, and nobody knows `extension`."""


def imported(path: Path) -> set[str]:
    """The rooms of our package that a module imports from, at whatever depth."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        rooms |= {name.split(".")[1] for name in names if name.startswith("jupyter_agent.")}
    return rooms


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_from_the_rooms_below_it(room: str) -> None:
    modules = [PACKAGE / f"{room}.py"] if (PACKAGE / f"{room}.py").exists() else []
    modules += (PACKAGE / room).rglob("*.py")
    assert modules
    for module in modules:
        forbidden = imported(module) - MAY_IMPORT[room] - {room}
        assert not forbidden, f"{module.relative_to(PACKAGE)} imports {forbidden}"


def test_loading_the_extension_imports_no_sdk() -> None:
    code = "import sys, jupyter_agent.extension; print({'anthropic', 'openai'} & set(sys.modules))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "set()"


def test_the_loop_fits_on_one_screen() -> None:
    tree = ast.parse((PACKAGE / "agent" / "loop.py").read_text(encoding="utf-8"))
    loop = next(node for node in tree.body if getattr(node, "name", "") == "run_turn")
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno < 50
