def check(result):
    result.runs()
    assert result.value("total") == 140.0
    assert result.value("rates") == {"EUR": 1.0, "USD": 1.25}
    assert [cell.id for cell in result.cells if cell.id in ("sales", "total")] == ["sales", "total"]
    assert not any(cell.id == "rates" for cell in result.cells)
