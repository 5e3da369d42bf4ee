"""Response models about the assistant: its tools, models, usage, rules and state."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from jupyter_agent.choices import Mode, Share
from jupyter_agent.conversations.instructions import Trust
from jupyter_agent.conversations.usage import Grouping
from jupyter_agent.document.cell import CarrierName
from jupyter_agent.server.answers.base import AnswerModel
from jupyter_agent.server.answers.conversations import ChangeAnswer, UsageNumbers
from jupyter_agent.tools.base import Effect
from jupyter_agent.words import Icon


class RulesAnswer(AnswerModel):
    """What runs without asking in a conversation."""

    allow: list[str]
    rules: list[dict[str, Any]]


class ToolAnswer(AnswerModel):
    """The result of a tool call."""

    text: str
    is_error: bool
    reason: str = ""
    changes: list[ChangeAnswer] = []
    images: list[dict[str, str]] = []


class ToolWords(AnswerModel):
    """Templates for a call (docs/plugs.md); a pair is for one and for several."""

    todo: str | tuple[str, str]
    doing: str | tuple[str, str]
    done: str | tuple[str, str]
    scope: str = ""
    """What one allows by "always"."""
    given: str = ""
    """The field that an input must have; empty for any input."""
    counts: str = ""
    """The field with the list that `{count}` counts."""


class ListedTool(AnswerModel):
    """A tool."""

    name: str
    description: str
    input_schema: dict[str, Any]
    input_examples: list[dict[str, Any]] = []
    strict: bool = False
    """Whether a service that supports it should hold the model to the schema."""
    effect: Effect
    in_kernel: bool
    """Whether it runs code in the notebook's kernel."""
    names_notebook: bool
    """Whether a call is about one notebook."""
    shows_result: bool
    """Whether people want to read its result as text."""
    words: list[ToolWords]
    """What people read about a call: the first whose `given` its input has."""
    icon: Icon
    former_names: list[str] = []
    """Old names that are still accepted."""


class ProviderAnswer(AnswerModel):
    """A configured provider."""

    name: str
    models: list[str]
    credentials: bool


class ModelsAnswer(AnswerModel):
    """The available models; the facts about each are by `provider:model`."""

    default: str | None
    fallback: str | None
    providers: list[ProviderAnswer]
    windows: dict[str, int]
    """Size of the context window, in tokens."""
    images: dict[str, bool]
    """Whether the model takes images."""
    documents: dict[str, bool]
    """Whether it reads PDF files."""


class OfferedAnswer(AnswerModel):
    """The models that a provider lists."""

    models: list[Any]


class KeyAnswer(AnswerModel):
    """How many models a provider lists for a key."""

    models: int | None


class UsedAnswer(AnswerModel):
    """What turns used."""

    turns: int
    priced_turns: int
    steps: int
    usage: UsageNumbers
    average: dict[str, Any]


class MonthAnswer(AnswerModel):
    """How much of the month's budget is used."""

    from_: str = Field(alias="from")
    until: str
    usage: UsageNumbers
    tokens: int
    token_budget: int | None
    cost_budget: float | None
    exhausted: bool


class UsageAnswer(AnswerModel):
    """What the user's turns used."""

    by: Grouping
    from_: str | None = Field(alias="from")
    to: str | None
    total: UsedAnswer
    groups: list[UsedAnswer]
    month: MonthAnswer


class PolicyAnswer(AnswerModel):
    """The administrator's decisions for the user."""

    user: str
    groups: list[str]
    models: list[str]
    max_mode: Mode
    rules: list[dict[str, Any]]
    allow_remote_content: bool


class StatusAnswer(AnswerModel):
    """The state of the server."""

    version: str
    carriers: list[CarrierName]
    notes: list[str]
    notebooks: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    share: Share
    policy: PolicyAnswer
    instructions: list[dict[str, Any]]
    mcp_servers: list[dict[str, Any]]
    store: dict[str, Any]


class InstructionFile(AnswerModel):
    """Instructions in a file of the project, and the user's decision about them."""

    source: str
    characters: int
    cut: bool
    """Whether it is too long, so that only its beginning is sent."""
    trust: Trust
    """`changed`: another text of the file was trusted."""
    digest: str
    """Identifies the text in a decision about it."""
    text: str


class InstructionsAnswer(AnswerModel):
    """Instruction files."""

    instructions: list[InstructionFile]
