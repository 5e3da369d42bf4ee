def check(result):
    assert result.output("scaled").strip() == "[3, 6]"
    assert result.output("slow").strip() == "slow, run 1", "the slow cell ran again"
    assert "[3, 6]" in result.answer, "it does not say what came out"
