def check(result):
    assert "3" in result.answer or "three" in result.answer.lower()
    assert len(result.cells) == 2
    assert not (result.folder / "notes.txt").exists()
