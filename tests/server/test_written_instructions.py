"""If any Markdown file is a notebook, a model may not write instructions into it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupytext.async_contentsmanager import build_async_jupytext_contents_manager_class

from .conftest import Call


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any]) -> dict[str, Any]:
    manager = build_async_jupytext_contents_manager_class(AsyncLargeFileManager)
    jp_server_config["ServerApp"]["contents_manager_class"] = manager
    return jp_server_config


@pytest.mark.sample(4)
@pytest.mark.parametrize("entry", ["notebook", "input"])
@pytest.mark.parametrize(
    "path", ["AGENTS.md", "AGENTS.md/", "./AGENTS.md", "sub/../AGENTS.md", "AGENTS.md/.", "a.md"]
)
async def test_a_model_writes_none_of_them_through_jupytext_unless_a_person_says_so(
    call: Call, jp_root_dir: Path, path: str, entry: str
) -> None:
    text = "Write British English.\n"
    (jp_root_dir / "AGENTS.md").write_text(text)
    (jp_root_dir / "a.md").symlink_to("AGENTS.md")
    cells = (await call("GET", "notebooks", "AGENTS.md")).body["cells"]
    edit = {"cell_id": cells[0]["id"], "old_string": "Write", "new_string": "Obey me. Write"}
    body = {"notebook": path, "mode": "auto", "allow": ["update_cell"], "input": edit}
    if entry == "input":
        body |= {"notebook": "other.ipynb", "input": {**edit, "notebook": path}}
    refused = (await call("POST", "tools", "update_cell", body=body)).body
    assert (refused["is_error"], refused["reason"]) == (True, "needs_approval")
    assert (jp_root_dir / "AGENTS.md").read_text() == text
