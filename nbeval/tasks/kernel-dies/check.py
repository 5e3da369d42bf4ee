def check(result):
    result.runs()
    assert result.source("settings") == "paths = 100"
    assert result.output("simulate").strip() == "mean 4.5"
    assert "4.5" in result.answer
    assert "died" in result.answer or "killed" in result.answer
