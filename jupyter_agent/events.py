"""The events of a turn for the outside: frozen facts, each one frame of the stream.

Their types are those of the chunks in the AI SDK's UI message stream, and fields have the chunk's
names in Python spelling (`tool_call_id`: `toolCallId`), except for the shorter names in
`server/wire.py`. The store keeps events by their number in the turn, and the panel renders them. An
event never changes after it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens, added up; `input_tokens` were neither read from nor written to the cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float | None = None
    """In the currency of the configured prices; None if a price is unknown."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost=_sum_of_costs(self, other),
        )

    @property
    def weighted_tokens(self) -> float:
        """Tokens weighted by price: reading the cache costs a tenth of input, writing it a quarter
        more. Source: https://docs.claude.com/en/docs/build-with-claude/prompt-caching.
        """
        fresh = self.input_tokens + self.output_tokens
        return fresh + 0.1 * self.cache_read_tokens + 1.25 * self.cache_write_tokens

    @property
    def total(self) -> int:
        """All processed tokens, including cached ones."""
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
    type: Literal["start"] = "start"


@dataclass(frozen=True, kw_only=True)
class StepStarted:
    """A model call starts."""

    type: Literal["start-step"] = "start-step"


@dataclass(frozen=True, kw_only=True)
class StepFinished:
    """The model call and all its tool calls have results (or were given up)."""

    type: Literal["finish-step"] = "finish-step"


@dataclass(frozen=True, kw_only=True)
class TextStarted:
    """A text block starts; `part_id` is unique within the message."""

    part_id: str
    type: Literal["text-start"] = "text-start"


@dataclass(frozen=True, kw_only=True)
class TextDelta:
    """Text as the model writes it."""

    part_id: str
    delta: str
    type: Literal["text-delta"] = "text-delta"


@dataclass(frozen=True, kw_only=True)
class TextEnded:
    """The text block is complete."""

    part_id: str
    type: Literal["text-end"] = "text-end"


@dataclass(frozen=True, kw_only=True)
class ThinkingStarted:
    """A thinking block starts."""

    part_id: str
    type: Literal["reasoning-start"] = "reasoning-start"


@dataclass(frozen=True, kw_only=True)
class ThinkingDelta:
    """Thinking as the model writes it."""

    part_id: str
    delta: str
    type: Literal["reasoning-delta"] = "reasoning-delta"


@dataclass(frozen=True, kw_only=True)
class ThinkingEnded:
    """The thinking block is complete."""

    part_id: str
    type: Literal["reasoning-end"] = "reasoning-end"


@dataclass(frozen=True, kw_only=True)
class CallStarted:
    """The model started to write the input of a tool call."""

    call_id: str
    tool: str
    provider_executed: bool = False
    """Whether the model's service executes the call."""
    type: Literal["tool-input-start"] = "tool-input-start"


@dataclass(frozen=True, kw_only=True)
class CallInputDelta:
    """A piece of the input's JSON text."""

    call_id: str
    input_text_delta: str
    type: Literal["tool-input-delta"] = "tool-input-delta"


@dataclass(frozen=True, kw_only=True)
class CallReady:
    """The input is complete and is a JSON object."""

    call_id: str
    tool: str
    input: Mapping[str, Any]
    provider_executed: bool = False
    type: Literal["tool-input-available"] = "tool-input-available"


@dataclass(frozen=True, kw_only=True)
class CallInvalid:
    """The input is not valid JSON, or the step was given up; nothing was executed."""

    call_id: str
    tool: str
    input: Any
    error: str
    type: Literal["tool-input-error"] = "tool-input-error"


@dataclass(frozen=True, kw_only=True)
class ApprovalRequested:
    """A person is asked; `approval` is what they get to see (`Approval.describe`)."""

    approval_id: str
    call_id: str
    approval: Mapping[str, Any]
    type: Literal["tool-approval-request"] = "tool-approval-request"


@dataclass(frozen=True, kw_only=True)
class CallOutput:
    """The result of a call; `preliminary` while its cell runs: each replaces the last."""

    call_id: str
    output: Mapping[str, Any]
    preliminary: bool = False
    provider_executed: bool = False
    type: Literal["tool-output-available"] = "tool-output-available"


@dataclass(frozen=True, kw_only=True)
class CallFailed:
    """The call failed with an error, which the model reads, too."""

    call_id: str
    error: str
    provider_executed: bool = False
    type: Literal["tool-output-error"] = "tool-output-error"


@dataclass(frozen=True, kw_only=True)
class CallDenied:
    """A person, the mode or a rule refused the call; the model gets the reason."""

    call_id: str
    type: Literal["tool-output-denied"] = "tool-output-denied"


@dataclass(frozen=True, kw_only=True)
class CellsChanged:
    """Cells that a call changed; `changes` are docs/api.md's Change objects."""

    call_id: str
    notebook: str
    changes: tuple[Mapping[str, Any], ...]
    type: Literal["data-changes"] = "data-changes"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """Something the reader should know: `retrying`, `step-limit`, `approval`, ..."""

    kind: str
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    type: Literal["data-notice"] = "data-notice"


@dataclass(frozen=True, kw_only=True)
class Continuable:
    """A limit ended the answer, perhaps too early: a further turn may continue it."""

    turn_id: str
    limit: Literal["steps", "tokens", "cost", "month"]
    type: Literal["data-continue"] = "data-continue"


@dataclass(frozen=True, kw_only=True)
class UsageUpdated:
    """Tokens of the turn so far, and of the step that ends."""

    usage: Usage
    step: Usage = Usage()
    model: str = ""
    """The model of that step, if it was not the turn's own."""
    type: Literal["message-metadata"] = "message-metadata"


FinishReason: TypeAlias = Literal["stop", "length", "content-filter", "tool-calls"]


@dataclass(frozen=True, kw_only=True)
class TurnFinished:
    """The turn ended by itself, or waits for a person (`tool-calls`)."""

    finish_reason: FinishReason
    stop_reason: str
    steps: int
    usage: Usage
    step_limit_reached: bool = False
    budget_reached: bool = False
    state: Literal["waiting"] | None = None
    """`waiting` for answers: the stream ends, and the turn continues with them."""
    type: Literal["finish"] = "finish"


@dataclass(frozen=True, kw_only=True)
class TurnAborted:
    """A person stopped the turn."""

    type: Literal["abort"] = "abort"


@dataclass(frozen=True, kw_only=True)
class TurnFailed:
    """The turn could not continue; `error` is a plain sentence with the next step."""

    error: str
    type: Literal["error"] = "error"


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
    | Continuable
    | UsageUpdated
    | TurnFinished
    | TurnAborted
    | TurnFailed
)

_BY_TYPE: dict[str, type[Any]] = {
    event.__dataclass_fields__["type"].default: event for event in get_args(Event)
}


def to_json(event: Event) -> dict[str, Any]:
    """The event as JSON values for the store; they share its values."""
    return {
        name: vars(value) if isinstance(value, Usage) else value
        for name, value in vars(event).items()
    }


def from_json(value: Mapping[str, Any]) -> Event:
    """The inverse of `to_json`.

    Raises KeyError for a type unknown to this version.
    """
    fields = dict(value)
    kind = _BY_TYPE[fields["type"]]
    for name in ("usage", "step"):
        if name in fields:
            fields[name] = Usage(**fields[name])
    if "changes" in fields:
        fields["changes"] = tuple(fields["changes"])
    event: Event = kind(**fields)
    return event
