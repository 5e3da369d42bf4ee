"""The live document of a notebook that is not open anywhere: kept in sync with its file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from jupyter_ydoc import YNotebook
from pycrdt import Map

from jupyter_agent.carriers.contents import Disk
from jupyter_agent.carriers.contents_model import LoadedNotebook
from jupyter_agent.carriers.exchange import OverwriteRefused
from jupyter_agent.carriers.file_cells import (
    BATCH,
    OF_RUN,
    changed_cells,
    clean_values,
    clears_unseen,
    content_of,
    count_parts,
    has_metadata,
    is_running,
    patch,
    rebase,
    rebuild,
    same_cells,
    text_of,
    without_state,
)
from jupyter_agent.carriers.nbformat_file import Unusable, plain
from jupyter_agent.document.carrier import Place, SaveResult, with_items
from jupyter_agent.document.cell import CarrierName
from jupyter_agent.document.crdt import FILE, OWN_METHODS, SharedCells
from jupyter_agent.document.line_ends import restore, unify
from jupyter_agent.document.long_work import gc_frozen
from jupyter_agent.document.merge import MergeConflict, keeps_edit
from jupyter_agent.document.merge_cells import both_changed, merge_cell
from jupyter_agent.document.values import shared_cell
from jupyter_agent.errors import (
    Busy,
    Conflict,
    NotConfirmed,
    NotebookNotFound,
    ToolError,
    UnreadableNotebook,
)

Recovery = Callable[[str, str], Awaitable[None]]
"""Called with a notebook's path and JSON text before a turn first writes it."""

_BOTH = "Another program saved it at the same moment: it has both changes."
_KEPT = (
    "Two other programs saved it at the same moment: what the later one saved is in it too, the "
    "other's is in `{name}` beside it."
)
_TRIES = 3
"""Attempts to write an edit while another program saves the file at the same time."""
_MANY = 2000
"""Cells and outputs. Copies of larger notebooks are so many objects that each save triggers several
garbage collections, which hold up the event loop.
"""


