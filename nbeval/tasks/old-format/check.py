import json


def check(result):
    book = json.loads((result.folder / "notebook.ipynb").read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 4)
    assert not any("id" in cell for cell in book["cells"]), "cells of that format have no ids"
    picture = book["cells"][0]["attachments"]["field.png"]["image/png"]
    assert (picture[:8], len(picture)) == ("iVBORw0K", 96)
    assert result.source("1") == "![the field](field.png)\n\nThe field in 2024."
    assert result.source("2") == "width = 12\nlength = 40"
