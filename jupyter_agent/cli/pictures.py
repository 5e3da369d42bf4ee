"""Pictures in terminals that can show them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Literal, TextIO, TypeAlias

from jupyter_agent.text.images import Picture, pixels

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
    empty for what the protocol cannot show. The picture is one of `fitting`.
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
