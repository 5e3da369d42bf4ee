"""Summaries of the variables of a real kernel for the model."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from shown import Shown

from jupyter_agent.errors import Busy
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.kernel.summary import summary
from jupyter_agent.kernel.variables import variables
from tests.gates import Gate
from tests.waiting import until

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


@pytest.mark.full
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


@pytest.mark.full
async def test_asking_leaves_no_trace_in_the_kernel(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("before = set(globals())", Shown())
    await variables(kernel, ["before"])
    shown = Shown()
    reply = await kernel.execute("set(globals()) - before - {'before', '_i2', '_i', '_ii'}", shown)
    assert shown.events[0][1]["data"]["text/plain"] == "set()"
    assert reply.execution_count == 2


@pytest.mark.full
async def test_a_name_that_is_not_there_is_said_so(kernels: Kernels) -> None:
    kernel = await kernels.get("a.ipynb")
    await kernel.execute("here = 1", Shown())
    assert await variables(kernel, ["here", "there"]) == "here: int 1\nthere: not defined"


def test_values_of_unknown_types_are_never_asked_for_their_text() -> None:
    class Unknown:
        def __getattribute__(self, name: str) -> None:
            raise AssertionError(f"asked for {name}")

    told = summary({"it": Unknown(), "inside": [Unknown()], "huge": 10**10_000})
    assert "it: " in told
    assert "inside: list of 1: <Unknown>" in told
    assert "huge: int of 33220 bits" in told


class Lazy:
    """Data that is computed on demand; only its metadata may be read."""

    started: list[str] = []

    def __init__(self, **metadata: Any) -> None:
        object.__setattr__(self, "_metadata", metadata)

    def __getattribute__(self, name: str) -> Any:
        metadata = object.__getattribute__(self, "_metadata")
        if name in metadata:
            return metadata[name]
        Lazy.started.append(name)
        raise AttributeError(name)

    def _starts(self, *given: Any) -> Any:
        Lazy.started.append("worked out")
        raise AssertionError("This starts a job.")

    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __getitem__ = _starts


def only_known(fetch_if_missing: bool = True) -> Any:
    assert not fetch_if_missing, "Ray executes the plan to learn its schema."
    return SimpleNamespace(names=["a"], types=["int64"])


SPARK = SimpleNamespace(
    fields=[SimpleNamespace(name="a", dataType=SimpleNamespace(simpleString=lambda: "bigint"))]
)
POLARS = {
    "collect_schema": lambda: SimpleNamespace(names=lambda: ["a"], dtypes=lambda: ["Int64"]),
    "explain": lambda optimized: "FILTER x\n  FROM\n    SCAN [a.parquet]",
}
LAZY = [
    (
        "dask.dataframe",
        "DataFrame",
        {"npartitions": 8, "columns": ["a"], "dtypes": ["int64"]},
        "DataFrame (dask, lazy) 8 partitions: 'a' int64",
    ),
    (
        "dask.dataframe",
        "Series",
        {"npartitions": 8, "name": "a", "dtype": "int64"},
        "Series (dask, lazy) 8 partitions: 'a' int64",
    ),
    (
        "dask.array",
        "Array",
        {"npartitions": 4, "shape": (10, 20), "dtype": "float64"},
        "Array (dask, lazy) 10x20 float64, 4 partitions",
    ),
    ("dask.bag", "Bag", {"npartitions": 3}, "Bag (dask, lazy) 3 partitions"),
    (
        "pyspark.sql.dataframe",
        "DataFrame",
        {"schema": SPARK, "isStreaming": False},
        "DataFrame (pyspark, lazy) 'a' bigint",
    ),
    (
        "pyspark.sql.connect.dataframe",
        "DataFrame",
        {"schema": SPARK, "isStreaming": True},
        "DataFrame (pyspark, lazy) streaming: 'a' bigint",
    ),
    ("ray.data", "Dataset", {"schema": only_known}, "Dataset (ray, lazy) 'a' int64"),
    (
        "duckdb",
        "DuckDBPyRelation",
        {"columns": ["a"], "types": ["INTEGER"]},
        "DuckDBPyRelation (duckdb, lazy) 'a' INTEGER",
    ),
    (
        "polars",
        "LazyFrame",
        POLARS,
        "LazyFrame (polars, lazy) 'a' Int64\n  plan: FILTER x; FROM; SCAN [a.parquet]",
    ),
]


@pytest.mark.parametrize(("library", "name", "metadata", "told"), LAZY)
def test_looking_at_lazy_data_starts_no_job(
    library: str, name: str, metadata: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = type(name, (Lazy,), {"__module__": library})
    module = ModuleType(library)
    setattr(module, name, kind)
    monkeypatch.setitem(sys.modules, library, module)
    monkeypatch.setattr(Lazy, "started", [])
    value, broken = kind(**metadata), kind()
    assert summary({"it": value}) == f"it: {told}"
    assert summary({"it": value}, ["it"]) == f"it: {told}"
    assert summary({"many": [value], "by": {"k": value}}).count(f"<{name}>") == 2
    assert Lazy.started == [], "no job"
    assert "could not be read: AttributeError" in summary({"it": broken})


@pytest.mark.parametrize("name", ["ObjectRef", "RDD", "Delayed", "Future", "DuckDBPyConnection"])
def test_what_stands_for_a_job_is_named_and_not_looked_into(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lazy, "started", [])
    kind = type(name, (Lazy,), {"__module__": "cluster"})
    assert summary({"it": kind()}) == f"it: cluster.{name}"
    assert Lazy.started == []


async def test_while_a_cell_runs_it_is_busy_and_can_be_asked_again(
    kernels: Kernels, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    kernel = await kernels.get("a.ipynb")
    running = kernel.execute(gate.waits, Shown())
    await until(lambda: kernel.state == "busy")
    with pytest.raises(Busy, match="a cell has been running"):
        await variables(kernel)
    gate.open()
    await running
    assert await variables(kernel, ["there"]) == "there: not defined"
