def check(result):
    result.runs()
    assert result.source("settings") == "depth = 10\nwidth = 2\nheight = 3"
    assert result.source("notes") == "To do:"
    assert result.value("(depth, height)") == (10, 3)
