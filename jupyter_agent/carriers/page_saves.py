"""Saves of pages: none takes the place of what its page has not seen.

JupyterLab looks at a file before it saves, and the save arrives some milliseconds later, or after a
pause of the network: whatever another program wrote in between would be lost without a word. With
each save our extension names the file that the page had seen, and here both are compared at the
last moment.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from jupyter_server.services.contents.fileio import atomic_writing
from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from jupyter_agent.carriers import guard
from jupyter_agent.carriers.guard import Watch
from jupyter_agent.carriers.managers import Contents, Written, is_plain

SEEN = "jupyter_agent_seen"
"""The field of a PUT of the contents API with the hash of the file that the page had seen."""
OVERTAKEN = "jupyter_agent: another program wrote this notebook at the same moment."
"""In the answer to a save that was refused; the page merges and saves again."""

_LARGE = 8 * 2**20
"""Bytes. To write so much once more, only to know its hash, would hold up the server."""


@dataclass(frozen=True)
class _Save:
    """One that is under way."""

    seen: str
    """The hash of what the page had seen."""
    model: Mapping[str, Any]
    """What is saved, as other hooks leave it."""
    watch: Watch


class PageSaves:
    """Hooks of Jupyter's file managers. Other managers and saves of other pages are left alone."""

    def __init__(self, contents: Contents, log: logging.Logger) -> None:
        self._log = log
        self._saves: dict[str, _Save] = {}
        """By file."""
        if is_plain(contents):
            files = cast(FileContentsManager, contents)
            files.register_pre_save_hook(self._before)  # type: ignore[no-untyped-call]
            files.register_post_save_hook(self._after)  # type: ignore[no-untyped-call]

    def _before(
        self, model: dict[str, Any], path: str, contents_manager: FileContentsManager, **_: object
    ) -> None:
        seen = model.pop(SEEN, None)
        if not isinstance(seen, str):
            return
        file = guard.target(contents_manager._get_os_path(path))  # type: ignore[no-untyped-call]
        self._let_go(file)  # of a save that has failed
        watch = Watch(file)
        try:
            now = _hash(file, contents_manager.hash_algorithm)
        except FileNotFoundError:  # deleted: JupyterLab makes it again
            now = seen
        if now != seen:
            watch.close()
            raise HTTPError(409, OVERTAKEN)
        self._saves[file] = _Save(seen, model, watch)

    def _after(
        self,
        model: dict[str, Any],
        os_path: str,
        contents_manager: FileContentsManager,
        **_: object,
    ) -> None:
        file = guard.target(os_path)
        save = self._saves.get(file)
        if save is None:
            return
        overwritten = save.watch.overwritten()
        self._let_go(file)
        algorithm = contents_manager.hash_algorithm
        content = overwritten.content
        if content is not None and hashlib.new(algorithm, content).hexdigest() != save.seen:
            from jupyter_agent.carriers.nbformat_file import is_notebook  # costs time at start

            if is_notebook(content):
                with atomic_writing(file, text=False) as given_back:
                    given_back.write(content)
                raise HTTPError(409, OVERTAKEN)
            self._warn(file)
        elif overwritten.late:
            self._warn(file)
        # JupyterLab asks for the hash when it has this answer, and the file may be somebody else's
        # by then; it may be already.
        if os.path.getsize(file) > _LARGE:
            model["hash"] = _hash(file, algorithm)
        else:
            text = Written(save.model["content"], overwritten).text()
            model["hash"] = hashlib.new(algorithm, text.encode()).hexdigest()
        model["hash_algorithm"] = algorithm

    def _warn(self, file: str) -> None:
        self._log.warning(
            "jupyter_agent: another program was writing %s while a page saved it; what it wrote "
            "may be lost",
            os.path.basename(file),
        )

    def _let_go(self, file: str) -> None:
        if (save := self._saves.pop(file, None)) is not None:
            save.watch.close()


def _hash(file: str, algorithm: str) -> str:
    with open(file, "rb") as data:
        return hashlib.file_digest(data, lambda: hashlib.new(algorithm)).hexdigest()
