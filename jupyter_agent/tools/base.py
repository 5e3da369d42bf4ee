"""The tool interface: a tool is one class; the model reads its docstring and fields."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from jupyter_agent.document.cell import Cell, CellType, Change
from jupyter_agent.errors import InvalidInput
from jupyter_agent.foreign import MOST_IN_PATH
from jupyter_agent.legible import ModelText, clip, quoted_id
from jupyter_agent.tools.elsewhere import NAMES_ELSEWHERE
from jupyter_agent.words import Icon, Words, phrase
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.workspace import Need as Need

Effect: TypeAlias = Literal["read", "edit", "run"]
Action: TypeAlias = Literal["read", "edit", "delete", "run", "restart", "interrupt", "stop"]
"""A tool's row of the permission table."""
Progress: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Receives a call's preliminary output while its cell runs."""

TEXTS = frozenset({"source", "old_string", "new_string", "query", "code", "text"})
"""Fields of calls without a length limit; all others are names, ids or paths."""
_MOST_IN_PATTERN = 500
_MOST_PROBLEMS = 5
_MOST_LISTED = 10_000
"""Items of a list, or fields: more than anyone would check one by one."""
_MOST_STALE = 10
"""Stale cells that are named to a model after a call."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a tool returns: `text` and `images` are for the model, `facts` for programs."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    images: Sequence[tuple[str, str]] = ()
    """(media type, base64) pairs."""
    changes: Sequence[Change] = ()

    def with_stale(self, cell_ids: Sequence[str]) -> Result:
        """This result, plus the cells that became stale by it."""
        text = f"{self.text}\n{stale_sentence(cell_ids)}".rstrip()
        return replace(self, text=text, facts={**self.facts, "stale": list(cell_ids)})


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The result of a call, without secrets."""

    text: ModelText
    facts: Mapping[str, Any]
    images: Sequence[tuple[str, str]]
    changes: Sequence[Change]

    @classmethod
    def of(cls, result: Result, redactor: Redactor) -> ModelResult:
        """What a tool returned, with secrets masked."""
        return cls(
            text=redactor.text(result.text),
            facts=redactor.mask_all(result.facts),
            images=result.images,
            changes=result.changes,
        )

    def output(self) -> dict[str, Any]:
        """As in docs/api.md: the text that the model read and the facts of the tool."""
        return {"text": self.text, **self.facts}


