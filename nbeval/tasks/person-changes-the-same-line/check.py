def check(result):
    result.runs()
    assert result.value("len(rows)") == 20
    lines = result.source("rows").split("\n")
    assert lines[0] == "limit = 20  # as agreed with Mara"
    assert result.output("rows").strip() == "20"
