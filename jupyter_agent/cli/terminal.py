"""Output of commands: colours, questions and pictures if a person is at the terminal."""

from __future__ import annotations

import json
import os
import shutil
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Literal, TextIO, TypeAlias

from jupyter_agent.client.server import ServerRefused
from jupyter_agent.legible import legible
from jupyter_agent.text.images import Picture, pixels, prepare_pictures

Protocol: TypeAlias = Literal["kitty", "iterm"]
"""https://sw.kovidgoyal.net/kitty/graphics-protocol and
https://iterm2.com/documentation-images.html"""

_KITTY_TERMS = ("xterm-kitty", "xterm-ghostty")
_PROGRAMS: Mapping[str, Protocol] = {
    "kitty": "kitty",
    "ghostty": "kitty",
    "WarpTerminal": "kitty",
    "iTerm.app": "iterm",
    "mintty": "iterm",
    "vscode": "iterm",
    "WezTerm": "iterm",
}
"""By TERM_PROGRAM. VS Code shows pictures if `terminal.integrated.enableImages` is on."""
_KONSOLE = 220_400
"""Konsole shows pictures since 22.04."""
_MULTIPLEXERS = ("TMUX", "STY", "ZELLIJ")
"""Variables of terminal multiplexers, which do not pass pictures on."""
_CHUNK = 4_096
"""Characters per chunk of kitty's protocol."""
_COLUMN_PIXELS = 10.0
"""Fallback if the terminal does not report the width of a column."""


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """The picture protocol of this terminal; None if it supports none, or is unknown."""
    term = environment.get("TERM", "")
    if any(map(environment.get, _MULTIPLEXERS)) or term == "dumb":
        return None
    if term in _KITTY_TERMS or environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    konsole = environment.get("KONSOLE_VERSION", "")
    if environment.get("LC_TERMINAL") == "iTerm2" or (
        konsole.isdecimal() and int(konsole) >= _KONSOLE
    ):
        return "iterm"
    return _PROGRAMS.get(environment.get("TERM_PROGRAM", ""))


def draw(picture: Picture, protocol: Protocol, stream: TextIO, most: int) -> str:
    """Escape codes that show the picture at the cursor, in its own size but at most `most` columns
    wide; empty if the protocol cannot show it. The picture has to come from `prepare_pictures`.
    """
    size = pixels(*picture)
    if size is None or (protocol == "kitty" and picture[0] != "image/png"):
        return ""
    columns = max(1, min(most, round(size[0] / _column_pixels(stream))))
    data = picture[1]
    if protocol == "kitty":
        return "".join(_in_chunks(data, f"a=T,f=100,c={columns},"))
    count = len(data) * 3 // 4 - data.count("=")
    return f"\x1b]1337;File=inline=1;size={count};width={columns}:{data}\a"


def _in_chunks(data: str, how: str) -> Iterator[str]:
    """`q=2`: without it, the terminal's replies would be read as typed text."""
    for start in range(0, len(data), _CHUNK):
        more = int(start + _CHUNK < len(data))
        yield f"\x1b_G{how if start == 0 else ''}q=2,m={more};{data[start : start + _CHUNK]}\x1b\\"


def _column_pixels(stream: TextIO) -> float:
    try:
        import fcntl
        import termios

        size = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError):  # Windows, or not a terminal
        return _COLUMN_PIXELS
    _, columns, width, _ = struct.unpack("HHHH", size)
    return width / columns if width and columns else _COLUMN_PIXELS


Style: TypeAlias = Literal["plain", "strong", "faint", "added", "removed", "warning"]
_CODES: Mapping[Style, str] = {
    "plain": "",
    "strong": "1",
    "faint": "2",
    "added": "32",
    "removed": "31",
    "warning": "33",
}
_INDENT = "    "
"""Before a picture, as before the lines of an output."""
_TICK_SECONDS = 1.0
_TERMINAL = "CON" if sys.platform == "win32" else "/dev/tty"


