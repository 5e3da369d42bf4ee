"""What a turn tells the outside: frozen facts, each one frame of the stream.

The store keeps them by their number in the turn, `server/wire.py` writes each as one chunk of the
AI SDK's UI message stream, and the panel paints them. An event never changes after it was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens, added up; `input_tokens` were neither read from nor written to the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """In the currency of the configured prices; None where a price is unknown."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost=_sum_of_costs(self, other),
        )

    @property
    def total(self) -> int:
        """All tokens that were processed, cached ones too: what a budget is compared with."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


def _sum_of_costs(*usages: Usage) -> float | None:
    costs = [usage.cost for usage in usages if usage.total]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


@dataclass(frozen=True, kw_only=True)
class TurnStarted:
    """The first event of every turn."""

    message_id: str
    conversation_id: str
    turn_id: str
    model: str
    notebook: str | None
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, kw_only=True)
class StepStarted:
    """A model call begins."""

    type: Literal["step_started"] = "step_started"


@dataclass(frozen=True, kw_only=True)
class StepFinished:
    """The model call and all its tool calls are answered (or given up)."""

    type: Literal["step_finished"] = "step_finished"


@dataclass(frozen=True, kw_only=True)
class TextStarted:
    """A text block begins; `part_id` is unique within the message."""

    part_id: str
    type: Literal["text_started"] = "text_started"


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """Text as the model writes it."""

    part_id: str
    delta: str
    type: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, kw_only=True)
class TextEnded:
    """The text block is complete."""

    part_id: str
    type: Literal["text_ended"] = "text_ended"


@dataclass(frozen=True, kw_only=True)
class ThinkingStarted:
    """A thinking block begins."""

    part_id: str
    type: Literal["thinking_started"] = "thinking_started"


@dataclass(frozen=True, kw_only=True)
class ThinkingDelta:
    """Thinking as the model writes it."""

    part_id: str
    delta: str
    type: Literal["thinking_delta"] = "thinking_delta"


@dataclass(frozen=True, kw_only=True)
class ThinkingEnded:
    """The thinking block is complete."""

    part_id: str
    type: Literal["thinking_ended"] = "thinking_ended"


@dataclass(frozen=True, kw_only=True)
class CallStarted:
    """The model began to write the input of a tool call."""

    call_id: str
    tool: str
    type: Literal["call_started"] = "call_started"


@dataclass(frozen=True, kw_only=True)
class CallInputDelta:
    """A piece of the input's JSON text."""

    call_id: str
    delta: str
    type: Literal["call_input_delta"] = "call_input_delta"


@dataclass(frozen=True, kw_only=True)
class CallReady:
    """The input is complete and is a JSON object."""

    call_id: str
    tool: str
    input: Mapping[str, Any]
    type: Literal["call_ready"] = "call_ready"


@dataclass(frozen=True, kw_only=True)
class CallInvalid:
    """The input never became valid JSON, or the step was given up; nothing was executed."""

    call_id: str
    tool: str
    input: Any
    error: str
    type: Literal["call_invalid"] = "call_invalid"


@dataclass(frozen=True, kw_only=True)
class ApprovalRequested:
    """A person is asked; `approval` is what they are shown (`Approval.describe`)."""

    approval_id: str
    call_id: str
    approval: Mapping[str, Any]
    type: Literal["approval_requested"] = "approval_requested"


@dataclass(frozen=True, kw_only=True)
class CallOutput:
    """The result of a call; while its cell still runs `preliminary`, each replaces the last."""

    call_id: str
    output: Mapping[str, Any]
    preliminary: bool = False
    type: Literal["call_output"] = "call_output"


@dataclass(frozen=True, kw_only=True)
class CallFailed:
    """The call was answered with an error, which the model reads too."""

    call_id: str
    error: str
    type: Literal["call_failed"] = "call_failed"


@dataclass(frozen=True, kw_only=True)
class CallDenied:
    """A person, the mode or a rule refused the call; the model gets the reason."""

    call_id: str
    type: Literal["call_denied"] = "call_denied"


@dataclass(frozen=True, kw_only=True)
class CellsChanged:
    """Cells that a call changed; `changes` are API.md's Change objects."""

    call_id: str
    notebook: str
    changes: tuple[Mapping[str, Any], ...]
    type: Literal["cells_changed"] = "cells_changed"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something the reader should know: `retrying`, `step-limit`, `approval`, ..."""

    kind: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, kw_only=True)
class UsageUpdated:
    """Tokens of the turn so far, and of the step that ends."""

    usage: Usage
    step: Usage = Usage()
    type: Literal["usage_updated"] = "usage_updated"


FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls"]


@dataclass(frozen=True, kw_only=True)
class TurnFinished:
    """The turn came to its end by itself, or waits for a person (`tool-calls`)."""

    finish_reason: FinishReason
    stop_reason: str
    steps: int
    usage: Usage
    step_limit_reached: bool = False
    budget_reached: bool = False
    waiting: bool = False
    type: Literal["turn_finished"] = "turn_finished"


@dataclass(frozen=True, kw_only=True)
class TurnAborted:
    """A person stopped the turn."""

    type: Literal["turn_aborted"] = "turn_aborted"


@dataclass(frozen=True, kw_only=True)
class TurnFailed:
    """The turn could not go on; `error` is a plain sentence with the next step."""

    error: str
    type: Literal["turn_failed"] = "turn_failed"


Event: TypeAlias = (
    TurnStarted
    | StepStarted
    | StepFinished
    | TextStarted
    | TextDelta
    | TextEnded
    | ThinkingStarted
    | ThinkingDelta
    | ThinkingEnded
    | CallStarted
    | CallInputDelta
    | CallReady
    | CallInvalid
    | ApprovalRequested
    | CallOutput
    | CallFailed
    | CallDenied
    | CellsChanged
    | Notice
    | UsageUpdated
    | TurnFinished
    | TurnAborted
    | TurnFailed
)

_BY_TYPE: dict[str, type[Any]] = {
    event.__dataclass_fields__["type"].default: event for event in get_args(Event)
}


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values, for the store."""
    return asdict(event)


def from_json(value: Mapping[str, Any]) -> Event:
    """The event that `to_json` wrote. Raises KeyError for a type this version does not know."""
    kind = _BY_TYPE[value["type"]]
    fields = dict(value)
    for name in ("usage", "step"):
        if name in fields:
            fields[name] = Usage(**fields[name])
    if "changes" in fields:
        fields["changes"] = tuple(fields["changes"])
    event: Event = kind(**fields)
    return event
