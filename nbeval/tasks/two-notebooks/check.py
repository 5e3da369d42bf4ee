def check(result):
    result.runs()
    assert result.value("oak") == 64
