"""What installed packages plug in: found by name, loaded when needed, and named if unusable."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent import entry_points
from jupyter_agent.carriers.sharing import Sharing
from jupyter_agent.cli.commands import parser
from jupyter_agent.cli.main import main
from jupyter_agent.errors import Busy
from jupyter_agent.extension import JupyterAgent
from jupyter_agent.models.registry import Models
from jupyter_agent.tools import toolbox
from jupyter_agent.tools.base import Tool
from jupyter_agent.tools.read import ReadCells
from jupyter_agent.tools.sources import Sources, ToolSource
from jupyter_agent.words import Phrasebook

from ..models.conftest import read
from .packages import COUNT_WORDS, ECHO, SENSORS, SHOUT, Install, installer


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    return installer(tmp_path, monkeypatch)


def models(path: Path, **provider: Any) -> Models:
    providers = {"lab": provider}
    return Models(default=None, key_file=path / "keys", providers=providers, environment={})


async def test_a_kind_of_another_package_answers_and_is_described(
    install: Install, tmp_path: Path
) -> None:
    install("lab_echo", ECHO, "models", echo="KIND")
    known = models(tmp_path, kind="echo", options={"sentence": "Hello."})
    model = known.get("lab:one")
    assert (await read(model)).text == [{"type": "text", "text": "Hello."}]
    await known.look_up(model.id)
    assert known.facts(model.id).window == 4096
    assert not known.reads_documents(model.id)
    assert await known.list_models("lab") == ["one", "two"]
    assert {"name": "lab", "models": [], "credentials": True} in known.describe()["providers"]
    await known.close()


@pytest.mark.parametrize(
    ("module", "value", "cause"),
    [
        ("import missing_driver", "KIND", "cannot be loaded: ModuleNotFoundError"),
        ("raise SystemError('no GPU')", "KIND", "cannot be loaded: SystemError('no GPU')"),
        ("raise SystemExit(3)", "KIND", "cannot be loaded: SystemExit(3)"),
        (
            "class Odd(BaseException): __repr__ = None\nraise Odd",
            "KIND",
            "cannot be loaded: Odd",
        ),
        (ECHO, "ABSENT", "cannot be loaded: AttributeError"),
        (ECHO, "Echo", "is not a Kind."),
    ],
)
def test_an_unusable_plug_is_named_with_its_package_and_the_cause(
    module: str, value: str, cause: str, install: Install, tmp_path: Path
) -> None:
    package = f"lab_{value.lower()}_{len(module)}"
    install(package, module, "models", broken=value)
    with pytest.raises(ValueError, match="providers.lab.kind: The plug `broken`") as caught:
        models(tmp_path, kind="broken")
    assert f"of {package} ({package}:{value}) {cause}" in str(caught.value)
    models(tmp_path, kind="openai")  # others need not care


def test_ours_wins_over_one_of_the_same_name(install: Install) -> None:
    install("aaa_other", ECHO, "models", bedrock="KIND")
    assert entry_points.find("models")["bedrock"].value.startswith("jupyter_agent.")


@pytest.mark.parametrize(("only", "left"), [("", []), ("vertex, other", ["vertex"])])
def test_plugs_can_be_left_out(
    only: str, left: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert {"bedrock", "openai-responses", "vertex"} <= set(entry_points.find("models"))
    monkeypatch.setenv(entry_points.ONLY, only)
    assert list(entry_points.find("models")) == left
    with pytest.raises(ValueError, match="`bedrock` is not a kind. It is one of anthropic, demo"):
        models(tmp_path, kind="bedrock")


# ---- carriers

SHARED = """
from jupyter_agent.carriers.sharing import SharedDocuments
from jupyter_agent.errors import Busy

class Shared(SharedDocuments):
    def carrier(self, path, disk, timeouts, *, server, note): ...
    async def save(self, path, clocks, seconds): ...
    def fill(self, keep, on_late_edit): ...
    async def keep_saved(self, seconds, log): ...
    async def close(self): ...
