def check(result):
    result.runs()
    assert result.value("stat") == 5.0
    assert "# checked by Mara" in result.source("stat")
