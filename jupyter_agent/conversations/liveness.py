"""Which servers with the same store are alive, said by locks that end with their process."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path


class Presence:
    """The sign of life of this server, and a look at those of others.

    Each holds a lock on a file of its own. The operating system lets go of it however a server
    ends, so neither clocks nor process ids, which are used again, can be wrong about it.
    """

    def __init__(self, folder: Path) -> None:
        self.id = secrets.token_hex(16)
        """Names this server in the store; a restarted one has another."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = sqlite3.connect(
            self._path(self.id), isolation_level=None, check_same_thread=False
        )
        self._lock.execute("BEGIN EXCLUSIVE")

    def alive(self, server_id: str) -> bool:
        """Whether that server runs now; what one that is dead left behind is cleaned away."""
        if server_id == self.id:
            return True
        path = self._path(server_id)
        if not path.exists():
            return False
        lock = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
        finally:
            lock.close()
        path.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        """This server is gone."""
        self._lock.close()
        self._path(self.id).unlink(missing_ok=True)

    def _path(self, server_id: str) -> Path:
        return self._folder / f"{Path(server_id).name}.lock"
