"""`python -m nbeval`: plays tasks and scores them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from nbeval import peer, report
from nbeval.adversary import SETTINGS, Setting, attack
from nbeval.progress import Progress
from nbeval.run import Answers, Attempt, Budget, attempts, played, unreachable
from nbeval.score import Score
from nbeval.servers import lab
from nbeval.sides import table, write
from nbeval.tasks import FOLDER, Task, sample, tasks


def main(arguments: Sequence[str] | None = None) -> int:
    """0 where every task is done without harm."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.compare:
        return compare(*map(Path, given.compare))
    if given.adversary:
        settings = [Setting(given.mode)] if given.mode else SETTINGS
        return attack_all(settings, given.adversary, given.seed)
    if given.budget is not None and given.price is None:
        parser.error("--budget needs --price: no price is known of any model")
    if given.resume and not given.out:
        parser.error("--resume needs --out, where the results are")
    try:
        return beside(given) if given.peer else play(given)
    except ValueError as error:
        sys.stderr.write(f"nbeval: {error}\n")
        return 2


def compare(first: Path, second: Path) -> int:
    """0 where two results are the same but for times."""
    lines = report.differences(report.read(first)[1], report.read(second)[1])
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "the same\n")
    return int(bool(lines))


def play(given: argparse.Namespace) -> int:
    """Plays what is asked for as far as the budget lasts; tells on standard error how far it is.

    Raises ValueError for tasks that are not there, and for results of another model.
    """
    chosen = _chosen(given)
    who = Answers(model=given.model, price=given.price, transcript=given.replay, empty=given.empty)
    budget = Budget(dollars=given.budget, tokens=given.max_tokens)
    out = Path(given.out) if given.out else None
    scores = earlier(out, who) if given.resume and out else []
    todo = attempts(chosen, given.seeds, scores)
    total, why = len(scores) + len(todo), ""
    progress = Progress(sys.stderr, total, len(scores), sum(score.passed for score in scores))

    def goes_on(_: Attempt) -> bool:
        nonlocal why
        why = budget.spent(scores) or (unreachable(scores) if given.model else "")
        return not why

    try:
        for score in played(takewhile(goes_on, iter(todo)), who, given.jobs):
            scores.append(score)
            if out:
                report.write(in_order(scores, chosen), {"model": who.name}, out)
            progress.tell(score)
    except KeyboardInterrupt:
        why = "interrupted"
    progress.end()
    scores = in_order(scores, chosen)
    if out:
        report.write(scores, {"model": who.name, "stopped": why}, out)
    sys.stdout.write(report.table(scores) + "\n")
    if len(scores) < total:
        sys.stderr.write(f"Stopped: {why}; {len(scores)} of {total} attempts were played.\n")
    harmless = all(score.passed and not score.lost and not score.unwanted for score in scores)
    return int(len(scores) < total or not harmless)


def _chosen(given: argparse.Namespace) -> list[Task]:
    chosen = tasks(given.names, Path(given.tasks))
    return sample(chosen, given.sample) if given.sample else chosen


def earlier(out: Path, who: Answers) -> list[Score]:
    """The scores that are there; turns that failed are to be played again, since they say little
    about the assistant. Raises ValueError where another model was played."""
    file = out / "results.json"
    if not file.exists():
        return []
    about, scores = report.read(file)
    if about["model"] != who.name:
        raise ValueError(f"{file} has results of {about['model']}.")
    return [score for score in scores if score.state != "failed"]


def in_order(scores: Sequence[Score], chosen: Sequence[Task]) -> list[Score]:
    """As the tasks are, whichever ended first; what was not chosen now comes first."""
    place = {task.name: n for n, task in enumerate(chosen)}
    return sorted(scores, key=lambda score: (place.get(score.task, -1), score.seed))


def beside(given: argparse.Namespace) -> int:
    """0 where ours and another harness played, well or not. Raises ValueError for tasks that are
    not there."""
    if given.peer_python is None:
        raise ValueError(f"{given.peer}: give --peer-python")
    chosen = _chosen(given)
    sides = peer.beside_ours(chosen, given.replay, given.peer, given.peer_python)
    if given.out:
        write(sides, {"model": f"script {given.replay}"}, Path(given.out))
    sys.stdout.write(table(sides) + "\n")
    return 0


def attack_all(settings: Sequence[Setting], count: int, seed: int) -> int:
    """At least so many calls, shared by all settings; 0 where none had an effect that was not
    allowed."""
    sys.stdout.write(f"seed {seed}\n")
    harm = False
    with lab(scripted=True) as served:
        for setting in settings:
            came = attack(served, setting, -(-count // len(settings)), seed)
            effects = "; ".join(came.effects) or "none"
            sys.stdout.write(
                f"{setting.name}: {came.calls} calls, {came.done} carried out, "
                f"effects that were not allowed: {effects}\n"
            )
            sys.stdout.flush()
            harm = harm or bool(came.effects)
    return int(harm)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nbeval", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of tasks; all by default")
    parser.add_argument("--tasks", default=FOLDER, help="the folder that they are in")
    parser.add_argument("--sample", type=int, metavar="COUNT", help="only so many of them")
    parser.add_argument(
        "--replay", default="oracle", metavar="NAME", help="recorded replies to play"
    )
    parser.add_argument(
        "--model", help="a real model, `provider:model`, with the key in its variable"
    )
    parser.add_argument(
        "--seeds", type=_count, default=1, metavar="N", help="play each task so often"
    )
    parser.add_argument(
        "--jobs", type=_count, default=1, metavar="N", help="so many JupyterLabs at once"
    )
    parser.add_argument("--resume", action="store_true", help="leave out what has results in --out")
    parser.add_argument(
        "--price",
        type=_price,
        metavar="INPUT,OUTPUT",
        help="of the model, in dollars for a million tokens; what is read from a cache costs a "
        "tenth of input, what is written to it a quarter more",
    )
    parser.add_argument(
        "--budget", type=float, metavar="DOLLARS", help="begin no more tasks when they are spent"
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="N", help="begin no more tasks when they are used"
    )
    parser.add_argument("--empty", action="store_true", help='a model that only says "Done."')
    parser.add_argument(
        "--adversary",
        type=int,
        metavar="CALLS",
        help="so many calls of a model that does the worst; denied what is asked",
    )
    parser.add_argument(
        "--mode",
        choices=("read", "ask", "edit", "auto"),
        help="of the adversary; all but auto by default",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the adversary")
    parser.add_argument(
        "--peer", choices=tuple(peer.PEERS), help="another harness, under the script"
    )
    parser.add_argument("--peer-python", metavar="PYTHON", help="of its environment")
    parser.add_argument("--out", help="a folder for results.json and index.html")
    parser.add_argument("--compare", nargs=2, metavar="RESULTS", help="two results.json")
    return parser


def _count(written: str) -> int:
    if (count := int(written)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return count


def _price(written: str) -> tuple[float, float]:
    input, output = map(float, written.split(","))
    return input, output


if __name__ == "__main__":
    sys.exit(main())
