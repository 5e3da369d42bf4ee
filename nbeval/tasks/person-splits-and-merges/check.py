def check(result):
    result.runs()
    assert [cell.source for cell in result.cells] == [
        "raw = '3 4 6'",
        "readings = [int(word) for word in raw.split()]\ntotal = sum(readings)"
        "\n\nprint('total', total)",
    ]
    assert result.output(result.cells[1].id).strip() == "total 13"