class FileCarrier:
    """A document loaded from a file and saved onto the loaded JSON.

    Parts that were not changed here are written as they were read: unknown keys, attachments and
    numbers that a shared document cannot hold survive, and without a change nothing is written.
    """

    name: CarrierName = "file"
    place: Place | None = None

    def __init__(
        self,
        path: str,
        disk: Disk,
        *,
        is_open: Callable[[], bool],
        is_page_away: Callable[[], bool] = lambda: False,
        recovery: Callable[[], Recovery | None] = lambda: None,
        rescue: Recovery | None = None,
        note: str = "",
    ) -> None:
        """`is_open` tells whether the notebook has been opened in a tab, `is_page_away` whether a
        page with unsaved work is expected back. `recovery` returns the function that stores a copy
        before the next write, None if the present turn has one; `rescue` stores our edits if
        someone else overwrote them. `note` is added to the first result.
        """
        self.path = path
        self.cells = SharedCells(YNotebook(), keeps_line_ends=True)
        self._disk = disk
        self._is_open = is_open
        self._is_page_away = is_page_away
        self._recovery = recovery
        self._rescue = rescue
        self._note = note
        self._loaded: LoadedNotebook | None = None
        self._clean: dict[str, Any] = {}
        """Values of the document's cells that equal the file's."""
        self._metadata: dict[str, Any] = {}
        """Keys of the notebook's metadata that are still to be saved."""
        self._edited_texts: dict[str, tuple[str, str]] = {}
        """Cell id -> its text in the file before and after our edits."""
        self._approved_cells: set[str] = set()
        self.has_written = False
        """Whether a page that read the file earlier may not know its present content."""

    @property
    def writable(self) -> bool:
        return self._loaded is None or self._loaded.writable

    @property
    def metadata(self) -> dict[str, Any]:
        return with_items(self._loaded.content["metadata"], self._metadata) if self._loaded else {}

    def write_metadata(self, items: Mapping[str, Any]) -> None:
        self._metadata |= items

    async def is_live(self) -> bool:
        return False  # finding out is as much work as a refresh

    async def is_current(self) -> bool:
        return self.writable and not self._is_open() and await self._is_as_loaded()

    async def refresh(self) -> None:
        """Load what others wrote into the file since."""
        if self._loaded is not None and not self.writable:  # which changes without a write
            facts = await self._disk.facts(self.path)
            self._loaded = replace(self._loaded, writable=facts.writable)
        if not await self._is_as_loaded():
            now = await self._disk.load(self.path)
            await self._rescue_overwritten_edits(now)
            await self._update_document(now)

    async def confirm(self) -> SaveResult:
        """Write the file unless it already has this content. A simultaneous save of another program
        is merged.
        """
        merged: list[str] = []
        for _ in range(_TRIES):
            try:
                saved = await self._confirm()
            except OverwriteRefused as theirs:
                merged.append(await self._merge(theirs))
            else:
                notes = dict.fromkeys((self._note, *merged, saved.note))
                self._note = ""
                return replace(saved, note=" ".join(filter(None, notes)))
        raise self._conflict()

    async def _confirm(self) -> SaveResult:
        assert self._loaded is not None
        loaded, values = self._loaded, self.cells.values()
        content = await asyncio.to_thread(
            content_of, values, loaded.content, self._clean, dict(self._metadata)
        )
        if content is loaded.content:
            self._metadata.clear()
            return SaveResult(True)
        if not loaded.writable:
            return SaveResult(False, "The file is read-only.")
        await self._write(content, {value["id"]: value for value in values}, loaded)
        return SaveResult(True, loaded.repair)

    async def save(self) -> SaveResult:
        return await self.confirm()

    async def trust(self, cell_id: str) -> None:
        self._approved_cells.add(cell_id)

    async def begin(self, *, removes: bool) -> None:
        if self._is_page_away():
            raise Busy(
                f"`{self.path}` is open in a browser tab that has unsaved work and is away (asleep "
                "or disconnected); nothing was changed. Try again when it is back, or in a minute. "
                "With `while_away=write` the file is edited now, and that tab merges it when it is "
                "back."
            )

    async def withdraw(self) -> None:
        pass  # all edits are transactions

    def note_rename(self, path: str) -> None:
        self.path = path

    async def close(self) -> None:
        self.cells.close()

    async def _write(
        self, content: Mapping[str, Any], written: Mapping[str, Any], loaded: LoadedNotebook
    ) -> None:
        """`written` are the values by id that the content was made of."""
        with gc_frozen(count_parts(content) > _MANY):
            if (keep := self._recovery()) is not None:
                text = await asyncio.to_thread(text_of, loaded.content)
                await keep(self.path, text)
            marked, sign = await asyncio.to_thread(self._mark_trusted, content, loaded)
            async with self._disk.save_lock(self.path):
                now = await self._write_and_read(content, marked, loaded, sign=sign)
            self._loaded = replace(loaded, content=content)
            for key in [
                key for key, item in self._metadata.items() if has_metadata(content, key, item)
            ]:
                del self._metadata[key]
            self._track_edit(loaded.content, content)
            await self._update_document(now, written)

    def _track_edit(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        old = {cell["id"]: cell for cell in before["cells"]}
        for cell in after["cells"]:
            was = old.get(cell["id"], {"source": ""})
            if was is not cell and was["source"] != cell["source"]:
                first, _ = self._edited_texts.get(cell["id"], (unify(was["source"]), ""))
                self._edited_texts[cell["id"]] = first, unify(cell["source"])

    async def _rescue_overwritten_edits(self, now: LoadedNotebook) -> None:
        """Store a copy of the file with our edits if someone else has overwritten them: edits
        outside of turns are in no journal.
        """
        own, self._edited_texts = self._edited_texts, {}
        texts = {cell["id"]: unify(cell["source"]) for cell in now.content["cells"]}
        gone = any(
            key not in texts or not keeps_edit(before, after, texts[key])
            for key, (before, after) in own.items()
        )
        if gone and self._rescue is not None and self._loaded is not None:
            with suppress(ToolError):  # the others' version has to be shown, copy or not
                await self._rescue(
                    self.path, await asyncio.to_thread(text_of, self._loaded.content)
                )

    async def _write_and_read(
        self,
        content: Mapping[str, Any],
        marked: dict[str, Any],
        loaded: LoadedNotebook,
        *,
        sign: bool,
    ) -> LoadedNotebook:
        """The file after the write. `marked` is the content with trust marks."""
        if not await self._is_as_loaded():
            raise OverwriteRefused
        if self._is_open():
            raise Busy(
                f"`{self.path}` was opened in a browser tab at this moment; nothing was changed. "
                "Try again."
            )
        self._loaded = replace(loaded, stamp="")  # whatever happens now, read the file again
        self._clean = {}
        self.has_written = True
        try:
            await self._disk.write(
                self.path, marked, sign=sign, expects=partial(self._disk.holds, loaded)
            )
        except ToolError as error:
            return await self._check_failed_save(error, loaded)
        return await self._read_back(self._disk.read_back(self.path, content, signed=sign))

    async def _merge(self, theirs: OverwriteRefused) -> str:
        """Load what another program saved at the same moment; a note on it for the user. Raises
        Conflict if both changed the same lines or the same metadata, or one side inserted, deleted,
        moved or retyped cells.
        """
        assert self._loaded is not None
        try:
            now = await self._disk.load(self.path)
        except UnreadableNotebook as error:  # its write is not complete
            raise self._conflict() from error
        before = self._loaded.content["cells"]
        if not same_cells(self.cells.values(), before, now.content["cells"]):
            raise self._conflict()
        for old, new in zip(before, now.content["cells"], strict=True):
            value = self.cells.value(old["id"])
            mine = patch(old, without_state(value))
            try:
                merge_cell(old, mine, new)
            except MergeConflict as error:
                raise self._conflict() from error
            clears = not is_running(value) and clears_unseen(old, mine, new)
            if clears or both_changed(old, mine, new):
                raise self._conflict()
        changed = now.content != self._loaded.content
        await self._rescue_overwritten_edits(now)
        await self._update_document(now)
        if theirs.saved_as:
            return _KEPT.format(name=theirs.saved_as)
        return _BOTH if changed else ""

    def _conflict(self) -> Conflict:
        return Conflict(
            f"Another program writes `{self.path}` at the same moment. What it writes is in the "
            "file, and nothing was changed. Read it again."
        )

    async def _is_as_loaded(self) -> bool:
        """Whether the file is unchanged since it was loaded."""
        return self._loaded is not None and await self._disk.stamp(self.path) == self._loaded.stamp

    async def _read_back(self, reading: Awaitable[LoadedNotebook]) -> LoadedNotebook:
        try:
            return await reading
        except ToolError as error:
            raise NotConfirmed(
                f"The save of `{self.path}` could not be verified: {error} Read it later "
                "to see its content."
            ) from error

    async def _check_failed_save(self, error: ToolError, loaded: LoadedNotebook) -> LoadedNotebook:
        """The file after a save that failed; raises the error if it still has the old text.

        A manager that fails late has saved all the same. One that writes in place leaves half a
        file: then the old text is restored.
        """
        with suppress(ToolError):  # the next reading reports it
            if await self._disk.hash(self.path, again=True) == loaded.stamp:
                self._disk.ids.take_back(self.path)
        try:
            now = await self._read_back(self._disk.load(self.path))
        except NotConfirmed as unknown:
            match unknown.__cause__:
                case NotebookNotFound():
                    raise error from unknown
                case UnreadableNotebook(__cause__=Unusable()):
                    await self._put_back(loaded)
                    raise error from unknown
            raise
        if now.stamp == loaded.stamp:
            raise error
        return now

    async def _put_back(self, loaded: LoadedNotebook) -> None:
        marked, sign = await asyncio.to_thread(self._mark_trusted, loaded.content, loaded)
        try:
            await self._disk.write(self.path, marked, sign=sign)
        except ToolError as error:
            raise ToolError(
                f"`{self.path}` could not be saved, and the file is damaged now: "
                f"{error.__cause__}. The notebook as it was is kept as a recovery copy."
            ) from error

    def _mark_trusted(
        self, content: Mapping[str, Any], loaded: LoadedNotebook
    ) -> tuple[dict[str, Any], bool]:
        """A copy that hooks may change, with trust marks on cells with trusted outputs, and whether
        it may be signed.

        A trusted notebook stays trusted, whatever is done in it. In others a cell keeps its mark,
        and cells whose run the user approved get one; the notebook is signed if every code cell
        with outputs has a mark.
        """
        marked: dict[str, Any] = plain(content)
        before = {cell["id"] for cell in loaded.content["cells"] if cell["cell_type"] == "code"}
        trusted = before <= loaded.trusted
        doubtful = False
        for cell in marked["cells"]:
            if cell["cell_type"] == "code":
                mark = trusted or cell["id"] in loaded.trusted | self._approved_cells
                cell["metadata"]["trusted"] = mark
                doubtful |= bool(cell["outputs"]) and not mark
        return marked, trusted or (bool(self._approved_cells) and not doubtful)

    # ---- document and JSON

    async def _update_document(
        self, loaded: LoadedNotebook, written: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """Update the document from the file, preserving what the document has beyond its last load.

        `written`: the document's cells that were just saved. Their outputs stay in the document if
        the storage drops them (a text notebook, a hook that strips them).
        """
        before, cells = self._loaded, loaded.content["cells"]
        old = {cell["id"]: cell for cell in before.content["cells"]} if before else {}
        changed = await asyncio.to_thread(changed_cells, old, cells)
        if before is None or not same_cells(self.cells.values(), before.content["cells"], cells):
            await self._disk.ids.note_load(self.path, [*old.values()], cells)
            await self._build(loaded.content, old)
            settled = dict[str, Mapping[str, Any]]()
        else:
            settled = dict(written or {})  # even if the document has changed since
            for cell in changed:
                now = settled.pop(cell["id"], None)
                as_written = now is self.cells.value(cell["id"])
                self._update(old[cell["id"]], cell, written=written is not None)
                if as_written:
                    settled[cell["id"]] = self.cells.value(cell["id"])
        self._loaded = loaded  # only now: a cancelled read must load the file again
        await self.cells.catch_up()
        self._clean = {**settled, **await clean_values(self.cells.values(), cells, settled)}

    async def _build(
        self, content: Mapping[str, Any], old: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Make a new document with the file's cells; parts that did not change in the file stay as
        they were here.
        """
        cells = content["cells"]
        now = dict(zip(self.cells.ids(), self.cells.values(), strict=True))
        document = YNotebook()
        meta: Map[Any] = document.ydoc.get("meta", type=Map)
        meta["nbformat_minor"] = float(content["nbformat_minor"])
        for start in range(0, len(cells), BATCH):
            with document.ydoc.transaction():
                document.ycells.extend(
                    [
                        shared_cell(rebuild(old.get(cell["id"]), now.get(cell["id"]), cell))
                        for cell in cells[start : start + BATCH]
                    ]
                )
            await asyncio.sleep(0)
        self.cells.close()
        self.cells = SharedCells(document, keeps_line_ends=True)

    def _update(self, old: Mapping[str, Any], new: Mapping[str, Any], *, written: bool) -> None:
        """Update a cell of the document from the file. `written`: we have just saved it, so that
        parts that the file lacks were stripped by its storage and stay here.
        """
        cell_id = new["id"]
        if written:
            gone = old.keys() - new.keys()
            if not new.get("outputs"):
                gone |= OF_RUN & old.keys()
            new = {**new, **{key: old[key] for key in gone}}
        value = self.cells.value(cell_id)
        mine = patch(old, without_state(value))
        now = rebase(old, mine, new, running=is_running(value))
        if now["source"] != mine["source"]:
            text = restore(unify(now["source"]), new["source"])
            self.cells.write_source(cell_id, unify(text), stored=text, origin=FILE)
        self.cells.write_metadata(cell_id, now["metadata"], origin=FILE)
        rest = {key: item for key, item in now.items() if key not in OWN_METHODS}
        self.cells.write_rest(cell_id, rest, origin=FILE)
        if any(now.get(key) != mine.get(key) for key in OF_RUN):
            count = now.get("execution_count")
            self.cells.write_outputs(cell_id, now["outputs"], count, origin=FILE)
