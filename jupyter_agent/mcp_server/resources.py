"""Notebooks as resources: `notebook:///folder/sales.ipynb`, and a cell of one as `#its-id`."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

SCHEME = "notebook"
_KIND = "text/plain"
TEMPLATES = [
    {
        "uriTemplate": f"{SCHEME}:///{{+path}}",
        "name": "notebook",
        "title": "A live notebook",
        "description": "The text of a notebook as models read it, unsaved typing included; with "
        "`#` and the id of a cell, that cell in full.",
        "mimeType": _KIND,
    }
]


@dataclass(frozen=True, kw_only=True)
class NotebookUri:
    """The notebook, and maybe cell, of an address."""

    path: str
    cell_id: str | None

    def call(self) -> tuple[str, dict[str, Any]]:
        """The tool and input to read it."""
        if self.cell_id is None:
            return "get_notebook_state", {"notebook": self.path}
        return "read_cells", {"notebook": self.path, "cell_ids": [self.cell_id]}


def uri(path: str) -> str:
    """The address of a notebook."""
    return f"{SCHEME}:///{quote(path)}"


def parse(address: Any) -> NotebookUri:
    """Parses an address. Raises ValueError if it is not that of a notebook."""
    if not isinstance(address, str):
        raise ValueError("`uri` is missing.")
    parts = urlsplit(address)
    path = unquote(posixpath.join(parts.netloc, parts.path.lstrip("/")))
    if parts.scheme != SCHEME or not path:
        raise ValueError(f"`{address}` is not a notebook, such as `{SCHEME}:///folder/name.ipynb`.")
    return NotebookUri(path=path, cell_id=unquote(parts.fragment) or None)


def describe(opened: Sequence[str]) -> list[dict[str, Any]]:
    """The answer of `resources/list`: the open notebooks."""
    return [
        {
            "uri": uri(path),
            "name": posixpath.basename(path),
            "title": path,
            "mimeType": _KIND,
        }
        for path in sorted(set(opened))
    ]


def contents(address: str, text: str) -> list[dict[str, Any]]:
    """The answer of `resources/read`."""
    return [{"uri": address, "mimeType": _KIND, "text": text}]
