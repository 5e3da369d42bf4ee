"""Pictures in terminals that support them, and in no others."""

from __future__ import annotations

import base64
import io
import re

import pytest
from PIL import Image

from jupyter_agent.cli.terminal import Console
from tests.fakes import calls, says
from tests.fakes.script import FakeReply

from .conftest import ESCAPE, NOTEBOOK, Desk

KITTY, ITERM = {"TERM": "xterm-kitty"}, {"TERM": "xterm", "TERM_PROGRAM": "iTerm.app"}
DRAWS = """\
import base64
from IPython.display import Image, display
display(Image(data=base64.b64decode({png!r}), format="png"))
"""


def picture(kind: str = "png", *, width: int = 200) -> str:
    """A picture in base64; noise, so that it is not small."""
    file = io.BytesIO()
    Image.effect_noise((width, 120), 80).convert("RGB").save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def shown(environment: dict[str, str], kind: str, data: str, *, tty: bool = True) -> str:
    """The terminal's output for a picture."""
    screen = Screen() if tty else io.StringIO()
    Console(screen, io.StringIO(), environment).pictures([(f"image/{kind}", data)])
    return screen.getvalue()


def of_kitty(text: str) -> tuple[str, bytes]:
    """The parameters of a picture, and the file."""
    chunks = re.findall(rf"{ESCAPE}_G([^;]*);([^{ESCAPE}]*){ESCAPE}\\", text)
    assert all(len(data) <= 4096 for _, data in chunks)
    more = [control.endswith("m=1") for control, _ in chunks]
    assert more == [True] * (len(chunks) - 1) + [False]
    return chunks[0][0], base64.b64decode("".join(data for _, data in chunks))


@pytest.mark.parametrize(
    ("environment", "starts"),
    [
        (KITTY, f"{ESCAPE}_G"),
        ({"TERM": "xterm-ghostty"}, f"{ESCAPE}_G"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, f"{ESCAPE}_G"),
        (ITERM, f"{ESCAPE}]1337;File="),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, f"{ESCAPE}]1337;File="),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, f"{ESCAPE}]1337;File="),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "230805"}, f"{ESCAPE}]1337;File="),
        ({"TERM": "xterm-256color", "KONSOLE_VERSION": "211203"}, ""),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "dumb", "TERM_PROGRAM": "iTerm.app"}, ""),
        ({**KITTY, "TMUX": "/tmp/tmux-1000/default,1,0"}, ""),
        ({"TERM": "screen", "STY": "1.pts", "LC_TERMINAL": "iTerm2"}, ""),
    ],
)
def test_a_terminal_is_sent_pictures_as_it_takes_them(
    environment: dict[str, str], starts: str
) -> None:
    written = shown(environment, "png", picture())
    assert written.strip().startswith(starts) if starts else written == ""
    assert shown(environment, "png", picture(), tty=False) == ""


def test_a_picture_is_sent_whole_and_no_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    data = picture(width=900)
    control, file = of_kitty(shown(KITTY, "png", data))
    assert control == "a=T,f=100,c=45,q=2,m=1"
    assert file == base64.b64decode(data)
    narrow = shown(ITERM, "jpeg", picture("jpeg", width=120))
    assert re.search(r"File=inline=1;size=\d+;width=12:[\w+/=]+\a\n$", narrow)
    assert shown(KITTY, "jpeg", picture("jpeg")) == ""  # kitty only takes PNG


def test_what_is_no_picture_is_not_sent() -> None:
    for data in (f"{ESCAPE}]0;owned\a", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), ""):
        assert shown(KITTY, "png", data) == shown(ITERM, "png", data) == ""


@pytest.mark.full
def test_commands_show_what_cells_draw(desk: Desk, replies: list[FakeReply]) -> None:
    png = picture(width=400)
    added = calls("create_cells", cells=[{"source": DRAWS.format(png=png)}], run=True)
    replies += [[added], [says("That is it.")]]
    with desk.terminal("ask", NOTEBOOK, "Draw", "--mode", "auto", **KITTY) as terminal:
        assert terminal.ended() == 0
        assert of_kitty(terminal.seen)[1] == base64.b64decode(png)
        assert "<image/png 400x120" in terminal.seen
    for command in ("run", "show"):
        with desk.terminal(command, NOTEBOOK, **KITTY) as terminal:
            assert terminal.ended() == 0
            assert of_kitty(terminal.seen)[1] == base64.b64decode(png)
        with desk.terminal(command, NOTEBOOK) as terminal:
            assert terminal.ended() == 0
            assert f"{ESCAPE}_G" not in terminal.seen
            assert "<image/png 400x120" in terminal.seen
