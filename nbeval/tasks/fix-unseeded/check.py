from random import Random


def check(result):
    result.runs()
    drawn = Random(7).sample(result.value("people"), 3)
    assert result.value("drawn") == drawn
    assert result.output("draw").split() == drawn, "it was not run"
