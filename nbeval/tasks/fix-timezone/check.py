def check(result):
    result.runs()
    right = {"2025-03-01": 1, "2025-03-02": 3, "2025-03-03": 1}
    assert result.value("dict(per_day)") == right
    assert "'2025-03-03': 1" in result.output("days"), "it was not run"
