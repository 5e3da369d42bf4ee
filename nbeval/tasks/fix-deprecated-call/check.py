def check(result):
    result.runs()
    assert result.value("table.to_dict('list')") == {
        "city": ["Kiel", "Bonn", "Ulm"],
        "rain": [61, 48, 55],
    }
    assert result.value("list(table.index)") == [0, 1, 2]
    assert "54.67" in result.output("append"), "it was not run"
