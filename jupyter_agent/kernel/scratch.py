"""Keeps a person's results in IPython (`_`, `__`, `___`, `_N`, `Out`) unchanged while our code
outside of cells runs. This source is sent to the kernel and runs there, in Python 3.8 or later.

IPython's displayhook stores each value that it shows, even of code without history, and looks at
the person's last cell to decide whether to show it: not after a semicolon.
"""

from __future__ import annotations

import tokenize
from typing import Any, Callable  # noqa: UP035  for Python 3.8

MARK = "jupyter_agent"
"""Key in the metadata of our requests."""
SCRATCH = "scratch"
"""Value of that key for code outside of cells."""


def keep_results() -> None:
    """Patch the displayhook to treat our code separately, for the lifetime of the process.

    Raises any error, without changing anything, in a kernel that is not based on ipykernel.
    """
    from IPython import get_ipython

    shell: Any = get_ipython()
    hook, request = shell.displayhook, shell.kernel.get_parent
    if "update_user_ns" in vars(hook):
        return

    def scratch() -> str | None:
        """The running code, if it is ours and outside of cells."""
        parent = request("shell")
        ours = parent.get("metadata", {}).get(MARK) == SCRATCH
        return str(parent["content"]["code"]) if ours else None

    def unless_ours(do: Callable[[Any], None]) -> Callable[[Any], None]:
        def do_unless_ours(value: Any) -> None:
            if scratch() is None:
                do(value)

        return do_unless_ours

    def quiet() -> bool:
        code = scratch()
        if code is None:
            return bool(quiet_before())
        try:
            return bool(hook.semicolon_at_end_of_expression(shell.transform_cell(code)))
        except (SyntaxError, tokenize.TokenError):
            return False

    quiet_before, logs, keeps = hook.quiet, hook.log_output, hook.update_user_ns
    scratch()
    hook.quiet = quiet
    hook.log_output = unless_ours(logs)
    hook.update_user_ns = unless_ours(keeps)
