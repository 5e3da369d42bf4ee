"""Response models for `openapi.json`: clients may rely on these fields; more may be added."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.choices import Mode, Share
from jupyter_agent.conversations.instructions import Trust
from jupyter_agent.conversations.log import TurnState
from jupyter_agent.conversations.usage import Grouping
from jupyter_agent.document.cell import CarrierName, CellType, ChangeKind
from jupyter_agent.tools.base import Effect
from jupyter_agent.words import Icon
from jupyter_agent.workspace.run import RunStatus


class AnswerModel(BaseModel):
    """Fields without a default are in every answer, the others only if they apply."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class CellAnswer(AnswerModel):
    """A cell as it is now; `saved` and `turn_id` only in answers to edits."""

    id: str
    index: int
    type: CellType
    source: str
    version: str
    execution_count: int | None
    outputs: list[dict[str, Any]] | str = []
    metadata: dict[str, Any]
    stale: bool
    stale_why: str = ""
    saved: bool = True
    note: str = ""
    turn_id: str = ""


class KernelAnswer(AnswerModel):
    """A notebook's kernel."""

    id: str
    name: str
    state: str


class VerifiedAnswer(AnswerModel):
    """The last verification of a notebook."""

    ok: bool
    at: str
    kernel: str
    packages: dict[str, str]
    """Versions of the packages that the cells import."""
    hash: str
    """SHA-256 of all code."""
    cells: int
    same: int
    outdated: bool
    """Whether the code has changed since."""
    recorded: bool
    """Whether it is recorded in the notebook."""
    here: bool
    """Whether this server did it; otherwise the notebook only claims it."""


class NotebookAnswer(AnswerModel):
    """A notebook, including unsaved typing."""

    path: str
    carrier: CarrierName
    kernel: KernelAnswer | None
    verified: VerifiedAnswer | None
    metadata: dict[str, Any]
    cells: list[CellAnswer]


class NewNotebookAnswer(AnswerModel):
    """A new notebook."""

    path: str
    carrier: CarrierName
    cells: list[CellAnswer]


class MetadataAnswer(AnswerModel):
    """The notebook's metadata."""

    path: str
    metadata: dict[str, Any]
    saved: bool


class EditAnswer(AnswerModel):
    """The result of one of several edits."""

    op: Literal["insert", "update", "delete", "move"]
    cell_id: str | None
    diff: str
    merged: bool
    cell: CellAnswer | None


class EditsAnswer(AnswerModel):
    """The results of several edits."""

    edits: list[EditAnswer]
    saved: bool
    note: str = ""
    turn_id: str = ""


class ClearAnswer(AnswerModel):
    """The cells whose outputs were cleared."""

    cleared: list[str]
    saved: bool
    turn_id: str = ""


class ListedRun(AnswerModel):
    """A run, without its outputs."""

    run_id: str
    notebook: str
    cell_id: str | None
    status: RunStatus
    execution_count: int | None
    seconds: float
    saved: bool | Literal["pending"] = True
    expected_error: bool = False
    note: str = ""
    blocked_by: str = ""
    turn_id: str = ""


class RunAnswer(ListedRun):
    """A run."""

    outputs: list[dict[str, Any]] | str = []
    wake: bool = False


class RunsAnswer(AnswerModel):
    """Runs of cells, in order."""

    cells: list[RunAnswer]
    turn_id: str = ""


class RunListAnswer(AnswerModel):
    """A page of runs."""

    runs: list[ListedRun]
    next_page: int | None


class TextAnswer(AnswerModel):
    """A text."""

    text: str


class SavedAnswer(AnswerModel):
    """The saved file of a notebook in a collaboration room."""

    path: str
    hash: str


class CopyAnswer(AnswerModel):
    """A stored copy of a notebook."""

    id: int
    made: str
    size: int


class CopiesAnswer(AnswerModel):
    """The stored copies of a notebook."""

    copies: list[CopyAnswer]


class FileAnswer(AnswerModel):
    """A notebook file."""

    cells: list[dict[str, Any]]
    metadata: dict[str, Any]
    nbformat: int


class StateAnswer(AnswerModel):
    """One side of a change."""

    type: CellType
    source: str
    metadata: dict[str, Any]
    index: int
    outputs: list[dict[str, Any]]
    execution_count: int | None
    above: list[str] = []
    """If the change removed or moved the cell: ids of the cells above it then, nearest first."""
    below: list[str] = []
    """Those below it."""


class ChangeAnswer(AnswerModel):
    """The change of one cell by a turn."""

    notebook: str
    cell_id: str
    call_id: str | None
    kind: ChangeKind
    before: StateAnswer | None
    after: StateAnswer | None
    reviewed: bool
    undone: bool
    conflict: str | None


class PendingAnswer(ChangeAnswer):
    """A change that is neither kept nor undone."""

    turn_id: str


class BlamedCell(AnswerModel):
    """Who last changed a cell."""

    cell_id: str
    index: int
    turn_id: str | None
    conversation_id: str | None
    user: str | None
    model: str | None
    time: str | None
    request: str | None
    reviewed: bool
    changed_since: bool


class BlameAnswer(AnswerModel):
    """Who last changed each cell."""

    path: str
    cells: list[BlamedCell]


