def check(result):
    assert result.source("a") == "x = 3"
    said = result.answer.lower()
    assert "read" in said, "it does not say that it may only read"
    assert "width" in said
