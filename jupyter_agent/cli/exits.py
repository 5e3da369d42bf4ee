"""Exit codes of commands, for scripts; docs/cli.md has the table."""

from __future__ import annotations

from enum import IntEnum

from jupyter_agent.client.server import ServerRefused


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    FAILED = 1
    """It was tried and did not work: a cell failed, the text to edit was different, no server."""
    USAGE = 2
    """The command line is wrong, or names something that does not exist, or the notebook's kernel
    is not installed. Of `verify`: a notebook could not be checked."""
    REFUSED = 3
    """Something was not allowed: a call that needed approval, a mode, a rule, the authorizer."""
    LIMIT = 4
    """It hit a limit: steps, tokens, cost, the month's budget."""
    MODEL = 5
    """The model service failed or refused, or there is no such model or key."""
    STOPPED = 130
    """Ctrl-C, or someone else stopped the turn."""


def of_refusal(error: ServerRefused) -> Exit:
    """The exit code for an error of the server."""
    if error.is_of_model:
        return Exit.MODEL
    if error.is_of_attempt:
        return Exit.FAILED
    match error.status:
        case 429:
            return Exit.LIMIT
        case 401 | 403:
            return Exit.REFUSED
        case 400 | 404 | 422:
            return Exit.USAGE
    return Exit.FAILED
