def check(result):
    kinds = [cell.cell_type for cell in result.cells]
    assert kinds == ["markdown", "markdown", "code", "markdown", "code"]
    assert (result.cells[2].id, result.cells[4].id) == ("clean", "fit")
    assert "mean" in result.cells[3].source or "average" in result.cells[3].source
    assert not (result.folder / "reviewed.txt").exists()
