def check(result):
    assert result.source("t") == "threshold = 0.5\nprint(threshold)"
    assert result.output("t").strip() == "0.5"
    assert result.source("text") == "Text, mine"