@dataclass(frozen=True, kw_only=True)
class CellDiff:
    """The change of one of several cells that a call would write."""

    cell_id: str | None
    """None for a new cell."""
    cell_type: CellType
    diff: str


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a person has to see before they allow a call."""

    notebook: str | None
    cell_id: str | None = None
    code: str | None = None
    """The exact code that would run."""
    diff: str | None = None
    """The change, as a unified diff."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """Cell id -> its exact code, in order, if several cells would run."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """Cell id -> version of the cells shown."""
    kernel: str = ""
    """The kernel and its process (`Kernel.life`); empty if none runs."""
    kernelspec: str = ""
    """The name of that kernel, or of the one that would be started."""
    after: Mapping[str, Cell] = field(default_factory=dict)
    """Cell id -> the cell afterwards, if that can be predicted."""
    whole: bool = False
    """Whether it concerns all cells of the notebook."""
    cell_type: CellType | None = None
    """Type of the cell: afterwards if it would be written, now if it would be deleted."""
    loads: tuple[str, ...] = ()
    """Addresses of other servers that a page would request when it shows the result."""
    edits: Sequence[CellDiff] = ()
    """If several cells would be written: each by itself, in order; `diff` has them all."""
    clusters: tuple[str, ...] = ()
    """Systems such as Dask or Spark on which the code may start jobs."""
    server: str | None = None
    """The MCP server that would receive the input."""
    remote_tool: str | None = None
    """The tool's name on that server."""
    definition: str = ""
    """A hash of the tool's definition."""
    remarks: Sequence[Mapping[str, Any]] = ()
    """Phrases: what else a person has to know about this call."""

    @property
    def facts(self) -> list[Mapping[str, Any]]:
        """What a person has to know besides the code, the diff and the addresses: phrases, which
        every door shows.
        """
        facts = list(self.remarks)
        if self.server:
            names = {"server": self.server, "tool": self.remote_tool or ""}
            facts.append(phrase("the MCP server “{server}” gets this for “{tool}”", **names))
        if self.kernelspec:
            facts.insert(0, phrase("kernel “{kernel}”", kernel=self.kernelspec))
        if self.clusters:
            systems = ", ".join(self.clusters)
            facts.append(phrase("starts a cluster job ({systems})", systems=systems))
        return facts

    def binding(self, tool: str, input: Mapping[str, Any]) -> str:
        """A hash of all that an approval covers; compared again just before acting."""
        given = [tool, dict(input), self.notebook, self.cell_id, self.code, self.diff]
        elsewhere = [self.server, self.remote_tool, self.definition] if self.server else []
        kernel = [self.kernel, self.kernelspec]
        text = json.dumps([*given, dict(self.cells), *kernel, *elsewhere])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Tool(BaseModel, ABC):
    """One tool for models."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: ClassVar[str]
    effect: ClassVar[Effect]
    action: ClassVar[Action]
    needs: ClassVar[Sequence[Need]]
    in_kernel: ClassVar[bool] = False
    """Whether it runs the notebook's code in the notebook's kernel."""
    like: ClassVar[frozenset[str]] = frozenset()
    """Tools that do the same: rules that deny them or ask before them hold for it, too."""
    former_names: ClassVar[tuple[str, ...]] = ()
    """Old names, accepted but not offered; rules and approvals with these names apply to the
    tool."""
    names_notebook: ClassVar[bool] = True
    """Whether `notebook` matters for a call."""
    strict: ClassVar[bool] = False
    """Whether a service that supports it should hold the model to the schema: for nested inputs."""
    examples: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """Example inputs."""
    words: ClassVar[Sequence[Words]] = ()
    """What people read about a call: the first that fit its input."""
    icon: ClassVar[Icon] = "tool"
    shows_result: ClassVar[bool] = False
    """Whether people want to read its result as text, beside runs with their outputs."""

    notebook: str | None = None

    @classmethod
    def parse(cls, input: Mapping[str, Any]) -> Self:
        """The call. Raises ValidationError if the input does not fit the schema, InvalidInput if a
        name is too long.
        """
        _refuse_endless(input)
        return cls.model_validate(dict(input), strict=True)

    @property
    def executes(self) -> bool:
        """Whether this call runs code in the notebook's kernel."""
        return self.in_kernel

    @property
    def in_one_kernel(self) -> bool:
        """Whether an approval of this call is for one kernel only."""
        return self.executes

    @property
    def call_needs(self) -> Sequence[Need]:
        """The permissions that Jupyter's authorizer has to grant for this call."""
        return self.needs

    @classmethod
    def all_names(cls) -> tuple[str, ...]:
        """The tool's current name and its old ones."""
        return (cls.name, *cls.former_names)

    @property
    def powers(self) -> tuple[tuple[str, ...], ...]:
        """The names of each tool whose work this call does: one name of each has to be allowed."""
        return (self.all_names(),)

    @property
    def target(self) -> str | None:
        """Path of the notebook or file that needs permission; None: the turn's own notebook."""
        return self.notebook

    @property
    def paths(self) -> Mapping[str, str]:
        """The fields with paths of notebooks and files: `notebook`, and `path` if there is one."""
        named = {field: getattr(self, field, None) for field in ("notebook", "path")}
        return {field: path for field, path in named.items() if path is not None}

    @property
    def acts_on(self) -> Sequence[str]:
        """Ids of the cells that the call would change or run."""
        return ()

    @property
    def is_exclusive(self) -> bool:
        """Whether no one else may change the notebook between the decision and the act."""
        return self.effect == "edit" and bool(self.acts_on)

    @abstractmethod
    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        """Does it. Raises ToolError with a text that tells the model what to do instead."""

    async def current_action(self, nb: Lease) -> Action:
        """The call's current row of the permission table."""
        return self.action

    async def current_definition(self, nb: Lease) -> str | None:
        """A hash of the tool's current definition, if that can change under the same name. Raises
        ToolError if the tool was removed.
        """
        return None

    async def resulting_cells(self, nb: Lease) -> Sequence[Cell]:
        """The cells that the call would write, as they will be; a new one has an empty id.

        Raises ToolError if the call could not succeed.
        """
        return ()

    async def cells_to_run(self, nb: Lease) -> Sequence[Cell]:
        """The cells whose code the call would run. Raises ToolError."""
        return ()

    async def question(self, nb: Lease) -> Question:
        """What a person gets to see. Raises ToolError if the call could not succeed anyway."""
        return Question(notebook=nb.path)

    @classmethod
    def spec(cls) -> dict[str, Any]:
        """Name, description and input schema in the format of Anthropic's API, with examples and
        `strict` if the tool has them.
        """
        return _spec(cls)


