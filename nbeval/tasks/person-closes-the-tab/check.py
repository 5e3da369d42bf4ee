def check(result):
    assert [cell.source for cell in result.cells] == [
        "# Protocol",
        "Valve open, pump off",
        "Checked by two people.",
    ]
