def check(result):
    ids = [cell.id for cell in result.cells]
    assert (*ids[:2], *ids[3:]) == ("exercise", "student", "tests", "solution")
    feedback = result.cells[2]
    assert feedback.cell_type == "markdown"
    assert "1900" in feedback.source
    assert "1900 wrong" in result.output("tests"), "the tests were not run"
    said = feedback.source + result.answer
    assert "400" not in said, "it gives the solution away"
    assert "% 100" not in said, "it gives the solution away"
