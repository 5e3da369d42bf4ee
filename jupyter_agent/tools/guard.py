"""A tool of another package that fails ends its call, and nothing else."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_agent.entry_points import describe
from jupyter_agent.errors import StoreUnavailable, ToolError
from jupyter_agent.tools.base import ModelResult, Tool

_OURS = __name__.partition(".")[0]

log = logging.getLogger(__name__)


@contextmanager
def failures_of_plugs(tool: Tool) -> Iterator[None]:
    """Makes a ToolError of whatever the code of another package raises, also of `sys.exit()`, which
    would end the server. What our own tools raise is a bug, and fails loudly.
    """
    try:
        yield
    except (ToolError, StoreUnavailable):
        raise
    except (Exception, SystemExit) as error:
        package = _package(tool)
        if package == _OURS:
            raise
        message = f"The tool `{tool.name}` of the package `{package}` failed: {describe(error)}."
        log.exception("jupyter_agent: %s", message)
        raise ToolError(f"{message} It may have done a part of its work.") from error


def check_result(tool: Tool, result: ModelResult) -> None:
    """Raises an exception if the tool of another package returned what cannot be stored or sent."""
    if _package(tool) != _OURS:
        pictures = [f"{media_type},{data}" for media_type, data in result.images]
        json.dumps([result.output(), pictures], allow_nan=False)


def _package(tool: Tool) -> str:
    return type(tool).__module__.partition(".")[0]
