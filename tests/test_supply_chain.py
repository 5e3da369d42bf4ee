"""What a build and a release are made of: nothing that nobody wrote down."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from .programs import SCRIPTS

ROOT = Path(__file__).parent.parent
PANEL = ROOT / "labextension"


def installed(folder: Path) -> subprocess.CompletedProcess[str]:
    """`jlpm install` as the build from source calls it: with no option, and in no CI."""
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
