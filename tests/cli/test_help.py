"""Help, completion, recordings and the demo: commands without a notebook of the person's."""

from __future__ import annotations

import json
import re
import shutil
import sys

import pytest

from jupyter_agent import entry_points
from jupyter_agent.cli.commands import COMMANDS, parser
from jupyter_agent.cli.main import main
from jupyter_agent.extension import JupyterAgent
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from ..programs import SCRIPTS, Server, run
from .conftest import NOTEBOOK, Desk

COMPLETING = """
_earlier() {{ COMPREPLY=(earlier); }}; complete -F _earlier jupyter
source <({python} -m jupyter_agent.cli.main completion bash)
ask() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); $completer; echo "${{COMPREPLY[*]}}"
}}
completer=_jupyter_agent_of_jupyter
ask jupyter agent co
ask jupyter agent ask x.ipynb --m
ask jupyter agent ask x.ipynb --mode a
ask jupyter la
completer=_jupyter_agent
ask jupyter-agent ver
ask jupyter-agent show wo
"""
INTERRUPTED = """
import os, signal, sys

class Interrupt:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
sys.meta_path.insert(0, Interrupt)
from jupyter_agent.cli.main import main
sys.exit(main(["models"]))
"""
NO_KERNELS = """
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

class NoKernels(KernelSpecManager):
    def find_kernel_specs(self):
        return {}

    def get_kernel_spec(self, kernel_name):
        raise NoSuchKernel(kernel_name)

c.ServerApp.kernel_spec_manager_class = NoKernels
"""


def test_every_command_has_a_help() -> None:
    names = {*COMMANDS}
    names |= set(entry_points.find("commands"))
    helped = re.findall(r"^    (\w+)(?:$| +\S)", parser().format_help(), re.M)
    assert names == set(helped)


@pytest.mark.full
def test_the_help_of_all_lists_every_trait(desk: Desk) -> None:
    done = desk.type("--help-all")
    assert done.code == 0
    listed = set(re.findall(r"^--JupyterAgent\.(\w+)=", done.out, re.M))
    assert listed == set(JupyterAgent.class_own_traits(config=True))


@pytest.mark.full
@pytest.mark.plugs
def test_verifying_imports_no_server_into_the_command(desk: Desk, served: Server) -> None:
    for name, code in ((NOTEBOOK, 0), ("nothing.ipynb", 2)):
        done = desk.type("verify", name, PYTHONPROFILEIMPORTTIME="1")
        assert done.code == code, done.err
        assert "jupyter_agent.client.servers" in done.err
        assert "jupyter_server.serverapp" not in done.err


@pytest.mark.plugs
def test_bash_completes_commands_options_and_values(desk: Desk) -> None:
    done = run(desk.folder, "bash", "-c", COMPLETING.format(python=SCRIPTS / "python"))
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "completion connect conversations",
        "--mode --model --max-steps",
        "ask auto",
        "earlier",
        "verify",
        "",  # files, by the shell
    ]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_name_every_command_and_are_sound(
    desk: Desk, shell: str
) -> None:
    script = desk.type("completion", shell).out
    for words in ("conversations", "undo", "max-steps"):
        assert words in script
    program = shutil.which(shell)
    if program is not None:
        assert run(desk.folder, program, "-n", "-c", script).returncode == 0


@pytest.mark.full
def test_a_recorded_conversation_is_shown_as_it_was(
    desk: Desk, served: Server, replies: list[FakeReply]
) -> None:
    replies += [
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")],
        [says("Now it is 2.")],
    ]
    asked = desk.type("ask", NOTEBOOK, "Set x to 2", "--mode", "edit")
    (line,) = desk.type("conversations").out.splitlines()
    exported = desk.type("conversations", line.split()[0], "--json")
    talk = desk.folder / ".cache" / "talk.json"
    talk.parent.mkdir()
    talk.write_text(exported.out)
    served.process.terminate()  # a recording needs no server
    served.process.wait()
    replayed = desk.type("replay", str(talk))
    assert (replayed.code, replayed.err) == (0, "")
    as_asked = asked.out.replace("cell 2 (b2)", "cell b2")
    assert replayed.out == f"> Set x to 2\n{as_asked}"


