def check(result):
    result.runs()
    assert result.value("(name, float(price))") == ("gear", 1250.0)
    assert result.value("len(in_stock)") == 3
    assert result.output("dearest").split()[0] == "gear", "it was not run"
