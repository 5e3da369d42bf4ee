"""One edit at a time, as most tests make them."""

from __future__ import annotations

from jupyter_agent.document.notebook import Edit, Notebook
from jupyter_agent.document.steps import Step


async def make_edit(notebook: Notebook, step: Step) -> Edit:
    """What the step did. Raises as `Notebook.make` does."""
    (made,) = await notebook.make([step])
    return made
