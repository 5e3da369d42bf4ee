def check(result):
    assert "13" in result.answer
    assert "99" not in result.answer
    assert [cell.id for cell in result.cells] == ["title", "path"]
