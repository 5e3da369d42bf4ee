"""Detects code that starts work on a cluster or an engine, from its text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from contextlib import suppress

from jupyter_agent.analysis.names import without_magics

_STARTS = {
    "Dask": {"compute", "persist", "submit", "gather", "to_parquet", "to_csv", "to_zarr", "head"},
    "Spark": {"collect", "count", "show", "toPandas", "take", "first", "head", "foreach", "save"}
    | {"saveAsTable", "insertInto", "parquet", "csv", "toLocalIterator", "checkpoint", "start"},
    "Ray": {"remote", "get", "wait", "materialize", "take", "take_all", "count", "show", "fit"}
    | {"iter_batches", "iter_rows", "to_pandas", "write_parquet", "write_csv"},
}
"""System -> methods that start work according to its documentation."""
_PACKAGES = {
    "dask": "Dask",
    "distributed": "Dask",
    "dask_cudf": "Dask",
    "pyspark": "Spark",
    "databricks": "Spark",
    "ray": "Ray",
}


def clusters(code: Iterable[str], notebook: Sequence[str]) -> tuple[str, ...]:
    """Sorted names of the systems on which this code may start work.

    These are the systems that the notebook imports and of which the code calls a method that starts
    work. A method of the same name of another object counts too.
    """
    called: set[str] = set()
    for source in code:
        for node in ast.walk(_tree(source)):
            if isinstance(node, ast.Call):
                function = node.func
                if isinstance(function, ast.Attribute):
                    called.add(function.attr)
                elif isinstance(function, ast.Name):
                    called.add(function.id)
    if not called:
        return ()
    imported = {
        system for source in notebook for package in _packages(source) if (system := _of(package))
    }
    return tuple(sorted(system for system in imported if called & _STARTS[system]))


def _of(package: str) -> str | None:
    return _PACKAGES.get(package.partition(".")[0])


def _packages(source: str) -> Iterable[str]:
    if not any(package in source for package in _PACKAGES):
        return
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def _tree(source: str) -> ast.AST:
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.parse(without_magics(source))
    return ast.Module(body=[], type_ignores=[])
