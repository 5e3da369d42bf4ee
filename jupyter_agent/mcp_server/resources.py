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
        "description": "The text of a notebook as models read it, unsaved typing included. With "
        "the id of a cell after `#` that cell in full.",
        "mimeType": _KIND,
    }
]


@dataclass(frozen=True, kw_only=True)
class NotebookUri:
    """What an address names."""

    path: str
    cell_id: str | None

    def call(self) -> tuple[str, dict[str, Any]]:
        """The tool and input that read it."""
        if self.cell_id is None:
            return "get_notebook_state", {"notebook": self.path}
        return "read_cells", {"notebook": self.path, "cell_ids": [self.cell_id]}


def uri(path: str) -> str:
    """The address of a notebook."""
    return f"{SCHEME}:///{quote(path)}"


def parse(address: Any) -> NotebookUri:
    """Raises ValueError for what is no address of a notebook."""
    if not isinstance(address, str):
        raise ValueError("`uri` is missing.")
    parts = urlsplit(address)
    path = unquote(posixpath.join(parts.netloc, parts.path.lstrip("/")))
    if parts.scheme != SCHEME or not path:
        raise ValueError(f"`{address}` is no notebook: `{SCHEME}:///folder/name.ipynb` is one.")
    return NotebookUri(path=path, cell_id=unquote(parts.fragment) or None)


def describe(opened: Sequence[str]) -> list[dict[str, Any]]:
    """What `resources/list` answers: the notebooks that are open now."""
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
    """What `resources/read` answers."""
    return [{"uri": address, "mimeType": _KIND, "text": text}]
