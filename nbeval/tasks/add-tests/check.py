WRONG = (
    "'-'.join(title.split())",
    "title.lower().replace(' ', '-')",
    "title.lower().strip().replace(' ', '-')",
    "'-'.join(title.lower().split()) or 'untitled'",
)


def check(result):
    result.runs()
    ids = [cell.id for cell in result.cells]
    assert (ids[0], ids[-1], len(ids)) == ("slug", "use", 3)
    tests = result.cells[1].source
    assert result.raises(tests) == ""
    for wrong in WRONG:
        result.raises(f"def slug(title):\n    return {wrong}")
        assert result.raises(tests) == "AssertionError", f"the tests do not notice {wrong}"
    assert result.cells[1].execution_count, "it was not run"
