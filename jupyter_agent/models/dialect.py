"""The differences between services, or their models, in one record.

It comes from the preset of the service and the configuration; more is learned from the messages of
400 responses, and remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from jupyter_agent.models.base import Effort, ServerTool
from jupyter_agent.models.pictures import Digests

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The models' levels of effort, from the least."""
LIMITS = ("max_tokens", "max_completion_tokens")
"""The services' names for the limit of a reply."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a service accepts, and how it writes."""

    limits: tuple[str, ...] = LIMITS
    """Possible names for the limit of a reply, the likely one first; empty to send no limit."""
    reasoning: Literal["never", "turn", "always"] = "turn"
    """When to send reasoning back, in the message with its calls: never, within its turn, or in all
    later requests, with every message that has calls."""
    short_ids: bool = False
    """Whether ids of calls must have exactly nine letters and digits, even those that other
    services accept."""
    tool_choice: bool = True
    tool_names: bool = True
    """Whether the answer to a call has the tool's name."""
    usage: bool = True
    """Whether to request token counts in the stream; some services send them anyway."""
    images: bool = True
    documents: bool = False
    """Whether it accepts PDF files, as parts of kind `file`."""
    user_after_tool: bool = True
    """Whether a user message may follow directly after a tool message."""
    signatures: bool = False
    """Whether each message with calls must have a signature of the thoughts before them."""
    refused_fields: frozenset[str] = frozenset()
    """Fields of a request, or of its tools, that the service does not accept."""
    loads: bool = False
    """Whether it loads a model at its first request, with a window of the server's choice whatever
    the request says, and silently drops what exceeds the window."""
    no_server_tools: frozenset[str] = frozenset()
    """Tools of the service that the model does not have."""
    refused_pictures: frozenset[Digests] = frozenset()
    """Sets of pictures that the service refused, each set in one request."""
    lost_containers: frozenset[str] = frozenset()
    """Ids of containers in which the service ran code and that it has ended since."""
    think_tags: bool = True
    """Whether a text that starts with `<think>` starts with reasoning."""
    efforts: tuple[str, ...] = LEVELS
    """Accepted levels of effort, from the least; empty to send no effort."""
    effort_field: Literal["reasoning_effort", "reasoning", "thinking"] = "reasoning_effort"
    """The field for the effort; `thinking` can only be switched on and off."""
    thinking: tuple[Literal["adaptive", "enabled", "disabled"], ...] = (
        "adaptive", "enabled", "disabled",
    )  # fmt: skip
    """Accepted values of `thinking` in Anthropic's API; of the first two, the better one first."""

    def level(self, effort: Effort) -> str | None:
        """The nearest accepted level; None if there is no suitable level.

        For `none`, a model that always thinks gets its lowest level; a model that cannot think gets
        no level, and still answers.
        """
        suitable = [level for level in self.efforts if effort == "none" or level != "none"]
        wanted = LEVELS.index(effort)
        return min(suitable, key=lambda level: abs(LEVELS.index(level) - wanted), default=None)


_NEW_NAME = (LIMITS[1], LIMITS[0])
PRESETS: Mapping[str, Dialect] = {
    "openai": Dialect(limits=_NEW_NAME, reasoning="never", think_tags=False, documents=True),
    "azure": Dialect(limits=_NEW_NAME, reasoning="never"),
    "mistral": Dialect(short_ids=True, usage=False, user_after_tool=False),
    "deepseek": Dialect(reasoning="always", effort_field="thinking"),
    "kimi": Dialect(reasoning="always", effort_field="thinking"),
    "minimax": Dialect(reasoning="always"),
    "groq": Dialect(),
    "ollama": Dialect(loads=True),
    "vllm": Dialect(),
    "openrouter": Dialect(effort_field="reasoning", documents=True),
    "gemini": Dialect(signatures=True, think_tags=False),
    "together": Dialect(),
    "xai": Dialect(think_tags=False),
    "lm-studio": Dialect(),
    "litellm": Dialect(),
}
"""Dialects by name of the service.

Sources: https://docs.mistral.ai/api, https://api-docs.deepseek.com/guides/thinking_mode,
https://platform.openai.com/docs/api-reference/chat/create,
https://docs.ollama.com/context-length,
https://openrouter.ai/docs/use-cases/reasoning-tokens, public issues of each.
"""
_HOSTS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure",
    "services.ai.azure.com": "azure",
    "api.mistral.ai": "mistral",
    "codestral.mistral.ai": "mistral",
    "api.deepseek.com": "deepseek",
    "api.moonshot.ai": "kimi",
    "api.moonshot.cn": "kimi",
    "api.minimax.io": "minimax",
    "api.groq.com": "groq",
    "openrouter.ai": "openrouter",
    "generativelanguage.googleapis.com": "gemini",
    "api.together.xyz": "together",
    "api.x.ai": "xai",
}


