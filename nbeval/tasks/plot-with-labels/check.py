def check(result):
    result.runs()
    assert result.value("ax.get_title()") == "Kiel 2024"
    assert "month" in result.value("ax.get_xlabel()").lower()
    assert "°C" in result.value("ax.get_ylabel()")
    assert result.value("[list(map(float, line.get_ydata())) for line in ax.lines]") == [
        [1.9, 3.1, 6.4, 8.8, 14.2, 16.0]
    ]
    assert len(result.cells) == 2
    assert any("image/png" in output.get("data", {}) for output in result.cells[1].outputs)
