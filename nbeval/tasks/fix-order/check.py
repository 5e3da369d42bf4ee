def check(result):
    result.runs()
    assert result.value("gross") == 238.0
    assert sorted(cell.id for cell in result.cells) == ["gross", "net", "rate"]
