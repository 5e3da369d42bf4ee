def check(result):
    result.runs()
    assert result.output("errors").strip() == "errors: 4"