def preset(name: str | None, *, provider: str, base_url: str | None) -> Dialect:
    """The dialect with that name, else for the address, else for the provider's name.

    Raises ValueError for an unknown name.
    """
    if name is not None:
        if name not in PRESETS:
            known = ", ".join(sorted(PRESETS))
            raise ValueError(f"`{name}` is not a dialect. Known dialects: {known}.")
        return PRESETS[name]
    host = urlsplit(base_url or "").hostname or ""
    for domain, service in _HOSTS.items():
        if host == domain or host.endswith(f".{domain}"):
            return PRESETS[service]
    return PRESETS.get(provider, Dialect())


# -- learning from refusals

Lesson: TypeAlias = Callable[[Dialect, str], Dialect]
"""The dialect after the message of a 400; unchanged if the message is about something else."""

REFUSED = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not (permitted|allowed)"
    r"|extra (inputs?|fields?)|extra_forbidden|additional propert|does not support",
    re.IGNORECASE,
)
"""Words with which services refuse unknown fields and values."""
_TOO_MUCH = re.compile(r"too (large|high|many|big)|at most|maximum|exceed|less than", re.IGNORECASE)
_WANTS_REASONING = re.compile(
    r"reasoning_content.{0,80}(must be passed back|is missing|is required)"
    r"|must include.{0,20}reasoning_content",
    re.IGNORECASE | re.DOTALL,
)
_SHORT_IDS = re.compile(r"tool.?call.?id.*length of 9", re.IGNORECASE | re.DOTALL)
_SIGNATURES = re.compile(r"missing a .?thought_signature", re.IGNORECASE)
_ORDER = re.compile(r"unexpected role .?user.? after role .?tool", re.IGNORECASE)
_NO_IMAGES = re.compile(
    r"image.{0,40}(not supported|unsupported|not allowed)|not support.{0,40}(image|vision)"
    r"|not a (multimodal|vision) model|unknown variant .?image_url",
    re.IGNORECASE,
)
_ONE_PICTURE = re.compile(r"format|media.?type", re.IGNORECASE)
"""Words about a single picture, not about a model without vision."""


def learn(dialect: Dialect, said: str, effort: Effort | None = None) -> Dialect | None:
    """The dialect after a request with that effort was refused with this message; None if the
    message teaches nothing.
    """
    better = learn_effort(dialect, said, effort)
    if better != dialect:
        return better
    for lesson in _LESSONS:
        better = lesson(dialect, said)
        if better != dialect:
            return better
    return None


def learn_tools(dialect: Dialect, said: str, asked: Sequence[ServerTool]) -> Dialect:
    """The dialect after a refusal of some of the service's own tools, which the model may lack."""
    if _ABOUT_HISTORY.search(said):
        return dialect
    listed = _VALID.search(said)
    valid, after = _until_other(said[listed.end() :]) if listed else ("", "")
    refused = f"{said[: listed.start()]} {after}" if listed else said
    lacks = _mentioned_tools(refused, asked)
    if not lacks and (at := _TOOL_AT.search(refused)) and int(at[1]) < len(asked):
        lacks = {asked[int(at[1])]}
    if not lacks and (available := _mentioned_tools(valid, asked)):
        lacks = set(asked) - available
    return replace(dialect, no_server_tools=dialect.no_server_tools | lacks)


_ABOUT_HISTORY = re.compile(r"container_id is required|\b(messages|input)[.\[]\d|\bItem '")
"""Words about earlier messages, which may mention the tools used there."""
_VALID = re.compile(
    r"expected (tags|values)|(supported|valid|allowed|available) (tags|values|tools|types)"
    r"|one of|input should be|must be",
    re.IGNORECASE,
)
"""Words before a list of accepted values."""
_OTHER = re.compile(r"\b(got|not|input|but|received|given|found|instead|to use)\b", re.IGNORECASE)
"""Words before the refused value."""
_TOOL_AT = re.compile(r"\btools[.\[](\d+)")
"""Position of the refused tool in the request, where the service's own tools come first."""


