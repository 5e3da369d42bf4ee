def check(result):
    assert "Kiel" in result.answer
    assert "455" in result.answer
