def check(result):
    result.runs()
    assert result.value("rows") == [("Ana", 2, 70), ("Bo", 1, 15), ("Cy", 0, 0)]
    assert "('Cy', 0, 0)" in result.output("query"), "it was not run"
