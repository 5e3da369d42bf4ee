"""Another program that writes the file of a notebook."""

from __future__ import annotations

import json
import os
import random

from tests.history.checker import (
    Wrote,
)
from tests.ui.players.scene import Where


class Editor:
    """Another program that writes the file: git, another editor."""

    name = "editor"

    def __init__(self, where: Where, seed: int) -> None:
        self._where = where
        self._random = random.Random(seed)

    def write(self) -> None:
        """Add one word to a cell, atomically or in place."""
        found = json.loads(self._where.file())
        if not found.get("cells"):
            return
        token = self._where.words.next()
        cell = self._random.choice(found["cells"])
        cell["source"] = [*"".join(cell["source"]).splitlines(True), f"\n{token} = 1"]
        text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        file = self._where.lab.root / self._where.path
        atomic = self._random.random() < 0.5
        if atomic:
            other = file.with_suffix(".new")
            other.write_text(text, encoding="utf-8")
            os.replace(other, file)
        else:
            file.write_text(text, encoding="utf-8")
        self._where.log.events.append(Wrote(self._where.log.now(), self.name, (token,)))
        self._where.log.done["editor " + ("atomic" if atomic else "in place")] += 1
