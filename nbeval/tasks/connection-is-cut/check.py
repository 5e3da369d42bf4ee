def check(result):
    result.runs()
    assert result.source("result") == "print(round(2 / 3, 2))"
    assert result.source("notes") == "Notes from the train, in a tunnel"
