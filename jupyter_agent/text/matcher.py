"""Matches lines against a regular expression, in a separate process that can be killed.

Run as a script with nothing but the standard library. It reads a request as JSON (see `search`),
prints `ready`, and answers with the indexes of the matching lines or the error.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import islice


def main() -> None:
    """Answer one request."""
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
