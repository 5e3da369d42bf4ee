"""How a service, or one of its models, differs from the others, in one record.

It is filled by the preset of the service and by what the configuration says; what a service
refuses with a 400 is learned from its words and remembered.
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
"""Levels of effort that models have, from the least."""
LIMITS = ("max_tokens", "max_completion_tokens")
"""The names under which services take the limit of a reply."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a service takes, and how it writes."""

    limits: tuple[str, ...] = LIMITS
    """Names of the limit of a reply that it may take, the likely one first; empty: it is sent none.
    """
    reasoning: Literal["never", "turn", "always"] = "turn"
    """When it is sent its reasoning back, with the message whose calls came of it: not at all,
    within a turn, or in all later requests, where nothing may stand without."""
    short_ids: bool = False
    """Whether ids of calls have to have exactly nine letters and digits, also those that others
    take as they are."""
    tool_choice: bool = True
    tool_names: bool = True
    """Whether the answer to a call names the tool."""
    usage: bool = True
    """Whether it is asked to report tokens in its stream; some do so unasked."""
    images: bool = True
    documents: bool = False
    """Whether it takes PDF files, as parts of kind `file`."""
    user_after_tool: bool = True
    """Whether a person may speak right after a tool."""
    signatures: bool = False
    """Whether each message with calls must have a signature of the thoughts before them."""
    without: frozenset[str] = frozenset()
    """Fields of a request, or of its tools, that the service does not take."""
    loads: bool = False
    """Whether it loads a model when that is first asked for, with a window of the server's choice,
    whatever a request says, and leaves out in silence what does not fit."""
    no_server_tools: frozenset[str] = frozenset()
    """Tools of services that the model does not have."""
    refused_pictures: frozenset[Digests] = frozenset()
    """Pictures that the service did not take in one request."""
    lost_containers: frozenset[str] = frozenset()
    """Ids of containers in which the service ran code, and that it ended since."""
    think_tags: bool = True
    """Whether a text that begins with `<think>` begins with reasoning."""
    efforts: tuple[str, ...] = LEVELS
    """Levels of effort that it takes, from the least; empty: it is sent none."""
    effort_field: Literal["reasoning_effort", "reasoning", "thinking"] = "reasoning_effort"
    """Where it takes them; `thinking` is only switched on and off."""
    thinking: tuple[Literal["adaptive", "enabled", "disabled"], ...] = (
        "adaptive", "enabled", "disabled",
    )  # fmt: skip
    """What `thinking` of Anthropic's API may be; of the first two the better one first."""

    def level(self, effort: Effort) -> str | None:
        """The level that comes nearest to that effort; None where it takes none that does.

        A model that has to think thinks as little as it can where it should not; one that cannot
        think is not kept from answering.
        """
        taken = [level for level in self.efforts if effort == "none" or level != "none"]
        wanted = LEVELS.index(effort)
        return min(taken, key=lambda level: abs(LEVELS.index(level) - wanted), default=None)


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
"""By the name of a service.

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
    """The dialect of that name, else of the address, else of the provider's name.

    Raises ValueError for a name of none.
    """
    if name is not None:
        if name not in PRESETS:
            raise ValueError(f"`{name}` is no dialect. There are: {', '.join(sorted(PRESETS))}.")
        return PRESETS[name]
    host = urlsplit(base_url or "").hostname or ""
    for known, service in _HOSTS.items():
        if host == known or host.endswith(f".{known}"):
            return PRESETS[service]
    return PRESETS.get(provider, Dialect())


# -- what a refusal teaches

Lesson: TypeAlias = Callable[[Dialect, str], Dialect]
"""What follows from the words of a 400; the same dialect where it is about something else."""

REFUSED = re.compile(
    r"unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|not (permitted|allowed)"
    r"|extra (inputs?|fields?)|extra_forbidden|additional propert|does not support",
    re.IGNORECASE,
)
"""Words with which services refuse what they do not know."""
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
_OF_A_PICTURE = re.compile(r"format|media.?type", re.IGNORECASE)
"""Words about one picture, and not about a model that sees none."""


def learned(dialect: Dialect, said: str, effort: Effort | None = None) -> Dialect | None:
    """The dialect after a request with that effort was refused with these words; None where they
    teach nothing.
    """
    better = learned_effort(dialect, said, effort)
    if better != dialect:
        return better
    for lesson in _LESSONS:
        better = lesson(dialect, said)
        if better != dialect:
            return better
    return None


def learned_tools(dialect: Dialect, said: str, asked: Sequence[ServerTool]) -> Dialect:
    """What a refusal says of the service's own tools: a model may lack some of them."""
    if _OF_THE_HISTORY.search(said):
        return dialect
    listed = _VALID.search(said)
    valid, after = _until_other(said[listed.end() :]) if listed else ("", "")
    refused = f"{said[: listed.start()]} {after}" if listed else said
    lacks = _named(refused, asked)
    if not lacks and (at := _TOOL_AT.search(refused)) and int(at[1]) < len(asked):
        lacks = {asked[int(at[1])]}
    if not lacks and (there := _named(valid, asked)):
        lacks = set(asked) - there
    return replace(dialect, no_server_tools=dialect.no_server_tools | lacks)


