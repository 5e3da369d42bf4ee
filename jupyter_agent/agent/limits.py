"""How much one turn may use, and how much it has used."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from jupyter_agent.events import Usage
from jupyter_agent.models.base import Block, ModelRequest
from jupyter_agent.models.facts import Facts

Limit: TypeAlias = Literal["steps", "tokens", "cost", "month"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one turn."""

    max_steps: int = 25
    """Model calls; the last one must answer."""
    max_tokens: int = 16_000
    """Tokens of one reply."""
    token_budget: int = 300_000
    """Tokens of all steps together, weighed by their price (`Usage.weighted_tokens`); once spent,
    the next step must answer."""
    token_cap: int = 3_000_000
    """The same, but each token counts as one."""
    cost_budget: float | None = None
    """Cost of all steps together, if the price is known; once spent, the next step must answer."""
    attempts: int = 3
    """Attempts per step, the first included, when the model service fails."""
    rate_pauses: tuple[float, ...] = (2.0, 4.0, 8.0)
    """Seconds before each further attempt when the service limits the rate of requests and does
    not say for how long."""
    longest_wait: float = 900.0
    """Longest wait, in seconds, that a service may ask for; a longer one is an error."""
    idle_seconds: float = 60.0
    """Seconds without an event after which a stream counts as broken."""
    approval_seconds: float = 1800.0
    """Seconds that a question stays open before it counts as denied."""
    reply_chars: int = 2_000_000
    """Characters of one reply; more ends the turn."""
    reply_calls: int = 128
    """Tool calls of one reply; more ends the turn."""
    result_chars: int = 30_000
    """Characters of one tool result; more is cut in the middle."""


class Meter:
    """Counts what one turn has used so far."""

    def __init__(self, limits: Limits, facts: Facts) -> None:
        self._limits = limits
        self._price = facts.price
        self.window = Window(facts.window)
        self.steps = 0
        self.usage = Usage()
        self.step_usage = Usage()
        """Usage of the current step."""
        self.limit: Limit | None = None
        """Which limit made this step the last."""
        self.forced = False
        """Whether the next step has to answer, whatever the limits."""
        self.replies = 0
        """Replies started, including abandoned ones."""
        self.pauses = 0
        self.cuts = 0
        self.empties = 0

    def change_model(self, facts: Facts) -> None:
        """Continue with another model's price and context window."""
        self._price = facts.price
        self.window = Window(facts.window)

    @property
    def is_last(self) -> bool:
        """Whether this step must answer, without tools."""
        return self.forced or self.limit is not None

    def start_step(self) -> None:
        """Count one more step."""
        self.steps += 1
        self.step_usage = Usage()

    def reach(self, *, month_is_over: bool = False) -> Limit | None:
        """The limit reached since the last call, or None. Once there is one, this step is the last.

        `month_is_over`: the user's budget for this month is used up.
        """
        if self.limit is not None:
            return None
        cost, cost_budget = self.usage.cost, self._limits.cost_budget
        if self.usage.weighted_tokens >= self._limits.token_budget:
            self.limit = "tokens"
        elif self.usage.total >= self._limits.token_cap:
            self.limit = "tokens"
        elif cost is not None and cost_budget is not None and cost >= cost_budget:
            self.limit = "cost"
        elif month_is_over:
            self.limit = "month"
        elif self.steps >= self._limits.max_steps:
            self.limit = "steps"
        return self.limit

    @property
    def usage_text(self) -> str:
        """Steps, tokens and cost so far, as part of a sentence."""
        usage, limits = self.usage, self._limits
        counted = f"{usage.weighted_tokens:,.0f} of {limits.token_budget:,} tokens"
        if usage.weighted_tokens < limits.token_budget <= limits.token_cap <= usage.total:
            counted = f"{usage.total:,} of at most {limits.token_cap:,} tokens"
        elif usage.cache_read_tokens or usage.cache_write_tokens:
            counted += f", weighed by their price; {usage.total:,} with cached ones in full"
        cost = "" if usage.cost is None else f", at a cost of {usage.cost:.4g}"
        steps = f"{self.steps} model call{'s' if self.steps > 1 else ''}"
        return f"{steps}, {counted}{cost}"

    def spend(self, usage: Usage) -> None:
        """Count the tokens of one reply, and their cost."""
        if self._price is not None:
            cost = self._price.of(
                input=usage.input_tokens,
                output=usage.output_tokens,
                cache_read=usage.cache_read_tokens,
                cache_write=usage.cache_write_tokens,
            )
            usage = replace(usage, cost=cost)
        self.usage += usage
        self.step_usage += usage


_FULL = 0.8
"""Share of the window at which the history is shortened: estimates err, and the reply needs room
too."""
_TOKENS_PER_CHARACTER = 0.25
_FEWEST_TOKENS_PER_CHARACTER = 0.15
"""No text has fewer; some services report too few, and the history would never be shortened."""
_IMAGE_CHARACTERS = 6_000
"""Characters that an image counts as, whatever its size in bytes: about 1,500 tokens."""

_DOCUMENT_CHARACTERS = 100_000
"""Most characters that a PDF counts as: its size says little about its pages, some 2,000 tokens
each."""


class Window:
    """The context window of one model in one turn. Each reply corrects the estimate of sizes."""

    def __init__(self, tokens: int | None) -> None:
        self._tokens = tokens
        self._rate = _TOKENS_PER_CHARACTER
        self._reported = False

    def is_full(self, request: ModelRequest) -> bool:
        """Whether the request leaves too little room; False if the window's size is unknown."""
        return self._tokens is not None and size(request) * self._rate > self._tokens * _FULL

    def excess(self, request: ModelRequest) -> tuple[int, int] | None:
        """Estimated tokens of a request that is larger than the window, and the window's tokens.

        None if it fits or the size is unknown, and after the first time.
        """
        needed = round(size(request) * self._rate)
        if self._tokens is None or needed <= self._tokens or self._reported:
            return None
        self._reported = True
        return needed, self._tokens

    def calibrate(self, request: ModelRequest, usage: Usage) -> None:
        """Correct the estimate by the tokens that a reply reports for its request."""
        tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if tokens:
            self._rate = max(_FEWEST_TOKENS_PER_CHARACTER, tokens / size(request))


def size(request: ModelRequest) -> int:
    """Characters of everything that is sent."""
    blocks = (block for message in request.messages for block in message["content"])
    tools = len(json.dumps(list(request.tools), ensure_ascii=False))
    return len(request.system) + tools + sum(map(block_size, blocks))


def block_size(block: Block) -> int:
    """Characters of one block."""
    if block["type"] == "image":
        return _IMAGE_CHARACTERS
    if block["type"] == "document":
        return min(len(block["source"]["data"]), _DOCUMENT_CHARACTERS)
    if block["type"] == "tool_result" and isinstance(block["content"], list):
        return sum(map(block_size, block["content"]))
    return len(json.dumps(block, ensure_ascii=False))
