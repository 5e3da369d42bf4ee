def check(result):
    assert result.output("count").strip() == "3"
    (draft,) = (cell for cell in result.cells if cell.id == "draft")
    assert draft.cell_type == "markdown", "the person made it text"
    said = result.answer.lower()
    assert "markdown" in said or "text" in said
