def check(result):
    result.runs()
    assert result.value("averages") == [1.5, 2.5, 3.5, 4.5]
