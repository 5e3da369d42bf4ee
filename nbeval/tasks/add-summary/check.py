def check(result):
    ids = [cell.id for cell in result.cells]
    assert (ids[0], ids[2]) == ("table", "next")
    new = result.cells[1]
    assert new.cell_type == "markdown"
    assert "June" in new.source
    assert "180" in new.source
