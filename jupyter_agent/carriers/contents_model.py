"""What a contents manager answers: a notebook, facts about a file, a refusal."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from tornado.web import HTTPError

from jupyter_agent.errors import Locked, NotebookNotFound, ToolError, UnreadableNotebook

READ_ERRORS = (HTTPError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Errors of managers: their own, the storage's, and those of their code on odd JSON."""
ReadModel: TypeAlias = tuple[dict[str, Any], dict[str, Any], bool, Collection[int]]
"""The manager's model of a notebook, its content, whether it is trusted, and the indexes of the
cells whose ids are not in the file.
"""
ParsedText: TypeAlias = tuple[dict[str, Any], str, Collection[int]]
"""A notebook's content, its signature, and the indexes of the cells without an id."""


@dataclass(frozen=True)
class LoadedNotebook:
    """A snapshot of a notebook file in format 4."""

    content: Mapping[str, Any]
    """The notebook's JSON, without trust marks; cells have ids even if the format does not."""
    stamp: str
    """Changes whenever the content does."""
    writable: bool
    trusted: frozenset[str]
    """Ids of the code cells whose outputs this server signed."""
    repair: str = ""
    """Sentences about repairs of the file, and about further changes by the first write; empty
    without any.
    """


class FileFacts(NamedTuple):
    """What a contents manager knows about a file without reading it."""

    writable: bool
    modified: object
    """Time of the last write, in the manager's own form."""


def make_loaded(
    content: Mapping[str, Any],
    stamp: str,
    model: Mapping[str, Any],
    *,
    trusted: bool,
    repair: str = "",
) -> LoadedNotebook:
    code = (cell["id"] for cell in content["cells"] if cell["cell_type"] == "code")
    signed = frozenset(code) if trusted else frozenset[str]()
    return LoadedNotebook(content, stamp, model["writable"] is not False, signed, repair)


def hash_of(model: Mapping[str, Any]) -> str | None:
    value = model.get("hash")
    return value if isinstance(value, str) and value else None


def digest_of(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


_NOWHERE = (errno.ENAMETOOLONG, errno.ENOTDIR)
"""Errors for paths at which no file can be."""


def unreadable_error(path: str, error: Exception) -> ToolError:
    """The error for a notebook that a manager could not read."""
    why = error.strerror if isinstance(error, OSError) else None
    if isinstance(error, OSError) and error.errno in _NOWHERE:
        return NotebookNotFound(f"There is no notebook at `{path}`: {why}.")
    words = why or "corrupt, empty, not UTF-8, not a regular file, or no permission"
    return UnreadableNotebook(
        f"`{path}` cannot be read as a notebook ({words}). It is left unchanged."
    )


_READ_ONLY = (errno.EPERM, errno.EACCES, errno.EROFS)


def refusal_of(path: str, error: Exception) -> ToolError:
    """The error for a failed save, without the server's own paths."""
    why = reason_of(error)
    denied = isinstance(why, HTTPError) and why.status_code == 403
    if denied or (isinstance(why, OSError) and why.errno in _READ_ONLY):
        return Locked(f"`{path}` is read-only; nothing was changed.")
    words = (why.strerror if isinstance(why, OSError) else None) or why
    return ToolError(f"`{path}` could not be saved; nothing was changed: {words}")


def reason_of(error: BaseException) -> BaseException:
    """The error that a manager met: Jupyter's wraps it, and jupytext's quotes it without naming it
    as the cause. A manager that has words of its own may hide the error behind them.
    """
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, OSError) and each.strerror:
            return each
        if isinstance(each, HTTPError) and each.status_code < 500:
            return each
        within = None if each.__suppress_context__ else each.__context__
        each = each.__cause__ or (within if str(within) in str(each) else None)
    return error
