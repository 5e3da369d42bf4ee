"""Which code is recognized as starting a job on a cluster."""

from __future__ import annotations

import pytest

from jupyter_agent.analysis.jobs import clusters

DASK = "import dask.dataframe as dd"
SPARK = "from pyspark.sql import SparkSession"
RAY = "import ray"


@pytest.mark.parametrize(
    ("notebook", "code", "told"),
    [
        ([DASK], "df.groupby('a').mean().compute()", ("Dask",)),
        (["from dask import compute"], "compute(a, b)", ("Dask",)),
        (["from dask.distributed import Client"], "client.submit(f, 1)", ("Dask",)),
        ([SPARK], "rows = df.filter('a > 1').collect()", ("Spark",)),
        ([SPARK], "df.write.mode('overwrite').parquet('out')", ("Spark",)),
        ([SPARK], "%time df.count()", ("Spark",)),
        ([SPARK], "%%time\nn = df.count()", ("Spark",)),
        ([RAY], "ray.get(f.remote(1))", ("Ray",)),
        ([DASK, RAY], "f.remote(df.persist())", ("Dask", "Ray")),
        ([], "import ray\nf.remote()", ("Ray",)),
        ([DASK], "df = dd.read_parquet('a')\ndf.groupby('a').mean()", ()),
        ([SPARK], "df = spark.read.table('a').filter('b')", ()),
        ([SPARK], "# df.collect()", ()),
        (["import pandas as pd"], "df.head(); model.compute()", ()),
        (["# import dask"], "x.compute()", ()),
        ([DASK], "this is no python.compute()", ()),
        ([DASK], "%%bash\necho compute", ()),
    ],
)
def test_code_that_starts_a_job_is_known_by_its_calls(
    notebook: list[str], code: str, told: tuple[str, ...]
) -> None:
    assert clusters([code], [*notebook, code]) == told
