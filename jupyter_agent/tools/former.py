"""Old tools for one cell, replaced by those for several: accepted, but not offered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Self

from jupyter_agent.tools.base import Progress, Result
from jupyter_agent.tools.edit import CellEditInput, CreateCells, EditCells, NewCellInput
from jupyter_agent.tools.run import RunCells
from jupyter_agent.workspace.lease import Lease


class CreateCell(CreateCells):
    """`create_cell`, with the fields of one new cell."""

    @classmethod
    def parse(cls, input: Mapping[str, Any]) -> Self:
        cell, rest = _split(input, NewCellInput.model_fields)
        return super().parse({**rest, "cells": [cell]})


class UpdateCell(EditCells):
    """`update_cell`, with the fields of one edit."""

    @classmethod
    def parse(cls, input: Mapping[str, Any]) -> Self:
        edit, rest = _split(input, CellEditInput.model_fields)
        return super().parse({**rest, "edits": [edit]})


class RunCell(RunCells):
    """`run_cell`, with the id of one cell; its result is about that run alone."""

    @classmethod
    def parse(cls, input: Mapping[str, Any]) -> Self:
        cell, rest = _split(input, ["cell_id"])
        return super().parse({**rest, "cell_ids": [cell.get("cell_id")]})

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        result = await super().run(nb, progress)
        facts = dict(result.facts)
        (run,) = facts.pop("cells")
        return replace(result, facts={**facts, **run})


def _split(
    input: Mapping[str, Any], fields: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of the input for the cell, and the rest."""
    cell = {name: value for name, value in input.items() if name in fields}
    return cell, {name: value for name, value in input.items() if name not in cell}
