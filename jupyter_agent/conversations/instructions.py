"""What people want of every answer: files next to the notebook, and a person's own settings."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from jupyter_agent.agent.permissions import INSTRUCTION_FILES
from jupyter_agent.agent.prompt import Instructions
from jupyter_agent.errors import NotebookNotFound, NotPermitted, ToolError
from jupyter_agent.workspace.workspace import Workspace

log = logging.getLogger(__name__)

MOST_CHARACTERS = 8_000
OWN = "settings"
"""The source of what a person sends along with each question."""


async def find_instructions(work: Workspace, own: str = "") -> list[Instructions]:
    """What applies to the workspace's own notebook, the most particular last.

    That is the root's file, then the one of the notebook's folder, then what the person wants
    (`own`). A file that cannot be read is left out, and so is what is
    reached through a link: nobody asked for it, and a cloned folder may link to a private key.
    """
    found = []
    home = posixpath.normpath((work.home or "").strip("/"))
    for folder in dict.fromkeys(["", posixpath.dirname(home)]):
        if (instructions := await _in_folder(work, folder)) is not None:
            found.append(instructions)
    if own.strip():
        found.append(_limited(OWN, own))
    return [replace(each, text=work.told(each.text)) for each in found]


def describe(instructions: Sequence[Instructions]) -> list[dict[str, object]]:
    """What a person is shown as active: where it comes from and how much of it counts."""
    return [
        {"source": each.source, "characters": len(each.text), "cut": each.cut}
        for each in instructions
    ]


async def _in_folder(work: Workspace, folder: str) -> Instructions | None:
    for name in INSTRUCTION_FILES:  # of a folder the first that is there
        path = posixpath.join(folder, name)
        try:
            await work.need(("read", "contents"))
            named = await work.services.identities.of(path)
            if named.linked or named.refusal:
                raise ToolError(f"`{path}` is a link, or no regular file.")
            if not await work.services.files.exists(path):
                continue
            text = await work.services.files.read(path)
        except (NotebookNotFound, NotPermitted):
            continue
        except ToolError as error:
            log.warning("Instructions are left out: %s", error)
            continue
        if text.strip():
            return _limited(path, text)
    return None


def _limited(source: str, text: str) -> Instructions:
    whole = text.strip()
    return Instructions(
        source=source, text=whole[:MOST_CHARACTERS], cut=len(whole) > MOST_CHARACTERS
    )
