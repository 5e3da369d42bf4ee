"""The messages of a conversation as the model sees them: append, elide, make valid for sending.

Messages are Anthropic's JSON with further keys, which are removed before sending:

* `model`: the model that wrote a message of the assistant;
* `keeps`: the message is a summary of all messages before it except this many of the last;
* `leads`: the message is put before the question of its turn, into the same message;
* `instructs`: digest of the project's instructions, with which the message starts;
* `shows`: path of the notebook that the message describes;
* `outline`: digest of that notebook's outline, if the message has it;
* `plan`: the plan with which a summary ends;
* `asks`: so many of the last blocks of a summary are the question of the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.agent.blocks import INVALID_INPUT
from jupyter_agent.legible import ModelText, tool_name
from jupyter_agent.models.base import (
    VIA,
    Block,
    Message,
    is_of_service,
    without_service_blocks,
)
from jupyter_agent.models.chat import EXTRA

PLAN = "write_plan"
"""The tool whose last input is kept when a summary replaces the history."""
_PLAN_MARKS = {"done": "x", "doing": ">"}
_LONGEST_NAME = 64
"""Characters that services accept for the name of a tool, also in calls of unknown tools."""
_IMAGES_SENT = 20
"""The API refuses images above 2,000 pixels in a request with more images than this."""
_GO_ON = "Continue."
_ELIDED_FROM = 500
"""Characters from which on a tool result is worth eliding."""


@dataclass(frozen=True)
class MessageAdded:
    """A message was added to the history."""

    message: Message


class Transcript:
    """The history of one conversation: append-only.

    Methods that add to it return the messages to store: one, or none.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        self.messages: list[Message] = []
        self.call_ids: set[str] = set()
        """Ids of all calls so far, also of those that a summary replaced or that were given up."""
        for message in messages:
            self._apply(message)

    def append(
        self, role: str, content: Sequence[Block], *, model: str | None = None
    ) -> tuple[MessageAdded, ...]:
        """Add a message, unless it is empty: the API would refuse it."""
        if not content:
            return ()
        message = {"role": role, "content": list(content)}
        if model is not None:
            message["model"] = model
        return self._add(message)

    def add_facts(
        self, facts: ModelText, *, shows: str | None = None, outline: str = ""
    ) -> tuple[MessageAdded, ...]:
        """Put the facts of this turn before the last question. `shows` is the notebook that they
        describe, `outline` the digest of the outline in them.

        They stay in the history: in the system prompt they would make every turn pay for the whole
        conversation again, since services cache prefixes.
        """
        message: dict[str, Any] = {"role": "user", "content": [_text(facts)], "leads": True}
        if shows is not None:
            message["shows"] = shows
        if outline:
            message["outline"] = outline
        return self._add(message)

    def has_shown(self, notebook: str) -> bool:
        """Whether a question has the notebook before it and no summary has replaced it."""
        return any(message.get("shows") == notebook for message in self.messages)

    def outline_digest(self, notebook: str) -> str:
        """Digest of the notebook's outline that was last put before such a question, or empty."""
        shown = (each for each in reversed(self.messages) if each.get("shows") == notebook)
        return next((str(each["outline"]) for each in shown if "outline" in each), "")

    def add_instructions(self, text: ModelText, digest: str) -> tuple[MessageAdded, ...]:
        """Put the project's instructions before the last question; summaries keep them."""
        block = _text(text)
        return self._add({"role": "user", "content": [block], "leads": True, "instructs": digest})

    @property
    def instructions_digest(self) -> str:
        """The digest of the instructions that the model got last, or empty."""
        return next((str(each["instructs"]) for each in self._with_instructions()), "")

    def finish(self) -> tuple[MessageAdded, ...]:
        """Answer the open calls of the last message with an error, as after a crash."""
        calls = open_calls(self.messages)
        return self.append("user", [error_result(call_id, INTERRUPTED) for call_id in calls])

    def sendable(self, model: str) -> list[Message]:
        """A valid history with the same meaning, as this model accepts it.

        Thinking is only valid for the model that wrote it; only the newest images stay.
        """
        own = [_without_foreign_thinking(message, model) for message in self.messages]
        valid = repair(own)
        if valid and valid[-1]["role"] == "assistant" and is_text(valid[-1]["content"]):
            # of another model, whose service paused
            valid.append({"role": "user", "content": [_text(_GO_ON)]})
        return _newest_images(valid)

    @property
    def open_service_calls(self) -> list[str]:
        """Ids of the service's own calls in this turn that have no result yet."""
        answered = _results_of_service(self.messages)
        calls: list[str] = []
        for message in reversed(self.messages):
            if message["role"] == "user" and not _has_results(message):
                break
            calls += _calls_of_service(message, answered)
        return calls

    @property
    def older(self) -> list[Message]:
        """The messages that a summary can replace: all but the open question or last step."""
        older = self.messages[: len(self.messages) - self._open]
        return [] if len(older) == 1 and "keeps" in older[0] else older

    def replace_older(self, summary: str) -> tuple[MessageAdded, ...]:
        """Replace the older messages by a summary; the store keeps all of them."""
        content = [_text(f"[Summary of the conversation so far]\n{summary}")]
        if plan := self._plan():
            content.append(_text(plan))
        kept = self.messages[len(self.messages) - self._open :]
        latest = next(self._with_instructions(), None)
        more: dict[str, Any] = {"plan": plan} if plan else {}
        question = self._question() if self._open > 1 else []  # else it stays by itself
        if latest is not None and latest not in kept:
            instructions = latest["content"][0]
            question = [block for block in question if block != instructions]
            content.insert(0, instructions)
            more["instructs"] = latest["instructs"]
        if question:
            content += [_text("[The question of this turn]"), *question]
            more["asks"] = len(question)
        message = {"role": "user", "content": content, "keeps": self._open, **more}
        return self._add(message)

    def elide(self) -> bool:
        """Shorten the results of older calls; False if nothing is left to shorten.

        The results of the last step stay. All others are shortened at once, because the service's
        cached prefix is lost each time.
        """
        last = len(self.messages) - 1
        shorter = [
            message if position == last else _elide(message)
            for position, message in enumerate(self.messages)
        ]
        changed = shorter != self.messages
        self.messages = shorter
        return changed

    def _plan(self) -> str:
        """The last plan, for the summary that replaces the call that wrote it."""
        for message in reversed(self.messages):
            for block in reversed(message["content"]):
                if block["type"] == "tool_use" and block["name"] == PLAN:
                    if lines := list(_plan_lines(block["input"])):
                        return "\n".join(["[Your plan]", *lines])
            if "plan" in message:
                return str(message["plan"])
        return ""

    @property
    def _open(self) -> int:
        """How many of the last messages the model has not answered."""
        if not self.messages or self.messages[-1]["role"] == "assistant":
            return 0
        return 2 if _has_results(self.messages[-1]) else 1

    def _with_instructions(self) -> Iterator[Message]:
        """The messages that start with the project's instructions, the last first."""
        return (message for message in reversed(self.messages) if "instructs" in message)

    def _question(self) -> list[Block]:
        """The last question. After a summary within its turn it is a part of the summary."""
        asked = (m for m in reversed(self.messages) if m["role"] == "user" and not _has_results(m))
        last: Message = next(asked, {"content": []})
        return list(last["content"][-last.get("asks", 0) :])

    def _add(self, message: Message) -> tuple[MessageAdded, ...]:
        self._apply(message)
        return (MessageAdded(message),)

    def _apply(self, message: Message) -> None:
        calls = (block for block in _blocks(message) if block["type"] == "tool_use")
        self.call_ids.update(block["id"] for block in calls)
        if "keeps" in message:
            self.messages = [message, *self.messages[len(self.messages) - message["keeps"] :]]
        elif "leads" in message and self.messages:
            question = self.messages[-1]
            content = [*message["content"], *question["content"]]
            merged = {**question, "content": content}
            for key in ("instructs", "shows", "outline"):
                if key in message:
                    merged[key] = message[key]
            self.messages[-1] = merged
        else:
            self.messages.append(message)


