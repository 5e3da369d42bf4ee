def check(result):
    tags = {cell.id: cell.metadata.get("tags") for cell in result.cells}
    assert tags == {"defaults": ["parameters"], "injected": ["injected-parameters"], "report": None}
    assert result.source("defaults") == "year = 2025\nregion = 'north'"
    assert result.source("injected").endswith("year = 2024")
    assert "injected" in result.answer.lower(), "it does not say what still holds in this notebook"
