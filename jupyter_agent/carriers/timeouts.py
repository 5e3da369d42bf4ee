"""Time limits for the pages and rooms that have a document open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Timeouts:
    """In seconds; changes take effect at once."""

    attach: float = 15.0
    """For a tab to send its whole document."""
    sync: float = 5.0
    """For a tab to confirm."""
    save: float = 30.0
    """For a tab to save."""
    reconnect: float = 3.0
    """For a tab that is gone to return, before its notebook counts as closed."""
    away: float = 60.0
    """For a tab that is gone with unsaved work: until then edits are refused."""
    restart: float = 12.0
    """The same after a restart of the server: pages try again within 10 s."""
    room: float = 30.0
    """For any request to a room."""
    store: float = 5.0
    """For the store of a room to write changes that are about to be in the file."""
    page: float = 3.0
    """For the pages in a room to confirm, if all did the last time or one sent anything since."""
    quiet_page: float = 0.1
    """For pages that did not confirm the last time."""
    offline: float = 3600.0
    """For a page that was away to return with text for a cell that we have removed."""
