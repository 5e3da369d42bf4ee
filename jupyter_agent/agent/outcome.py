"""What a reply means for the turn: every stop reason has its row here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_agent.agent.base import Turn
from jupyter_agent.agent.limits import Meter
from jupyter_agent.agent.reply import Call, Reply
from jupyter_agent.events import FinishReason, Notice
from jupyter_agent.models.base import Block

CUT_OFF = "The reply was cut off, so this call was not executed. Make a smaller call."
LAST_STEP = "Not executed: the limit of this turn is reached."
_PAUSES = 5
"""How often in a turn a service may ask to be called again to go on."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What follows from a reply."""

    keep: Sequence[Block]
    """What of it becomes part of the history."""
    run: Sequence[Call] = ()
    """Calls to execute; the turn goes on with their results."""
    refuse: Sequence[Call] = ()
    """Calls that get an error as result; the turn goes on."""
    drop: Sequence[Call] = ()
    """Calls that are neither executed nor kept."""
    finish: FinishReason | None = None
    """How the turn ends, if it does."""


def classify(reply: Reply, meter: Meter) -> Outcome:
    """What to do with a reply, also noting in `meter` what may happen only so often."""
    cut_off = reply.stop_reason in ("max_tokens", "model_context_window_exceeded")
    if reply.stop_reason == "refusal":
        return Outcome(keep=[], drop=reply.calls, finish="content-filter")
    if meter.last:
        answer = [block for block in reply.content if block["type"] != "tool_use"]
        finish: FinishReason = "length" if cut_off else "stop"
        return Outcome(keep=answer, drop=reply.calls, finish=finish)
    if reply.calls and not cut_off:
        # Some compatible services say `end_turn` with calls, so their presence decides.
        return Outcome(keep=reply.content, run=reply.calls)
    if reply.calls:
        meter.cuts += 1
        meter.forced |= meter.cuts > 1 or reply.stop_reason != "max_tokens"
        return Outcome(keep=reply.content, refuse=reply.calls)
    if cut_off:
        return Outcome(keep=reply.content, finish="length")
    if reply.stop_reason == "pause_turn" and _can_go_on(reply) and meter.pauses < _PAUSES:
        meter.pauses += 1
        return Outcome(keep=reply.content)
    if not reply.content and not meter.empties:
        meter.empties += 1  # it happens after tool results; asking once more is what helps
        return Outcome(keep=[])
    return Outcome(keep=reply.content, finish="stop")


def _can_go_on(reply: Reply) -> bool:
    """Whether the service has work of its own open; sending its text back would be a prefill."""
    return any(block["type"] not in ("text", "thinking") for block in reply.content)


async def tell_finish(turn: Turn, reply: Reply, outcome: Outcome) -> None:
    """Tell what a reader would otherwise wonder about: a refusal, or an end without an answer."""
    if outcome.finish == "content-filter":
        why = reply.details.get("explanation") or "The model gave no reason."
        text = f"The model refused to answer: {why} Rephrase the question or choose another model."
        await turn.emit(Notice(kind="refusal", text=text))
    elif outcome.finish and not reply.text:
        await turn.emit(Notice(kind="no-answer", text="The model ended without an answer."))
