"""Reads and writes notebooks through the contents manager only, so that hooks, signing and other
storages work.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import posixpath
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

import nbformat
from jupyter_server.services.contents.filemanager import FileContentsManager
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from jupyter_agent.carriers import atomic_save, exchange, nbformat_file
from jupyter_agent.carriers.contents_model import (
    READ_ERRORS,
    FileFacts,
    LoadedNotebook,
    ParsedText,
    ReadModel,
    digest_of,
    hash_of,
    make_loaded,
    reason_of,
    refusal_of,
    unreadable_error,
)
from jupyter_agent.carriers.creation import Creation
from jupyter_agent.carriers.exchange import FileWrites, OverwriteRefused, Save
from jupyter_agent.carriers.file_ids import FileIds
from jupyter_agent.carriers.managers import Contents, hides
from jupyter_agent.carriers.nbformat_file import NoJson, Unusable
from jupyter_agent.carriers.plain_files import (
    PAUSE,
    PlainFiles,
    Trace,
    is_damaged,
    is_whole,
    wait_for_writer,
)
from jupyter_agent.document.identities import Namings
from jupyter_agent.document.long_work import gc_frozen
from jupyter_agent.errors import (
    Busy,
    NotebookNotFound,
    ToolError,
    UnreadableNotebook,
)

LARGEST = 512 * 2**20
"""Bytes; an open notebook takes several times its size in memory."""
_LARGE = 8 * 2**20
"""Bytes. Reading larger notebooks would trigger several garbage collections."""

_PATIENCE = 10.0
"""Seconds to wait for another server that is saving the same file."""
_REPAIRED_SAVE = (
    "A save of `{path}` was cut off. The notebook is as {what}; the rest of that save is in "
    "`{left}`."
)
_KEPT = (
    "A save of `{path}` was cut off, and its folder now has two versions of it: the file, and "
    "`{left}`. Delete the second one if you do not need it."
)
_RESTORED = "A reader moved `{path}` away in the middle of a save. It is back, and complete."
_FRESH = 60.0
"""Seconds; if a reader moved a notebook away longer ago, none of our saves was the reason."""
_LEFT = (
    "`{left}` is left over from a save of `{path}` that was cut off. The notebook itself is "
    "complete: delete the leftover file if you do not need it."
)

Former: TypeAlias = Callable[[], Awaitable[dict[str, Any] | None]]
"""Returns the JSON of an earlier version of a notebook's file; None without one."""

Expects: TypeAlias = Callable[[bytes], bool]
"""Whether the caller knows this content of a file."""