"""


class Extension:
    """An extension whose pages share documents."""

    disable_rtc = False
    ystore_class = type("Store", (), {"configured": True})


def test_a_carrier_of_another_package_has_the_documents_that_we_cannot_work_in(
    install: Install,
) -> None:
    install("lab_rooms", SHARED, "carriers", yroom_manager="Shared", jupyter_server_ydoc="Shared")
    settings = {"yroom_manager": object(), "jupyter_server_ydoc": Extension()}
    sharing = Sharing(settings)
    shared = sharing.documents()
    assert shared is not None
    assert shared is sharing.usable
    assert (type(shared).__module__, shared.settings) == ("lab_rooms", settings)
    del settings["yroom_manager"]
    shared = sharing.documents()
    assert type(shared).__module__.startswith("jupyter_agent.")  # ours wins


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("async def save", "async def store", "cannot be used: TypeError"),
        ("class Shared(SharedDocuments)", "class Shared", "is not a SharedDocuments"),
        ("    def fill", "    def __init__(self, settings): 1 / 0\n    def fill", "ZeroDivision"),
        (
            "    def fill",
            "    def __init__(self, settings): raise Busy('Only with version 2.')\n    def fill",
            "^Only with version 2.$",
        ),
    ],
)
def test_documents_whose_carrier_cannot_be_used_are_refused_with_the_cause(
    old: str, new: str, cause: str, install: Install
) -> None:
    assert old in SHARED
    install(f"lab_rooms_{len(cause)}", SHARED.replace(old, new), "carriers", yroom_manager="Shared")
    sharing = Sharing({"yroom_manager": object()})
    assert sharing.usable is None
    with pytest.raises(Busy, match=cause):
        sharing.documents()


def test_no_shared_document_is_written_past_a_plug_that_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(entry_points.ONLY, "verify")
    extension = Extension()
    sharing = Sharing({"jupyter_server_ydoc": extension})
    with pytest.raises(Busy, match=r"is on. .* JUPYTER_AGENT_PLUGS leaves it out. Nothing was"):
        sharing.documents()
    extension.disable_rtc = True
    assert sharing.documents() is None


# ---- tools, routes and commands


def test_a_tool_of_another_package_is_offered_with_its_words(install: Install) -> None:
    install("lab_words", COUNT_WORDS, "tools", count_words="CountWords")
    box = toolbox()
    (spec,) = [each for each in box.specs() if each["name"] == "count_words"]
    assert spec["description"].startswith("Count the words")
    assert [*box] == sorted(box)  # in one order, so that it is cached
    words = Phrasebook(box.describe()).todo("count_words", {"cell_id": "b2"}, "cell {}".format)
    assert words == "Count the words of cell b2"


@pytest.mark.parametrize(
    ("old", "new", "name", "cause"),
    [
        ("", "", "other_name", "needs the `name` of its entry point"),
        ("count_words", "run_cells", "run_cells", "has the name of another tool, `run_cells`"),
        ("count_words", "update_cell", "update_cell", "has the name of another tool"),
        (
            "    effect =",
            '    former_names = ("verify_notebook",)\n    effect =',
            "count_words",
            "has the name of another tool, `verify_notebook`",
        ),
        (
            "    effect =",
            "    former_names = None\n    effect =",
            "count_words",
            "are not a tuple of texts",
        ),
        ("    effect =", "    former_names = ([],)\n    effect =", "count_words", "not a tuple of"),
        ("    effect =", "    examples = ({1: {2}},)\n    effect =", "count_words", "not a usable"),
        (
            "    icon =",
            '    words = ("Count {cells}",)\n    icon =',
            "count_words",
            "are not a tuple of `Words`",
        ),
        ('icon = "look"', 'icon = "constructor"', "count_words", "unknown icon, 'constructor'"),
        ('Counted {cells}"', '"', "count_words", "is neither a text nor a pair of texts"),
        ('effect = "read"', 'effect = "run"', "count_words", "does not fit action 'read'"),
        ('(("read", "contents"),)', "None", "count_words", "is not a usable tool"),
        (
            "count_words",
            "count words",
            "count words",
            "of letters, digits and _; it is",
        ),
        ('effect = "read"', 'effect = "look"', "count_words", "has an unknown effect or action"),
        ("    needs =", "    other: object =", "count_words", "lacks `needs`"),
        ("async def run", "async def act", "count_words", "does not implement `run`"),
        ("cell_id: str", "cell_id: object()", "count_words", "cannot be loaded"),
        ("class CountWords(Tool)", "class CountWords", "count_words", "is not a Tool"),
    ],
)
def test_a_tool_that_cannot_be_used_is_named_and_the_others_work(
    old: str, new: str, name: str, cause: str, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    assert old in COUNT_WORDS
    package = f"lab_{re.sub(r'[^a-z]+', '_', cause.lower())}_{len(name)}"
    install(package, COUNT_WORDS.replace(old, new), "tools", **{name: "CountWords"})
    names = set(toolbox())
    assert {"run_cells", "verify_notebook"} <= names
    assert "count_words" not in names
    (record,) = caplog.records
    assert f"The plug `{name}` of {package}" in record.getMessage()
    assert cause in record.getMessage()


def test_a_command_of_another_package_runs_and_is_listed(
    install: Install, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    whisper = "def add_to(commands): commands.add_parser('ask')"
    install("lab_shout", SHOUT, "commands", shout="add_to", ask="add_to")
    install("lab_whisper", whisper, "commands", whisper="add_to")
    assert main(["shout", "hello"]) == 0
    assert capsys.readouterr().out == "HELLO\n"
    assert main(["completion", "fish"]) == 0
    assert "shout" in capsys.readouterr().out
    assert "shout" in parser().format_help()
    assert "`ask` of lab_shout (lab_shout:add_to) has the name of a command" in caplog.text
    assert (
        "`whisper` of lab_whisper (lab_whisper:add_to) adds `ask`, which is another" in caplog.text
    )


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("print words in capitals", "print words 100%", "cannot be added: ValueError("),
        ("    parser.set_defaults(command=run)\n", "", "adds a command without a function"),
        ('"shout"', '"cry"', "adds a command of another name"),
        ("    parser =", "    commands.nothing\n    parser =", "cannot be added: AttributeError("),
        ("    parser =", "    raise SystemExit(2)\n    parser =", "cannot be added: SystemExit(2)"),
    ],
)
def test_a_command_that_cannot_be_used_is_named_and_the_others_are_listed(
    old: str, new: str, cause: str, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    assert old in SHOUT
    install("lab_odd_shout", SHOUT.replace(old, new), "commands", shout="add_to")
    listed = parser().format_help()
    assert "shout" not in listed
    assert "verify" in listed
    assert f"The plug `shout` of lab_odd_shout (lab_odd_shout:add_to) {cause}" in caplog.text


# ---- sources of tools


def sources(**traits: Any) -> Sources:
    options = JupyterAgent(**traits)
    return Sources.load(options, logging.getLogger(__name__))


async def test_sources_of_several_packages_work_beside_each_other(install: Install) -> None:
    install("lab_sensors", SENSORS, "sources", sensors="Sensors")
    install("lab_doors", SENSORS.replace("measure", "open_door"), "sources", doors="Sensors")
    loaded = sources()
    assert loaded.faults() == ["The sensors are not connected."] * 2
    await loaded.connect()
    assert {tool.name for tool in await loaded.tools(ask=True)} == {"measure", "open_door"}
    assert loaded.faults() == []
    await loaded.close()
    assert await loaded.tools(ask=False) == []


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("await self.tools(ask=True)", "1 / 0", "failed in `connect`: ZeroDivisionError"),
        ("[Measure]", "[7]", "7 is not a Tool"),
        ('name = "measure"', 'name = "mea sure"', "'mea sure' is not a name of"),
        ('name = "measure"', 'name = "measure"; examples = (1j,)', "TypeError"),
        ("if self.found else", "if self.nothing else", "has no attribute 'nothing'"),
    ],
)
async def test_a_source_that_raises_is_named_and_the_others_work(
    old: str, new: str, cause: str, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    assert old in SENSORS
    install(f"lab_odd_{len(cause)}", SENSORS.replace(old, new), "sources", odd="Sensors")
    install("lab_doors", SENSORS.replace("measure", "open_door"), "sources", doors="Sensors")
    loaded = sources()
    await loaded.connect()
    assert "open_door" in [tool.name for tool in await loaded.tools(ask=True)]
    (fault,) = [each for each in loaded.faults() if "`odd`" in each]
    assert cause in fault
    assert fault in caplog.text
    await loaded.close()


class Slow(ToolSource):
    """Answers once its gate is open."""

    def __init__(self) -> None:
        super().__init__(None, logging.getLogger(__name__))
        self.gate = asyncio.Event()
        self.asked = 0

    async def tools(self, *, ask: bool) -> Sequence[type[Tool]]:
        self.asked += 1
        await self.gate.wait()
        return [ReadCells]


class Flaky(ToolSource):
    """Raises when it is first asked, then takes a moment; knows its last tools at once."""

    def __init__(self) -> None:
        super().__init__(None, logging.getLogger(__name__))
        self.pause = 0.1
        self.failed = False

    async def tools(self, *, ask: bool) -> Sequence[type[Tool]]:
        if not self.failed:
            self.failed = True
            raise OSError("not there")
        await asyncio.sleep(self.pause if ask else 0)
        return [ReadCells]


async def test_a_source_that_hangs_is_asked_once_and_its_answer_counts_later() -> None:
    slow = Slow()
    loaded = Sources({"slow": slow}, slow.log, patience=0.01)
    for _ in range(3):
        assert await loaded.tools(ask=True) == []
        assert loaded.faults() == [
            "The source of tools `slow` failed in `tools`: TimeoutError('no answer yet')."
        ]
    assert slow.asked == 1
    slow.gate.set()
    assert await loaded.tools(ask=True) == [ReadCells]
    assert loaded.faults() == []
    await loaded.close()


async def test_a_source_that_never_answers_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_agent.tools.sources._LONGEST_S", 0.1)
    slow = Slow()
    loaded = Sources({"slow": slow}, slow.log, patience=0.01)
    assert await loaded.tools(ask=True) == []
    await asyncio.sleep(0.2)
    assert await loaded.tools(ask=True) == []
    assert slow.asked == 2
    await loaded.close()


async def test_only_a_source_that_was_late_is_waited_for_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jupyter_agent.tools.sources._GLANCE_S", 0.01)
    flaky = Flaky()
    loaded = Sources({"flaky": flaky}, flaky.log, patience=5)
    assert await loaded.tools(ask=True) == []
    assert await loaded.tools(ask=True) == [ReadCells]
    flaky.pause = 60
    loaded = Sources({"flaky": flaky}, flaky.log, patience=0.5)
    assert await loaded.tools(ask=True) == []
    assert await loaded.tools(ask=False) == [ReadCells]
    async with asyncio.timeout(0.3):
        assert await loaded.tools(ask=True) == []
    await loaded.close()


def test_a_source_that_cannot_be_made_is_named(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    odd = SENSORS.replace("    found", "    def __init__(self, *given): 1 / 0\n    found", 1)
    install("lab_odd_source", odd, "sources", odd="Sensors")
    sources()
    assert "The plug `odd` of lab_odd_source" in caplog.text
    assert "cannot be used: ZeroDivisionError" in caplog.text


def test_an_invalid_list_of_servers_is_refused() -> None:
    with pytest.raises(ValueError, match="mcp_servers.s: it needs either `url` or `command`"):
        sources(mcp_servers={"s": {}})