def is_text(content: Iterable[Block]) -> bool:
    """Whether what a model wrote has no calls: most models refuse to continue that (a prefill)."""
    return all(block["type"] == "text" or "thinking" in block["type"] for block in content)


def _plan_lines(input: Mapping[str, Any]) -> Iterator[str]:
    """The steps of a plan, as the model wrote them; nothing of invalid ones."""
    steps = input.get("steps")
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, Mapping):
            mark = _PLAN_MARKS.get(str(step.get("state")), " ")
            yield f"- [{mark}] {step.get('text', '')}"


def _has_results(message: Message) -> bool:
    return any(block["type"] == "tool_result" for block in _blocks(message))


def _without_foreign_thinking(message: Message, model: str) -> Message:
    content = message["content"]
    if message.get("model", model) != model and not isinstance(content, str):
        content = [
            {key: value for key, value in block.items() if key != EXTRA}
            for block in without_service_blocks(message)["content"]
            if "thinking" not in block["type"]
        ]
    return {"role": message["role"], "content": content}


def _elide(message: Message) -> Message:
    if message["role"] != "user" or isinstance(message["content"], str):
        return message
    return {**message, "content": [_elide_result(block) for block in message["content"]]}


def _elide_result(block: Block) -> Block:
    if block["type"] != "tool_result" or not isinstance(block["content"], list):
        return block
    length = sum(len(part.get("text", "")) for part in block["content"])
    images = any(part["type"] == "image" for part in block["content"])
    if length < _ELIDED_FROM and not images:
        return block
    return {**block, "content": [_text(f"[elided, {length} characters; call again if needed]")]}


def _newest_images(messages: Iterable[Message]) -> list[Message]:
    left = _IMAGES_SENT
    newest_first: list[Message] = []
    for message in reversed(list(messages)):
        content = []
        for block in reversed(message["content"]):
            kept, left = _with_images(block, left)
            content.append(kept)
        newest_first.append({**message, "content": content[::-1]})
    return newest_first[::-1]


