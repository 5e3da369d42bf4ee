import nbformat


def check(result):
    assert result.source("price") == "oak = 71\npine = 40"
    weekly = nbformat.read(result.folder / "weekly.ipynb", as_version=4)
    assert [cell.source for cell in weekly.cells] == [
        "oak = 71\npine = 40",
        "print('week', 5 * oak)",
    ]
    assert weekly.cells[1].outputs[0].text == "week 320\n"
