"""What a model is told about the variables of a real kernel."""

from __future__ import annotations

import asyncio
import re

from shown import Shown

from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.summary import summary
from jupyter_agent.kernel.variables import variables

SETUP = """
import pandas as pd, numpy as np
count, name = 3, "x" * 100
items = [1, 2.5, "three", None, object(), 6]
frame = pd.DataFrame({"a": [1, 2], "b": ["p", "q"]})
grid = np.zeros((2, 3))
class Loud:
    def __repr__(self):
        raise SystemExit("repr was called")
    __len__ = __str__ = __bool__ = __repr__
loud = Loud()
def helper(): ...
"""


async def test_variables_are_told_with_type_size_and_head(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute(SETUP, Shown())
    told = await variables(kernel)
    assert "count: int 3\n" in told
    assert "... (100)" in told
    assert "items: list of 6: 1, 2.5, 'three', None, <object>, ...\n" in told
    assert re.search(r"frame: DataFrame 2x2, \d+ B: 'a' int64, 'b' ", told)
    assert "  0 | 1, 'p'\n" in told
    assert "grid: ndarray 2x3 float64, 48 B: 0.0, 0.0, 0.0, 0.0, 0.0\n" in told
    assert "loud: __main__.Loud\n" in told
    assert "functions and classes: Loud, helper" in told


async def test_asking_leaves_no_trace_in_the_kernel(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("before = set(globals())", Shown())
    await variables(kernel, ["before"])
    shown = Shown()
    reply = await kernel.execute("set(globals()) - before - {'before', '_i2', '_i', '_ii'}", shown)
    assert shown.events[0][1]["data"]["text/plain"] == "set()"
    assert reply.execution_count == 2


async def test_a_name_that_is_not_there_is_said_so(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("here = 1", Shown())
    assert await variables(kernel, ["here", "there"]) == "here: int 1\nthere: not defined"


async def test_while_a_cell_runs_the_answer_is_busy(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    shown = Shown()
    execution = kernel.execute("print('on', flush=True)\nimport time; time.sleep(60)", shown)
    async with asyncio.timeout(60):
        await shown.printed.wait()
    assert "busy" in await variables(kernel)
    await execution.interrupt()
    assert (await execution).status == "interrupted"


def test_values_of_unknown_types_are_never_asked_for_their_text() -> None:
    class Unknown:
        def __getattribute__(self, name: str) -> None:
            raise AssertionError(f"asked for {name}")

    told = summary({"it": Unknown(), "inside": [Unknown()], "huge": 10**10_000})
    assert "it: " in told
    assert "inside: list of 1: <Unknown>" in told
    assert "huge: int of 33220 bits" in told
