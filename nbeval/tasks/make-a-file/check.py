def check(result):
    result.runs()
    lines = (result.folder / "squares.csv").read_text().split()
    assert lines == ["n,square", "1,1", "2,4", "3,9", "4,16", "5,25"]
