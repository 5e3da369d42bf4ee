"""Tools that look at other files, through Jupyter's contents manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jupyter_agent.legible import quoted
from jupyter_agent.tools.base import Progress, Result
from jupyter_agent.tools.read import ReadTool
from jupyter_agent.workspace.workspace import Lease

MOST_CHARACTERS = 20_000


class FileTool(ReadTool):
    """A tool that looks at a file or folder."""

    path: str

    @property
    def target(self) -> str:
        return self.path


class ListFiles(FileTool):
    """Names and sizes in a folder below Jupyter's root. Use it to find data and notebooks before
    you write a path into code. Subfolders are named, not listed. Code finds the same files relative
    to the notebook's own folder."""

    name: ClassVar[str] = "list_files"

    path: str = ""
    """The folder; default: the root"""
    pattern: str | None = None
    """Only names like this, e.g. *.csv"""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        entries = await nb.work.services.files.list(self.path, self.pattern)
        lines = [
            f"{quoted(entry['name'])}/" if entry["type"] == "directory" else _line(entry)
            for entry in entries
        ]
        return Result(text="\n".join(lines) or "Nothing there.", facts={"path": self.path})


class ReadFile(FileTool):
    """Lines of a text file below Jupyter's root, or the cells of another notebook. For code,
    settings, notes and the first lines of data whose columns you do not know. Not for whole tables:
    load those with code. You are told where to read on."""

    name: ClassVar[str] = "read_file"

    path: str
    """The file, below the root"""
    offset: int = 0
    """First line, counted from 0"""
    limit: int = 200
    """Most lines"""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
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


def _line(entry: Mapping[str, Any]) -> str:
    name, size = quoted(entry["name"]), entry.get("size")
    return f"{name} {size} bytes" if size is not None else name
