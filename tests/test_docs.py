"""References of the documents exist: tests by name, files by link."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from jupyter_core.paths import SYSTEM_CONFIG_PATH
from jupyter_server.auth import User
from jupyter_server.gateway.gateway_client import GatewayClient
from traitlets.config import PyFileConfigLoader

from jupyter_agent.agent.people import Person
from jupyter_agent.agent.permissions import Rule
from jupyter_agent.conversations.allowances import Allowance, Allowances
from jupyter_agent.extension import JupyterAgent
from jupyter_agent.models.facts import FactBook
from jupyter_agent.models.registry import Models
from jupyter_agent.plugs.mcp.config import servers_of

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMED = re.compile(r"\b(tests/[\w/.-]+\.py)(?:::(\w+))?")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.I)

documents = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)


def functions(file: Path) -> set[str]:
    """The names of all functions in a file, including methods."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def missing_tests(text: str) -> list[str]:
    """Tests named in a text that do not exist; parametrized ones go by their function."""
    missing = []
    for path, name in sorted(set(NAMED.findall(text))):
        file = ROOT / path
        if not file.is_file() or (name and name not in functions(file)):
            missing.append(f"{path}::{name}" if name else path)
    return missing


def links(text: str) -> list[str]:
    """The files that a text links to, as written, without fragments."""
    targets = LINK.findall(CODE.sub("", text))
    return [unquote(target.split("#")[0]) for target in targets if not ELSEWHERE.match(target)]


def missing_files(document: Path) -> list[str]:
    """The links of a document that lead nowhere, or out of the repository."""
    found = links(document.read_text(encoding="utf-8"))
    targets = [(link, (document.parent / link).resolve()) for link in found]
    return [link for link, to in targets if not to.exists() or not to.is_relative_to(ROOT)]


@pytest.mark.full
@documents
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    assert missing_tests(document.read_text(encoding="utf-8")) == []


@documents
def test_every_link_of_a_document_leads_to_a_file(document: Path) -> None:
    assert missing_files(document) == []


def test_documents_with_names_and_links_are_among_those_looked_at() -> None:
    named = {path.name for path in DOCUMENTS if NAMED.search(path.read_text(encoding="utf-8"))}
    linked = {path.name for path in DOCUMENTS if links(path.read_text(encoding="utf-8"))}
    assert "faults.md" in named
    assert {"README.md", "panel.md"} <= linked


def test_a_name_or_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    here = f"tests/{Path(__file__).name}"
    text = f"`{here}::functions`, `{here}::test_gone`, `tests/gone.py::test_a`, `tests/gone.py`"
    gone = {f"{here}::test_gone", "tests/gone.py::test_a", "tests/gone.py"}
    assert set(missing_tests(text)) == gone
    document = tmp_path / "guide.md"
    document.write_text("[a](gone.md#part) `[b](code.md)` [c](https://x.org) [d](#here)")
    assert missing_files(document) == ["gone.md"]


def fenced(language: str) -> list[str]:
    """All documents' examples in that language."""
    texts = [document.read_text("utf-8") for document in DOCUMENTS]
    return [
        example for text in texts for example in re.findall(rf"```{language}\n(.*?)```", text, re.S)
    ]


def files_of(values: Any) -> dict[str, str]:
    """Files that the values of a Helm chart put into users' pods, by path."""
    files = values.get("singleuser", {}).get("extraFiles", {}).values()
    return {file["mountPath"]: file["stringData"] for file in files}


VALUES = [yaml.safe_load(text) for text in fenced("yaml") if "singleuser:" in text]
IN_PODS = {path: text for values in VALUES for path, text in files_of(values).items()}


@pytest.mark.parametrize(
    "example",
    [*(each for each in fenced("python") if "c.JupyterAgent." in each), *IN_PODS.values()],
)
@pytest.mark.plugs
def test_every_example_of_a_configuration_can_be_used(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILES_AUTHORIZATION", "Bearer x")
    (tmp_path / "jupyter_server_config.py").write_text(example)
    config = PyFileConfigLoader("jupyter_server_config.py", path=str(tmp_path)).load_config()
    config.JupyterAgent.store_dir = str(tmp_path)
    own = JupyterAgent(config=config)
    for owner in (JupyterAgent, GatewayClient):
        unknown = set(config[owner.__name__]) - set(owner.class_own_traits(config=True))
        assert not unknown
    assert {Rule(**rule).verdict for rule in own.rules} <= {"deny", "ask", "allow"}
    allowances = Allowances(Allowance(), own.allowances)
    allowances.of(Person(name="ada", groups=frozenset({"students"})))
    servers_of(own.mcp_servers)
    models = Models(
        default=own.default_model or None,
        key_file=tmp_path / "keys.json",
        providers=own.providers,
        facts=FactBook(own.model_facts),
    )
    assert set(own.providers) <= {provider["name"] for provider in models.describe()["providers"]}


def test_values_for_a_cluster_put_the_configuration_where_jupyter_reads_it() -> None:
    assert len(VALUES) >= 3
    (path,) = IN_PODS
    assert Path(path).name == "jupyter_server_config.py"
    assert str(Path(path).parent) in SYSTEM_CONFIG_PATH
    for values in VALUES:
        given = set(values["singleuser"].get("extraEnv", ()))
        wanted = {
            name
            for text in files_of(values).values()
            for name in re.findall(r'{"env": "(\w+)"}', text)
        }
        assert wanted == given


def test_the_configuration_for_administrators_is_taken_as_it_stands(tmp_path: Path) -> None:
    text = (ROOT / "docs/administrators.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    (tmp_path / "jupyter_server_config.py").write_text(example)
    config = PyFileConfigLoader("jupyter_server_config.py", path=str(tmp_path)).load_config()
    own = JupyterAgent(config=config)
    assert (own.max_mode, own.share, own.allow_keys) == ("edit", "no-outputs", False)
    assert [Rule(**rule).verdict for rule in own.rules] == ["deny", "ask", "allow"]
    authorizer = config.ServerApp.authorizer_class()
    ada, student = User(username="ada"), User(username="sam")
    assert authorizer.is_authorized(None, ada, "write", "contents")
    assert authorizer.is_authorized(None, student, "read", "contents")
    assert authorizer.is_authorized(None, student, "write", "agent")
    assert not authorizer.is_authorized(None, student, "write", "contents")
    assert not authorizer.is_authorized(None, student, "write", "agent:admin")