class Console:
    """The standard streams of a command.

    Text from outside may be passed as it is: control and invisible characters are removed.
    """

    def __init__(self, out: TextIO, err: TextIO, environment: Mapping[str, str]) -> None:
        self._out = out
        self._err = err
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        self._coloured = {out: out.isatty() and not plain, err: err.isatty() and not plain}
        self.live = err.isatty() and environment.get("TERM") != "dumb"
        """Whether a status line can be shown and updated."""
        self._pictures = protocol_of(environment) if out.isatty() else None
        self._midway = False
        """Whether a line is unfinished."""

    def write(self, text: str, style: Style = "plain") -> None:
        """Writes a piece of text, which need not start or end a line."""
        shown = printable(text)
        if shown:
            put(self._out, self._style(shown, style, self._out))
            self._midway = not shown.endswith("\n")

    def line(self, text: str = "", style: Style = "plain") -> None:
        """Writes a whole line."""
        self.end_line()
        self.write(text, style)
        put(self._out, "\n")
        self._midway = False

    @property
    def shows_pictures(self) -> bool:
        """Whether the terminal is known to show pictures."""
        return self._pictures is not None

    def pictures(self, pictures: Sequence[Picture]) -> None:
        """Shows those pictures that the terminal can, one below the other; the text names all of
        them."""
        if self._pictures is None:
            return
        most = shutil.get_terminal_size().columns - len(_INDENT) - 1
        for picture in prepare_pictures(pictures):
            if shown := draw(picture, self._pictures, self._out, most):
                self.end_line()
                put(self._out, f"{_INDENT}{shown}\n")

    def end_line(self) -> None:
        """Ends an unfinished line."""
        if self._midway:
            put(self._out, "\n")
            self._midway = False

    def json(self, value: Any) -> None:
        """Writes a value for programs, as indented JSON."""
        put(self._out, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def tell(self, text: str, style: Style = "plain") -> None:
        """Writes a line to standard error: what went wrong, what to do."""
        self._err.write(self._style(printable(text), style, self._err) + "\n")
        self._err.flush()

    def ask(self, prompt: str) -> str | None:
        """The person's answer; None if no one can be asked or the input has ended."""
        with _keyboard(self._err) as keyboard:
            if keyboard is None:
                return None
            self._err.write(prompt)
            self._err.flush()
            answer = keyboard.readline()
        return answer.strip() if answer else None

    @property
    def is_interactive(self) -> bool:
        """Whether a person can be asked."""
        with _keyboard(self._err) as keyboard:
            return keyboard is not None

    def working(self) -> Working:
        """A status line for the time in which nothing else is written."""
        return Working(self._err if self.live else None)

    def _style(self, text: str, style: Style, stream: TextIO) -> str:
        code = _CODES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if code and text and self._coloured[stream] else text


class Working:
    """A status line with what a command waits for and for how long, cleared before other output.
    Shows nothing if no person is at the terminal.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._text = ""
        self._label = ""
        """The last label: its clock continues after other output."""
        self._since = 0.0
        self._shown = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Working:
        if self._stream is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._stream is not None:
            self._thread.join()
        self.on("")

    def on(self, text: str) -> None:
        """Sets what the command waits for; empty before other output."""
        with self._lock:
            if text not in ("", self._label):
                self._label, self._since = text, time.monotonic()
            self._text = printable(text)
            self._clear()

    def _tick(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            with self._lock:
                self._clear()
                if self._text and self._stream is not None:
                    seconds = time.monotonic() - self._since
                    width = shutil.get_terminal_size().columns - 1  # a wrapped line would stay
                    self._stream.write(f"{self._text}, {seconds:.0f} s"[:width])
                    self._stream.flush()
                    self._shown = True

    def _clear(self) -> None:
        if self._shown and self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False


@contextmanager
def _keyboard(shown_on: TextIO) -> Iterator[TextIO | None]:
    """The person's input: standard input, or the terminal itself if that is a pipe; None if no
    person would see the question."""
    if not shown_on.isatty():
        yield None
    elif sys.stdin is not None and sys.stdin.isatty():
        yield sys.stdin
    else:
        try:
            terminal = open(_TERMINAL, encoding="utf-8", errors="replace")
        except OSError:
            yield None
            return
        with terminal:
            yield terminal


def standard() -> Console:
    """The console of this process."""
    return Console(sys.stdout, sys.stderr, os.environ)


def put(stream: TextIO, text: str) -> None:
    """Writes the text at once. Raises ServerRefused if the stream cannot be written, for example
    because a disk is full, and BrokenPipeError if its reader has enough.
    """
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop(stream)
        raise ServerRefused(f"Standard output cannot be written: {error.strerror}.") from None


def drop(stream: TextIO) -> None:
    """Discards the output that waits: Python would try to write it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def open_input() -> TextIO:
    """Standard input. Raises ServerRefused if the command was started without one."""
    if sys.stdin is None:
        raise ServerRefused(
            "Standard input is closed: pipe the text into the command.", 400, "invalid_input"
        )
    return sys.stdin


def read_input() -> str:
    """The text on standard input. Raises ServerRefused if it is closed or not text."""
    try:
        return open_input().read()
    except UnicodeDecodeError as error:
        raise ServerRefused(
            f"Standard input is not text in {error.encoding}.", 400, "invalid_input"
        ) from None


def printable(text: str) -> str:
    """The text without control characters and invisible characters."""
    return legible(text).replace("\r\n", "\n").replace("\r", "\n").replace("\b", "")


def exact(text: str) -> str:
    """The text with control and invisible characters spelled out: for what a person is asked to
    allow."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1]
        for letter in text
    )