@pytest.mark.full
def test_a_saved_event_stream_is_shown_and_what_is_none_is_refused(desk: Desk) -> None:
    stream = desk.folder / ".cache" / "turn.sse"
    stream.parent.mkdir()
    chunks = [{"type": "text-delta", "id": "1", "delta": "Half an answer"}, {"type": "abort"}]
    frames = [f"id: {n}\ndata: {json.dumps(chunk)}\n\n" for n, chunk in enumerate(chunks, 1)]
    stream.write_text("".join([*frames, "data: [DONE]\n\n"]))
    done = desk.type("replay", str(stream))
    assert (done.code, done.out) == (130, "Half an answer\nStopped, 0 cells changed.\n")
    started = {"turnId": "t_1", "model": "demo:tour", "notebook": NOTEBOOK}
    ran = {"kind": "outputs", "cell_id": "c3", "before": None, "after": None}
    made = {"toolCallId": "1", "notebook": NOTEBOOK, "changes": [ran]}
    chunks = [
        {"type": "start", "messageMetadata": started},
        {"type": "data-changes", "data": made},
        {"type": "abort"},
    ]
    stream.write_text("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks))
    lines = desk.type("replay", str(stream)).out.splitlines()
    assert lines[-2:] == [
        "Stopped, 0 cells changed, other outputs in 1 cell.",
        "Take it back: jupyter agent undo t_1",
    ]
    stream.write_text("nothing of that kind")
    assert desk.type("replay", str(stream)).code == 2
    stream.write_text('{"messages": [], "turns": [{}]}')
    assert "is not a recording" in desk.type("replay", str(stream)).err
    assert desk.type("replay", "nowhere.json").code == 2


@pytest.mark.full
def test_the_headless_demo_speaks_of_commands_and_keeps_quiet(desk: Desk) -> None:
    done = desk.type("demo", "--headless")
    assert (done.code, done.err) == (0, "")
    assert "LabApp" not in done.out
    assert "panel shows" not in done.out
    assert "jupyter agent ask NOTEBOOK" in done.out
    assert done.out.endswith("coffee.ipynb has 6 cells now.\n")
    assert not (desk.folder / ".data" / "agent" / "conversations.db").exists()


@pytest.mark.full
def test_the_headless_demo_ends_with_1_where_no_kernel_is_installed(desk: Desk) -> None:
    desk.configure(NO_KERNELS)
    done = desk.type("demo", "--headless")
    assert done.code == 1
    assert "Traceback" not in done.out + done.err
    assert "None is installed: `pip install ipykernel`" in done.out


@pytest.mark.full
def test_a_reader_that_has_enough_ends_the_command_quietly(desk: Desk) -> None:
    command = f"set -o pipefail; {SCRIPTS}/jupyter agent --help-all | head -1"
    done = run(desk.folder, "bash", "-c", command)
    first = "usage: jupyter agent [-h] [--version] [--help-all] COMMAND ...\n"
    assert (done.stdout, done.stderr) == (first, "")


@pytest.mark.parametrize("module", ["argparse", "jupyter_agent.client.server"])
def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback(
    desk: Desk, module: str
) -> None:
    done = run(desk.folder, sys.executable, "-c", INTERRUPTED, module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.parametrize(
    "command",
    [f"show {NOTEBOOK}", f"show {NOTEBOOK} --json", "--help-all", "--help", "run --help"],
)
def test_output_that_cannot_be_written_fails_with_the_reason(desk: Desk, command: str) -> None:
    python = f"{sys.executable} -m jupyter_agent.cli.main"
    done = run(desk.folder, "bash", "-c", f"{python} {command} >/dev/full")
    full = "Standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, full)
    done = run(desk.folder, "bash", "-c", f"{python} {command} >&- 2>&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_option_is_refused_with_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", NOTEBOOK, "--timout", "3"])
    said = capsys.readouterr().err
    assert said.startswith("usage: jupyter agent run ")
    assert said.endswith("jupyter agent run: error: unrecognized arguments: --timout 3\n")


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "soon"])
def test_a_timeout_is_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["run", NOTEBOOK, "--timeout", seconds])
    assert f"`{seconds}` is not a number of seconds above 0" in capsys.readouterr().err


@pytest.mark.parametrize("command", [f"edit {NOTEBOOK} -", f"ask {NOTEBOOK} -", "mcp"])
def test_a_command_without_the_input_that_it_reads_says_so(desk: Desk, command: str) -> None:
    python = f"{sys.executable} -m jupyter_agent.cli.main"
    done = run(desk.folder, "bash", "-c", f"{python} {command} <&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Standard input is closed: pipe the text into the command.\n"
    if command != "mcp":
        words = ("bash", "-c", f"printf '\\377' | {python} {command}")
        done = run(desk.folder, *words, PYTHONIOENCODING="utf-8:strict")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "Standard input is not text in utf-8.\n"
