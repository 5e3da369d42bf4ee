def check(result):
    result.runs()
    assert result.value("total") == 16
    assert "total 16" in result.output("total"), "it was not run"
