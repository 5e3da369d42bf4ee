"""jupyterlite-ai: its chat, and the commands of JupyterLab that it runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbeval.page_tools import Call, Cell, Desk, Hands, NewCell, Steps, Together
from nbeval.pages import KEY, Chat

if TYPE_CHECKING:
    from playwright.sync_api import Page


class JupyterliteAiHands(Hands):
    """It finds cells by their ids."""

    first = (("discover_commands", {"query": "jupyterlab-ai-commands"}),)

    def read(self, desk: Desk, notebook: str, names: Collection[str] | None) -> Steps:
        """Twice where the notebook was opened by that and had not its own cells at first."""
        for _ in range(2):
            yield Together([_command("get-notebook-info", notebook)])
            found = desk.cells(notebook)
            cells = [cell for cell in found if names is None or cell.name in names]
            each = [_command("get-cell-info", notebook, cellId=cell.id) for cell in cells]
            answers = (yield Together(each)) if each else ()
            desk.note(cells)
            if not any(self.has_failed("get-cell-info", answer) for answer in answers):
                return

    def write(self, notebook: str, cell: Cell, source: str) -> Sequence[Call]:
        return [_command("set-cell-content", notebook, cellId=cell.id, content=source)]

    def insert(
        self, notebook: str, cells: Sequence[Cell], at: int, new: Sequence[NewCell]
    ) -> Sequence[Call]:
        """Each right below the same cell, the last first."""
        above = at == 0
        place = {"referenceCellId": cells[max(0, at - 1)].id} if cells else {}
        place["position"] = "above" if above else "below"
        return [
            _command("add-cell", notebook, **place, cellType=kind, content=source)
            for kind, source in (new if above else reversed(new))
        ]

    def delete(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [_command("delete-cell", notebook, cellId=cell.id)]

    def run(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [_command("run-cell", notebook, cellId=cell.id)]

    def save(self, notebook: str) -> Sequence[Call]:
        return [_command("save-notebook", notebook)]

    def execute(self, desk: Desk, code: str) -> Steps:
        kernel = desk.kernel()
        if kernel not in desk.kernels:
            yield Together([_command("list-kernels")])
            desk.kernels.add(kernel)
        yield Together([_command("execute-in-kernel", kernelId=kernel, code=code)])

    def list_files(self, desk: Desk, folder: str) -> Steps:
        yield Together([_command("list-directory", path=folder)])

    def read_file(self, desk: Desk, input: Mapping[str, Any]) -> Steps:
        yield Together([_command("get-file-info", filePath=input["path"])])

    def has_failed(self, tool: str, answer: str) -> bool:
        try:
            found = json.loads(answer)
        except ValueError:  # an error's message
            return True
        did = found.get("result")
        return not found["success"] or isinstance(did, Mapping) and did.get("success") is False


def _command(name: str, notebook: str = "", **args: str) -> Call:
    if notebook:
        args["notebookPath"] = notebook
    return "execute_command", {"commandId": f"jupyterlab-ai-commands:{name}", "args": args}


class JupyterliteAi(Chat):
    package = "jupyterlite-ai"
    hands = JupyterliteAiHands()

    def files(self, url: str) -> Mapping[str, Any]:
        provider = {"id": "fake", "name": "Fake", "provider": "generic", "model": "fake-1"}
        return {
            "settings/@jupyternaut/persona/settings-model.jupyterlab-settings": {
                "useSecretsManager": False,
                "providers": [{**provider, "apiKey": KEY, "baseURL": url}],
                "defaultProvider": "fake",
                "useSameProviderForChatAndCompleter": False,
                # Tasks in which it may act without a question.
                "commandsRequiringApproval": [],
            }
        }

    def open(self, page: Page) -> None:
        page.locator(".jp-SideBar [title='Chat with AI assistant']").click()
        page.locator("jp-button[title='Create a new chat']").first.click()
        page.get_by_placeholder(self.placeholder).first.wait_for()

    def is_busy(self, page: Page) -> bool:
        return page.get_by_title("Stop streaming").count() > 0
