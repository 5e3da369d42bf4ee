"""Keeps saves of pages and rooms from overwriting content that they have not seen.

JupyterLab checks a file before it saves, but the save arrives some milliseconds later, or after a
pause of the network: anything that another program wrote in between would be lost silently. The
same can happen during a room's save. With each save our extension sends the hash of the file that
the page had seen, our server that of the room's file, and both are compared here at the last
moment.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, cast

from jupyter_server.services.contents.filemanager import FileContentsManager
from tornado.web import HTTPError

from jupyter_agent.carriers.exchange import OVERTAKEN, FileWrites, Save
from jupyter_agent.carriers.managers import Contents, is_plain

SEEN = "jupyter_agent_seen"
"""The field of a save with the hash of the file that the page or the room had seen; empty if it was
missing.
"""
WRITTEN = "jupyter_agent_written"
"""The field of the answer with the hash of the written content: the file may have changed by
then.
"""


class PageSaves:
    """Hooks of Jupyter's file managers. Other managers, and saves of other pages, are left
    alone.
    """

    def __init__(self, contents: Contents) -> None:
        writes = FileWrites.of(contents) if is_plain(contents) else None
        if writes is not None:
            self._writes = writes
            files = cast(FileContentsManager, contents)
            files.register_pre_save_hook(self._before)  # type: ignore[no-untyped-call]
            files.register_post_save_hook(self._after)  # type: ignore[no-untyped-call]

    def _before(
        self, model: dict[str, Any], path: str, contents_manager: FileContentsManager, **_: object
    ) -> None:
        seen = model.pop(SEEN, None)
        if not isinstance(seen, str):
            return
        algorithm = contents_manager.hash_algorithm

        def is_seen(content: bytes) -> bool:
            return hashlib.new(algorithm, content).hexdigest() == seen

        file = os.path.realpath(contents_manager._get_os_path(path))  # type: ignore[no-untyped-call]
        save = Save(file, is_seen, algorithm=algorithm)
        try:
            with open(file, "rb") as data:
                known = is_seen(data.read())
        except FileNotFoundError:  # a page that has not noticed looks again: git recreates files
            known = save.creates = not seen
        if not known:
            raise HTTPError(409, OVERTAKEN)
        self._writes.save = save

    def _after(self, model: dict[str, Any], os_path: str, **_: object) -> None:
        save = self._writes.save
        if save is not None and save.hash and save.file == os.path.realpath(os_path):
            # JupyterLab asks for the hash when it has this answer, and by then, or even now,
            # another program may have written the file.
            model["hash"], model["hash_algorithm"] = save.hash, save.algorithm
            model[WRITTEN] = save.hash
            save.hash = ""
