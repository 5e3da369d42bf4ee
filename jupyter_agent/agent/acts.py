"""What a call would do now, as far as permission depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from jupyter_agent.agent.permissions import Act, Policy, leaves_language
from jupyter_agent.analysis import remote_content
from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import NotebookNotFound, ToolError
from jupyter_agent.legible import legible
from jupyter_agent.tools.base import Action, Tool
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.paths import Lookup

_LARGE = 50_000
"""Characters from which on cells are searched in a thread."""


async def act_of(tool: Tool, action: Action, paths: Lookup, policy: Policy) -> Act:
    """The act of a call, as far as that is known without reading the notebook."""
    target = await paths.of(tool.target)
    if target is None:
        return Act(tool=tool.name, action=action, notebook=None, like=tool.like, powers=tool.powers)
    home = await paths.of(None)
    changed = policy.changed_notebooks
    near = changed if home is None else {home.name, *changed}
    return Act(
        tool=tool.name,
        action=action,
        notebook=target.name,
        path=target.path,
        folds_case=target.folds_case,
        elsewhere=target.name not in near,
        writes=tool.effect == "edit",
        like=tool.like,
        powers=tool.powers,
    )


async def look_into(act: Act, tool: Tool, nb: Lease, policy: Policy) -> Act:
    """The act, completed with what permission depends on in the notebook itself."""
    if tool.effect == "edit":
        act = replace(act, loads=await loads_of(tool, nb))
    if not any(grant.concerns(act) for grant in policy.standing_grants):
        return act  # only grants depend on the code that runs and on its kernel
    if (definition := await tool.current_definition(nb)) is not None:
        return replace(act, kernel=definition)
    kernel = await nb.kernel.find() if tool.executes else None
    leaves = False
    with suppress(ToolError):  # the call itself will fail with it
        if codes := [cell.source for cell in await tool.cells_to_run(nb)]:
            leaves_it = partial(leaves_language, language=await nb.kernel.language())
            leaves = await asyncio.to_thread(lambda: any(map(leaves_it, codes)))  # may be slow
    return replace(
        act,
        kernel=None if not tool.executes else kernel.life if kernel else "",
        leaves_language=leaves,
    )


async def loads_of(tool: Tool, nb: Lease) -> tuple[str, ...]:
    """Addresses on other servers that a page would load only after the call has written."""
    try:
        await nb.refuse_hidden(tool.acts_on)
        after = [cell for cell in await tool.resulting_cells(nb) if cell.type != "code"]
    except ToolError:  # the call itself will fail with it, or is decided again when it acts
        return ()
    has_commands = any("\\" in cell.source for cell in after)  # other cells may define them
    if not has_commands and not await _added_addresses((), after):
        return ()
    try:
        cells = (await nb.read()).cells
    except NotebookNotFound:
        return ()
    except ToolError:
        cells = ()
    before = [nb.work.pending_cells.get((nb.path, cell.id), cell) for cell in cells]
    return tuple(map(legible, await _added_addresses(before, after)))


async def _added_addresses(before: Sequence[Cell], after: Sequence[Cell]) -> tuple[str, ...]:
    """As `remote_content.added_addresses`, but in a thread if there is much to search."""
    if sum(len(cell.source) for cell in (*before, *after)) > _LARGE:
        return await asyncio.to_thread(remote_content.added_addresses, before, after)
    return remote_content.added_addresses(before, after)
