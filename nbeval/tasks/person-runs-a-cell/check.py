def check(result):
    result.runs()
    assert result.source("rate") == "rate = 2.5"
    assert result.output("gross").strip() == "250.0"
    assert "250" in result.answer