def _with_images(block: Block, left: int) -> tuple[Block, int]:
    if block["type"] == "image":
        return (block if left > 0 else _text("[an older image]")), left - 1
    if block["type"] == "tool_result" and isinstance(block["content"], list):
        parts = []
        for part in reversed(block["content"]):
            kept, left = _with_images(part, left)
            parts.append(kept)
        return {**block, "content": parts[::-1]}, left
    return block, left


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


INTERRUPTED = ModelText("Interrupted before it finished; it may have partially run.")
_NO_OUTPUT = "(no output)"


def repair(messages: Sequence[Message]) -> list[Message]:
    """A valid history with the same meaning; equal to the given one if that was valid.

    A crash or a stop can break a history. The API then refuses every request with it, so it is made
    valid before each request:

    * messages alternate, start with the user, and are not empty; text blocks are not blank;
    * each `tool_use` is answered in the user message right after it, in order, before anything
      else;
    * a `tool_result` only answers the message right before it (ids may occur again later);
    * the service's own calls without a result before the next question are removed;
    * the names in calls are valid names of tools;
    * thinking has its signature or needs no signature, and is never alone in a message.
    """
    alternating: list[dict[str, Any]] = []
    for message in _without_lost_calls(messages):
        content = _valid_blocks(message)
        if message["role"] == "assistant" and _calls(alternating[-1:]):
            alternating.append({"role": "user", "content": []})  # answers are added below
        if alternating and alternating[-1]["role"] == message["role"]:
            alternating[-1]["content"] += content
        elif content:
            alternating.append({"role": message["role"], "content": content})
    return _answer_all(alternating)


def _without_lost_calls(messages: Sequence[Message]) -> Iterator[Message]:
    answered = _results_of_service(messages)
    asked = [n for n, m in enumerate(messages) if m["role"] == "user" and not _has_results(m)]
    last = asked[-1] if asked else -1
    for n, message in enumerate(messages):
        lost = set(_calls_of_service(message, answered)) if n < last else ()
        if lost:
            kept = [block for block in message["content"] if block.get("id") not in lost]
            message = {**message, "content": kept}
        yield message


def _results_of_service(messages: Iterable[Message]) -> set[str]:
    return {
        block["tool_use_id"]
        for message in messages
        for block in _blocks(message)
        if is_of_service(block) and "tool_use_id" in block
    }


def _calls_of_service(message: Message, answered: set[str]) -> list[str]:
    calls = (block for block in _blocks(message) if block["type"] == "server_tool_use")
    return [block["id"] for block in calls if block["id"] not in answered]


def _blocks(message: Message) -> Sequence[Block]:
    content = message["content"]
    return () if isinstance(content, str) else content


def open_calls(messages: Sequence[Message]) -> list[str]:
    """Ids of the calls in the last message, if it is the assistant's."""
    return _calls(messages[-1:])


def error_result(call_id: str, text: ModelText) -> Block:
    """The answer to a call that failed, or was not executed."""
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": [_text(text)],
        "is_error": True,
    }


def _answer_all(alternating: Sequence[Mapping[str, Any]]) -> list[Message]:
    valid: list[dict[str, Any]] = []
    for message in alternating:
        content = message["content"]
        if message["role"] == "user":
            content = _with_answers(_calls(valid[-1:]), content)
        elif not valid:
            continue  # a history starts with the user
        if not content:
            continue
        if valid and valid[-1]["role"] == message["role"]:
            valid[-1]["content"] += content
        else:
            valid.append({"role": message["role"], "content": content})
    if calls := _calls(valid[-1:]):
        valid.append({"role": "user", "content": _with_answers(calls, [])})
    return list(valid)


def _with_answers(calls: Sequence[str], content: Sequence[Block]) -> list[Block]:
    results = {
        block["tool_use_id"]: block for block in reversed(content) if block["type"] == "tool_result"
    }
    answers = [results.get(call_id) or error_result(call_id, INTERRUPTED) for call_id in calls]
    return [*answers, *(block for block in content if block["type"] != "tool_result")]


def _calls(last: Sequence[Message]) -> list[str]:
    if not last or last[0]["role"] != "assistant":
        return []
    return [block["id"] for block in last[0]["content"] if block["type"] == "tool_use"]


def _valid_blocks(message: Message) -> list[Block]:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    seen: set[str] = set()
    blocks = []
    for block in content:
        match block["type"]:
            case "text" if not block["text"].strip():
                continue
            case "thinking" if not (block.get("signature") or VIA in block):
                continue
            case "tool_result":
                block = _valid_result(block)
            case "tool_use":
                if block["id"] in seen:
                    continue
                seen.add(block["id"])
                if not isinstance(block["input"], Mapping):
                    block = {**block, "input": {INVALID_INPUT: str(block["input"])}}
                block = {**block, "name": tool_name(block["name"])[:_LONGEST_NAME] or "_"}
        blocks.append(block)
    only_thoughts = all("thinking" in block["type"] for block in blocks)
    return [] if only_thoughts else blocks


def _valid_result(block: Block) -> Block:
    content = block.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    kept = [part for part in content or () if part["type"] != "text" or part["text"].strip()]
    if kept == block.get("content"):
        return block
    return {**block, "content": kept or [{"type": "text", "text": _NO_OUTPUT}]}