_OF_THE_HISTORY = re.compile(r"container_id is required|\b(messages|input)[.\[]\d|\bItem '")
"""Words about what was said before; they may name the tools that did it."""
_VALID = re.compile(
    r"expected (tags|values)|(supported|valid|allowed|available) (tags|values|tools|types)"
    r"|one of|input should be|must be",
    re.IGNORECASE,
)
"""Words before what a service does take."""
_OTHER = re.compile(r"\b(got|not|input|but|received|given|found|instead|to use)\b", re.IGNORECASE)
"""Words before what came in place of it."""
_TOOL_AT = re.compile(r"\btools[.\[](\d+)")
"""Where in the request the refused tool stands; the service's own stand first."""


def _until_other(said: str) -> tuple[str, str]:
    other = _OTHER.search(said)
    return (said[: other.start()], said[other.start() :]) if other else (said, "")


def _named(said: str, asked: Sequence[ServerTool]) -> set[ServerTool]:
    said = said.lower().replace(" ", "_").replace("code_interpreter", "code_execution")
    return {tool for tool in asked if tool in said}


_A_PICTURE = re.compile(r"image|picture", re.IGNORECASE)


def learned_pictures(dialect: Dialect, said: str, sent: Digests) -> Dialect | None:
    """What a refusal says of the pictures that were sent; None if it is about something else."""
    if not sent or not _A_PICTURE.search(said):
        return None
    return replace(dialect, refused_pictures=dialect.refused_pictures | {sent})


def learned_containers(dialect: Dialect, said: str, asked: Collection[str]) -> Dialect:
    """What a refusal says of containers that the request names: the service ends idle ones."""
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
"""Words before the levels that a model takes."""


def learned_effort(dialect: Dialect, said: str, effort: Effort | None) -> Dialect:
    """What a refusal says of the effort that was asked for: which levels there are, or none."""
    level = effort and dialect.level(effort)
    listed = _LISTED.search(said)
    if level is None or not _EFFORT.search(said) or not (listed or REFUSED.search(said)):
        return dialect
    after = said[listed.end() :] if listed else ""
    named = [one for one in LEVELS if re.search(rf"\b{one}\b", after)]
    left = tuple(one for one in dialect.efforts if one in named and one != level)
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
    none = _NO_IMAGES.search(said) and not _OF_A_PICTURE.search(said)
    return replace(dialect, images=False) if none else dialect


_LESSONS: tuple[Lesson, ...] = (
    _limit, _ids, _signatures, _order, _usage, _tool_choice, _images, _reasoning, _tool_names,
)  # fmt: skip
