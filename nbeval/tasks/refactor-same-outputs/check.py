def check(result):
    result.runs()
    assert "def " in result.source("report")
    assert result.output("report").strip() == "north 2 9 5.0\nsouth 1 7 3.0"
