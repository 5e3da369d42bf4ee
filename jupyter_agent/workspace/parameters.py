"""Values that a caller sets for a run, as papermill does."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from math import isfinite
from typing import Any

from jupyter_agent.errors import InvalidInput

INJECTED = "injected-parameters"
"""Tag of the cell with the parameters of an earlier papermill run."""
PARAMETERS = "parameters"
"""Tag of the cell after which parameters are set, as in papermill."""


def assignments_of(parameters: Mapping[str, Any], language: str) -> str:
    """Python code that sets these parameters. Raises InvalidInput for invalid names and for other
    languages.
    """
    if parameters and language != "python":
        raise InvalidInput(f"Parameters are set in Python, and this notebook is in {language}.")
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidInput(f"A parameter needs the name of a Python variable, not {name!r}.")
    return "\n".join(f"{name} = {_literal(value)}" for name, value in parameters.items())


def _literal(value: Any) -> str:
    """A Python expression for a JSON value, including NaN and infinity, which `repr` only names."""
    match value:
        case dict():
            return f"{{{', '.join(f'{key!r}: {_literal(each)}' for key, each in value.items())}}}"
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case float() if not isfinite(value):
            return f"float('{value}')"
    return repr(value)
