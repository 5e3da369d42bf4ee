"""Output of commands: colours, questions and pictures, if a person looks at the terminal."""

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
"""By TERM_PROGRAM. VS Code shows pictures where `terminal.integrated.enableImages` is on."""
_KONSOLE = 220_400
"""Konsole shows pictures since 22.04."""
_MULTIPLEXERS = ("TMUX", "STY", "ZELLIJ")
"""Variables of programs between the terminal and us, which do not pass pictures on."""
_CHUNK = 4_096
"""Characters that kitty's protocol takes at once."""
_COLUMN_PIXELS = 10.0
"""Where the terminal does not say how wide a column is."""


def protocol_of(environment: Mapping[str, str]) -> Protocol | None:
    """How this terminal is sent pictures; None if it is not known to show any."""
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


def drawn(picture: Picture, protocol: Protocol, stream: TextIO, most: int) -> str:
    """What shows the picture at the cursor, as large as it is but at most `most` columns wide;
    empty for what the protocol cannot show. The picture is one of `prepare_pictures`.
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
    """`q=2`: the terminal answers nothing, which would be read as what the person types."""
    for start in range(0, len(data), _CHUNK):
        more = int(start + _CHUNK < len(data))
        yield f"\x1b_G{how if start == 0 else ''}q=2,m={more};{data[start : start + _CHUNK]}\x1b\\"


def _column_pixels(stream: TextIO) -> float:
    try:
        import fcntl
        import termios

        told = fcntl.ioctl(stream.fileno(), termios.TIOCGWINSZ, bytes(8))
    except (ImportError, OSError):  # Windows; no terminal
        return _COLUMN_PIXELS
    _, columns, width, _ = struct.unpack("HHHH", told)
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

    Texts from outside may be given as they are: nothing in them moves the cursor, sets a title or
    hides itself.
    """

    def __init__(self, out: TextIO, err: TextIO, environment: Mapping[str, str]) -> None:
        self._out = out
        self._err = err
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        self._coloured = {out: out.isatty() and not plain, err: err.isatty() and not plain}
        self.live = err.isatty() and environment.get("TERM") != "dumb"
        """Whether a line that changes in place can be shown."""
        self._pictures = protocol_of(environment) if out.isatty() else None
        self._midway = False
        """Whether a line was begun and not ended."""

    def write(self, text: str, style: Style = "plain") -> None:
        """A piece of text, which may begin or end within a line."""
        shown = seen(text)
        if shown:
            self._out.write(self._styled(shown, style, self._out))
            self._out.flush()
            self._midway = not shown.endswith("\n")

    def line(self, text: str = "", style: Style = "plain") -> None:
        """A line of its own."""
        self.end_line()
        self.write(text, style)
        self._out.write("\n")
        self._out.flush()
        self._midway = False

    @property
    def shows_pictures(self) -> bool:
        """Whether the terminal is known to."""
        return self._pictures is not None

    def pictures(self, pictures: Sequence[Picture]) -> None:
        """Those that the terminal can show, below each other; texts name all of them."""
        if self._pictures is None:
            return
        most = shutil.get_terminal_size().columns - len(_INDENT) - 1
        for picture in prepare_pictures(pictures):
            if shown := drawn(picture, self._pictures, self._out, most):
                self.end_line()
                self._out.write(f"{_INDENT}{shown}\n")
        self._out.flush()

    def end_line(self) -> None:
        """Ends the line that was begun, if one was."""
        if self._midway:
            self._out.write("\n")
            self._midway = False

    def json(self, value: Any) -> None:
        """A value for programs, as indented JSON."""
        self._out.write(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
        self._out.flush()

    def tell(self, text: str, style: Style = "plain") -> None:
        """A line beside the result: what went wrong, what to do."""
        self._out.flush()
        self._err.write(self._styled(seen(text), style, self._err) + "\n")
        self._err.flush()

    def ask(self, prompt: str) -> str | None:
        """What the person types; None where nobody can be asked, or types nothing more."""
        with _keyboard(self._err) as keyboard:
            if keyboard is None:
                return None
            self._err.write(prompt)
            self._err.flush()
            answer = keyboard.readline()
        return answer.strip() if answer else None

    @property
    def attended(self) -> bool:
        """Whether a person is there who can be asked."""
        with _keyboard(self._err) as keyboard:
            return keyboard is not None

    def working(self) -> Working:
        """A line that says what is going on, while nothing else is written."""
        return Working(self._err if self.live else None)

    def _styled(self, text: str, style: Style, stream: TextIO) -> str:
        code = _CODES[style]
        return f"\x1b[{code}m{text}\x1b[0m" if code and text and self._coloured[stream] else text


class Working:
    """What a command waits for and for how long, in one line that is gone when anything else is
    written. Nothing where no person looks.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._text = ""
        self._named = ""
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
        """What is waited for from now on; empty before anything else is written."""
        with self._lock:
            if text not in ("", self._named):
                self._named, self._since = text, time.monotonic()
            self._text = seen(text)
            self._clear()

    def _tick(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            with self._lock:
                self._clear()
                if self._text and self._stream is not None:
                    seconds = time.monotonic() - self._since
                    width = shutil.get_terminal_size().columns - 1  # a second line would stay
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
    """Where a person types: standard input, or the terminal itself where that is a pipe; None where
    no person sees the question."""
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
    """The streams of this process."""
    return Console(sys.stdout, sys.stderr, os.environ)


def seen(text: str) -> str:
    """The text as a terminal may have it: without what moves the cursor or does not show."""
    return legible(text).replace("\r\n", "\n").replace("\r", "\n").replace("\b", "")


def exact(text: str) -> str:
    """The text with every character that would not show, or move the cursor, spelt out: for what a
    person is to allow."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1]
        for letter in text
    )
