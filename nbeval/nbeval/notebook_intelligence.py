"""Notebook Intelligence: its chat in agent mode, with its tools for notebooks."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbeval.counterparts import reading
from nbeval.page_tools import Call, Cell, Desk, Hands, NewCell, Steps, Together
from nbeval.pages import KEY, Chat

if TYPE_CHECKING:
    from playwright.sync_api import Page


class NotebookIntelligenceHands(Hands):
    """It works in the notebook in front, and finds cells by their places."""

    opens_notebooks = False
    addresses_places = True

    def read(self, desk: Desk, notebook: str, names: Collection[str] | None) -> Steps:
        cells = [cell for cell in desk.cells(notebook) if names is None or cell.name in names]
        each = [("get_cell_type_and_source", {"cell_index": cell.at}) for cell in cells]
        yield Together([("get_number_of_cells", {})])
        if each:
            yield Together(each)
        desk.note(cells)

    def outputs(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [("get_cell_output", {"cell_index": cell.at})]

    def write(self, notebook: str, cell: Cell, source: str) -> Sequence[Call]:
        return [("set_cell_type_and_source", _cell(cell.at, cell.kind, source))]

    def insert(
        self, notebook: str, cells: Sequence[Cell], at: int, new: Sequence[NewCell]
    ) -> Sequence[Call]:
        return [("insert_cell", _cell(at + n, *each)) for n, each in enumerate(new)]

    def delete(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [("delete_cell", {"cell_index": cell.at})]

    def run(self, notebook: str, cell: Cell) -> Sequence[Call]:
        return [("run_cell", {"cell_index": cell.at}), *self.outputs(notebook, cell)]

    def save(self, notebook: str) -> Sequence[Call]:
        return [("save_notebook", {})]

    def execute(self, desk: Desk, code: str) -> Steps:
        """In a cell below all others, which is deleted."""
        notebook = desk.front()
        end = len(desk.cells(notebook))
        cell = Cell("", "", end, "code", code)
        insert = ("insert_cell", _cell(end, "code", code))
        yield Together([insert, *self.run(notebook, cell), *self.delete(notebook, cell)])

    def list_files(self, desk: Desk, folder: str) -> Steps:
        """Its tools for files ask first; code does not."""
        local = posixpath.relpath(folder or ".", posixpath.dirname(desk.home))
        yield from self.execute(desk, f"import os\nprint(sorted(os.listdir({local!r})))")

    def read_file(self, desk: Desk, input: Mapping[str, Any]) -> Steps:
        yield from self.execute(desk, reading(input, desk.home, desk.language))

    def has_failed(self, tool: str, answer: str) -> bool:
        """Nothing is answered where the notebook was not found, or where a cell shows nothing."""
        changes = tool in ("set_cell_type_and_source", "insert_cell")
        return answer.startswith(("Error", "False")) or (changes and answer == "void")


def _cell(at: int, kind: str, source: str) -> Mapping[str, Any]:
    return {"cell_index": at, "cell_type": kind, "source": source}


class NotebookIntelligence(Chat):
    package = "notebook-intelligence"
    placeholder = "Ask Notebook Intelligence..."
    hands = NotebookIntelligenceHands()

    def files(self, url: str) -> Mapping[str, Any]:
        given = {"api_key": KEY, "model_id": "fake-1", "base_url": url}
        properties = [{"id": id, "value": value} for id, value in given.items()]
        return {
            ".jupyter/nbi/config.json": {
                "default_chat_mode": "agent",
                "chat_model": {
                    "provider": "openai-compatible",
                    "model": "openai-compatible-chat-model",
                    "properties": properties,
                },
                "inline_completion_model": {"provider": "none", "model": "none"},
            }
        }

    def open(self, page: Page) -> None:
        page.locator(".jp-SideBar [title='Notebook Intelligence']").click()
        page.get_by_text("Skip tour").click()
        page.locator(".tools-button").first.wait_for()
        page.get_by_label("Configure tools").click()
        for tools in ("Notebook edit", "Notebook execute"):
            page.get_by_text(tools, exact=True).click()
        page.get_by_text("Done", exact=True).click()

    def is_busy(self, page: Page) -> bool:
        return page.locator("#sidebar-user-input.generating").count() > 0
