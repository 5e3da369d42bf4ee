"""What survives the server: conversations, their owner, and the truth about interrupted work."""

from __future__ import annotations

import json
import shutil
import signal
import urllib.error
from pathlib import Path

import pytest

from ..programs import jupyter_server

pytestmark = pytest.mark.full

EXAMPLE = Path(__file__).parent.parent.parent / "jupyter_agent" / "examples" / "coffee.ipynb"


def question(text: str, **more: object) -> dict[str, object]:
    return {
        "id": "talk",
        "notebook": "coffee.ipynb",
        "model": "demo:tour",
        "messages": [{"role": "user", "content": text}],
        "stream": False,
        **more,
    }


def test_one_owner_on_every_port_and_after_a_restart(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    with jupyter_server(tmp_path) as first:
        done = first.request("POST", "chat", question("run all", mode="auto"))
        changes = first.request("GET", f"turns/{done['turn_id']}/changes")
        assert {change["kind"] for change in changes} == {"outputs"}
    with jupyter_server(
        tmp_path, "jupyter server --port 8888 --IdentityProvider.token=other"
    ) as second:
        assert second.port != first.port
        (listed,) = second.request("GET", "conversations")["conversations"]
        assert listed["id"] == "talk"
        undone = second.request("POST", f"turns/{done['turn_id']}/undo", {})
        assert undone["conflicts"] == []
        cells = second.request("GET", "notebooks/coffee.ipynb")["cells"]
        assert all(cell["outputs"] == [] for cell in cells)


def test_a_turn_that_a_kill_cut_off_is_interrupted_and_can_be_followed_by_another(
    tmp_path: Path,
) -> None:
    notebook = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    (tmp_path / "coffee.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with jupyter_server(tmp_path) as first:
        # In mode `ask` the tour waits for a person; that is where the server dies.
        waiting = first.request("POST", "chat", question("show me", mode="ask"))
        assert waiting["state"] == "waiting"
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(60)
    with jupyter_server(tmp_path) as second:
        turn = second.request("GET", f"turns/{waiting['turn_id']}")
        assert turn["state"] == "interrupted"
        assert turn["approvals"] == []
        # A page may have seen more than was stored when the server died.
        ahead = second.request("GET", "chat/talk/stream", **{"Last-Event-ID": "900"})
        assert "The server stopped during this turn" in ahead
        cut_off = second.request("GET", "conversations/talk")["messages"][1]
        assert "approval-requested" not in {part.get("state") for part in cut_off["parts"]}
        with pytest.raises(urllib.error.HTTPError) as refused:
            second.request(
                "POST",
                "chat/talk/approvals",
                {"approvals": [{"id": waiting["approvals"][0]["id"], "approved": True}]},
            )
        with refused.value as answer:
            assert answer.code == 409
        given = {"id": waiting["approvals"][0]["id"], "approved": True}
        part = {"type": "dynamic-tool", "state": "approval-responded", "approval": given}
        stock = [
            {"role": "user", "content": "show me"},
            {"id": waiting["message"]["id"], "role": "assistant", "parts": [part]},
        ]
        for stream in (True, False):
            with pytest.raises(urllib.error.HTTPError) as refused:
                second.request("POST", "chat", question("", messages=stock, stream=stream))
            with refused.value as answer:
                assert answer.code == 409
                assert json.load(answer)["reason"] == "approval_closed"
        after = second.request("POST", "chat", question("run all", mode="auto"))
        assert after["state"] == "done"
        sources = [cell["source"] for cell in notebook["cells"]]
        cells = second.request("GET", "notebooks/coffee.ipynb")["cells"]
        assert [cell["source"] for cell in cells] == ["".join(source) for source in sources]
