"""The loop: ask the model, run the tools that it calls, tell it the results, until it answers.

Every way out of it leaves a history that the API accepts: each call has its result, nothing is
blank, and what was only half said is text or gone.
"""

from __future__ import annotations

import asyncio

from jupyter_agent.agent.base import Turn
from jupyter_agent.agent.calls import drop_calls, refuse_calls, run_calls
from jupyter_agent.agent.ending import Ending, failed, finished, stopped
from jupyter_agent.agent.limits import Meter
from jupyter_agent.agent.outcome import Outcome, classify, tell_finish
from jupyter_agent.agent.reply import Reply
from jupyter_agent.agent.step import ask_model
from jupyter_agent.errors import ModelError
from jupyter_agent.events import StepFinished, UsageUpdated

__all__ = ["Ending", "Turn", "run_turn"]


async def run_turn(turn: Turn) -> Ending:
    """Run one turn to its end, which is returned and not yet told.

    Cancelling its task stops the turn: the connection to the model is closed, running tools are
    cancelled, the history is finished, and it returns. An exception that is neither ours nor a
    cancellation is a bug and goes through, with the history finished too.
    """
    meter = Meter(turn.limits, turn.facts)
    try:
        while True:
            reply, outcome = await _step(turn, meter)
            if outcome.finish:
                return finished(outcome.finish, reply.stop_reason, meter)
    except ModelError as error:
        return failed(error, meter)
    except asyncio.CancelledError:
        _take_back_cancellation()
        return stopped(meter)
    finally:
        await turn.transcript.finish()


async def _step(turn: Turn, meter: Meter) -> tuple[Reply, Outcome]:
    try:
        reply = await ask_model(turn, meter)
        outcome = classify(reply, meter)
        await turn.transcript.append("assistant", outcome.keep, model=turn.model.id)
        await run_calls(turn, outcome.run)
        await refuse_calls(turn, outcome.refuse)
        await drop_calls(turn, outcome.drop)
        await tell_finish(turn, reply, outcome)
        return reply, outcome
    finally:
        await turn.emit(UsageUpdated(usage=meter.usage, step=meter.step_usage))
        await turn.emit(StepFinished())


def _take_back_cancellation() -> None:
    """The stop is answered by returning, so the task is not cancelled any more."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