class UsageNumbers(AnswerModel):
    """Tokens and costs."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost: float | None


class ListedTurn(AnswerModel):
    """A turn, without its messages and changes."""

    id: str
    conversation_id: str
    title: str
    notebook: str | None
    model: str | None
    client: str | None
    state: TurnState
    stop_reason: str | None
    steps: int
    usage: UsageNumbers
    started: str
    ended: str | None


class TurnListAnswer(AnswerModel):
    """A page of turns."""

    turns: list[ListedTurn]
    next_page: int | None


class CodeAnswer(AnswerModel):
    """The code of one of several cells that would run."""

    cell_id: str
    code: str


class CellDiffAnswer(AnswerModel):
    """The proposed change of one of several cells."""

    cell_id: str | None
    """Null for a new cell."""
    cell_type: CellType
    diff: str


class PhraseAnswer(AnswerModel):
    """Words with `{places}` for the values; a pair is for one and for several (`count`)."""

    text: str | tuple[str, str]
    values: dict[str, int | str]


class PendingApproval(AnswerModel):
    """A question whose answer a turn waits for."""

    id: str
    group: str = ""
    """Shared by approvals that are one question, such as an edit and its run."""
    call_id: str
    tool: str
    input: dict[str, Any]
    notebook: str | None
    cell_id: str | None
    code: str = ""
    """The exact code that would run."""
    cells: list[CodeAnswer] = []
    """The code by cell, if several would run."""
    diff: str = ""
    """The proposed change, as a unified diff."""
    edits: list[CellDiffAnswer] = []
    """The same by cell, if several would change."""
    cell_type: CellType = "code"
    """The type of the cell after the edit, or of the cell to be deleted."""
    kernel: str = ""
    """The name of the only kernel to which the answer applies."""
    loads: list[str] = []
    """Addresses on other servers that a page loads as soon as it shows the result."""
    clusters: list[str] = []
    """Systems, such as Dask, on which the code may start a job."""
    server: str = ""
    """The MCP server that would get the input."""
    server_tool: str | None = None
    """The name of the tool there."""
    facts: list[PhraseAnswer] = []
    """What else a person has to know."""
    expires: str


class CallAnswer(AnswerModel):
    """A call of a turn."""

    call_id: str
    tool: str
    input: Any
    state: str


class FailureAnswer(AnswerModel):
    """Why a turn failed: the `reason` of its notice, a sentence, and the id of the request for the
    service's support."""

    kind: str
    message: str
    request_id: str | None


class TurnAnswer(AnswerModel):
    """A turn."""

    id: str
    conversation_id: str
    state: TurnState
    stop_reason: str | None
    error: FailureAnswer | None
    steps: int
    usage: UsageNumbers
    step_usage: list[UsageNumbers]
    started: str
    ended: str | None
    calls: list[CallAnswer]
    changes: list[ChangeAnswer]
    approvals: list[PendingApproval]
    audit: list[dict[str, Any]]


class TurnStateAnswer(AnswerModel):
    """The state of a turn; with `wait`, `message` and more as in `OutcomeAnswer`."""

    turn_id: str
    state: TurnState


class RetryAnswer(TurnStateAnswer):
    """Whether a waiting request was repeated."""

    retried: bool


class OutcomeAnswer(TurnStateAnswer):
    """A turn that has ended or waits for an answer."""

    conversation_id: str
    error: FailureAnswer | None
    message: dict[str, Any]
    usage: UsageNumbers
    changes: list[ChangeAnswer]
    approvals: list[PendingApproval]


class ConflictAnswer(AnswerModel):
    """A change that was left in place, and why."""

    notebook: str
    cell_id: str
    reason: str
    why: str


class UndoneAnswer(AnswerModel):
    """The changes that were taken back, and those left in place."""

    undone: list[ChangeAnswer]
    conflicts: list[ConflictAnswer]
    message: str


class ReviewedAnswer(AnswerModel):
    """How many changes were marked as reviewed."""

    reviewed: int


class ListedConversation(AnswerModel):
    """A conversation in a list."""

    id: str
    title: str
    notebook: str | None
    model: str | None
    updated: str
    state: TurnState | None
    usage: UsageNumbers


class FoundConversation(ListedConversation):
    """A conversation in a page of search results."""

    match: str | None
    """The words around the query, in a question or an answer; null if the title matched."""


class ConversationListAnswer(AnswerModel):
    """A page of conversations."""

    conversations: list[FoundConversation]
    next_page: int | None


class ConversationAnswer(ListedConversation):
    """A conversation."""

    created: str
    instructions: list[dict[str, Any]]
    turns: list[dict[str, Any]]
    messages: list[dict[str, Any]]


class CompactedAnswer(AnswerModel):
    """Whether there was anything to summarise."""

    compacted: bool
    usage: UsageNumbers


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


class RequestAnswer(AnswerModel):
    """A request to a model, with its content."""

    host: str
    made: str
    characters: int


class MessageAnswer(AnswerModel):
    """A JSON-RPC message."""

    jsonrpc: Literal["2.0"]


class DescriptionAnswer(AnswerModel):
    """The OpenAPI description."""

    openapi: str
    paths: dict[str, Any]
