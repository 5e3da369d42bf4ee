def check(result):
    assert [cell.id for cell in result.cells] == ["title", "end"]
