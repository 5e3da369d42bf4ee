"""Waiting for what a run puts out."""

from __future__ import annotations

from jupyter_agent.workspace.runs import Run


async def printed(run: Run, text: str) -> None:
    """Wait until the run has put out that text."""
    async for _ in run.news(20):
        if any(text in output.get("text", "") for output in run.outputs()):
            return
