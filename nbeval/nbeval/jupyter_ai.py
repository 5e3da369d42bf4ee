"""jupyter-ai: a chat with its agent Jupyternaut in a JupyterLab with real-time collaboration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbeval.page_tools import Call, Cell, Desk, Hands, NewCell, Steps, Together
from nbeval.pages import KEY, Chat

if TYPE_CHECKING:
    from playwright.sync_api import Page

_WELCOME_MS = 2000


class JupyterAiHands(Hands):
    """It finds cells by their ids and reads the notebook's file."""

    first = (("get_active_notebook", {}),)
    any_order = ("edit_cell", "read_cell")
    reads_file = ("read_notebook_cells", "read_cell")
    rereads = True

    def read(self, desk: Desk, notebook: str, names: Collection[str] | None) -> Steps:
        yield Together([("read_notebook_cells", {"notebook_path": notebook})])
        desk.note(desk.cells(notebook))

    def outputs(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [("read_cell", {"file_path": notebook, "cell_id": cell.id})]

    def write(self, notebook: str, cell: Cell, source: str) -> Sequence[Call]:
        return [("edit_cell", {"file_path": notebook, "cell_id": cell.id, "content": source})]

    def insert(
        self, notebook: str, cells: Sequence[Cell], at: int, new: Sequence[NewCell]
    ) -> Sequence[Call]:
        return [
            (
                "insert_cell",
                {
                    "file_path": notebook,
                    "content": source,
                    "insert_index": at + n,
                    "cell_type": kind,
                },
            )
            for n, (kind, source) in enumerate(new)
        ]

    def delete(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [("delete_cell", {"file_path": notebook, "cell_id": cell.id})]

    def run(self, notebook: str, cell: Cell) -> Sequence[Call]:
        run = ("run_cell", {"file_path": notebook, "cell_id": cell.id})
        return [run, *self.outputs(notebook, cell)]

    def execute(self, desk: Desk, code: str) -> Steps:
        """In a cell below all others, which is deleted."""
        notebook = desk.front()
        end = len(desk.cells(notebook))
        yield Together(self.insert(notebook, (), end, [("code", code)]))
        for cell in desk.grown(notebook, end + 1)[end:]:
            yield Together([*self.run(notebook, cell), *self.delete(notebook, cell)])

    def list_files(self, desk: Desk, folder: str) -> Steps:
        yield Together([("bash", {"command": f"ls '{desk.root / folder}'"})])

    def read_file(self, desk: Desk, input: Mapping[str, Any]) -> Steps:
        first, count = input.get("offset", 0), input.get("limit", 200)
        lines, path = f"{first + 1},{first + count}p", desk.root / input["path"]
        yield Together([("bash", {"command": f"sed -n {lines} '{path}'"})])

    def has_failed(self, tool: str, answer: str) -> bool:
        return answer.startswith(("Tool error", "Error")) or '"success":false' in answer

    def is_to_repeat(self, answer: str) -> bool:
        """As for a cell in a page that was just loaded again."""
        return "timed out" in answer and self.has_failed("run_cell", answer)


class JupyterAi(Chat):
    package = "jupyter-ai"
    in_rooms = True
    hands = JupyterAiHands()

    def files(self, url: str) -> Mapping[str, Any]:
        model = "openai/fake-1"
        given = {"api_base": url, "api_key": KEY}
        return {
            "data/jupyter_ai/config.json": {"model_provider_id": model, "fields": {model: given}}
        }

    def open(self, page: Page) -> None:
        page.locator(".jp-SideBar [title='Jupyter Chat']").click()
        page.get_by_text("New chat").first.click()
        page.locator(".jp-jai-personaControls-persona-btn", has_text="Jupyternaut").wait_for()
        # It does not answer what is sent before the server knows of the chat, which nothing shows.
        page.wait_for_timeout(_WELCOME_MS)

    def is_busy(self, page: Page) -> bool:
        return page.locator(".jp-chat-writers", has_text="typing").count() > 0
