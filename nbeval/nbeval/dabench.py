"""`python -m nbeval.dabench CHECKOUT FOLDER`: 60 questions of DABench as tasks in notebooks.

Nothing of DABench is part of this package: questions, tables and labels are read from your own
clone of its repository. Ours are the choice of the questions, by number, and the code that answers
each of them (`dabench_oracles`).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

ANSWER = re.compile(r"@(\w+)\[(.*?)\]")
"""The form in which an answer gives a value: `@name[value]`."""
ORACLES = Path(__file__).with_name("dabench_oracles")
_DATA = Path("examples", "DA-Agent", "data")
_TOLERANCE = 1e-6
_CELL = re.compile(r"^# %% (\d+)\n", re.MULTILINE)
_NOTICE = """\
The questions, constraints, formats, labels and tables in these folders are those of
InfiAgent-DABench (https://github.com/InfiAgent/InfiAgent, https://arxiv.org/abs/2401.05507),
wrapped as notebooks; only the sentences that join the parts of a question were added.

Its repository is under the Apache License 2.0 (a copy lies beside this file where your clone had
one); its README says that the data is under CC BY-NC 4.0, which excludes commercial use, and the
tables come from other repositories. Look at both before you use or pass on what is here.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where all tasks were written."""
    parser = argparse.ArgumentParser(prog="nbeval.dabench", description=__doc__)
    parser.add_argument(
        "checkout", type=Path, help="a clone of InfiAgent/InfiAgent, or its folder of data"
    )
    parser.add_argument("folder", type=Path, help="where the tasks are written")
    given = parser.parse_args(arguments)
    try:
        names = wrap(given.checkout, given.folder, oracles())
    except (OSError, ValueError) as error:
        sys.stderr.write(f"nbeval.dabench: {error}\n")
        return 2
    sys.stdout.write(f"{len(names)} tasks: python -m nbeval --tasks {given.folder}\n")
    return 0


def oracles(folder: Path = ORACLES) -> dict[int, str]:
    """Our code for each question that we chose, by its number."""
    found: dict[int, str] = {}
    for file in sorted(folder.glob("*.py")):
        _, *parts = _CELL.split(file.read_text(encoding="utf-8"))
        found |= {int(n): code.strip() for n, code in zip(parts[::2], parts[1::2], strict=True)}
    return found


def wrap(checkout: Path, folder: Path, code: Mapping[int, str]) -> list[str]:
    """Writes a task for each question that there is code for; their names.

    Raises OSError or ValueError where `checkout` does not have them.
    """
    inside = checkout / _DATA
    data = inside if inside.is_dir() else checkout
    questions = _lines(data / "da-dev-questions.jsonl")
    labels = _lines(data / "da-dev-labels.jsonl")
    if unknown := sorted(code.keys() - (questions.keys() & labels.keys())):
        raise ValueError(f"{data} has no question and label {unknown[0]}.")
    names = []
    for number in sorted(code):
        question = questions[number]
        table = data / "da-dev-tables" / question["file_name"]
        names.append(f"dabench-{number:03}")
        _write(folder / names[-1], question, labels[number]["common_answers"], table, code[number])
    (folder / "NOTICE").write_text(_NOTICE, encoding="utf-8")
    if (checkout / "LICENSE").is_file():
        shutil.copyfile(checkout / "LICENSE", folder / "LICENSE")
    return names


def wrong(answer: str, labels: Mapping[str, str]) -> list[str]:
    """What of an answer is not as labelled. A value counts that is written like its label, or is a
    number less than a millionth away; of a name that is given twice the last value counts.
    """
    given = dict(ANSWER.findall(answer))
    return [
        f"{name} is {given.get(name, 'missing')}, not {label}"
        for name, label in labels.items()
        if name not in given or not _same(given[name], label)
    ]


def _same(given: str, label: str) -> bool:
    if given == label:
        return True
    try:
        return abs(float(given) - float(label)) < _TOLERANCE
    except ValueError:
        return False


def _lines(file: Path) -> dict[int, dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return {line["id"]: line for line in map(json.loads, filter(None, lines))}


def _write(
    task: Path,
    question: Mapping[str, Any],
    labels: Sequence[tuple[str, str]],
    table: Path,
    code: str,
) -> None:
    (task / "transcripts").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(table, task / table.name)
    prompt = (
        f"{question['question']}\n\nConstraints: {question['constraints']}\n\n"
        f"The table is {table.name}; the notebook has it as `data`. "
        f"End your answer with the values in this format: {question['format']}"
    )
    # Strings of JSON are strings of TOML.
    files = {
        "task.toml": f"category = {_json('DABench ' + question['level'])}\n"
        f"prompts = [{_json(prompt)}]\n"
        'first = ["load"]\nfootprint = { insert = true }\n',
        "notebook.ipynb": nbformat.writes(_notebook(table.name)) + "\n",  # type: ignore[no-untyped-call]
        "check.py": "from nbeval.dabench import wrong\n\n"
        f"LABELS = {dict(labels)!r}\n\n\n"
        "def check(result):\n"
        "    mistakes = wrong(result.answer, LABELS)\n"
        '    assert not mistakes, "; ".join(mistakes)\n',
        "transcripts/oracle.jsonl": "".join(_json(r) + "\n" for r in _replies(question, code)),
    }
    for name, text in files.items():
        (task / name).write_text(text, encoding="utf-8")


def _notebook(table: str) -> Any:
    v4: Any = nbformat.v4
    title = v4.new_markdown_cell(f"# {table}", id="title")
    load = v4.new_code_cell(f"import pandas as pd\n\ndata = pd.read_csv({table!r})", id="load")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=[title, load], metadata={"kernelspec": kernel})


def _replies(question: Mapping[str, Any], code: str) -> Iterator[list[dict[str, Any]]]:
    """Look, run the code in a new cell, and say what it printed."""
    names = list(dict.fromkeys(name for name, _ in ANSWER.findall(question["format"])))
    source = (
        f"names = iter({names})\n\n\n"
        'def answer(value):\n    print(f"@{next(names)}[{value}]")\n\n\n'
        f"{code}"
    )
    yield [{"type": "tool_use", "name": "get_notebook_state", "input": {}}]
    created = {"cells": [{"source": source}], "run": True}
    yield [{"type": "tool_use", "name": "create_cells", "input": created}]
    yield [{"type": "text", "text": "$answers"}]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
