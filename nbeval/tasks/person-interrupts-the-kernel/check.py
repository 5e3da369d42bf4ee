def check(result):
    (wait,) = result.cells
    errors = [output.get("ename") for output in wait.outputs]
    assert errors == ["KeyboardInterrupt"], "it was run again"
    assert "interrupted" in result.answer.lower()
