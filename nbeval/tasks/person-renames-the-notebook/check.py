def check(result):
    result.runs()
    assert result.value("cities") == ["Bonn", "Kiel", "Ulm"]
    assert "'Bonn', 'Kiel'" in result.output("cities")
    assert result.source("notes") == "Notes, by Mara"
    assert [file.name for file in result.folder.glob("*.ipynb")] == ["Städte 2025.ipynb"]
