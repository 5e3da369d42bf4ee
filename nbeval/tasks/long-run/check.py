def check(result):
    assert "42" in result.answer
    assert "result 42" in result.output("long")
