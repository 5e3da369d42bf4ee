import re


def check(result):
    said = result.answer.lower()
    assert "age" in said
    assert "score" in said, "it does not say what is there"
    assert any(word in said for word in ("no column", "no age", "not in", "not have", "missing"))
    assert not re.search(r"\d\d", said), "it tells an age all the same"
