"""What IPython keeps for a person (`_`, `__`, `___`, `_N`, `Out`) stays as it is while code of ours
that is in no cell runs. This text is sent to the kernel and runs there; Python 3.8 can read it.

IPython's displayhook keeps each value that it shows, also of code that is in no history, and asks
the person's last cell whether to show it at all: not after a semicolon.
"""

from __future__ import annotations

import tokenize
from typing import Any, Callable  # noqa: UP035  for Python 3.8

MARK = "jupyter_agent"
"""Key of the metadata of our requests."""
SCRATCH = "scratch"
"""Its value where the code is in no cell."""


def keep_results() -> None:
    """Has the displayhook look whose code it is, for as long as the process lives.

    Raises whatever it meets in a kernel that is none of ipykernel's, and has changed nothing then.
    """
    from IPython import get_ipython

    shell: Any = get_ipython()
    hook, request = shell.displayhook, shell.kernel.get_parent
    if "update_user_ns" in vars(hook):
        return

    def scratch() -> str | None:
        """The code that runs, where it is ours and in no cell."""
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
