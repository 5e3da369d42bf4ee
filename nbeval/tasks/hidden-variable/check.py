def check(result):
    result.runs()
    assert result.value("over") == [41, 99]
    assert "limit" in result.source("settings")
