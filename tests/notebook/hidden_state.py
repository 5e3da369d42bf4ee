"""Ways to run a notebook, most of them not from top to bottom, and which cells are stale then.

As a program it reads `CASES` as JSON, runs each in IPython as described and once more from top to
bottom, and prints the cells whose result differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

Step: TypeAlias = str | tuple[str, str | None]
"""Run the cell of this letter; or give it this text; or delete it."""

CASES: dict[str, tuple[Sequence[str], Sequence[Step]]] = {
    # -- in order, or as good as that
    "from the top": (["x = 1", "y = x", "x + y"], ["a", "b", "c"]),
    "last cell twice": (["x = 1", "x"], ["a", "b", "b"]),
    "all of it twice": (["n = 0", "n += 1", "n"], [*"abc", *"abc"]),
    "same cell again": (["x = 1", "x"], ["a", "b", "a"]),
    "same list again": (["xs = [1, 2]", "xs"], ["a", "b", "a"]),
    "independent cells in any order": (["x = 1", "y = 2", "x", "y"], [*"badc"]),
    "comment alone": (["x = 1", "x"], ["a", "b", ("a", "x = 1  # one")]),
    "comment at what shows": (["x = 1", "x"], ["a", "b", ("b", "# so\nx")]),
    "edit that is taken back": (["x = 1", "x"], ["a", "b", ("a", "x = 2"), ("a", "x = 1")]),
    "edit of what nobody uses": (["x = 1", "y = 1", "x"], ["a", "b", "c", ("b", "y = 2")]),
    "import again": (["import math", "math.pi"], ["a", "b", "a"]),
    "one more import": (["import math", "math.pi"], ["a", "b", ("a", "import math\nimport re")]),
    "def again": (["def f():\n    return 1", "f()"], ["a", "b", "a"]),
    "assignment in place, twice": (["d = {}", "d['k'] = 1", "d"], [*"abbc"]),
    "from itself, to the same": (["xs = [3, 1]", "xs = sorted(xs)", "xs"], [*"abbc"]),
    "local of the same name": (["x = 1", "def f():\n    x = 2\n    return x", "f()"], [*"bca"]),
    "comprehension of the same name": (["x = 1", "[x for x in range(2)]"], ["b", "a"]),
    "parameter of the same name": (["x = 1", "f = lambda x: x", "f(3)"], [*"bca"]),
    "attribute of the same name": (["x = 5", "import math as m", "m.pi"], [*"bca"]),
    "keyword of the same name": (["x = 5", "dict(x=1)"], ["b", "a"]),
    "cell below that nobody used": (["x = 1", "x", "z = 3"], [*"cab"]),
    "in order after a detour": (["x = 1", "x = 2", "x"], [*"bac", *"abc"]),
    "deleted cell of no use": (["x = 1", "y = 2", "x"], ["a", "b", "c", ("b", None)]),
    "star import again": (["from math import *", "sqrt(4)"], ["a", "b", "a"]),
    "%time of what it uses, in order": (["q = 4", "w = %time q\nw = q\nw"], ["a", "b"]),
    "edit beside what is used": (["x = 1\ny = 2", "x"], ["a", "b", ("a", "x = 1\ny = 3")]),
    "edit beside it, run": (["x = 1\ny = 2", "x"], ["a", "b", ("a", "x = 1\ny = 3"), "a"]),
    "comment at a call": (["x = abs(hash(1))", "x"], ["a", "b", ("a", "x = abs(hash(1))  # so")]),
    # -- edits and their consequences
    "edited": (["x = 1", "x"], ["a", "b", ("a", "x = 2")]),
    "edited and run": (["x = 1", "x"], ["a", "b", ("a", "x = 2"), "a"]),
    "through another name": (["x = 1", "y = x", "y"], ["a", "b", "c", ("a", "x = 2"), "a"]),
    "what it uses is gone": (["x = 1", "x"], ["a", "b", ("a", None)]),
    "def edited": (["def f():\n    return 1", "f()"], ["a", "b", ("a", "def f():\n    return 2")]),
    "what a function reads": (
        ["k = 1", "def f():\n    return k", "f()"],
        ["a", "b", "c", ("a", "k = 2"), "a"],
    ),
    "alias of a function": (
        ["k = 1", "def f():\n    return k", "g = f", "g()"],
        ["a", "b", "c", "d", ("a", "k = 2"), "a"],
    ),
    "lambda": (["k = 1", "f = lambda: k", "f()"], ["a", "b", "c", ("a", "k = 2"), "a"]),
    "decorator": (
        ["def twice(f):\n    return lambda: 2 * f()", "@twice\ndef f():\n    return 1", "f()"],
        ["a", "b", "c", ("a", "def twice(f):\n    return lambda: 3 * f()"), "a"],
    ),
    "walrus": (["(x := 1)", "x + 1"], ["a", "b", ("a", "(x := 2)"), "a"]),
    "f-string": (["x = 1", "f'{x}'"], ["a", "b", ("a", "x = 2")]),
    "match": (
        ["p = [1, 2]", "match p:\n    case [q, _]: pass", "q"],
        ["a", "b", "c", ("a", "p = [5, 2]"), "a"],
    ),
    "class attribute": (
        ["class A:\n    x = 1", "A.x"],
        ["a", "b", ("a", "class A:\n    x = 2"), "a"],
    ),
    "method reads a global, not the class": (
        ["x = 1", "class A:\n    x = 2\n    def f(self):\n        return x", "A().f()"],
        ["a", "b", "c", ("a", "x = 3"), "a"],
    ),
    "class body": (["x = 1", "class A:\n    y = x", "A.y"], ["a", "b", "c", ("a", "x = 2"), "a"]),
    "import alias": (["import math as m", "m.sqrt(4)"], ["a", "b", ("a", "import cmath as m")]),
    "import alias, run": (
        ["import math as m", "m.sqrt(4)"],
        ["a", "b", ("a", "import cmath as m"), "a"],
    ),
    "from import": (
        ["from math import e as k", "k"],
        ["a", "b", ("a", "from math import pi as k"), "a"],
    ),
    "star import of another": (
        ["from math import *", "sqrt(4)"],
        ["a", "b", ("a", "from cmath import *"), "a"],
    ),
    "default argument": (
        ["k = 1", "def f(a=k):\n    return a", "f()"],
        ["a", "b", "c", ("a", "k = 2"), "a"],
    ),
    # -- order
    "two setters, the first ran last": (["x = 1", "x = 2", "x"], [*"bac"]),
    "through a name, set below": (["x = 1", "y = x", "x = 3", "y"], [*"acbd"]),
    "set below alone": (["x", "x = 1"], ["b", "a"]),
    "function set again below": (
        ["def f():\n    return 1", "f()", "def f():\n    return 2"],
        [*"acb"],
    ),
    "deleted, then used": (["x = 1", "del x", "x"], [*"ac", "b"]),
    "import below": (["import math as m", "m.sqrt(4)", "import cmath as m"], [*"acb"]),
    "changed in place below": (["xs = [1]", "xs", "xs.append(2)"], [*"acb"]),
    "item below": (["d = {}", "d", "d['k'] = 1"], [*"acb"]),
    "attribute below": (
        ["class A: pass", "t = A()", "t.__dict__", "t.k = 1"],
        [*"abdc"],
    ),
    "loop variable below": (["i = 9", "i", "for i in range(3): pass"], [*"acb"]),
    "with two names": (["a1, b1 = 1, 2", "a1 + b1", "b1 = 5"], [*"acb"]),
    # -- twice
    "counter": (["n = 0", "n += 1", "n"], [*"abbc"]),
    "counter shown": (["n = 0", "n += 1\nn"], [*"abb"]),
    "append": (["xs = []", "xs.append(1)", "xs"], [*"abbc"]),
    "doubled": (["x = 1", "x = x * 2", "x"], [*"abbc"]),
    "item doubled": (["d = {'k': 1}", "d['k'] = d['k'] * 2", "d"], [*"abbc"]),
    "iterator": (["it = iter([1, 2, 3])", "next(it)"], [*"abb"]),
    "cut": (["xs = [1, 2, 3]", "xs = xs[1:]", "xs"], [*"abbc"]),
    "swapped": (["a1 = 1", "b1 = 2", "a1, b1 = b1, a1", "(a1, b1)"], [*"abccd"]),
    "appended to an entry": (["d = {}", "d.setdefault('k', []).append(1)", "d"], [*"abbc"]),
    "seed beside what is drawn": (
        ["import random", "random.seed(1)\nx = random.random()", "x"],
        ["a", "b", "c", ("b", "random.seed(2)\nx = random.random()")],
    ),
    # -- names that are hidden somewhere
    "%%capture": (
        ["%%capture out\nprint(1)", "out.stdout"],
        ["a", "b", ("a", "%%capture out\nprint(2)"), "a"],
    ),
    "%%capture reads": (
        ["k = 1", "%%capture out\nprint(k)", "out.stdout"],
        ["a", "b", "c", ("a", "k = 2"), "a"],
    ),
    "shell": (["w = 'one'", "!echo $w {w}"], ["a", "b", ("a", "w = 'two'"), "a"]),
    "shell into a name": (
        ["w = 'one'", "o = !echo {w}", "o"],
        ["a", "b", "c", ("a", "w = 'two'"), "a"],
    ),
    "%%bash": (["w = 'one'", "%%bash -s $w\necho $1"], ["a", "b", ("a", "w = 'two'"), "a"]),
    "%time": (["k = 1", "r = %time k\nr = k\nr"], ["a", "b", ("a", "k = 2"), "a"]),
    "global in a function": (["x = 1", "def f():\n    global x\n    x = 5", "x", "f()"], [*"abdc"]),
    "change in a function": (
        ["xs = []", "def f():\n    xs.append(1)", "xs", "f()"],
        [*"abdc"],
    ),
    "the last result": (["1 + 1", "3", "_ + 1"], [*"bac"]),
}


def truth_of(source: Sequence[str], steps: Sequence[Any]) -> dict[str, list[str]]:
    """Letters of the cells with outputs, and of those that are stale."""
    cells = {chr(ord("a") + place): text for place, text in enumerate(source)}
    shell, shown = _Shell(), dict[str, str]()
    for step in steps:
        if isinstance(step, str):
            shown[step] = shell.run(cells[step])
        elif step[1] is None:
            del cells[step[0]]
        else:
            cells[step[0]] = step[1]
    fresh = _Shell()
    truth = {letter: fresh.run(text) for letter, text in cells.items()}
    visible = [letter for letter in cells if shown.get(letter)]
    return {
        "shown": visible,
        "stale": [letter for letter in visible if shown[letter] != truth[letter]],
    }


class _Shell:
    """IPython without a kernel."""

    def __init__(self) -> None:
        self._shell = InteractiveShell.instance()
        self._shell.reset()

    def run(self, source: str) -> str:
        """The output of the cell."""
        with capture_output() as shown:
            result = self._shell.run_cell(source, store_history=True)
        if result.error_in_exec or result.error_before_exec:
            return type(result.error_in_exec or result.error_before_exec).__name__
        kept = [
            line
            for line in shown.stdout.split("\n")
            if "time" not in line and "per loop" not in line
        ]
        value = (
            "" if result.result is None or source.rstrip().endswith(";") else repr(result.result)
        )
        return "\n".join([*(line for line in kept if not line.startswith("Out[")), value]).strip()


if __name__ == "__main__":
    result = {name: truth_of(*case) for name, case in json.load(sys.stdin).items()}
    sys.stdout.write(json.dumps(result))
