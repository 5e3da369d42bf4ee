def check(result):
    assert [cell.id for cell in result.cells] == ["notes", "model", "fetched"]
    assert result.source("notes") == "Notes, unsaved"
    assert result.source("model") == "depth = 4\nrate = 0.1\n\nseed = 7"
