"""`python -m tests.fakes --port 8900 --script replies.json` serves the fake API.

The script is a list of replies; each is a list of blocks (`{"type": "text", "text": "Hi"}`) or an
object with the fields of `Scripted` (`{"status": 529, "error": ["overloaded_error", "Busy"]}`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.fakes.script import FakeReply, Scripted
from tests.fakes.server import API_KEY, FakeAnthropic


def main() -> None:
    """Serves until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes", description=__doc__)
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--key", default=API_KEY, help="the API key to accept (%(default)s)")
    arguments = parser.parse_args()
    script = json.loads(arguments.script.read_text(encoding="utf-8"))
    api = FakeAnthropic(map(_reply, script), api_key=arguments.key, port=arguments.port)
    try:
        asyncio.run(_serve(api))
    except KeyboardInterrupt:
        sys.exit(0)


async def _serve(api: FakeAnthropic) -> None:
    async with api:
        sys.stdout.write(f"Serving at {api.url} (API key {api.api_key}).\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def _reply(written: Any) -> FakeReply:
    return Scripted(**written) if isinstance(written, dict) else written


if __name__ == "__main__":
    main()
