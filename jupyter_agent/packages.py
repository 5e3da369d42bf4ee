"""Which other packages are installed, and why."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, distributions, version
from importlib.util import find_spec

OPENAI = 3
"""The lowest major version of OpenAI's SDK that we support: it reads answers with httpx2, whose
bodies are bounded (`models/bounds.py`); earlier ones use httpx."""
_PAGES = {"jupyterlab": ("JupyterLab", (4, 4)), "notebook": ("Jupyter Notebook", (7, 4))}
"""By package: the program whose pages have the panel, and the first version that we support."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_RELEASE = re.compile(r"(\d+)\.(\d+)")


@cache
def brought_by(name: str) -> tuple[str, ...]:
    """The installed packages that require this one, directly or through others, and are not
    required by any installed package; sorted.

    It reads the metadata of all packages, so the result is cached; an installation needs a restart
    of the server anyway.
    """
    requirers: defaultdict[str, set[str]] = defaultdict(set)
    for each in distributions():
        for requirement in each.requires or ():
            found = _NAME.match(requirement)
            if found and "extra ==" not in requirement:
                requirers[_normalise(found[0])].add(_normalise(each.name))
    above, left = set[str](), [_normalise(name)]
    while left:
        new = requirers[left.pop()] - above
        above |= new
        left += new
    return tuple(sorted(package for package in above if not requirers[package]))


def namesake_warning() -> str | None:
    """A warning if `jupyter-agent` is installed, another project's distribution with a package
    `jupyter_agent` of its own; else None.
    """
    try:
        other = distribution("jupyter-agent")
    except PackageNotFoundError:
        return None
    return (
        f"`jupyter-agent` {other.version} is another project with a package of the same name; it "
        "overwrites files of jupyter-live-agent, or did. Uninstall both, then install "
        "jupyter-live-agent again."
    )


def outdated_warnings() -> list[str]:
    """A warning for each installed program in whose pages parts of the panel may not work."""
    sentences = []
    for package, (program, least) in _PAGES.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            continue
        release = _RELEASE.match(installed)
        if release and (int(release[1]), int(release[2])) < least:
            needed = ".".join(map(str, least))
            sentences.append(
                f"{program} {installed} is older than {needed}, the first version that the panel "
                f"supports: `pip install -U {package}`."
            )
    return sentences


def openai_warning() -> str | None:
    """A warning if no usable OpenAI SDK is installed; else None."""
    if find_spec("openai") is None:
        return "OpenAI's and compatible models need `pip install 'jupyter-live-agent[openai]'`."
    installed = version("openai")
    if int(installed.partition(".")[0]) >= OPENAI:
        return None
    bringers = ", ".join(brought_by("openai"))
    brought = f", brought by {bringers}, which may need it" if bringers else ""
    return (
        f"OpenAI's and compatible models need openai {OPENAI}, and openai {installed} is "
        f"installed{brought}. Install 'jupyter-live-agent[openai]' in another environment, or here "
        "if nothing else uses openai."
    )


def _normalise(name: str) -> str:
    """A name in the form that registries compare (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
