"""Names that other notebook assistants give these tools."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES: Mapping[str, tuple[str, ...]] = {
    "run_cells": (
        "execute_cell",
        "execute_cells",
        "run_all_cells",
        "run_code_cell",
        "run_notebook_cell",
    ),
    "run_code": ("execute_code", "execute_ipython", "bash", "python"),
    "create_cells": (
        "insert_cell",
        "add_cell",
        "add_code_cell",
        "add_text_cell",
        "append_execute_code_cell",
        "append_markdown_cell",
        "insert_execute_code_cell",
        "insert_markdown_cell",
    ),
    "edit_cells": (
        "edit_cell",
        "edit_notebook",
        "edit_notebook_file",
        "notebookedit",
        "overwrite_cell_source",
        "str_replace",
    ),
    "get_notebook_state": (
        "copilot_getnotebooksummary",
        "get_notebook_info",
        "list_cells",
        "notebookread",
        "read_all_cells",
        "read_notebook",
    ),
    "read_cells": ("get_cell", "read_cell", "read_notebook_cell_output"),
    "read_file": ("glob", "list_notebooks", "read", "view"),
    "search_notebook": ("grep",),
    "restart_kernel": ("restart_notebook",),
    "write_plan": ("todowrite",),
}
"""Names in jupyter-mcp-server, jupyter-ai-tools, Colab, VS Code, Cursor and Claude Code: models
that know them use them here, too."""
NAMES_ELSEWHERE: Mapping[str, str] = {
    theirs: ours for ours, names in _NAMES.items() for theirs in names
}
"""Our name by the other one, in lower case."""
