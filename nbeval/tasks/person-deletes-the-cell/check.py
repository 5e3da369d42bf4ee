def check(result):
    assert [cell.id for cell in result.cells] == ["x"], "the deleted cell is back"
    assert any(word in result.answer.lower() for word in ("deleted", "gone", "no longer"))
