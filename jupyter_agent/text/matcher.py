"""Matches lines against a regular expression, as a process of its own that can be killed.

Run as a script, where nothing but the standard library is at hand. It reads a request as JSON (see
`search`), says that it has it, and answers with the places of the lines that match, or the error.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import islice


def main() -> None:
    """One request, one answer."""
    request = json.load(sys.stdin.buffer)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        matches = re.compile(request["expression"], re.IGNORECASE).search
        lines = enumerate(request["lines"])
        found = (place for place, line in lines if matches(line))
        json.dump({"found": list(islice(found, request["most"]))}, sys.stdout)
    except (re.error, OverflowError, RecursionError) as error:
        json.dump({"error": str(error)}, sys.stdout)


if __name__ == "__main__":
    main()
