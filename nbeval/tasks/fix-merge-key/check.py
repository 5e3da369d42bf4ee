def check(result):
    result.runs()
    assert result.value("by_manager.to_dict()") == {"Ada": 240, "Ben": 80, "Cleo": 250}
    assert "240" in result.output("by"), "it was not run"
