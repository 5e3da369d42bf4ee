def check(result):
    said = result.answer.lower()
    assert "revenue_2019.csv" in said
    assert any(word in said for word in ("not there", "no such", "missing", "does not exist"))
