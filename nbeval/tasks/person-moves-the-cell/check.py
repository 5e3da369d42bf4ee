def check(result):
    result.runs()
    new = result.cells[2]
    assert [cell.id for cell in result.cells] == ["title", "heading", new.id, "data", "show"]
    assert result.source("heading") == "## Rain in 2025"
    assert (new.cell_type, new.source) == ("markdown", "Source: weather service.")
