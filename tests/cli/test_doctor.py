"""`jupyter agent doctor`: versions, switched-off parts, and a model's answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import jupyter_agent
from tests.fakes import FakeAnthropic, says
from tests.fakes.script import FakeReply, Scripted

from ..plugs.packages import ECHO, installer
from .conftest import Desk

pytestmark = pytest.mark.full


def with_packages(desk: Desk, *packages: tuple[str, str, str]) -> str:
    """A PYTHONPATH with these packages: name, version and more metadata of each."""
    site = desk.folder / ".cache" / "site"
    for name, number, more in packages:
        folder = site / f"{name.replace('-', '_')}-{number}.dist-info"
        folder.mkdir(parents=True)
        told = f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n{more}\n"
        (folder / "METADATA").write_text(told)
        (folder / "RECORD").write_text(f"{name.replace('-', '_')}/__init__.py,,\n")
    return f"{Path(jupyter_agent.__file__).parent.parent}{os.pathsep}{site}"


def test_it_tells_versions_carriers_keys_and_policy(somewhere: Desk) -> None:
    done = somewhere.type("doctor")
    assert (done.code, done.err) == (0, "")
    told = {line[:26].strip(): line[26:] for line in done.out.splitlines()}
    assert told["jupyter_agent"] == jupyter_agent.__version__
    assert "file" in told["carriers"].split(", ")
    assert told["provider anthropic"] == "ready"
    assert told["provider openai"] == "no key"
    assert told["most permissive mode"] == "auto"
    assert told["configured in"].endswith(".config/jupyter_server_config.py")
    assert "python3" in told["kernels"]
    assert Path(told["store"]).name == "agent"
    assert done.out.splitlines()[-1] == "No problem found."


def test_it_asks_a_model_only_where_it_is_told_to(
    somewhere: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    replies += [[says("OK")], Scripted(status=401, error=("authentication_error", "invalid"))]
    assert somewhere.type("doctor").code == 0
    assert model.requests == []
    asked = json.loads(somewhere.type("doctor", "--call", "--json").out)
    assert (asked["call"]["state"], asked["call"]["text"]) == ("done", "OK")
    assert asked["problems"] == []
    failed = somewhere.type("doctor", "--call")
    assert failed.code == 1
    assert "! anthropic:claude-sonnet-5-5 did not answer." in failed.out
    assert somewhere.type("conversations").out == ""


def test_it_tells_the_policy_of_the_administrator(desk: Desk) -> None:
    desk.configure(
        'c.JupyterAgent.max_mode = "ask"\n'
        'c.JupyterAgent.rules = [{"verdict": "deny", "tool": "run_*", "notebook": "exam/*"}]\n'
        'c.JupyterAgent.allowances = [{"user": "local", "models": ["demo:*", "lab:*"]}]\n'
    )
    lines = desk.type("doctor").out.splitlines()
    assert f"{'most permissive mode':<26}ask" in lines
    assert f"{'rule':<26}deny run_* in exam/*" in lines
    assert f"{'user':<26}local" in lines
    assert f"{'models allowed':<26}demo:*, lab:*" in lines


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('max_mode = "free"', "The 'max_mode' trait of a JupyterAgent instance expected any of"),
        ('default_model = "x"\nc.JupyterAgent.rules = [{"verdict": "no"}]', "rules.0.verdict: "),
    ],
)
def test_a_configuration_that_cannot_be_used_is_told(desk: Desk, line: str, said: str) -> None:
    desk.configure(f"c.JupyterAgent.{line}\n")
    for command in (("doctor",), ("show", str(desk.notebook))):
        done = desk.type(*command)
        assert done.code == 1
        assert "The assistant cannot be loaded here: " in done.out + done.err
        assert said in done.out + done.err


def test_it_names_who_switched_the_assistant_off(desk: Desk) -> None:
    (desk.folder / ".config" / "jupyter_server_config.d").mkdir()
    off = desk.folder / ".config" / "jupyter_server_config.d" / "other.json"
    off.write_text('{"ServerApp": {"jpserver_extensions": {"jupyter_agent": false}}}')
    page = desk.folder / ".config" / "labconfig" / "page_config.json"
    page.parent.mkdir()
    page.write_text('{"disabledExtensions": {"jupyter-agent": true}}')
    done = desk.type("doctor", JUPYTER_PREFER_ENV_PATH="0")
    assert done.code == 1
    enable = "`jupyter server extension enable jupyter_agent`."
    assert f"! {off} switches jupyter_agent off: {enable}" in done.out
    assert f"! {page} switches jupyter-agent off: " in done.out
    assert "! The assistant is not switched on in Jupyter here" in done.out
    overruled = desk.type("doctor", JUPYTER_PREFER_ENV_PATH="1")
    assert str(off) not in overruled.out
    assert "carriers" in overruled.out


def test_it_names_the_other_distribution_of_this_name(desk: Desk) -> None:
    done = desk.type("doctor", PYTHONPATH=with_packages(desk, ("jupyter-agent", "9.9", "")))
    assert done.code == 1
    assert "! `jupyter-agent` 9.9 is another project" in done.out


def test_it_names_plugs_of_other_packages_and_why_one_cannot_be_loaded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = desk.folder / ".cache" / "packages"
    install = installer(packages, monkeypatch)
    install("lab_echo", ECHO, "models", echo="KIND")
    install("lab_broken", "import missing_driver", "tools", measure="Measure")
    folders = [Path(jupyter_agent.__file__).parents[1], *packages.iterdir()]
    done = desk.type("doctor", PYTHONPATH=os.pathsep.join(map(str, folders)))
    assert done.code == 1
    lines = done.out.splitlines()
    assert f"{'plug':<26}echo (lab_echo, models)" in lines
    assert f"{'plug':<26}measure (lab_broken, tools)" in lines
    (problem,) = [line for line in lines if line.startswith("! ")]
    assert problem.startswith("! The plug `measure` of lab_broken (lab_broken:Measure) cannot be")
    assert "No module named 'missing_driver'" in problem


def test_it_names_pages_that_are_too_old_for_the_panel(desk: Desk) -> None:
    path = with_packages(desk, ("jupyterlab", "4.3.8", ""), ("notebook", "8.0a1", ""))
    done = desk.type("doctor", PYTHONPATH=path)
    assert done.code == 1
    (problem,) = [line for line in done.out.splitlines() if "is older than" in line]
    assert problem.startswith("! JupyterLab 4.3.8 is older than 4.4, the first version")
    assert "`pip install -U jupyterlab`" in problem
    told = json.loads(desk.type("doctor", "--json", PYTHONPATH=path).out)
    assert problem.removeprefix("! ") in told["status"]["notes"]  # for pages and other clients


def test_it_names_the_neighbour_that_keeps_a_package_older_than_we_need(desk: Desk) -> None:
    path = with_packages(
        desk,
        ("openai", "2.54.0", "Requires-Dist: anyio"),
        ("some_assistant", "2.54.0", "Requires-Dist: openai<3"),
    )
    done = desk.type("doctor", PYTHONPATH=path)
    assert done.code == 0
    (line,) = [
        line for line in done.out.splitlines() if line.startswith("note ") and "3, and" in line
    ]
    assert "openai 2.54.0 is installed, brought by" in line
    assert "some-assistant" in line
