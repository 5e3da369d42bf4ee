"""Documents that pages edit together on the server. Plugs of the group `jupyter_agent.carriers`
know how to work in them; here is decided whether a server has any, and which plug that takes.

Imported when the server starts, so it imports little.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from jupyter_agent.carriers.contents import Disk
    from jupyter_agent.carriers.timeouts import Timeouts
    from jupyter_agent.document.carrier import Carrier

COLLABORATION = "jupyter_server_ydoc"
"""The extension of jupyter-collaboration, and its name in the settings of the web application."""
DOCUMENTS = "yroom_manager"
"""The setting of jupyter-server-documents, which also sets that of jupyter-collaboration."""
WITHOUT_DOCUMENTS = " && ".join(
    (
        "jupyter server extension disable jupyter_server_documents",
        "jupyter labextension disable @jupyter-ai-contrib/server-documents",
        "jupyter labextension disable @jupyter/docprovider-extension",
        "jupyter labextension disable @jupyter/collaboration-extension",
    )
)
"""The commands that switch jupyter-server-documents 0.3 off. After the first one alone its pages
request a server that does not exist, and JupyterLab opens no notebook ("File ID error").
"""

Keep: TypeAlias = Callable[[str, str], Awaitable[object]]
"""Stores text that would be lost: the path of a notebook, and its JSON."""
OnLateEdit: TypeAlias = Callable[[str], Coroutine[Any, Any, None]]
"""Carries over late typing in a removed cell of the notebook at a path."""


class SharedDocuments(ABC):
    """The shared documents of one server."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are those of the server's web application. Raises Busy, with what to do, if
        this version cannot work in the documents.
        """
        self.settings = settings

    @abstractmethod
    def carrier(
        self, path: str, disk: Disk, timeouts: Timeouts, *, server: str, note: str
    ) -> Carrier:
        """The carrier of a notebook. `server` identifies one run of the server, which a document
        may outlive; `note` is added to the carrier's first result.
        """

    @abstractmethod
    async def save(self, path: str, clocks: Mapping[int, int], seconds: float) -> str:
        """Write a document into its file once it has everything that a page has, by the Yjs state
        vector of that page; returns the new hash of the file. Waits up to `seconds` for the page.

        Raises Busy, UnreadableNotebook, HTTPError, OSError or RuntimeError.
        """

    @abstractmethod
    def fill(self, keep: Keep, on_late_edit: OnLateEdit) -> None:
        """From now on, load each document without disturbing users who type. Called when the server
        starts, which it must not delay. Text that would be lost goes to `keep` first;
        `on_late_edit` is called when someone has typed into a removed cell.
        """

    @abstractmethod
    async def keep_saved(self, seconds: float, log: logging.Logger) -> None:
        """Save documents whose oldest unsaved change is older than `seconds`, until cancelled."""

    @abstractmethod
    async def close(self) -> None:
        """Stop the work on files; unsaved changes are stored."""


class Sharing:
    """Whether a server's pages share documents, and these documents."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`settings` are those of the server's web application."""
        self._settings = settings
        self._documents: dict[str, SharedDocuments] = {}
        """By the setting of the extension that shares them."""
        self._points: dict[str, EntryPoint | None] = {}
        """The plugs that work in them, None for none, by that setting: looked for once."""

    def documents(self) -> SharedDocuments | None:
        """The shared documents; None if this server has no such thing.

        Raises Busy if no plug works in them: a write into the file, past them, is lost, or their
        text is.
        """
        setting = self._setting()
        return None if setting is None else self._load(setting)

    @property
    def usable(self) -> SharedDocuments | None:
        """The same, but None if no plug works in them."""
        setting = self._setting()
        if setting is None:
            return None
        from jupyter_agent.errors import Busy

        try:
            return self._load(setting)
        except Busy:
            return None

    def _setting(self) -> str | None:
        """The setting of the extension that shares documents on this server; None without one."""
        if DOCUMENTS in self._settings:
            return DOCUMENTS
        extension = self._settings.get(COLLABORATION)
        return None if extension is None or extension.disable_rtc else COLLABORATION

    def _load(self, setting: str) -> SharedDocuments:
        from jupyter_agent.entry_points import UnusablePlug, find_one, make
        from jupyter_agent.errors import Busy

        if setting in self._documents:
            return self._documents[setting]
        if setting not in self._points:
            self._points[setting] = find_one("carriers", setting)
        point, cause = self._points[setting], ""
        if point is not None:
            try:
                made = make(point, SharedDocuments, self._settings, refuses=Busy)  # type: ignore[type-abstract]
            except UnusablePlug as error:
                cause = str(error)
            else:
                self._documents[setting] = made
                return made
        raise Busy(_REFUSALS[setting](cause))


def _documents_refusal(cause: str) -> str:
    from jupyter_agent.packages import brought_by

    bringers = ", ".join(brought_by("jupyter-server-documents"))
    brought = f", brought by {bringers}," if bringers else ""
    return (
        f"Real-time collaboration (jupyter-server-documents{brought}) is on and keeps "
        f"notebooks in rooms that this version cannot work in. {cause and f'{cause} '}Nothing was "
        "changed. This line switches it off, for everything that uses it; start Jupyter again "
        f"after it: `{WITHOUT_DOCUMENTS}`"
    )


def _collaboration_refusal(cause: str) -> str:
    from jupyter_agent.entry_points import ONLY, is_left_out

    if not cause:
        cause = f"The plug `{COLLABORATION}`, which works in its rooms, is not used"
        cause += f": {ONLY} leaves it out." if is_left_out(COLLABORATION) else ": install us again."
    return (
        f"Real-time collaboration (jupyter-collaboration) is on. {cause} Nothing was changed. "
        "Mend that, or start Jupyter with --YDocExtension.disable_rtc=True."
    )


_REFUSALS: Mapping[str, Callable[[str], str]] = {
    DOCUMENTS: _documents_refusal,
    COLLABORATION: _collaboration_refusal,
}
"""By setting: makes the message of the cause why its plug cannot be used; empty without a plug."""
