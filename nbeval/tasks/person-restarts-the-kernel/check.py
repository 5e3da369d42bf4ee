def check(result):
    assert "5050" in result.answer.replace(",", "")
    assert result.output("sum").strip() == "5050"
