def check(result):
    assert "419993" in result.answer.replace(",", "")
