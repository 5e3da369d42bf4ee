"""Summarises Python variables, one line each. This source is sent to the kernel and runs there.

It imports only modules that are loaded there, sets no name, and only looks into values of known
types: the `repr` of others may be slow, huge or have side effects. For frames that a cluster or an
engine would compute, it only shows the plan, so that it never starts a job. Runs in
Python 3.8 or later.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Iterable, Mapping, Sequence  # noqa: UP035  for Python 3.8

MOST = 100
ITEMS = 5
ROWS = 3
COLUMNS = 12
CHARS = 60
PLAN = 300
OWN_NAMES = ("In", "Out", "exit", "quit", "open", "get_ipython")


def summary(
    namespace: Mapping[str, Any],
    names: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> str:
    """A line per variable in `names`; without `names`, a line per variable that a person set, and
    the names of functions and classes.

    `without` are names to leave out if no `names` are given.
    """
    if names is not None:
        return "\n".join(
            f"{name}: {line(namespace[name]) if name in namespace else 'not defined'}"
            for name in names
        )
    own = {
        name: value
        for name, value in list(namespace.items())
        if not name.startswith("_") and name not in OWN_NAMES and name not in without
    }
    values = [name for name in own if not is_code(own[name])]
    lines = [f"{name}: {line(own[name])}" for name in values[:MOST]]
    if len(values) > MOST:
        lines.append(f"... {len(values) - MOST} more: {', '.join(values[MOST : 2 * MOST])}")
    defined = [
        name for name in own if is_code(own[name]) and type(own[name]) is not types.ModuleType
    ]
    if defined:
        lines.append("functions and classes: " + ", ".join(defined))
    return "\n".join(lines) or "no variables"


def is_code(value: Any) -> bool:
    kinds = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
    return type(value) in kinds or issubclass(type(value), type)


def line(value: Any) -> str:
    kind = type(value)
    for known, tell in tellers():
        if kind is known:
            return f"{kind.__name__} {tell(value)}"
    for known, tell in lazy_tellers():
        if kind is known:
            library = kind.__module__.partition(".")[0].lstrip("_")
            return f"{kind.__name__} ({library}, lazy) {known_of(tell, value)}"
    if is_scalar(value):
        text = brief(value)
        return text if value is None or text.startswith("int of") else f"{kind.__name__} {text}"
    return f"{kind.__module__}.{kind.__qualname__}"


def tellers() -> Iterable[tuple[type, Callable[[Any], str]]]:
    """Types of known containers, if their library is loaded, with functions to describe them."""
    for kind in (list, tuple, set, frozenset, dict):
        yield kind, tell_items
    for library, name, tell in (
        ("numpy", "ndarray", tell_array),
        ("pandas", "DataFrame", tell_frame),
        ("pandas", "Series", tell_series),
        ("polars", "DataFrame", tell_polars),
        ("torch", "Tensor", tell_tensor),
    ):
        known = getattr(sys.modules.get(library), name, None)
        if known is not None:
            yield known, tell


def lazy_tellers() -> Iterable[tuple[type, Callable[[Any], str]]]:
    """Types of values that are computed on demand, with functions to describe their plans.

    Each function only reads what its library documents as metadata.
    """
    for library, name, tell in (
        ("dask.dataframe", "DataFrame", tell_dask_frame),
        ("dask.dataframe", "Series", tell_dask_series),
        ("dask.array", "Array", tell_dask_array),
        ("dask.bag", "Bag", tell_partitions),
        ("pyspark.sql.dataframe", "DataFrame", tell_spark),
        ("pyspark.sql.classic.dataframe", "DataFrame", tell_spark),
        ("pyspark.sql.connect.dataframe", "DataFrame", tell_spark),
        ("ray.data", "Dataset", tell_ray),
        ("ray.data.dataset", "MaterializedDataset", tell_ray),
        ("duckdb", "DuckDBPyRelation", tell_duckdb),
        ("polars", "LazyFrame", tell_lazy_polars),
    ):
        known = getattr(sys.modules.get(library), name, None)
        if known is not None:
            yield known, tell


def known_of(tell: Callable[[Any], str], value: Any) -> str:
    """The description; a library may have no plan, or have lost its cluster."""
    try:
        return tell(value)
    except Exception as error:  # noqa: BLE001  any error of the library
        return f"(its schema could not be read: {type(error).__name__})"


def tell_dask_frame(value: Any) -> str:
    return f"{tell_partitions(value)}: {columns(value.columns, value.dtypes)}"


def tell_dask_series(value: Any) -> str:
    return f"{tell_partitions(value)}: {brief(value.name)} {value.dtype}"


def tell_dask_array(value: Any) -> str:
    shape = "x".join(map(str, value.shape))
    return f"{shape} {value.dtype}, {tell_partitions(value)}"


def tell_partitions(value: Any) -> str:
    return f"{value.npartitions} partitions"


def tell_spark(value: Any) -> str:
    streaming = "streaming: " if value.isStreaming else ""
    fields = value.schema.fields
    kinds = [field.dataType.simpleString() for field in fields]
    return streaming + columns([field.name for field in fields], kinds)


def tell_ray(value: Any) -> str:
    schema = value.schema(fetch_if_missing=False)
    return "schema not known yet" if schema is None else columns(schema.names, schema.types)


def tell_duckdb(value: Any) -> str:
    return columns(value.columns, value.types)


def tell_lazy_polars(value: Any) -> str:
    schema = value.collect_schema()
    steps = [step.strip() for step in value.explain(optimized=False).split("\n") if step.strip()]
    plan = "; ".join(steps[:ITEMS]) + ("; ..." if len(steps) > ITEMS else "")
    return f"{columns(schema.names(), schema.dtypes())}\n  plan: {plan[:PLAN]}"


def is_scalar(value: Any) -> bool:
    return type(value) in (type(None), bool, int, float, complex, str, bytes)


def brief(value: Any) -> str:
    """A short text for one value inside another."""
    kind = type(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind.__module__ == "numpy" and issubclass(kind, numpy.generic):
        value = value.item()
        kind = type(value)
    if kind is int and value.bit_length() > 256:
        return f"int of {value.bit_length()} bits"
    if kind in (str, bytes):
        more = f"... ({len(value)})" if len(value) > CHARS else ""
        return repr(value[:CHARS]) + more
    if is_scalar(value):
        return repr(value)
    if kind is getattr(sys.modules.get("pandas"), "Timestamp", None):
        return str(value)
    return f"<{kind.__name__}>"


def tell_items(value: Any) -> str:
    items: list[str] = []
    for item in value:
        if len(items) == ITEMS:
            items.append("...")
            break
        items.append(f"{brief(item)}: {brief(value[item])}" if type(value) is dict else brief(item))
    return f"of {len(value)}: {', '.join(items)}" if items else "of 0"


def size(count: int) -> str:
    return f"{count} B" if count < 10_000 else f"{count / 1e6:.1f} MB"


def tell_array(value: Any) -> str:
    shape = "x".join(map(str, value.shape))
    head = [brief(item) for item in value.flat[:ITEMS]] if value.ndim else [brief(value[()])]
    return f"{shape} {value.dtype}, {size(value.nbytes)}: {', '.join(head)}"


def columns(names: Iterable[Any], kinds: Iterable[Any]) -> str:
    parts = [f"{brief(name)} {kind}" for name, kind in zip(names, kinds)]  # noqa: B905  `strict` came with 3.10
    more = f", ... {len(parts) - COLUMNS} more" if len(parts) > COLUMNS else ""
    return ", ".join(parts[:COLUMNS]) + more


def tell_frame(value: Any) -> str:
    rows, count = value.shape
    memory = size(int(value.memory_usage().sum()))
    lines = [f"{rows}x{count}, {memory}: {columns(value.columns, value.dtypes)}"]
    for row in range(min(rows, ROWS)):
        cells = [brief(value.iat[row, column]) for column in range(min(count, COLUMNS))]
        lines.append(f"  {brief(value.index[row])} | {', '.join(cells)}")
    return "\n".join(lines)


def tell_series(value: Any) -> str:
    head = ", ".join(brief(value.iat[place]) for place in range(min(len(value), ITEMS)))
    return f"{len(value)} {value.dtype}, {size(value.nbytes)}, {brief(value.name)}: {head}"


def tell_polars(value: Any) -> str:
    memory = size(value.estimated_size())
    lines = [f"{value.height}x{value.width}, {memory}: {columns(value.columns, value.dtypes)}"]
    for row in value.head(ROWS).rows():
        lines.append(f"  {', '.join(brief(item) for item in row[:COLUMNS])}")
    return "\n".join(lines)


def tell_tensor(value: Any) -> str:
    memory = size(value.numel() * value.element_size())
    text = f"{'x'.join(map(str, value.shape))} {value.dtype} on {value.device}, {memory}"
    if value.device.type != "cpu":  # asking another device waits for it
        return text
    head = value.detach()
    while head.ndim > 1 and len(head):  # views all the way: a flat copy could be huge
        head = head[0]
    items = head[:ITEMS].tolist() if head.ndim else [head.item()]
    return f"{text}: {', '.join(map(brief, items))}"
