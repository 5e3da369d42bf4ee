"""The tools by name, and how the faults of a call are reported."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jupyter_agent.errors import InvalidInput
from jupyter_agent.legible import clip
from jupyter_agent.tools.base import Tool
from jupyter_agent.tools.elsewhere import NAMES_ELSEWHERE


class Toolbox:
    """The available tools by name."""

    def __init__(
        self, tools: Sequence[type[Tool]], former: Mapping[str, type[Tool]] = MappingProxyType({})
    ) -> None:
        self._tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._former = former
        self._specs = [tool.spec() for tool in self._tools.values()]

    def with_others(self, tools: Sequence[type[Tool]]) -> Toolbox:
        """These tools, then others with other names: ours stay at the start, which services
        cache.
        """
        both = Toolbox([tool for tool in tools if tool.name not in self._tools], self._former)
        both._tools = {**self._tools, **both._tools}
        both._specs = [*self._specs, *both._specs]
        return both

    @property
    def tools(self) -> Sequence[type[Tool]]:
        """The offered tools, sorted by name."""
        return list(self._tools.values())

    def current_name(self, name: str) -> str:
        """The tool's current name; the same name for an unknown tool."""
        tool = self._tools.get(name) or self._former.get(name)
        return tool.name if tool else name

    def only_reads(self, name: str) -> bool:
        """Whether a call of this tool changes nothing; False for an unknown tool."""
        tool = self._tools.get(name) or self._former.get(name)
        return tool is not None and tool.effect == "read"

    def may_run(self, name: str, input: Mapping[str, Any]) -> bool:
        """Whether a call of this tool may have run code; True for an unknown tool."""
        tool = self._tools.get(name) or self._former.get(name)
        return tool is None or tool.effect == "run" or bool(input.get("run"))

    def specs(self) -> list[dict[str, Any]]:
        """The tools for the model, sorted by name so that the cached prefix stays the same."""
        return self._specs

    def describe(self) -> list[dict[str, Any]]:
        """The answer of `GET tools`."""
        return [
            {
                **spec,
                "effect": tool.effect,
                "in_kernel": tool.in_kernel,
                "names_notebook": tool.names_notebook,
                "shows_result": tool.shows_result,
                "words": [words.describe() for words in tool.words],
                "icon": tool.icon,
                **({"former_names": [*tool.former_names]} if tool.former_names else {}),
            }
            for spec, tool in zip(self._specs, self._tools.values(), strict=True)
        ]

    def __contains__(self, name: str) -> bool:
        return name in self._tools or name in self._former

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def parse(self, name: str, input: Mapping[str, Any]) -> Tool:
        """The call, by the tool's current name or an old one, checked against the schema.
        Raises InvalidInput that names the problem.
        """
        tool = self._tools.get(name) or self._former.get(name)
        if tool is None:
            raise InvalidInput(
                f"Unknown tool `{name}`.{self.hint(name)} Available: {', '.join(self._tools)}."
            )
        try:
            return tool.parse(input)
        except ValidationError as error:
            problems = _problems(error, tool)
            raise InvalidInput(f"Input of `{name}` does not fit: {problems}.") from None

    def hint(self, name: str, offered: Container[str] | None = None) -> str:
        """` Did you mean ...?` for a name that other assistants use, or that is close to one of our
        tools, if it is one of those `offered` to the caller (by default all); never a tool that
        deletes: a guess must not become a deletion.
        """
        tools = {
            each: tool for each, tool in self._tools.items() if offered is None or each in offered
        }
        elsewhere = NAMES_ELSEWHERE.get(name.lower())
        ours = elsewhere if elsewhere in tools else nearest(name, tools)
        tool = tools.get(ours or "")
        return f" Did you mean `{ours}`?" if tool and tool.action != "delete" else ""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of the names, if one is close enough."""
    return next(iter(get_close_matches(name, list(names), n=1)), None)


_MOST_PROBLEMS = 5


def _problems(error: ValidationError, tool: type[Tool]) -> str:
    every = error.errors(include_url=False)
    problems = [
        f"{clip('.'.join(map(str, problem['loc'])), 100) or 'input'}: {problem['msg']}"
        f"{_meant(problem, tool)}"
        for problem in every[:_MOST_PROBLEMS]
    ]
    left = len(every) - len(problems)
    return "; ".join([*problems, *([f"and {left} more"] if left else [])])


def _meant(problem: ErrorDetails, tool: type[Tool]) -> str:
    """The field that an unknown field was probably meant to be."""
    if problem["type"] != "extra_forbidden" or len(problem["loc"]) != 1:
        return ""
    fields = [field.alias or name for name, field in tool.model_fields.items()]
    near = nearest(str(problem["loc"][0]), fields)
    return f" (did you mean `{near}`?)" if near else ""
