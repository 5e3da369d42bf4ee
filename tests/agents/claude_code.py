"""The real Claude Code in a notebook, offline: `python -m tests.agents.claude_code CLAUDE [PYTHON]`

CLAUDE is its program (`npm install @anthropic-ai/claude-code`, under its own licence), PYTHON that
of an environment with `jupyter-mcp-server`. Nothing leaves the loopback. THE MODEL IS SCRIPTED: the
calls of each task are written here, so this shows that Claude Code, our server and the notebook
work together, and the costs of each way; not a model's choices.

For each task and way it prints the calls, the requests to the model, and the tokens (a token for 4
characters of JSON) of the tool definitions in the first request, and of all calls and results.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.models.base import Block
from tests.agents.scripted import HANDLE, Scripted, scripted
from tests.fakes import calls
from tests.ui.conftest import new_file
from tests.ui.lab import Lab, Replies, running_lab

SOURCES = [
    "x = 1",
    "import time\ntime.sleep(3)\nprint('x is', x)",
    *(f"y{n} = {n}" for n in range(20)),
]
ALLOW = {
    "hookSpecificOutput": {
        "hookEventName": "Elicitation",
        "action": "accept",
        "content": {"answer": "Allow"},
    }
}
"""The person's answers in Claude Code's form, since there is no terminal."""
OURS, THEIRS = "mcp__jupyter__", "mcp__theirs__"


class ClaudeCode:
    """Claude Code's program, with its own settings and a scripted model."""

    def __init__(self, program: str, script: Scripted, home: Path) -> None:
        self._program = program
        self._script = script
        self._home = home

    def work(self, steps: Sequence[Block], servers: Mapping[str, Any], folder: Path) -> list[Any]:
        """Runs the steps in one session; returns its events."""
        self._script.steps[:] = steps
        self._script.requests.clear()
        asked = self._home / "asked.jsonl"
        answer = f"cat >> '{asked}'; echo '{json.dumps(ALLOW)}'"
        hook = {"hooks": [{"type": "command", "command": answer}]}
        settings = {"hooks": {"Elicitation": [hook]}}
        command = [
            self._program, "-p", "Do the task.", "--output-format", "stream-json", "--verbose",
            "--mcp-config", json.dumps({"mcpServers": servers}), "--strict-mcp-config",
            "--settings", json.dumps(settings), "--model", "claude-sonnet-5-5",
            "--allowedTools", "mcp__jupyter,mcp__theirs,Read,NotebookEdit,ToolSearch,Bash",
        ]  # fmt: skip
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "ANTHROPIC_BASE_URL": self._script.url,
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"Claude Code: {done.stdout}\n{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]


def results(events: Sequence[Any]) -> Iterator[tuple[bool, str]]:
    """Whether each call failed, and its result."""
    for event in events:
        if event["type"] == "user":
            for block in event["message"]["content"]:
                if isinstance(block, dict) and block["type"] == "tool_result":
                    yield bool(block.get("is_error")), json.dumps(block["content"])


