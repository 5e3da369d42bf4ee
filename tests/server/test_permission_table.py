"""Tool x mode x {allowed, deny rule, authorizer, ceiling} for every entry, judged by effects.

The expectation is written out here again, from the design, so that neither the table nor its
enforcement can change unnoticed. An effect is what a person would see afterwards: another notebook
file, another file beside it, code that ran, a kernel that was interrupted or restarted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.auth import Authorizer
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.assistant import Assistant
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from .conftest import Call

HOME = "home.ipynb"
MODES = ("read", "ask", "edit", "auto")
INPUTS: dict[str, dict[str, Any]] = {
    "get_notebook_state": {},
    "read_cells": {"cell_ids": ["a1"]},
    "search_notebook": {"query": "x"},
    "inspect_variables": {},
    "wait_for_run": {"run_id": "none"},
    "read_file": {"path": HOME},
    "write_plan": {"steps": [{"text": "Load the data"}]},
    "move_cell": {"cell_id": "a1", "after": "b2"},
    "delete_cell": {"cell_id": "b2"},
    "create_cells": {"cells": [{"source": "y = 1"}, {"source": "z", "type": "markdown"}]},
    "create_cells, run": {"cells": [{"source": "y = 1"}], "run": True},
    "edit_cells": {"edits": [{"cell_id": "a1", "old_string": "x = 1", "new_string": "x = 2"}]},
    "edit_cells, run": {
        "edits": [{"cell_id": "a1", "old_string": "x = 1", "new_string": "x = 2"}],
        "run": True,
    },
    "clear_outputs": {},
    "create_notebook": {"path": "made.ipynb"},
    "run_cells": {"cell_ids": ["a1"]},
    "run_code": {"code": "print(1, file=open('ran.txt', 'a'))"},
    "verify_notebook": {},
    "interrupt_kernel": {},
    "restart_kernel": {},
}
CHANGES = (
    "create_cells",
    "edit_cells",
    "move_cell",
    "delete_cell",
    "clear_outputs",
)
RUNS = (
    "run_cells",
    "run_code",
    "create_cells, run",
    "edit_cells, run",
    "verify_notebook",
)
EXPECTED = {
    # in mode:                                read    ask    edit   auto
    **{tool: ("run", "run", "run", "run") for tool in list(INPUTS)[:7]},
    **{tool: ("deny", "ask", "run", "run") for tool in CHANGES},
    **{tool: ("deny", "ask", "ask", "run") for tool in (*RUNS, "create_notebook")},
    **{tool: ("deny", "ask", "ask", "ask") for tool in ("interrupt_kernel", "restart_kernel")},
}
FORBIDDEN = {("write", "contents"), ("execute", "kernels"), ("write", "kernels")}


class Grudging(Authorizer):
    """Lets a user read and chat, and nothing else."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return (action, resource) not in FORBIDDEN


CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {
    "allowed": {},
    "deny rule": {"JupyterAgent": {"rules": [{"verdict": "deny"}]}},
    "authorizer": {"ServerApp": {"authorizer_class": Grudging}},
    "ceiling": {"JupyterAgent": {"max_mode": "read"}},
}


@pytest.fixture(params=list(CONDITIONS))
def condition(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], condition: str) -> dict[str, Any]:
    for section, options in CONDITIONS[condition].items():
        jp_server_config[section].update(options)
    return jp_server_config


class World:
    """A notebook with a kernel, and everything that makes effects visible."""

    def __init__(self, root: Path, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._touched: list[str] = []
        for name in ("interrupt_kernel", "restart_kernel"):
            monkeypatch.setattr(
                server.kernel_manager, name, self._counted(getattr(server.kernel_manager, name))
            )

    def reset(self) -> None:
        """Restores the notebook for each case; its first cell leaves a mark when it runs."""
        cells = [
            new_code_cell("x = 1; print(x, file=open('ran.txt', 'a'))", id="a1"),
            new_code_cell("x", id="b2", execution_count=7),
        ]
        (self._root / "made.ipynb").unlink(missing_ok=True)
        nbformat.write(new_notebook(cells=cells), self._root / HOME)

    def seen(self) -> dict[str, str]:
        """All files without outputs, and what happened to kernels."""
        files = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in self._root.iterdir()
            if path.is_file()
        }
        return {**files, "kernel": str(self._touched)}

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self._touched.append(method.__name__)
            return await method(*args, **kwargs)

        return counted


@pytest.fixture
def world(
    jp_root_dir: Path, jp_serverapp: Any, agent: Assistant, monkeypatch: pytest.MonkeyPatch
) -> World:
    world = World(jp_root_dir, jp_serverapp, monkeypatch)
    world.reset()
    return world


def named(case: str) -> str:
    """The tool of a row."""
    return case.partition(",")[0]


async def by_tools(call: Call, tool: str, mode: str) -> str:
    body = {"notebook": HOME, "mode": mode, "input": INPUTS[tool]}
    answer = await call("POST", "tools", named(tool), body=body)
    assert answer.status == 200, answer.text
    if not answer.body["is_error"]:
        return "run"
    return {"needs_approval": "ask", "denied": "deny"}.get(answer.body["reason"], "run")


def by_chat(replies: list[FakeReply]) -> Any:
    async def chat(call: Call, tool: str, mode: str) -> str:
        replies.extend([[calls(named(tool), **INPUTS[tool])], [says("Done.")]])
        conversation = f"{tool}-{mode}".replace(", ", "-")
        body = {
            "id": conversation,
            "notebook": HOME,
            "mode": mode,
            "messages": [{"role": "user", "content": "Do it."}],
            "stream": False,
        }
        answer = (await call("POST", "chat", body=body)).body
        if answer["state"] == "waiting":
            replies.pop()
            await call("POST", "chat", conversation, "stop")
            return "ask"
        audit = (await call("GET", "turns", answer["turn_id"])).body["audit"]
        return "deny" if [entry["outcome"] for entry in audit] == ["refused"] else "run"

    return chat


def expected(condition: str, tool: str, mode: str) -> str:
    verdict = EXPECTED[tool][MODES.index(mode)]
    if condition == "deny rule":
        return "deny"
    if condition == "ceiling":
        return "deny" if verdict != "run" or EXPECTED[tool][0] == "deny" else "run"
    if condition == "authorizer" and (EXPECTED[tool][0] == "deny" or tool == "inspect_variables"):
        return "deny"
    return verdict


@pytest.mark.full
@pytest.mark.parametrize("entry", ["tools", "chat"])
async def test_every_cell_of_the_table_by_its_effect(
    call: Call,
    jp_serverapp: Any,
    world: World,
    replies: list[FakeReply],
    condition: str,
    entry: str,
) -> None:
    sessions = jp_serverapp.session_manager
    await sessions.create_session(path=HOME, name=HOME, type="notebook", kernel_name="python3")
    ask = by_tools if entry == "tools" else by_chat(replies)
    wrong, cases, effects = [], 0, 0
    for mode in MODES:
        for tool in INPUTS:
            world.reset()
            before = world.seen()
            verdict = await ask(call, tool, mode)
            effect = world.seen() != before
            wanted = expected(condition, tool, mode)
            may = wanted == "run" and EXPECTED[tool][0] == "deny"
            if (verdict, effect) != (wanted, may):
                wrong.append((tool, mode, "is", verdict, effect, "not", wanted, may))
            cases, effects = cases + 1, effects + effect
    assert wrong == []
    assert cases == 4 * len(EXPECTED) == 80
    assert effects == (16 if condition == "allowed" else 0)