class Disk:
    """Reads and writes whole notebooks through a contents manager, asynchronous or not."""

    def __init__(self, contents: Contents, namings: Namings) -> None:
        self._contents = contents
        self.ids = FileIds(namings)
        parameters = inspect.signature(contents.get).parameters.values()
        # Since jupyter-server 2.11; managers of other projects may not have it.
        self._hashes = any(
            item.name == "require_hash" or item.kind is item.VAR_KEYWORD for item in parameters
        )
        self._files = PlainFiles(contents)
        self._writes = FileWrites.of(contents)
        self._last_hashes: dict[str, tuple[Trace, str]] = {}
        """By path: the hash of the file when it had that trace."""
        self._saving: set[str] = set()
        """Paths of the notebooks that we are saving; their files are read during the save."""
        self.repairs: list[str] = []
        """Sentences on all repairs so far."""
        self._repair_notes: dict[str, str] = {}
        """By path: the repair made when the notebook was read, to be reported."""

    async def stamp(self, path: str) -> str:
        """The value for `LoadedNotebook.stamp`. Raises NotebookNotFound or UnreadableNotebook."""
        return await self.hash(path) or (await self.load(path)).stamp

    async def hash(self, path: str, *, again: bool = False) -> str | None:
        """The contents manager's hash of the file, which an open tab knows too; None if the manager
        has no hashes. A file that has not been written since it was last read is only read `again`
        if the caller has reason to: its path may have led elsewhere for a moment.
        """
        last = self._last_hashes.get(path)
        if not again and last is not None and last[0] == self._files.trace(path):
            return last[1]
        return hash_of(await self._get(path, content=False))

    async def hash_ahead(self, path: str) -> None:
        """Compute the hash now, beside other work, if the next `hash` can use it. Raises the errors
        of `stamp`.
        """
        if self._files.trace(path) is not None:
            await self.hash(path)

    async def facts(self, path: str) -> FileFacts:
        """Facts about the file without reading it. Raises the errors of `stamp`."""
        model = await self._get(path, content=False, hashed=False)
        return FileFacts(model["writable"] is not False, model["last_modified"])

    async def exists(self, path: str) -> bool:
        """Whether something exists at that path."""
        return bool(await ensure_async(self._contents.exists(path)))

    async def load(self, path: str) -> LoadedNotebook:
        """Read the notebook. Raises NotebookNotFound or UnreadableNotebook."""
        size = await self._size(path)
        with gc_frozen(size > _LARGE):
            return await self._load(path)

    async def _load(self, path: str) -> LoadedNotebook:
        try:
            model, content, trusted, without = await (
                self._from_text(path) if self._files.exist else self._from_model(path)
            )
        except Unusable as why:
            raise UnreadableNotebook(
                f"`{path}` cannot be edited: {why}. It is left unchanged."
            ) from why
        if without:
            await self.ids.recall(path)
        repair = await asyncio.to_thread(self.ids.give, path, content, without)
        stamp = hash_of(model)
        if stamp is None:
            stamp = await asyncio.to_thread(digest_of, content)
        repair = f"{self._repair_notes.pop(path, '')} {repair}".strip()
        return make_loaded(content, stamp, model, trusted=trusted, repair=repair)

    async def read_back(
        self, path: str, content: Mapping[str, Any], *, signed: bool
    ) -> LoadedNotebook:
        """Like `load`, right after `write` of this content: if the file has the same content,
        nothing is parsed and signed again.
        """
        size = await self._size(path)
        with gc_frozen(size > _LARGE):
            if self._files.exist:
                model = await self._get(path, type="file", format="text")
                stamp = hash_of(model)
                stored = self.ids.as_stored(path, content)
                same = await asyncio.to_thread(nbformat_file.matches, model["content"], stored)
                if same and stamp is not None:
                    return make_loaded(content, stamp, model, trusted=signed)
            return await self._load(path)

    @asynccontextmanager
    async def save_lock(self, path: str) -> AsyncIterator[None]:
        """Keep our other servers from saving this notebook. Raises Busy."""
        file = self._files.path_of(path)
        if file is None or path in self._saving:
            yield
            return
        async with atomic_save.save_lock(file, _PATIENCE) as locked:
            if not locked:
                raise Busy(
                    f"Another Jupyter server has been saving `{path}` for {_PATIENCE:.0f} s; "
                    "nothing was changed. Try again."
                )
            self._saving.add(path)
            try:
                yield
            finally:
                self._saving.discard(path)

    async def write(
        self,
        path: str,
        content: dict[str, Any],
        *,
        sign: bool,
        expects: Expects | None = None,
        creates: bool = False,
    ) -> None:
        """Save the notebook.

        The contents manager signs it if all its outputs are trusted or harmless; with `sign` False
        it stays unsigned. `expects` tells whether the caller knows the content that is overwritten;
        `creates`: the file may be missing.

        Raises Locked or ToolError; the file is unchanged then. Raises OverwriteRefused if the file
        had content that the caller does not know. `content` must not be used afterwards.
        """
        self.ids.note_write(path, content)
        stored = self.ids.as_stored(path, content)
        try:
            await self._save(path, stored, sign=sign, expects=expects, creates=creates)
        except OverwriteRefused:
            self.ids.take_back(path)
            raise

    async def _save(
        self,
        path: str,
        content: dict[str, Any],
        *,
        sign: bool,
        expects: Expects | None = None,
        creates: bool = False,
    ) -> None:
        """Like `write`, with the JSON exactly as it goes into the file."""
        model = {"type": "notebook", "format": "json", "content": content}
        if self._writes is not None and expects is not None:
            if (file := await self._files.path_to_guard(path, expects)) is not None:
                await wait_for_writer(file)
                self._writes.save = Save(file, expects, creates=creates)
        try:
            await ensure_async(self._contents.save(model, path))
        except (HTTPError, OSError) as error:
            if isinstance(refused := reason_of(error), OverwriteRefused):
                raise refused from None
            raise refusal_of(path, error) from error
        finally:
            if self._writes is not None:
                self._writes.save = None
        if not sign:
            notary = self._contents.notary  # its database belongs to the thread that first asks
            signature = await asyncio.to_thread(self._signature_of_harmless, content)
            if signature is not None:
                notary.store.remove_signature(signature, notary.algorithm)

    def holds(self, loaded: LoadedNotebook, content: bytes) -> bool:
        """Whether the file was loaded from these bytes. Slow for a large file."""
        algorithm = cast(FileContentsManager, self._contents).hash_algorithm
        return hashlib.new(algorithm, content).hexdigest() == loaded.stamp

    def _signature_of_harmless(self, content: dict[str, Any]) -> str | None:
        """The signature that the contents manager made because all outputs are harmless."""
        notebook: Any = nbformat.from_dict(content)  # type: ignore[no-untyped-call]
        if not self._contents.notary.check_cells(notebook):
            return None
        signature: str = self._contents.notary.compute_signature(notebook)
        return signature

    async def create(self, path: str, content: dict[str, Any]) -> None:
        """See `Creation.create`."""
        await Creation(self, self._contents, self._files).create(path, content)

    # ---- two ways of reading: JSON, trusted, and where cells have no id of their own

    async def _from_text(self, path: str) -> ReadModel:
        """Parse in a thread: a large notebook must not hold up the event loop."""
        notary = self._contents.notary  # its database belongs to the thread that first asks
        model, (content, signature, without) = await self._parse_complete(path)
        trusted = notary.store.check_signature(signature, notary.algorithm)
        return model, content, bool(trusted), without

    async def _parse_complete(self, path: str) -> tuple[dict[str, Any], ParsedText]:
        while True:
            try:
                return await self._parse(path)
            except (NoJson, UnreadableNotebook) as error:
                if isinstance(error.__cause__, OSError):
                    raise
                if not self._files.is_being_saved(path):
                    break
            await asyncio.sleep(PAUSE)
        async with self.save_lock(path):
            if done := await self.mend(path):
                self._repair_notes[path] = done
            return await self._parse(path)

    async def _parse(self, path: str) -> tuple[dict[str, Any], ParsedText]:
        model = await self._get(path, type="file", format="text")
        return model, await asyncio.to_thread(self._parse_and_sign, model["content"])

    async def mend(self, path: str, former: Former | None = None) -> str:
        """Repair a notebook whose save was cut off: from the copy that the contents manager made
        before it, else from the content that `former` returns. Returns sentences on the repair and
        the files it leaves; empty for nothing. `repairs` has them too.

        Raises Busy, Locked or ToolError.
        """
        file = self._files.path_of(path)
        done = await self._mend(path, file, former) if file is not None else ""
        if done:
            self.repairs.append(done)
        return done

    async def _mend(self, path: str, file: str, former: Former | None) -> str:
        async with self.save_lock(path):
            while atomic_save.is_being_saved(file):
                await asyncio.sleep(PAUSE)
            aside = atomic_save.quarantine_path(file)
            left = posixpath.join(posixpath.dirname(path), os.path.basename(aside))
            if self._writes is not None:
                kept = await asyncio.to_thread(self._writes.tidy, file, is_whole)
                self.repairs += [_KEPT.format(path=path, left=name) for name in kept]
            if not await asyncio.to_thread(is_damaged, file):
                return _LEFT.format(path=path, left=left) if os.path.exists(aside) else ""
            copy = atomic_save.copy_of(file)
            try:
                if await asyncio.to_thread(is_whole, copy):
                    os.replace(file, aside)
                    os.replace(copy, file)
                    return _REPAIRED_SAVE.format(
                        path=path, left=left, what="it was before that save"
                    )
                if former is None or (content := await former()) is None:
                    return ""
                os.replace(file, aside)
                try:
                    await self._save(path, content, sign=False)
                except ToolError:
                    os.replace(aside, file)
                    raise
            except OSError as error:
                raise ToolError(f"`{path}` is damaged, and stays so: {error.strerror}.") from error
            return _REPAIRED_SAVE.format(path=path, left=left, what="in our newest recovery copy")

    def _parse_and_sign(self, text: str) -> ParsedText:
        content = nbformat_file.parse(text)
        signature = self._contents.notary.compute_signature(content)
        return content, signature, nbformat_file.missing_ids(content["cells"])

    async def _from_model(self, path: str) -> ReadModel:
        """As the manager returns it. Ids that change at a second reading are not stored."""
        try:
            model = await self._get(path)
        except UnreadableNotebook:
            if path.endswith(".ipynb"):
                await self._parse(path)  # its text tells why
            raise
        content = model["content"]
        if not isinstance(content, dict):
            raise Unusable("it is not a JSON object")
        await asyncio.to_thread(nbformat_file.refuse_unwritable, content)
        nbformat_file.refuse_odd(content)
        cells = content["cells"]
        without = nbformat_file.missing_ids(cells)
        if self.ids.has_naming(path) or nbformat_file.may_be_made_up(cells):
            again = (await self._get(path))["content"]["cells"]
            without |= {
                index
                for index, (cell, other) in enumerate(zip(cells, again, strict=False))
                if cell.get("id") != other.get("id")
            }
        # The manager marks the code cells when it reads: all of them or none.
        marks = [
            cell["metadata"].pop("trusted", False) is True
            for cell in cells
            if cell["cell_type"] == "code"
        ]
        return model, content, all(marks), without

    async def _get(
        self,
        path: str,
        *,
        content: bool = True,
        type: str = "notebook",
        format: str | None = None,
        hashed: bool = True,
        again: bool = True,
    ) -> dict[str, Any]:
        """The manager's model; with `again`, a missing file is looked for once more."""
        options: dict[str, Any] = {"require_hash": True} if self._hashes and hashed else {}
        if format is not None:
            options["format"] = format
        trace, asked = self._files.trace(path) if hashed else None, time.time()
        try:
            if await hides(self._contents, path):
                raise HTTPError(404)
            model: dict[str, Any] = await ensure_async(
                self._contents.get(path, content=content, type=type, **options)
            )
        except READ_ERRORS as error:
            if isinstance(error, HTTPError) and error.status_code == 404:
                if again and (
                    self._restore_quarantined(path) or await self._files.is_recreated(path, asked)
                ):
                    return await self._get(
                        path,
                        content=content,
                        type=type,
                        format=format,
                        hashed=hashed,
                        again=False,
                    )
                raise NotebookNotFound(f"There is no notebook at `{path}`.") from error
            raise unreadable_error(path, error) from error
        if trace is not None and (hash := hash_of(model)) is not None:
            self._last_hashes[path] = trace, hash
        return model

    def _restore_quarantined(self, path: str) -> bool:
        """Restore a notebook that a reader has just moved away because it found half of it, and
        that is whole now. Whether that was done.
        """
        file = self._files.path_of(path)
        if file is None or os.path.lexists(file):
            return False
        aside = atomic_save.quarantine_path(file)
        try:
            fresh = time.time() - os.stat(aside).st_ctime < _FRESH
        except OSError:
            return False
        if not (fresh and is_whole(aside) and exchange.rename_if_free(aside, file)):
            return False
        self._repair_notes[path] = _RESTORED.format(path=path)
        self.repairs.append(self._repair_notes[path])
        return True

    async def _size(self, path: str) -> int:
        """In bytes, 0 if unknown. Raises UnreadableNotebook if it is too large."""
        found = self._files.stat(path)
        if found is not None:
            size = found.st_size
        else:
            size = (await self._get(path, content=False, hashed=False)).get("size") or 0
        if size > LARGEST:
            raise UnreadableNotebook(f"`{path}` is too large to work on ({size:,} bytes).")
        return size
