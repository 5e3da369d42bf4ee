"""Contents managers as people have them: slow, synchronous, without hashes, without files, with
hooks, text notebooks, a drive with a prefix in its paths.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from jupyter_server.services.contents.checkpoints import Checkpoints
from jupyter_server.services.contents.largefilemanager import (
    AsyncLargeFileManager,
    LargeFileManager,
)
from jupyter_server.services.contents.manager import ContentsManager
from jupytext.async_contentsmanager import build_async_jupytext_contents_manager_class
from jupytext.sync_contentsmanager import build_sync_jupytext_contents_manager_class
from tornado.web import HTTPError


class Slow(AsyncLargeFileManager):
    """Waits for another task before and after each action, like a storage in a network."""

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        await _wait()
        model = await super().get(*args, **kwargs)
        await _wait()
        return model

    async def save(self, *args: Any, **kwargs: Any) -> Any:
        await _wait()
        model = await super().save(*args, **kwargs)
        await _wait()
        return model


async def _wait() -> None:
    await asyncio.to_thread(lambda: None)


class WithoutHashes(LargeFileManager):
    """Like managers before jupyter-server 2.11."""

    def get(
        self, path: str, content: bool = True, type: str | None = None, format: str | None = None
    ) -> Any:
        return super().get(path, content=content, type=type, format=format)


class Drive(AsyncLargeFileManager):
    """All its paths begin with the name of the drive and a colon."""

    def _get_os_path(self, path: str) -> str:
        if not path.startswith("drive:"):
            raise HTTPError(404, f"{path} is on no drive")
        return str(super()._get_os_path(path.removeprefix("drive:")))


class NoCheckpoints(Checkpoints):
    """Of a storage without hashes."""

    def rename_all_checkpoints(self, old_path: str, new_path: str) -> None:
        pass

    def delete_all_checkpoints(self, path: str) -> None:
        pass


class Memory(ContentsManager):
    """Has no files at all."""

    checkpoints_class = NoCheckpoints

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.notebooks: dict[str, Any] = {}

    def get(
        self, path: str, content: bool = True, type: str | None = None, format: str | None = None
    ) -> Any:
        if path not in self.notebooks:
            raise HTTPError(404, path)
        if type not in (None, "notebook"):
            raise HTTPError(400, f"{path} is a notebook")
        now = datetime.now(UTC)
        model = {"name": path, "path": path, "type": "notebook", "writable": True, "size": None}
        model |= {"created": now, "last_modified": now, "mimetype": None}
        if content:
            notebook = nbformat.from_dict(copy.deepcopy(self.notebooks[path]))
            self.mark_trusted_cells(notebook, path)
            model |= {"content": notebook, "format": "json"}
        return model

    def save(self, model: dict[str, Any], path: str = "") -> Any:
        self.run_pre_save_hooks(model=model, path=path)
        notebook = nbformat.from_dict(copy.deepcopy(model["content"]))
        self.check_and_sign(notebook, path)
        self.notebooks[path] = notebook
        return self.get(path, content=False)

    def exists(self, path: str) -> bool:
        return path in self.notebooks

    def is_hidden(self, path: str) -> bool:
        return False

    def dir_exists(self, path: str) -> bool:
        return path == ""

    def file_exists(self, path: str = "") -> bool:
        return path in self.notebooks

    def rename_file(self, old_path: str, new_path: str) -> None:
        self.notebooks[new_path] = self.notebooks.pop(old_path)

    def delete_file(self, path: str) -> None:
        del self.notebooks[path]


class Unsigned(Memory):
    """Never asks for the notary."""

    def mark_trusted_cells(self, nb: Any, path: str = "") -> None:
        pass

    def check_and_sign(self, nb: Any, path: str = "") -> None:
        pass


@dataclass(frozen=True)
class Storage:
    """A manager, a notebook's path in it, and the parts of a notebook that it stores."""

    contents: Any
    path: str
    renamed: str
    keeps_outputs: bool = True
    metadata: dict[str, Any] | None = None


def _strip(model: Any, **_: Any) -> None:
    if model["type"] == "notebook":
        for cell in model["content"]["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None


def _script(model: Any, os_path: str, contents_manager: Any) -> None:
    if model["type"] == "notebook":
        Path(os_path).with_suffix(".txt").write_text(model["path"], encoding="utf-8")


def _file(kind: type, **options: Any) -> Callable[[Path], Storage]:
    return lambda root: Storage(kind(root_dir=str(root), **options), "a.ipynb", "b.ipynb")


def _stripped(root: Path) -> Storage:
    contents = AsyncLargeFileManager(root_dir=str(root))
    contents.register_pre_save_hook(_strip)
    contents.register_post_save_hook(_script)
    return Storage(contents, "a.ipynb", "b.ipynb", keeps_outputs=False)


JUPYTEXT: dict[str, Any] = {
    "sync": build_sync_jupytext_contents_manager_class(LargeFileManager),
    "async": build_async_jupytext_contents_manager_class(AsyncLargeFileManager),
}
"""Jupytext's managers, which wrap the errors of Jupyter's."""


def _text(name: str, extension: str, *, sync: bool, paired: bool) -> Callable[[Path], Storage]:
    kind = JUPYTEXT["sync" if sync else "async"]
    jupytext: dict[str, Any] = {
        "text_representation": {"extension": f".{extension}", "format_name": name}
    }
    if paired:
        jupytext = {"formats": f"ipynb,{extension}:{name}"}

    def make(root: Path) -> Storage:
        suffix = "ipynb" if paired else extension
        return Storage(
            kind(root_dir=str(root)),
            f"a.{suffix}",
            f"b.{suffix}",
            keeps_outputs=paired,
            metadata={"jupytext": jupytext},
        )

    return make


STORAGES: dict[str, Callable[[Path], Storage]] = {
    "async": _file(AsyncLargeFileManager),
    "sync": _file(LargeFileManager),
    "slow": _file(Slow),
    "not atomic": _file(AsyncLargeFileManager, use_atomic_writing=False),
    "without hashes": _file(WithoutHashes),
    "memory": lambda root: Storage(Memory(), "a.ipynb", "b.ipynb"),
    "hooks that strip": _stripped,
    "drive": lambda root: Storage(Drive(root_dir=str(root)), "drive:a.ipynb", "drive:b.ipynb"),
    "py sync": _text("percent", "py", sync=True, paired=False),
    "py async": _text("percent", "py", sync=False, paired=False),
    "md": _text("markdown", "md", sync=False, paired=False),
    "paired sync": _text("percent", "py", sync=True, paired=True),
    "paired async": _text("percent", "py", sync=False, paired=True),
}