def _until_other(said: str) -> tuple[str, str]:
    other = _OTHER.search(said)
    return (said[: other.start()], said[other.start() :]) if other else (said, "")


def _mentioned_tools(said: str, asked: Sequence[ServerTool]) -> set[ServerTool]:
    said = said.lower().replace(" ", "_").replace("code_interpreter", "code_execution")
    return {tool for tool in asked if tool in said}


_A_PICTURE = re.compile(r"image|picture", re.IGNORECASE)


def learn_pictures(dialect: Dialect, said: str, sent: Digests) -> Dialect | None:
    """The dialect after a refusal of the pictures sent; None for another refusal."""
    if not sent or not _A_PICTURE.search(said):
        return None
    return replace(dialect, refused_pictures=dialect.refused_pictures | {sent})


def learn_containers(dialect: Dialect, said: str, asked: Collection[str]) -> Dialect:
    """The dialect after a refusal of the request's containers; services end idle ones."""
    if "container" not in said.lower():
        return dialect
    return replace(dialect, lost_containers=dialect.lost_containers.union(asked))


_EFFORT = re.compile(
    r"""reasoning[_.]effort|\beffort\b|["'`.]thinking\b|support (thinking|reasoning)""",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"(?:supported|valid|allowed) (?:values|levels|efforts)|one of|input should be", re.IGNORECASE
)
"""Words before a list of accepted levels."""


def learn_effort(dialect: Dialect, said: str, effort: Effort | None) -> Dialect:
    """The dialect after a refusal of the requested effort: with the accepted levels, or without
    any.
    """
    level = effort and dialect.level(effort)
    listed = _LISTED.search(said)
    if level is None or not _EFFORT.search(said) or not (listed or REFUSED.search(said)):
        return dialect
    after = said[listed.end() :] if listed else ""
    accepted = [one for one in LEVELS if re.search(rf"\b{one}\b", after)]
    left = tuple(one for one in dialect.efforts if one in accepted and one != level)
    if not left and re.search(rf"""["'`]{level}["'`]""", said):
        left = tuple(one for one in dialect.efforts if one != level)
    return replace(dialect, efforts=left)


def _limit(dialect: Dialect, said: str) -> Dialect:
    if not dialect.limits or dialect.limits[0] not in said:
        return dialect
    if REFUSED.search(said):
        return replace(dialect, limits=dialect.limits[1:])
    return replace(dialect, limits=()) if _TOO_MUCH.search(said) else dialect


def _reasoning(dialect: Dialect, said: str) -> Dialect:
    if _WANTS_REASONING.search(said):
        return replace(dialect, reasoning="always")
    refused = re.search(r"\breasoning(_content)?\b", said) and REFUSED.search(said)
    return replace(dialect, reasoning="never") if refused else dialect


def _ids(dialect: Dialect, said: str) -> Dialect:
    return replace(dialect, short_ids=True) if _SHORT_IDS.search(said) else dialect


def _signatures(dialect: Dialect, said: str) -> Dialect:
    return replace(dialect, signatures=True) if _SIGNATURES.search(said) else dialect


def _order(dialect: Dialect, said: str) -> Dialect:
    return replace(dialect, user_after_tool=False) if _ORDER.search(said) else dialect


def _usage(dialect: Dialect, said: str) -> Dialect:
    refused = "stream_options" in said and REFUSED.search(said)
    return replace(dialect, usage=False) if refused else dialect


def _tool_choice(dialect: Dialect, said: str) -> Dialect:
    refused = "tool_choice" in said and REFUSED.search(said)
    return replace(dialect, tool_choice=False) if refused else dialect


def _tool_names(dialect: Dialect, said: str) -> Dialect:
    refused = re.search(r"""["'`.]name\b""", said) and REFUSED.search(said)
    return replace(dialect, tool_names=False) if refused else dialect


def _images(dialect: Dialect, said: str) -> Dialect:
    no_vision = _NO_IMAGES.search(said) and not _ONE_PICTURE.search(said)
    return replace(dialect, images=False) if no_vision else dialect


_LESSONS: tuple[Lesson, ...] = (
    _limit, _ids, _signatures, _order, _usage, _tool_choice, _images, _reasoning, _tool_names,
)  # fmt: skip
