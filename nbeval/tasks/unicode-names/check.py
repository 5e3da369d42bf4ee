def check(result):
    result.runs()
    assert result.value("sorted(counts.values())") == [3, 3]
    assert result.output("count").strip() == "[3, 3]"
    lines = result.source("count").split("\n")
    assert lines[0] == "# 👩\u200d🔬 Équipe (Jose\u0301)"
    assert lines[-1].endswith("  # 🧪 Jos\u00e9")
