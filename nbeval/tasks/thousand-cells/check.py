def check(result):
    assert result.source("n613") == "vat = 0.19"
