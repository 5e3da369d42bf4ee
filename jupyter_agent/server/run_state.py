"""Routes of runs that exist: list, state, stream, wake, interrupt."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from jupyter_agent.agent.limits import Limits
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.wakes import Wakes
from jupyter_agent.document.cell import Output
from jupyter_agent.errors import RequestError
from jupyter_agent.server.answers.notebooks import RunAnswer, RunListAnswer
from jupyter_agent.server.base import STREAM, operation
from jupyter_agent.server.notebooks import OUTPUTS, DocumentHandler
from jupyter_agent.server.people import Authorizer
from jupyter_agent.server.sse import StreamHandler, number_frames
from jupyter_agent.text.notebook import output_text
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.workspace import Services

GRACE = 10.0
"""Seconds for an interrupted run to end before it is answered as it is."""
PAGE = 50
"""Runs per page."""
_FOR_EVER_S = 1e9


class RunsHandler(DocumentHandler):
    """Base of the routes of one run."""

    async def find_run(self, run_id: str) -> Run:
        """The run. Raises RequestError 404 if it is not the user's."""
        run = await self.services.runs.find(run_id, self.owner)
        if run is None:
            raise RequestError(404, "not_found", f"No run `{run_id}`.")
        return run


class TurnRunsHandler(RunsHandler):
    """Base of the run routes that need conversations."""

    def initialize(  # type: ignore[override]
        self, services: Services, clients: Clients, wakes: Wakes, limits: Limits
    ) -> None:
        super().initialize(services, clients)
        self.wakes = wakes
        self.limits = limits


class RunListHandler(DocumentHandler):
    """`GET runs`"""

    @operation(
        "read",
        "contents",
        query={"notebook": str, "state": ("all", "active", "ended"), "page": int},
        gives=RunListAnswer,
    )
    async def get(self) -> None:
        """Lists the user's remembered runs, newest first, without their outputs."""
        path = self.get_query_argument("notebook", None)
        notebook = await self.services.identities.path(path) if path else None
        state = self.choice("state", ("all", "active", "ended"))
        page = self.number("page", 1)
        runs = [
            run
            for run in self.services.runs.of(self.owner, notebook)
            if state == "all" or (run.ended is None) == (state == "active")
        ]
        shown = runs[(page - 1) * PAGE : page * PAGE]
        self.answer(
            {
                "runs": [describe_run(run, outputs=False) for run in shown],
                "next_page": page + 1 if len(runs) > page * PAGE else None,
            }
        )


class RunHandler(TurnRunsHandler):
    """`GET runs/{id}`"""

    @operation(
        "read", "contents", query={"save": ("true", "false"), "outputs": OUTPUTS}, gives=RunAnswer
    )
    async def get(self, run_id: str) -> None:
        """Returns a run, also after it ended: then its outputs are saved, unless `save=false`."""
        outputs = self.choice("outputs", OUTPUTS)
        save = self.choice("save", ("true", "false")) == "true"
        run = await self.find_run(run_id)
        if run.ended is not None and save:
            await run.wait()
        answer = describe_run(run, outputs=outputs == "full")
        if outputs == "text":
            answer["outputs"] = output_text(run.outputs())
        self.answer({**answer, "wake": await self.wakes.is_scheduled(run)})


class RunStreamHandler(StreamHandler, RunsHandler):
    """`GET runs/{id}/stream`"""

    @operation("read", "contents", media=(STREAM,))
    async def get(self, run_id: str) -> None:
        """Streams a run from its first output to its end; also one that has ended."""
        run = await self.find_run(run_id)
        await self.send_data(number_frames(frames_of(run)))


class WakeHandler(TurnRunsHandler):
    """`runs/{id}/wake`"""

    @operation("write", answers=204)
    async def put(self, run_id: str) -> None:
        """Starts a turn of the run's conversation when the run ends, once. Repeat the request
        after a restart of the server.
        """
        run = await self.find_run(run_id)
        await self.wakes.schedule(run, self.person, Authorizer(self), self.limits)
        self.answer_nothing()

    @operation("write", answers=204)
    async def delete(self, run_id: str) -> None:
        """Cancels that turn: the end of the run starts nothing."""
        await self.wakes.cancel(await self.find_run(run_id))
        self.answer_nothing()


class InterruptRunHandler(RunsHandler):
    """`POST runs/{id}/interrupt`"""

    @operation("write", "kernels", gives=RunAnswer)
    async def post(self, run_id: str) -> None:
        """Interrupts a run and answers when it has ended."""
        run = await self.find_run(run_id)
        await run.interrupt()
        await run.wait(GRACE)
        self.answer(describe_run(run))


def describe_run(run: Run, *, outputs: bool = True) -> dict[str, Any]:
    """The RUN of docs/api.md, with its turn."""
    turn = {"turn_id": run.turn_id} if run.turn_id else {}
    return {**run.describe(outputs=outputs), **turn}


async def frames_of(run: Run, *, saved: bool = True) -> AsyncGenerator[dict[str, Any], None]:
    """The events of a run for a client: `run` at the start, `outputs` and `text` as they come,
    `end` when the run has ended (with `saved`, once its outputs are saved).
    """
    shown: list[Output] = []
    yield {"type": "run", **describe_run(run, outputs=False)}
    if run.ended is None:
        async with aclosing(run.updates(_FOR_EVER_S)) as news:
            async for _ in news:
                now = run.outputs()
                for frame in _difference(run.id, shown, now):
                    yield frame
                shown = now
    await run.wait(saved=saved)
    for frame in _difference(run.id, shown, run.outputs()):
        yield frame
    yield {"type": "end", **describe_run(run, outputs=False)}


def _difference(run_id: str, old: Sequence[Output], new: Sequence[Output]) -> list[dict[str, Any]]:
    """The frames that turn one list of outputs into another: `outputs` replaces all from `index`
    on, `text` is appended to the stream at `index`.
    """
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    frames: list[dict[str, Any]] = []
    if same == len(old) - 1 and same < len(new) and _grew(old[same], new[same]):
        more = new[same]["text"][len(old[same]["text"]) :]
        frames.append({"type": "text", "run_id": run_id, "index": same, "text": more})
        same += 1
    if same < max(len(old), len(new)):
        rest = list(new[same:])
        frames.append({"type": "outputs", "run_id": run_id, "index": same, "outputs": rest})
    return frames


def _grew(then: Output, now: Output) -> bool:
    kinds = {then["output_type"], now["output_type"]}
    return (
        kinds == {"stream"}
        and then["name"] == now["name"]
        and str(now["text"]).startswith(str(then["text"]))
    )
