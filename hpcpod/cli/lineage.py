"""Verbs on a run's genealogy: ``lineage`` draws it, ``replay`` trains a pod's schedule again."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hpcpod.cli.arguments import arg, flag, seed
from hpcpod.cli.arguments import count as count_of
from hpcpod.cli.output import say, say_json, say_remarks
from hpcpod.cli.run_argument import is_pod, run_and
from hpcpod.errors import UserError
from hpcpod.run.tables import count, interval, number
from hpcpod.run.text import many
from hpcpod.tournament.merge import score_of
from hpcpod.tournament.statistics import interval as bounds
from hpcpod.tournament.statistics import mean

if TYPE_CHECKING:
    from hpcpod.pod.ipc.messages import Progress
    from hpcpod.records.records import Board
    from hpcpod.run.lineage_replay import Asked, CurvePoint, Replayed
    from hpcpod.run.lineage_schedule import Schedule
    from hpcpod.run.run import Run
    from hpcpod.storage.policy_blobs import Rule


LINEAGE = (
    arg("pod", metavar="POD", nargs="?", help="a pod's name, such as p0003"),
    flag("--dot", "print it for Graphviz: ... | dot -Tsvg"),
)
"""Arguments of ``lineage``, beside RUN."""
REPLAY = (
    arg("pod", metavar="POD", nargs="?",
        help="a pod's name (default: the winner, or the leader so far)"),
    arg("--seed", type=seed, metavar="N",
        help="as if the run had been launched with seed=N (default: its own, which gives its very"
        " weights again)"),
    arg("--env-steps", type=count_of, metavar="N",
        help="environment steps to train, in whole rounds (default: the schedule's)"),
    arg("--out", type=Path, metavar="DIR",
        help="where policy, curve and score go (default: RUN-POD-seedN)"),
    flag("--members", "of a run that delivers an ensemble, every member's, in DIR/POD, and join"
         " their policies in DIR/ensemble.h5 (DIR: RUN-ensemble-seedN)"),
)  # fmt: skip
"""Arguments of ``replay``, beside RUN."""

SHOW_SECONDS = 5.0
"""Pause between two lines of progress."""


def lineage(options: Namespace) -> int:
    """``hpcpod lineage``: the tree of a run's births, or one pod's ancestors and its schedule."""
    from hpcpod.run import lineage as genealogy
    from hpcpod.run.lineage_schedule import schedule_of
    from hpcpod.run.tables import lineage_lines

    run, pod = run_and((options.run, options.pod), is_pod)
    if options.dot and options.json:
        raise UserError("--dot and --json are two forms of the same: leave one of them out")
    board = run.board()
    line = run.lineage(pod, board) if board.pods else []
    kin = {each.id for each in line}
    if options.dot:
        pods = board.pods.values() if pod is None else line
        say(genealogy.dot(board, run.name, pods, kin))
    elif options.json and pod is None:
        say_json(genealogy.tree_data(board, run.name, kin))
    elif options.json:
        say_json(genealogy.schedule_data(schedule_of(run.folder, board, pod)))
    elif pod is None:
        copies = sum(each.parent is not None for each in board.pods.values())
        say(f"{run.name}: {many(len(board.pods), 'pod')}, {copies} of them copies")
        for text in genealogy.tree_lines(board, kin, run.searched):
            say(text)
        if line:
            leads = "the winner" if board.winner else f"{line[-1].id}, which leads so far"
            say(f"* leads to {leads}: hpcpod lineage {run.word} {line[-1].id} has what it trained")
    else:
        for text in lineage_lines(board, line, run.searched):
            say(text)
        _say_schedule(run, pod)
    return 0


def _say_schedule(run: Run, pod: str) -> None:
    from hpcpod.run.lineage import schedule_lines

    say()
    try:
        schedule = run.schedule(pod)
    except UserError as error:  # it has trained nothing yet, or its board is damaged
        say(str(error))
        return
    for text in schedule_lines(schedule):
        say(text)
    say(f"train it again, from scratch: hpcpod replay {run.word} {pod}")


def replay(options: Namespace) -> int:
    """``hpcpod replay``: train a pod's schedule from scratch, and score it on fresh seeds."""
    run, pod = run_and((options.run, options.pod), is_pod)
    board = run.board()
    if options.members:
        return _replay_members(run, board, pod, options)
    _train_again(run, board, run.schedule(pod), options, options.out)
    return 0


