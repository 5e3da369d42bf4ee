"""What a verification writes into its notebook: fresh outputs, a record of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jupyter_agent.document.carrier import SaveResult
from jupyter_agent.document.cell import Output
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.errors import Conflict, InvalidInput
from jupyter_agent.plugs.verify.verification import Verification, output_limit_for
from jupyter_agent.text.outputs import join_lines
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.verified import code_hash, read_record, with_record


async def update(nb: Lease, done: Verification) -> SaveResult:
    """Write the fresh outputs into the notebook, with execution counts from 1, and save it.

    Raises Conflict, without writing anything, if a cell failed, has changed since or is running.
    """
    if any(verdict.status == "error" for verdict in done.cells):
        raise Conflict("A cell failed, so no outputs were written. Fix it and verify again.")
    taken = await nb.take()
    now = {cell.id: cell for cell in taken.cells}
    ran = [verdict for verdict in done.cells if verdict.status != "skipped"]
    for verdict in ran:
        cell = now.get(verdict.cell.id)
        if cell is None or cell.version != verdict.cell.version or cell.running:
            raise Conflict(
                f"Cell `{verdict.cell.id}` has changed or run since, so no outputs were written. "
                "Verify again."
            )
    limit = nb.work.services.runs.output_limit
    for count, verdict in enumerate(ran, start=1):
        writer = taken.notebook.outputs(
            verdict.cell.id, limit=output_limit_for(verdict.outputs, limit)
        )
        writer.start()
        for output in verdict.outputs:
            if output["output_type"] == "stream":
                writer.stream(output["name"], join_lines(output["text"]))
            else:
                writer.display(_with_count(output, count))
        writer.finish(count)
    await nb.release()
    return await taken.notebook.save()


async def record(nb: Lease) -> SaveResult:
    """Record the last verification in the notebook's metadata and save it.

    Raises InvalidInput if this server did not verify it or something differed, Conflict if the code
    has changed since.
    """
    done, now = nb.work.services.verified.last(nb.path), await nb.take()
    if done is None or not done["ok"]:
        raise InvalidInput("Only a verification without differences can be recorded. Verify first.")
    if done["hash"] != code_hash(now.cells):
        raise Conflict("The code changed since it was verified. Verify again.")
    return await _write_record(nb, now.notebook, done)


async def unrecord(nb: Lease) -> SaveResult:
    """Remove the record of a verification from the notebook, if there is one."""
    now = await nb.take()
    if read_record(now.metadata) is None:
        return SaveResult(saved=True)
    return await _write_record(nb, now.notebook, None)


async def _write_record(
    nb: Lease, notebook: Notebook, facts: Mapping[str, Any] | None
) -> SaveResult:
    notebook.write_metadata(with_record(notebook.cached_metadata, facts))
    await nb.release()
    return await notebook.save()


def _with_count(output: Output, count: int) -> Output:
    return {**output, "execution_count": count} if "execution_count" in output else output
