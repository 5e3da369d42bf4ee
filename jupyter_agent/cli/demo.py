"""`jupyter agent demo`: an example notebook and a scripted tour of the assistant."""

from __future__ import annotations

import contextlib
import json
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_data_dir

from jupyter_agent.cli.answer import AnswerPrinter
from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import standard
from jupyter_agent.cli.words import Cells
from jupyter_agent.client.servers import ALONE, is_root, own
from jupyter_agent.words import Phrasebook

NOTEBOOK = "coffee.ipynb"
QUESTION = "Show me what you can do in this notebook, from the command line."

EXAMPLES = """\
  jupyter agent demo
  jupyter agent demo --headless
  jupyter agent demo -- --no-browser --port 8890
"""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "demo",
        help="an example notebook with the assistant beside it; needs no key and no network",
        description="Opens JupyterLab with an example notebook and the assistant's panel. A "
        "scripted tour answers, so it costs nothing; --model chooses a real one.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--headless",
        action="store_true",
        help="no browser: run the tour on a copy of the example notebook and print what it did",
    )
    parser.add_argument("--model", default="demo:tour", help="model (default: %(default)s)")
    parser.add_argument(
        "server", nargs="*", help="options for Jupyter after `--`, e.g. -- --no-browser --port 8890"
    )
    parser.set_defaults(
        command=lambda given: (headless if given.headless else lab)(given.model, given.server)
    )


def lab(model: str, server: Sequence[str]) -> int:
    """JupyterLab with the example notebook and the panel open; returns when the server stops."""
    try:
        from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]
    except ImportError:
        sys.stderr.write('JupyterLab is not installed: pip install "jupyter-live-agent[lab]"\n')
        return 1
    with example() as folder:
        options = [
            f"--ServerApp.root_dir={folder}",
            f"--LabApp.default_url=/lab/tree/{NOTEBOOK}",
            f"--JupyterAgent.default_model={model}",
            "--JupyterAgent.open_panel=True",
            f"--JupyterAgent.store_dir={folder / '.store'}",
            f"--JupyterAgent.key_file={Path(jupyter_data_dir()) / 'agent' / 'keys.json'}",
            f"--LabApp.user_settings_dir={_demo_settings(folder)}",
            f"--LabApp.workspaces_dir={folder / '.workspaces'}",
            ALONE,
        ]
        if is_root():
            options.append("--allow-root")
        LabApp.launch_instance([*options, *server])
    return 0


def _demo_settings(folder: Path) -> Path:
    """Settings for the demo: JupyterLab's question about news would cover the panel, and with
    edits allowed the tour only asks once, before it runs code.
    """
    settings = {
        "@jupyterlab/apputils-extension/notification": {"fetchNews": "false"},
        "jupyter-agent/plugin": {"mode": "edit"},
    }
    for name, values in settings.items():
        file = folder / ".settings" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    return folder / ".settings"


def headless(model: str, server: Sequence[str]) -> int:
    """Asks over HTTP and prints the changes to a copy of the example notebook."""
    console = standard()
    with (
        example() as folder,
        tempfile.TemporaryDirectory() as store,
        own(folder, Path(store), [f"--JupyterAgent.default_model={model}", *server]) as running,
    ):
        notebook = folder.resolve() / NOTEBOOK
        before = [cell["id"] for cell in running.ask("GET", running.route(notebook))["cells"]]
        body = {
            "notebook": NOTEBOOK,
            "messages": [{"role": "user", "content": QUESTION}],
            "mode": "auto",
        }
        with console.working() as working:
            phrases = Phrasebook(running.ask("GET", "tools"))
            answer = AnswerPrinter(console, working, Cells(before), phrases)
            for _, chunk in running.stream("POST", "chat", body):
                answer.show(chunk)
        cells = running.ask("GET", running.route(notebook))["cells"]
        console.line()
        console.line(f"{NOTEBOOK} has {len(cells)} cells now.")
    ran = any(cell["execution_count"] for cell in cells if cell["id"] not in before)
    return answer.exit_code if ran and not answer.failures else Exit.FAILED


@contextlib.contextmanager
def example() -> Iterator[Path]:
    """A temporary folder with a copy of the example notebook.

    The copy names this version of Python: JupyterLab updates a notebook whose `language_info`
    differs from the kernel's, and would show it as unsaved before anyone touched it.
    """
    source = files("jupyter_agent") / "examples" / NOTEBOOK
    notebook = json.loads(source.read_text(encoding="utf-8"))
    notebook["metadata"]["language_info"]["version"] = platform.python_version()
    with tempfile.TemporaryDirectory(prefix="jupyter-agent-demo-") as folder:
        copy = Path(folder) / NOTEBOOK
        copy.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        yield Path(folder)
