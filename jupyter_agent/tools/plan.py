"""A short plan of the turn's work, ticked off for the person to see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.tools.base import Action, Effect, Need, Progress, Result, Tool
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease

_MOST_STEPS = 20
_MOST_CHARACTERS = 200
"""In one step."""


class PlanStep(BaseModel):
    """One step."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    text: str = Field(max_length=_MOST_CHARACTERS)
    state: Literal["open", "doing", "done"] = "open"


class WritePlan(Tool):
    """Plan work of more than three steps before you start; the person sees it, and you keep it when
    the conversation is summarised. Tick a step off beside your next call, not in a step of its own.
    Not for small requests."""

    name: ClassVar[str] = "write_plan"
    names_notebook: ClassVar[bool] = False
    words: ClassVar[Sequence[Words]] = (Words("Write a plan", "Writing a plan", "Plan"),)
    icon: ClassVar[Icon] = "list"
    shows_result: ClassVar[bool] = True
    effect: ClassVar[Effect] = "read"
    action: ClassVar[Action] = "read"
    needs: ClassVar[Sequence[Need]] = ()

    steps: list[PlanStep] = Field(min_length=1, max_length=_MOST_STEPS)
    """All steps: each call replaces the list"""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        steps = [step.model_dump() for step in self.steps]
        left = sum(step.state != "done" for step in self.steps)
        text = f"Noted: {len(steps)} steps, {left} to do." if left else "Noted: all steps are done."
        done = phrase("{done} of {count} done", done=len(steps) - left, count=len(steps))
        return Result(text=text, facts={"steps": steps, "summary": [done]})
