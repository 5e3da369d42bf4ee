"""Summarises the variables of a kernel without running code of their types."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Sequence

from jupyter_agent.errors import Busy
from jupyter_agent.kernel import summary
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.outputs import Discarded

_SECONDS = 2.0
"""The longest time that a person's kernel may be blocked."""
_CHARS = 12_000
_MIME = "text/plain"


async def variables(
    kernel: Kernel, names: Sequence[str] | None = None, *, without: Sequence[str] = ()
) -> str:
    """Name, type, shape, size and head of each variable, as text for the model.

    It leaves no trace in the notebook, the history or the variables. Python kernels can list their
    variables; other kernels have no such list, and describe each of the `names`. `without` are
    names to leave out of such a list. Raises KernelUnavailable, and Busy while a cell runs.
    """
    # Before we are connected only the kernel manager knows, afterwards the kernel itself.
    busy = kernel.state == "busy" or (await kernel.connect()).busy_since is not None
    if busy and not kernel.busy_silently:
        raise _busy(kernel)
    if kernel.language == "python":
        return (await _summarise(kernel, names, without))[:_CHARS]
    if not names:
        return f"Variables of a {kernel.language} kernel cannot be listed: give their `names`."
    return "\n".join([await _inspect(kernel, name) for name in names])[:_CHARS]


async def _summarise(kernel: Kernel, names: Sequence[str] | None, without: Sequence[str]) -> str:
    source = inspect.getsource(summary)
    wanted = None if names is None else list(names)
    arguments = f"globals(), {wanted!r}, {list(without)!r}"
    expression = f"(lambda s: (exec({source!r}, s), s['summary']({arguments}))[1])({{}})"
    execution = kernel.execute(
        "", Discarded(), silent=True, user_expressions={"summary": expression}
    )
    try:
        async with asyncio.timeout(_SECONDS):
            reply = await execution
    except TimeoutError:
        await execution.interrupt()
        raise _busy(kernel) from None
    answer = reply.user_expressions.get("summary", {})
    if answer.get("status") != "ok":
        return f"The variables could not be read: {answer.get('ename', reply.status)}."
    return str(ast.literal_eval(answer["data"][_MIME]))


async def _inspect(kernel: Kernel, name: str) -> str:
    content = await kernel.inspect(name, len(name))
    return f"{name}: {content['data'].get(_MIME, '') if content.get('found') else 'not defined'}"


def _busy(kernel: Kernel) -> Busy:
    seconds = kernel.busy_seconds
    since = "" if seconds is None else f" for {seconds:.0f} s"
    what = "another extension's code" if kernel.busy_silently else "a cell"
    return Busy(f"The kernel is busy: {what} has been running{since}. Ask again when it has ended.")