@cache
def _spec(tool: type[Tool]) -> dict[str, Any]:
    schema = tool.model_json_schema()
    parts = schema.pop("$defs", {})
    if not tool.names_notebook:
        del schema["properties"]["notebook"]
    schema = _compact(schema, parts, strict=tool.strict)
    schema.pop("description", None)
    return {
        "name": tool.name,
        "description": " ".join((tool.__doc__ or "").split()),
        "input_schema": schema,
        **({"input_examples": [*tool.examples]} if tool.examples else {}),
        **({"strict": True} if tool.strict else {}),
    }


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


def fault_of_words(tool: type[Tool]) -> str | None:
    """The fault of what people read about the tool, which a plug may bring."""
    words: object = tool.words
    if not (isinstance(words, tuple) and all(isinstance(each, Words) for each in words)):
        return "has `words` that are not a tuple of `Words`"
    return None if tool.icon in get_args(Icon) else f"has an unknown icon, {tool.icon!r}"


def stale_sentence(cell_ids: Sequence[str]) -> str:
    """A sentence for the model; empty if no cell became stale."""
    if not cell_ids:
        return ""
    named = ", ".join(f"`{quoted_id(cell_id)}`" for cell_id in cell_ids[:_MOST_STALE])
    more = f" and {len(cell_ids) - _MOST_STALE} more" if len(cell_ids) > _MOST_STALE else ""
    return f"Now stale: {named}{more}."


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The closest of the names, if one is close enough."""
    return next(iter(get_close_matches(name, list(names), n=1)), None)


def _refuse_endless(value: Any, field: str = "") -> None:
    """Refuses long names: using a name can take much longer than reading it."""
    if isinstance(value, str):
        most = _MOST_IN_PATTERN if field == "pattern" else MOST_IN_PATH
        if len(value) > most and field not in TEXTS:
            raise InvalidInput(f"`{field}` has {len(value):,} characters, more than {most:,}.")
    elif isinstance(value, Mapping | list):
        if len(value) > _MOST_LISTED:
            what = f"`{field}`" if field else "The input"
            raise InvalidInput(f"{what} has {len(value):,} items, more than {_MOST_LISTED:,}.")
        named = value.items() if isinstance(value, Mapping) else ((field, each) for each in value)
        for name, item in named:
            _refuse_endless(item, name)


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


def _compact(schema: Any, parts: Mapping[str, Any], *, strict: bool) -> Any:
    """A JSON schema without what models do not need: titles, empty defaults, `or null`, references,
    and limits, which `strict` does not accept
    (https://platform.claude.com/docs/en/build-with-claude/structured-outputs).
    """
    compact = partial(_compact, parts=parts, strict=strict)
    if isinstance(schema, list):
        return [compact(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = parts[schema["$ref"].rpartition("/")[2]]
        return compact({key: part[key] for key in part if key != "description"})
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        return compact({**cast("dict[str, Any]", options[0]), **rest})
    kept = {
        key: {name: compact(field) for name, field in value.items()}
        if key == "properties"
        else compact(value)
        for key, value in schema.items()
        if key not in ("title", "maxItems", "maxLength") and not (key == "default" and not value)
    }
    if not strict and kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    return kept