def report(what: str, script: Scripted, events: Sequence[Any]) -> None:
    first, last = script.requests[0], script.requests[-1]
    blocks = [
        block
        for message in last["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] in ("tool_use", "tool_result")
    ]
    made = [block["name"] for block in blocks if block["type"] == "tool_use"]
    tools = len(json.dumps(first["tools"])) // 4
    cost = len(json.dumps(blocks)) // 4
    failed = [text for is_error, text in results(events) if is_error]
    names = ", ".join(name.rpartition("__")[2] for name in made)
    sys.stdout.write(
        f"{what:38} {len(made)} calls, {len(script.requests)} requests, {cost:5} tokens of calls "
        f"and results, {tools:6} of tools at first: {names}\n"
    )
    sys.stdout.flush()
    if failed:
        raise SystemExit("\n".join(f"FAILED: {text[:300]}" for text in failed))


def search(*names: str) -> Block:
    return calls("ToolSearch", query=f"select:{','.join(names)}", max_results=5)


def main(program: str, python: str | None) -> None:
    sys.stdout.write("The model is scripted: its calls are those of this script.\n")
    with tempfile.TemporaryDirectory() as name, scripted() as script:
        folder = Path(name)
        (folder / "home").mkdir()
        claude = ClaudeCode(program, script, folder / "home")
        with running_lab(folder / "lab", Replies()) as lab:
            ours(lab, claude, script)
            asked = (folder / "home" / "asked.jsonl").read_text().splitlines()
            sys.stdout.write(f"asked in its own form: {len(asked)} times\n")
            for each in asked:
                sys.stdout.write(f"    {json.loads(each).get('message', each)[:70]!r}\n")
            own(lab, claude, script)
        if python is not None:
            config = {"YDocExtension": {"disable_rtc": False}}
            with running_lab(
                folder / "theirs", Replies(), python=python, config=config, panel=False
            ) as lab:
                theirs(lab, claude, script)


def served(lab: Lab, route: str) -> Any:
    headers = {"Authorization": f"token {lab.token}"}
    return {"type": "http", "url": f"{lab.url}/{route}", "headers": headers}


def ours(lab: Lab, claude: ClaudeCode, script: Scripted) -> None:
    path = new_file(lab, "ours", SOURCES)
    servers = {"jupyter": served(lab, "api/agent/mcp?mode=ask")}
    change = {"cell_id": "c0", "old_string": "1", "new_string": "2"}
    tasks: dict[str, list[Block]] = {
        "ours: state": [calls(f"{OURS}get_notebook_state", notebook=path)],
        "ours: edit a cell": [calls(f"{OURS}edit_cells", notebook=path, edits=[change])],
        "ours: run a long cell": [
            calls(f"{OURS}run_cells", notebook=path, cell_ids=["c0"]),
            calls(f"{OURS}run_cells", notebook=path, cell_ids=["c1"], wait=1),
            calls(f"{OURS}wait_for_run", run_id=HANDLE),
        ],
    }
    for what, steps in tasks.items():
        report(what, script, claude.work(steps, servers, lab.root))
    assert first_cell(lab, path) == "x = 2"
    more = {**change, "old_string": "2", "new_string": "3"}
    undo: list[Block] = [
        search(f"{OURS}begin_turn", f"{OURS}undo_turn"),
        calls(f"{OURS}begin_turn", goal="Make it 3"),
        calls(f"{OURS}edit_cells", notebook=path, edits=[more]),
        calls(f"{OURS}undo_turn"),
    ]
    report("ours: edit, undo the turn", script, claude.work(undo, servers, lab.root))
    assert first_cell(lab, path) == "x = 2"


def first_cell(lab: Lab, path: str) -> str:
    return str(lab.notebook(path)["cells"][0]["source"])


def own(lab: Lab, claude: ClaudeCode, script: Scripted) -> None:
    path = lab.root / new_file(lab, "own", SOURCES)
    read = calls("Read", file_path=str(path))
    edit = calls("NotebookEdit", notebook_path=str(path), cell_id="c0", new_source="x = 2")
    run = calls("Bash", command=f"jupyter nbconvert --to notebook --execute --inplace '{path}'")
    report("its own: state", script, claude.work([read], {}, lab.root))
    steps: list[Block] = [search("NotebookEdit"), read, edit]
    report("its own: edit a cell", script, claude.work(steps, {}, lab.root))
    report("its own: run (all cells, new kernel)", script, claude.work([run, read], {}, lab.root))


def theirs(lab: Lab, claude: ClaudeCode, script: Scripted) -> None:
    path = new_file(lab, "theirs", SOURCES)
    servers = {"theirs": served(lab, "mcp")}
    use = calls(f"{THEIRS}use_notebook", notebook_name="n", notebook_path=path)
    read = calls(f"{THEIRS}read_notebook", notebook_name="n", response_format="detailed", limit=0)
    edit = calls(f"{THEIRS}overwrite_cell_source", cell_id="c0", cell_source="x = 2")
    runs = [calls(f"{THEIRS}execute_cell", cell_id=cell) for cell in ("c0", "c1")]
    tasks: dict[str, tuple[list[str], list[Block]]] = {
        "jupyter-mcp-server: state": (["use_notebook", "read_notebook"], [use, read]),
        "jupyter-mcp-server: edit a cell": (["overwrite_cell_source"], [edit]),
        "jupyter-mcp-server: run a long cell": (["execute_cell"], runs),
    }
    for what, (names, steps) in tasks.items():
        found = search(*(f"{THEIRS}{name}" for name in names))
        report(what, script, claude.work([found, *steps], servers, lab.root))


if __name__ == "__main__":
    main(shutil.which(sys.argv[1]) or sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
