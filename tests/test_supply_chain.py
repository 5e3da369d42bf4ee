"""Builds and releases consist of declared parts only."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import jupyter_agent
from jupyter_agent import __version__
from jupyter_agent.packages import namesake_warning

from .programs import SCRIPTS

ROOT = Path(__file__).parent.parent
PANEL = ROOT / "labextension"
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))


def installed(folder: Path) -> subprocess.CompletedProcess[str]:
    """`jlpm install` as called by a build from source: with no option, and outside of CI."""
    known = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(
        [SCRIPTS / "jlpm", "install"],
        cwd=folder,
        env={**known, "PATH": f"{SCRIPTS}{os.pathsep}{known['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_build_from_source_refuses_a_lock_that_does_not_fit(tmp_path: Path) -> None:
    shutil.copy(PANEL / ".yarnrc.yml", tmp_path)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "package.json").write_text('{"name": "ours", "version": "1.0.0"}')
    package = {"name": "panel", "dependencies": {"ours": "portal:./ours"}}
    (tmp_path / "package.json").write_text(json.dumps(package))
    (tmp_path / "yarn.lock").write_text("")
    refused = installed(tmp_path)
    assert refused.returncode != 0
    assert "lockfile would have been" in refused.stdout, refused.stdout
    assert (tmp_path / "yarn.lock").read_text() == ""


def test_what_the_wire_and_the_merge_rest_on_ends_before_the_next_major_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in project["dependencies"]:
        assert re.search(r"<\d", requirement), requirement


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="an sdist has no .ci")
def test_the_documentation_is_where_github_serves_the_pages_of_the_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    owner, name = project["urls"]["Source"].removeprefix("https://github.com/").split("/")
    address = f"https://{owner}.github.io/{name}/"
    assert project["urls"]["Documentation"] == address
    site = (ROOT / ".ci" / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"site_url: {address}\n" in site


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="an sdist has no .ci")
def test_a_release_says_what_it_is_made_of_in_both_languages(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / ".ci" / "sbom", tmp_path], check=True)
    for language, kind, some in (
        ("python", "pypi", {"pycrdt", "anthropic", "jupyter-server", "pydantic-core"}),
        ("javascript", "npm", {"@codemirror/merge", "react", "typescript"}),
    ):
        made = json.loads((tmp_path / f"{language}.cdx.json").read_text(encoding="utf-8"))
        assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
        names = [component["name"] for component in made["components"]]
        assert some <= set(names)
        refs = [component["bom-ref"] for component in made["components"]]
        assert len(refs) == len(set(refs))
        assert all(ref.startswith(f"pkg:{kind}/") for ref in refs)
    lock = (PANEL / "yarn.lock").read_text(encoding="utf-8")
    checksums = {
        each["value"] for component in made["components"] for each in component["properties"]
    }
    assert len(checksums) == len(re.findall(r"^  checksum: ", lock, re.MULTILINE))


NEEDS_NO_LINE = {
    *("charset_normalizer", "jupyter_agent", "jupyterlab", "openai", "pydantic_core"),
    "IPython",
}
"""Ourselves, packages of the extras, a part of pydantic, which pins it, and packages for our code
that runs in a kernel.
"""


@pytest.mark.full
def test_every_package_that_we_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {canonicalize_name(Requirement(one).name) for one in project["dependencies"]}
    brought_by = packages_distributions()
    for module in (ROOT / "jupyter_agent").rglob("*.py"):
        for name in imported(module) - sys.stdlib_module_names - NEEDS_NO_LINE:
            names = set(map(canonicalize_name, brought_by[name]))
            assert names & declared, f"{module.relative_to(ROOT)} imports {name} ({names})"


def imported(module: Path) -> set[str]:
    """Top-level names of imports anywhere in the file."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_the_conda_package_requires_what_the_other_one_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    python = f"python{project['project']['requires-python']}"
    ours = [python, *project["project"]["dependencies"]]
    assert requirements(RECIPE["requirements"]["run"]) == requirements(ours)
    built_with = [one for one in RECIPE["requirements"]["host"] if "python " not in one]
    assert requirements(built_with) == requirements(["pip", *project["build-system"]["requires"]])
    scripts = dict(line.split(" = ") for line in RECIPE["build"]["python"]["entry_points"])
    assert scripts == project["project"]["scripts"]


def requirements(lines: list[str]) -> set[tuple[str, str]]:
    """Names in registries' normal form, each with its versions."""
    found = map(Requirement, lines)
    return {(canonicalize_name(one.name), str(one.specifier)) for one in found}


def test_there_is_one_version() -> None:
    here = distribution("jupyter-live-agent").version
    assert here == json.loads((PANEL / "package.json").read_text(encoding="utf-8"))["version"]
    assert here == RECIPE["context"]["version"]
    assert here == __version__


def test_the_page_is_asked_for_the_versions_that_the_panel_declares() -> None:
    package = json.loads((PANEL / "package.json").read_text(encoding="utf-8"))
    shared = package["jupyterlab"]["sharedPackages"]
    for name, range_ in package["dependencies"].items():
        if name.startswith("@jupyterlab/"):  # or the builder takes its own JupyterLab's version
            assert shared[name]["requiredVersion"] == range_, name


def test_type_checkers_of_others_believe_our_types() -> None:
    assert (Path(jupyter_agent.__file__).parent / "py.typed").exists()


def test_a_project_with_our_package_name_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert namesake_warning() is None
    metadata = tmp_path / "jupyter_agent-2.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: jupyter-agent\nVersion: 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "`jupyter-agent` 2.0 is another project" in (namesake_warning() or "")
