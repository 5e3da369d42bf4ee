def check(result):
    assert len(result.cells) == 3
    last = result.cells[-1]
    assert last.cell_type == "markdown"
    assert "harvest" in last.source.lower()
    assert "blue" not in last.source
