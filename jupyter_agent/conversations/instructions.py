"""Instructions for every answer: files next to the notebook, and a person's own settings.

A file comes with its folder, which may be a stranger's. It is only followed once the person has
read and trusted its text, or if the request vouches for the folder.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from jupyter_agent.agent.history import MessageAdded, Transcript
from jupyter_agent.agent.permissions import INSTRUCTION_FILES
from jupyter_agent.agent.prompt import Instructions, project_instructions
from jupyter_agent.conversations.database import Database, now
from jupyter_agent.errors import NotebookNotFound, NotPermitted, ToolError
from jupyter_agent.events import Notice
from jupyter_agent.workspace.workspace import Workspace

log = logging.getLogger(__name__)

MOST_CHARACTERS = 8_000
OWN = "settings"
"""The source of the instructions that a person sends with each question."""

Trust: TypeAlias = Literal["trusted", "declined", "new", "changed"]
"""`changed`: another text of the file was trusted."""


@dataclass(frozen=True, kw_only=True)
class ProjectInstructions:
    """The files that apply to a notebook, the most specific last, and the trust in each."""

    files: Sequence[tuple[Instructions, Trust]]
    trust_all: bool = False

    @property
    def active(self) -> list[Instructions]:
        """The files to follow."""
        return [each for each, trust in self.files if self.trust_all or trust == "trusted"]

    @property
    def undecided(self) -> list[Instructions]:
        """The files that the person has not decided about yet."""
        return [
            each for each, trust in self.files if not self.trust_all and trust in ("new", "changed")
        ]

    def add_to(self, transcript: Transcript, work: Workspace) -> tuple[MessageAdded, ...]:
        """Add those that apply, unless the model already has the same ones."""
        digest = ":".join(each.digest for each in self.active)
        if digest == transcript.instructions_digest:
            return ()
        text = project_instructions(self.active, work.fence)
        return transcript.add_instructions(work.redact(text), digest)

    def describe(self) -> list[dict[str, object]]:
        """docs/api.md's `instructions`, with the text and digest for a decision about each."""
        return [
            {**_summary(each), "trust": trust, "digest": each.digest, "text": each.text}
            for each, trust in self.files
        ]

    def notice(self) -> Notice | None:
        """Names the files that were left out; None without such files."""
        if not self.undecided:
            return None
        sources = [each.source for each in self.undecided]
        names = ", ".join(f"`{source}`" for source in sources)
        return Notice(
            kind="instructions-left-out",
            text=f"{names} was not followed: you have not decided yet whether to trust it. "
            "Decide in the panel, or send `trust_instructions: true`.",
            facts={"sources": sources},
        )


class TrustStore:
    """People's decisions about files of instructions, each for one root and one text."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._root = database.root or ""

    async def decide(self, owner: str, instructions: Instructions, *, trusted: bool) -> None:
        """Store whether to follow this text."""
        await self._database.execute(
            "INSERT OR REPLACE INTO trust (owner, root, path, digest, trusted, decided)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            owner,
            self._root,
            instructions.source,
            instructions.digest,
            trusted,
            now(),
        )

    async def classify(
        self, owner: str, files: Sequence[Instructions], *, trust_all: bool = False
    ) -> ProjectInstructions:
        """The files with the owner's decision about each."""
        decided: Mapping[str, Any] = {}
        if files:
            rows = await self._database.rows(
                "SELECT path, digest, trusted FROM trust WHERE owner = ? AND root = ?",
                owner,
                self._root,
            )
            decided = {row["path"]: row for row in rows}
        return ProjectInstructions(
            files=[(each, _trust(each, decided.get(each.source))) for each in files],
            trust_all=trust_all,
        )


def _trust(instructions: Instructions, decided: Any) -> Trust:
    if decided is None:
        return "new"
    if decided["digest"] == instructions.digest:
        return "trusted" if decided["trusted"] else "declined"
    return "changed" if decided["trusted"] else "new"


async def find_instructions(work: Workspace) -> list[Instructions]:
    """The files that apply to the workspace's own notebook, the most specific last.

    These are the root's file, then that of the notebook's folder. A file that cannot be read is
    left out, as is one behind a link: no one asked for the file, and a cloned folder may link to a
    private key.
    """
    home = posixpath.normpath((work.home or "").strip("/"))
    folders = dict.fromkeys(["", posixpath.dirname(home)])
    files = [await _in_folder(work, folder) for folder in folders]
    return [each for each in files if each is not None]


def own_instructions(text: str) -> Instructions | None:
    """A person's own instructions, from their settings; None if blank."""
    return _limit(OWN, text) if text.strip() else None


def describe(instructions: Sequence[Instructions]) -> list[dict[str, object]]:
    """The active instructions for people: their sources, sizes and whether they are cut off."""
    return [_summary(each) for each in instructions]


def _summary(instructions: Instructions) -> dict[str, object]:
    return {
        "source": instructions.source,
        "characters": len(instructions.text),
        "cut": instructions.cut,
    }


async def _in_folder(work: Workspace, folder: str) -> Instructions | None:
    for name in INSTRUCTION_FILES:  # the first that exists in the folder
        path = posixpath.join(folder, name)
        try:
            await work.need(("read", "contents"))
            if not await work.services.files.exists(path):
                continue
            identity = await work.services.identities.of(path)
            if identity.linked or identity.refusal:
                raise ToolError(f"`{path}` is a link or not a regular file.")
            text = (await work.services.files.read(path)).text
        except (NotebookNotFound, NotPermitted):
            continue
        except ToolError as error:
            log.warning("Instructions are left out: %s", error)
            continue
        if text.strip():
            return _limit(path, work.fence.mask(text))
    return None


def _limit(source: str, text: str) -> Instructions:
    whole = text.strip()
    return Instructions(
        source=source, text=whole[:MOST_CHARACTERS], cut=len(whole) > MOST_CHARACTERS
    )