def _replay_members(run: Run, board: Board, pod: str | None, options: Namespace) -> int:
    """Train every member of the delivered ensemble again, and join what they have become."""
    from hpcpod.run.lineage_schedule import delivered

    members, place = delivered(board), board.finals.delivered
    if pod is not None or not members or place is None:
        said = "leave POD out" if members else f"{run.name} delivers no ensemble"
        raise UserError(f"--members is of all members of an ensemble: {said}")
    number = run.folder.resolved.config.seed if options.seed is None else options.seed
    home = options.out or Path(f"{run.name}-ensemble-seed{number}")
    joined = home / "ensemble.h5"
    if joined.exists():
        raise UserError(f"{home} has an ensemble.h5 already: give another folder by --out")
    for member in members:
        _train_again(run, board, run.schedule(member.pod), options, home / member.pod)
    from hpcpod.api import ensemble  # torch: not before the last of them is asked for

    rule = cast("Rule", board.finals.candidates[place].rule)
    ensemble([home / each.pod / "policy.h5" for each in members], rule=rule).save(joined)
    say(f"their ensemble ({rule}): {joined}; score it on fresh seeds: hpcpod evaluate {joined}")
    return 0


def _train_again(
    run: Run, board: Board, schedule: Schedule, options: Namespace, out: Path | None
) -> None:
    from hpcpod.cli.live import lasting_output
    from hpcpod.run.lineage_replay import asked, is_done
    from hpcpod.run.lineage_replay import replay as train_again

    ask = asked(schedule, out, options.seed, options.env_steps)
    if is_done(ask):
        say(f"{ask.out} has this replay of {schedule.pod} already")
        return
    pods = " and ".join(stretch.pod for stretch in schedule.stretches)
    which = "the run's own seed" if ask.again else "another seed than the run's"
    say(
        f"{run.name}: the schedule of {schedule.pod}, {many(ask.rounds, 'round')} of"
        f" {schedule.round_steps:,} env steps by {pods}, with {which}, {ask.seed}"
    )
    if schedule.ensemble:
        said = f"the run delivers {schedule.ensemble}: this trains its best member alone"
        say(f"{said}, --members all of them")
    if ask.rounds != schedule.rounds:
        where = "stops before its end" if ask.rounds < schedule.rounds else (
            "goes on behind its end with the last hyperparameters")  # fmt: skip
        say(f"its schedule has {schedule.rounds} rounds: this {where}")
    with lasting_output():
        done = train_again(
            run.folder, board, ask, tell=_say_point, on_progress=_progress(),
            remark=lambda sentence: say_remarks([sentence]),
        )  # fmt: skip
        _say_end(done, ask, board)


def _progress() -> Callable[[Progress], None]:
    """A function that prints where a replay stands, now and then."""
    shown = time.monotonic()

    def tell(progress: Progress) -> None:
        nonlocal shown
        if time.monotonic() - shown > SHOW_SECONDS:
            shown = time.monotonic()
            say(
                f"{count(progress.env_steps)} / {count(progress.target_steps)} env steps,"
                f" {count(progress.steps_per_second)} steps/s"
            )

    return tell


def _say_point(point: CurvePoint) -> None:
    bits = {True: "; the run's bits", False: "; NOT the run's bits", None: ""}[point.same_bits]
    own = "" if point.run_mean is None else f"; in the run {number(point.run_mean)}"
    say(
        f"round {point.round} ({point.pod}), {count(point.env_steps)} env steps: return"
        f" {interval(point.mean, point.low, point.high)}{own}{bits}"
    )


def _say_end(done: Replayed, ask: Asked, board: Board) -> None:
    low, high = bounds(done.returns)
    episodes = many(len(done.returns), "episode")
    say(f"score on fresh seeds: {interval(mean(done.returns), low, high)}, {episodes}")
    own = score_of(board, ask.schedule.pod, ask.schedule.rounds)
    if own:
        fresh = "on fresh seeds" if own["fresh_seeds"] else "by the panels that it was chosen by"
        said = interval(own["mean"], own["low"], own["high"])
        say(f"the run's own policy: {said}, {fresh}")
    known = [point for point in done.curve if point.same_bits is not None]
    if done.same_bits:
        say(f"its {many(len(known), 'checkpoint')} that can be compared have the run's bits")
    elif known:
        first = next(point for point in known if not point.same_bits)
        say(f"from round {first.round} on its checkpoints are not the run's, bit by bit")
    say(f"policy: {done.out / 'policy.h5'}")
    say(f"curve: {done.out / 'curve.csv'}; schedule and score: {done.out / 'replay.json'}")
