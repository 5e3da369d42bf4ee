def check(result):
    (shown,) = (cell.outputs for cell in result.cells if cell.id == "map")
    assert len(shown[0].data["text/html"]) == 5_000_007
    assert result.output("top").strip() == "['ash', 'oak', 'elm']"
