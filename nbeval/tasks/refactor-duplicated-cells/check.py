def check(result):
    result.runs()
    assert "def mean_of(" in result.source("functions")
    assert result.value("(north, south, west)") == (6.0, 2.0, 8.0)
    for region in ("north", "south", "west"):
        assert "mean_of(" in result.source(region)
        assert "sum(" not in result.source(region)
