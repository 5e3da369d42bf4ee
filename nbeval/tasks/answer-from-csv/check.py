def check(result):
    assert "615" in result.answer
