def check(result):
    result.runs()
    assert result.value("float(train_z.mean().round(9))") == 0.0
    assert result.value("[float(z) for z in test_z.round(2)]") == [87.21, 105.1]
    assert "87.21" in result.output("scale"), "it was not run"
