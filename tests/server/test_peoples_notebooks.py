"""Real notebooks of people, run by a script that leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..notebook.peoples_files import differences, made
from .conftest import Call

BY = {"by": "Nightly", "new_turn": "true"}


@pytest.mark.full
@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 300), marks=pytest.mark.long)])
async def test_what_people_bring_is_run_and_put_back_and_no_kernel_stays(
    call: Call, jp_serverapp: Any, jp_root_dir: Path, seeds: range
) -> None:
    ran = 0
    for seed in seeds:
        path = jp_root_dir / f"theirs-{seed}.ipynb"
        path.write_bytes(made(seed))
        body = {"stop_on_error": False, "keep_kernel": False}
        answer = await call("POST", "notebooks", path.name, "run", params=BY, body=body)
        if answer.status == 400:  # its kernel is not installed here
            assert answer.body["reason"] == "kernel_not_installed", (seed, answer.text)
            assert path.read_bytes() == made(seed)
            continue
        assert answer.status == 200, (seed, answer.text)
        ran += len(answer.body["cells"])
        assert all(run["status"] in ("ok", "error") for run in answer.body["cells"]), seed
        undone = await call("POST", "turns", answer.body["turn_id"], "undo")
        assert undone.body["conflicts"] == [], (seed, undone.text)
        assert differences(path.read_bytes(), made(seed)) == [], seed
    assert ran > len(seeds) / 2
    assert jp_serverapp.kernel_manager.list_kernels() == []
