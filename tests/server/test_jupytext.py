"""Together with jupytext, which replaces Jupyter's contents manager when it loads."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from ..programs import jupyter_server


@pytest.mark.full
def test_an_edit_reaches_both_files_of_a_pair(tmp_path: Path) -> None:
    pair = {"jupytext": {"formats": "ipynb,py:percent"}}
    cells = [new_code_cell("x = 1", id="c1"), new_code_cell("print(x)", id="c2")]
    nbformat.write(new_notebook(cells=cells, metadata=pair), tmp_path / "sales.ipynb")
    with jupyter_server(tmp_path) as server:
        edit = {"old_string": "1", "new_string": "12"}
        done = server.request("PATCH", "notebooks/sales.ipynb/cells/c1", edit)
        assert (done["source"], done["saved"]) == ("x = 12", True)
        assert "x = 12\n" in (tmp_path / "sales.py").read_text()
        again = server.request("PATCH", "notebooks/sales.ipynb/cells/c1", {"source": "x = 3"})
        assert again["saved"] is True
        script = server.request("GET", "notebooks/sales.py")
        assert [cell["source"] for cell in script["cells"]] == ["x = 3", "print(x)"]
    assert nbformat.read(tmp_path / "sales.ipynb", as_version=4).cells[0].source == "x = 3"
