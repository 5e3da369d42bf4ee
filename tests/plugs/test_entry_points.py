"""What installed packages plug in: found by name, loaded when needed, and named if unusable."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from jupyter_agent import entry_points
from jupyter_agent.models.registry import Models

from ..models.conftest import read

DOCUMENT = Path(__file__).parents[2] / "docs" / "plugs.md"
ECHO = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)[0]
"""The example of a kind."""

Installer: TypeAlias = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installer:
    """Puts a package with this module and these kinds of models on the path."""

    def put(package: str, module: str, **kinds: str) -> None:
        folder = tmp_path / package
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        points = "".join(f"{name} = {package}:{value}\n" for name, value in kinds.items())
        (metadata / "entry_points.txt").write_text(f"[jupyter_agent.models]\n{points}")
        (folder / f"{package}.py").write_text(module)
        monkeypatch.syspath_prepend(folder)

    return put


def models(path: Path, **provider: Any) -> Models:
    providers = {"lab": provider}
    return Models(default=None, key_file=path / "keys", providers=providers, environment={})


async def test_a_kind_of_another_package_answers_and_is_described(
    install: Installer, tmp_path: Path
) -> None:
    install("lab_echo", ECHO, echo="KIND")
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
        (ECHO, "ABSENT", "cannot be loaded: AttributeError"),
        (ECHO, "Echo", "is not a Kind."),
    ],
)
def test_an_unusable_plug_is_named_with_its_package_and_the_cause(
    module: str, value: str, cause: str, install: Installer, tmp_path: Path
) -> None:
    package = f"lab_{value.lower()}_{len(module)}"
    install(package, module, broken=value)
    with pytest.raises(ValueError, match="providers.lab.kind: The plug `broken`") as caught:
        models(tmp_path, kind="broken")
    assert f"of {package} ({package}:{value}) {cause}" in str(caught.value)
    models(tmp_path, kind="openai")  # others need not care


def test_ours_wins_over_one_of_the_same_name(install: Installer) -> None:
    install("aaa_other", ECHO, bedrock="KIND")
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
