def check(result):
    result.runs()
    assert result.value("double(4)") == 8
    assert "ask Jonas about the units" in result.source("notes")
