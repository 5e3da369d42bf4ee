def check(result):
    result.runs()
    assert result.value("(slider.min, slider.max, slider.step, slider.value)") == (0, 100, 5, 20)
    assert result.value("slider.description") == "doses"
    assert result.output("use").strip() == "40"
    (shown,) = (cell.outputs for cell in result.cells if cell.id == "slider")
    assert "application/vnd.jupyter.widget-view+json" in shown[0].data
