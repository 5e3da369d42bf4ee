"""Takes back an edit that was not confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from jupyter_ydoc import YNotebook
from pycrdt import UndoManager

from jupyter_agent.document.cell import Change
from jupyter_agent.document.crdt import EDIT, SharedCells
from jupyter_agent.document.merge import MergeConflict, merge


class Retraction:
    """Takes back the transactions made on a document in its `with` block, without touching what
    others did in the meantime.
    """

    def __init__(self, cells: SharedCells) -> None:
        self._cells = cells
        self._histories: list[tuple[YNotebook, UndoManager]] = []
        """One for each replica in which edits were made, the latest last."""

    def __enter__(self) -> Retraction:
        self._follow(self._cells.document)
        self._cells.on_follow = self._follow
        return self

    def __exit__(self, *_: object) -> None:
        # Undo managers need the document to themselves when they are freed. The garbage collector,
        # which would find them in the cycle that a raised exception makes, sometimes frees them in
        # the middle of a transaction.
        self._cells.on_follow = None
        self._histories.clear()

    def __call__(self, changes: Sequence[Change] = ()) -> None:
        """`changes`: what the transactions did, if it is known. A replaced word returns beside its
        replacement, so text that others have inserted since is sometimes between its letters: then
        the text is merged instead.
        """
        merged = {change.cell_id: self._text_without(change) for change in changes}
        for document, history in reversed(self._histories):
            while history.can_undo():
                history.undo()
                document.ystate["dirty"] = True  # the edit may have been saved in the meantime
        for cell_id, text in merged.items():
            if text is not None and cell_id in self._cells.ids():
                self._cells.write_source(cell_id, text)

    def _text_without(self, change: Change) -> str | None:
        """The cell's text without the change; None if the change is not one of text, or others have
        changed the same lines since.
        """
        before, after = change.before, change.after
        if before is None or after is None or before.source == after.source:
            return None
        if change.cell_id not in self._cells.ids():
            return None
        with suppress(MergeConflict):
            return merge(after.source, self._cells.get(change.cell_id).source, before.source)
        return None

    def _follow(self, document: YNotebook) -> None:
        history = UndoManager(scopes=[document.ycells], capture_timeout_millis=0)
        history.include_origin(EDIT)
        self._histories.append((document, history))
