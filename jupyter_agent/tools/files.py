"""Tools that look at other files, through Jupyter's contents manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jupyter_agent.legible import quoted
from jupyter_agent.tools.base import Progress, Result
from jupyter_agent.tools.read import ReadTool
from jupyter_agent.workspace.lease import Lease

MOST_CHARACTERS = 20_000


class ReadFile(ReadTool):
    """Lines of a text file, the cells of another notebook, or the names and sizes in a folder. Use
    it to find data before you write a path into code. Load whole tables with code, which finds
    files relative to the notebook's folder."""

    name: ClassVar[str] = "read_file"
    former_names: ClassVar[tuple[str, ...]] = ("list_files",)
    names_notebook: ClassVar[bool] = False

    path: str = ""
    """File or folder below Jupyter's root (default: the root)"""
    offset: int = 0
    """First line to show, counted from 0"""
    limit: int = 200
    """Most lines to show"""
    pattern: str | None = None
    """Only names in a folder like this, e.g. *.csv"""

    @property
    def target(self) -> str:
        return self.path

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        if await nb.work.services.files.is_folder(self.path):
            return await self._list(nb)
        read = await nb.file_text(self.notebook)
        lines = read.text.splitlines()
        end = max(self.offset, 0) + max(self.limit, 1)
        shown = "\n".join(lines[max(self.offset, 0) : end])
        text = nb.work.fence.around(shown[:MOST_CHARACTERS] or "(empty)")
        if (left := len(shown) - MOST_CHARACTERS) > 0:
            text += f"\n[{left:,} more characters in these lines: read them with code in a cell]"
        rest = len(lines) - end
        if rest > 0:
            text += f"\n[{rest} more lines; read on with offset {end}]"
        text += f"\n[{read.note}]" if read.note else ""
        return Result(text=text, facts={"path": self.path, "lines": len(lines)})

    async def _list(self, nb: Lease) -> Result:
        entries = await nb.work.services.files.list(self.path, self.pattern)
        lines = [
            f"{quoted(entry['name'])}/" if entry["type"] == "directory" else _line(entry)
            for entry in entries
        ]
        return Result(text="\n".join(lines) or "Nothing there.", facts={"path": self.path})


def _line(entry: Mapping[str, Any]) -> str:
    name, size = quoted(entry["name"]), entry.get("size")
    return f"{name} {size} bytes" if size is not None else name
