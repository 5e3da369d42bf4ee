"""What the tour says and does. Each part looks at the results of its turn so far and moves on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SCRIPTED = "(Scripted tour: no AI model answers here, and nothing leaves this computer.)"
TITLE = "# A short tour"
MENU = """\
I only know my script. I understand:

- a fenced code block: I insert it and run it as it stands
- `run all`: I run every code cell in order
- `undo`: how changes are taken back
- `explain`: what this notebook and this panel are about
- `tour`: the tour once more

For real answers choose another model in the list below the text box; a key for it is stored in \
the settings of this panel."""
UNDO = """\
Taking back is yours, not a model's: press **Undo turn** at the end of a turn to undo all that it \
changed, or **Revert** at a single change. What you typed yourself since then stays. What ran in \
the kernel is not undone."""
PANEL = """\
This panel shows what an assistant does while it does it:

- each line above is one tool call; unfold it for the diff or the output
- **Keep** and **Revert** stand at each change, **Undo turn** at the end of the turn
- below the text box you choose the mode (what needs your consent) and the model
- **Stop** ends a turn at any moment; the notebook is never left half edited

You can type in the notebook all the while: edits are merged, never overwritten."""
OUT_OF_STEPS = "The limit of this turn is reached, so the tour ends here."

_MISTAKE = "len(number)"
_MENDED = "len(numbers)"
_CODE = f"""\
numbers = [3, 1, 4, 1, 5, 9, 2, 6]
mean = sum(numbers) / {_MISTAKE}
print(f"The mean of {{len(numbers)}} numbers is {{mean:.2f}}")"""
_INTRODUCTION = f"{TITLE}\n\nThe cell below was written, run and corrected by the scripted tour."


@dataclass(frozen=True, kw_only=True)
class TourAnswer:
    """A call of this turn and its result."""

    tool: str
    input: Mapping[str, Any]
    text: str
    is_error: bool = False

    @property
    def cell_id(self) -> str | None:
        """The cell that it was about: the tools name it in backticks."""
        named = re.search(r"[Cc]ell `([^`]+)`", self.text)
        return named[1] if named else None


@dataclass(frozen=True, kw_only=True)
class Move:
    """What to say, then what to do; without a call the turn ends."""

    text: str = ""
    call: tuple[str, Mapping[str, Any]] | None = None


def guide(done: Sequence[TourAnswer]) -> Move:
    """The tour itself: read, write, run, correct, run again, explain."""
    match len(done):
        case 0:
            return Move(
                text="I begin by reading the notebook.",
                call=("get_notebook_state", {"outline": True}),
            )
        case 1:
            return Move(
                text=f"{_seen(done[0])} Now I add a title as a Markdown cell.",
                call=("create_cell", {"type": "markdown", "source": _INTRODUCTION}),
            )
        case 2:
            below = {"after": done[1].cell_id} if done[1].cell_id else {}
            return Move(
                text="Below it comes a code cell, with a mistake that I planted.",
                call=("create_cell", {"source": _CODE, **below}),
            )
        case 3:
            return Move(text="I run it.", call=("run_cell", {"cell_id": done[2].cell_id}))
        case 4 if "NameError" in done[3].text:
            return Move(
                text=f"The output says `{_error(done[3])}`: a letter is missing. I correct just "
                "that; the cell keeps its place and its id.",
                call=(
                    "update_cell",
                    {
                        "cell_id": done[2].cell_id,
                        "old_string": _MISTAKE,
                        "new_string": _MENDED,
                    },
                ),
            )
        case 5:
            return Move(text="And run it again.", call=("run_cell", {"cell_id": done[2].cell_id}))
    return Move(text=f"{_last_line(done[-1])}\n\n{PANEL}")


def insert(code: str, *, markdown: bool, done: Sequence[TourAnswer]) -> Move:
    """Insert what the person wrote, run it, and say what came out."""
    match len(done):
        case 0:
            kind = {"type": "markdown"} if markdown else {}
            return Move(
                text="I insert your block as it stands.",
                call=("create_cell", {"source": code, **kind}),
            )
        case 1 if not markdown:
            return Move(text="I run it.", call=("run_cell", {"cell_id": done[0].cell_id}))
        case 1:
            return Move(text="Done: it is a Markdown cell, so there is nothing to run.")
    return Move(text=_reported(done[-1]))


def run_all(done: Sequence[TourAnswer]) -> Move:
    """Run every code cell in order."""
    if not done:
        return Move(text="I run all code cells in order.", call=("run_cells", {}))
    return Move(text=_reported(done[-1]))


def explain(done: Sequence[TourAnswer]) -> Move:
    """Say what is in the notebook, and what the panel shows."""
    if not done:
        return Move(text="I read the notebook.", call=("get_notebook_state", {"outline": True}))
    return Move(text=f"{_seen(done[-1])}\n\n{PANEL}")


def after_refusal(answer: TourAnswer) -> Move:
    """A call was refused or failed: say so and stop, as any assistant should."""
    return Move(
        text=f"That was not done (`{answer.tool}`). The reason that I was given:\n\n"
        f"> {_last_line(answer)}\n\nThe tour stops here; ask again when you like."
    )


def _seen(answer: TourAnswer) -> str:
    told = re.match(r".*: (\d+) cells, ", answer.text)  # the first line of the notebook's state
    cells = int(told[1]) if told else 0
    if not cells:
        return "The notebook has no cells yet."
    return f"The notebook has {cells} cell{'s' if cells > 1 else ''}."


def _reported(answer: TourAnswer) -> str:
    return f"This is what I was told:\n\n```\n{answer.text.strip()}\n```"


def _error(answer: TourAnswer) -> str:
    found = re.search(r"NameError: .*", answer.text)
    return found[0].strip() if found else "NameError"


def _last_line(answer: TourAnswer) -> str:
    lines = answer.text.strip().splitlines()
    return lines[-1] if lines else "(no output)"
