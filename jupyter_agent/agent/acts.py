"""What a call does now, as far as permission depends on it."""

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
"""Characters beyond which cells are looked through in a thread."""


async def act_of(tool: Tool, action: Action, paths: Lookup, policy: Policy) -> Act:
    """As far as it shows without a look into the notebook."""
    there = await paths.of(tool.target)
    if there is None:
        return Act(tool=tool.name, action=action, notebook=None, like=tool.like, powers=tool.powers)
    home = await paths.of(None)
    near = policy.touched if home is None else {home.name, *policy.touched}
    return Act(
        tool=tool.name,
        action=action,
        notebook=there.name,
        path=there.path,
        folds_case=there.folds_case,
        elsewhere=there.name not in near,
        writes=tool.effect == "edit",
        like=tool.like,
        powers=tool.powers,
    )


async def look_into(act: Act, tool: Tool, nb: Lease, policy: Policy) -> Act:
    """The act with what permission depends on in the notebook itself."""
    if tool.effect == "edit":
        act = replace(act, loads=await loads_of(tool, nb))
    if not any(grant.concerns(act) for grant in policy.grants):
        return act  # only a grant depends on what runs, and where
    if (definition := await tool.current_definition(nb)) is not None:
        return replace(act, kernel=definition)
    kernel = await nb.kernel() if tool.executes else None
    leaves = False
    with suppress(ToolError):  # the call fails for it, too
        if codes := [cell.source for cell in await tool.cells_to_run(nb)]:
            asked = partial(leaves_language, language=await nb.language())
            leaves = await asyncio.to_thread(lambda: any(map(asked, codes)))  # of much code
    return replace(
        act,
        kernel=None if not tool.executes else kernel.life if kernel else "",
        leaves_language=leaves,
    )


async def loads_of(tool: Tool, nb: Lease) -> tuple[str, ...]:
    """What a page would load from elsewhere, and did not before, once the call has written."""
    try:
        await nb.refuse_hidden(tool.acts_on)
        after = [cell for cell in await tool.resulting_cells(nb) if cell.type != "code"]
    except ToolError:  # the call fails for it, too; or it is decided again when it acts
        return ()
    has_commands = any("\\" in cell.source for cell in after)  # which other cells may define
    if not has_commands and not await _added((), after):
        return ()
    try:
        cells = (await nb.read()).cells
    except NotebookNotFound:
        return ()
    except ToolError:
        cells = ()
    before = [nb.work.pending_cells.get((nb.path, cell.id), cell) for cell in cells]
    return tuple(map(legible, await _added(before, after)))


async def _added(before: Sequence[Cell], after: Sequence[Cell]) -> tuple[str, ...]:
    """As `remote_content.added_addresses`; in a thread if there is much to look through."""
    if sum(len(cell.source) for cell in (*before, *after)) > _LARGE:
        return await asyncio.to_thread(remote_content.added_addresses, before, after)
    return remote_content.added_addresses(before, after)
