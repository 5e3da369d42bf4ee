"""Response models of turns, their changes, and conversations."""

from __future__ import annotations

from typing import Any

from jupyter_agent.conversations.log import TurnState
from jupyter_agent.document.cell import CellType, ChangeKind
from jupyter_agent.server.answers.base import AnswerModel


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
    remarks: list[str]
    """Sentences on what stays besides the conflicts."""
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


class RequestAnswer(AnswerModel):
    """A request to a model, with its content."""

    host: str
    made: str
    characters: int
