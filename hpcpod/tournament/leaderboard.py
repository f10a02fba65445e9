"""The leaderboard: a fold of reports.

``fold`` is the whole merge, and pure: any process may do it, any number of times. Any
permutation of the reports gives the same board, and reports that were folded before, or
belong to an older attempt, change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hpcpod.records.records import Birth, Board, Entry, Order, PodState, Report, stable_hash
from hpcpod.tournament.barrier import (
    at_barrier,
    checked,
    first_barrier,
    opened,
    opens,
    resumed,
)
from hpcpod.tournament.budget import dated, slots_at_work
from hpcpod.tournament.cohorts import Cohorts, broken, quotas
from hpcpod.tournament.heirs import Parent, heir, heirs, inherits, taught
from hpcpod.tournament.offspring import Offspring, founder, pod_name
from hpcpod.tournament.policy_snapshots import taken
from hpcpod.tournament.proposals import Fresh
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.rulings import Rulings, drawn_founder, in_short
from hpcpod.tournament.settle import accept, as_dead, entry_of, ranked, settle
from hpcpod.tournament.statistics import mean
from hpcpod.tournament.stopping import advance, finish, settle_rescores


def first_board(rules: Rules, now: float, parent: Parent | None = None) -> Board:
    """The first generation: heirs of another run's policy if there is one, and pods that it
    teaches, then controls, then founders drawn from every range.

    Raises:
        UnusablePlugin: the generator gives hyperparameters that no pod can have, or none.
    """
    quota = quotas(rules.config.population)
    # p0001 ppo, p0002 dqn, p0003 ppo: the first slots get different algorithms
    turns = [
        (turn, name) for turn in range(max(quota.values())) for name in quota if turn < quota[name]
    ]
    pods: dict[str, PodState] = {}
    inheriting = _heirs(rules, quota, parent)
    for number, (turn, algorithm) in enumerate(turns, start=1):
        name, first = pod_name(number), inheriting[algorithm]
        begins = parent if turn < first else None
        if begins is not None and inherits(rules.algorithms[algorithm], begins):
            pods[name] = heir(name, algorithm, begins, rules, mutated=turn > 0)
            continue
        control = turn < first + rules.config.population.controls
        if begins is not None:  # the first that is taught has the defaults, as a control has
            control = turn == 0
        key = stable_hash(rules.config.seed, name, "founder")
        drawn = drawn_founder(rules, algorithm, control, key)
        # with a target the limit is a bound, and most of it is never spent
        share = None if rules.config.stop.target is None else 0.0
        pod = founder(name, Fresh(algorithm, drawn, control, share=share), rules)
        pods[name] = pod if begins is None else taught(pod, begins, rules)
    barrier = first_barrier(rules.config)
    board = Board(started=now, next_pod=len(turns) + 1, pods=pods, barrier=barrier)
    return dated(board, None, rules.config, now)


def _heirs(rules: Rules, quota: Mapping[str, int], parent: Parent | None) -> dict[str, int]:
    """The number of each algorithm's first pods that inherit, or are taught."""
    wanted = rules.config.population.start_from
    if parent is None or wanted is None:
        return dict.fromkeys(quota, 0)
    return {
        name: heirs(rules.algorithms[name], parent, places, wanted)
        for name, places in quota.items()
    }


def begin(board: Board, now: float) -> Board:
    """The board of a run that has a slot at work; equal if that was known."""
    if board.phase == "finished":
        return board
    if board.halted is not None:
        return resumed(board, now - board.halted)
    return board if board.began is not None else replace(board, began=now)


def fold(
    board: Board,
    reports: Collection[Report],
    rules: Rules,
    *,
    now: float,
    lost: Collection[str] = (),
    stop: str | None = None,
    size: int | None = None,
) -> Board:
    """The board after a merge.

    Args:
        board: the latest generation.
        reports: any reports, in any order; those that answer no open order are ignored.
        rules: what the tournament is played by.
        now: Unix time in seconds.
        lost: ids of orders whose slots are gone; they are given out again.
        stop: end the run now, for this reason, or ``stopping.FINALS_FIRST``.
        size: how many pods may be in training at once; None leaves it as it is.

    Returns:
        An equal board if nothing has happened.
    """
    if board.phase == "finished":
        return board
    counted = accept(board, reports)
    lost = frozenset(lost)
    merged = taken(begin(board, now) if counted else board, rules.config, now)
    if size is not None:
        merged = replace(merged, size=size if size < rules.config.population.pods.max else None)
    costs = sum(report.cost for report in counted.values())
    merged = replace(merged, slot_seconds=merged.slot_seconds + costs)
    merged = settle_rescores(merged, counted, lost, rules.config)
    open_births = {pod.birth.id for pod in board.pods.values() if pod.birth is not None}
    births = {name: report for name, report in counted.items() if name in open_births}
    if births or lost:
        merged = settle(merged, births, lost, rules.config)
    rulings = Rulings(rules, merged, now)
    if births:
        merged = _evolve(_without_broken(merged), board, births, rules, rulings, now)
        merged = rulings.looked(merged, births.values())
        merged = rulings.allocated(merged)
    merged = checked(merged, rules.config, now)
    while opens(merged, rules.config, now):
        rulings.opening(merged)
        merged, waited = opened(merged, now)
        merged = _evolve(merged, merged, waited, rules, rulings, now)
        merged = rulings.looked(merged, waited.values())
        merged = checked(rulings.allocated(merged), rules.config, now)
    merged = rulings.on(merged)
    # Who has trained goes on, in fewer places, though no pod is born any more.
    if len(merged.living) < (len(board.living) if merged.rounds == 0 else 1):
        return finish(merged, "failed", now, _why_hopeless(merged))
    after = advance(merged, board, rules.config, now=now, stop=stop)
    return dated(after, board, rules.config, now)


def orders(board: Board) -> list[Order]:
    """Open orders, the most urgent first: rescores, then births.

    Of these the algorithm comes first whose pods have cost least so far, in slot-seconds for each
    living pod: with fewer slots than pods each algorithm gets its share of the time, whatever its
    steps take. Within an algorithm the fewest rounds come first. The founders' first round goes by
    name, so that the first slots get different algorithms, and what failed is tried again when all
    were tried; in later ones no pod is always first. Where an allocator has ordered pods
    (``board.turns``), these go first, and those that rest go last.
    """
    rescores: list[Order] = [order for _, order in sorted(board.rescores.items())]
    # By rounds alone PPO had 0.2 of 48 slot-hours, beside SAC at a 67th of its speed.
    births = [pod.birth for pod in board.pods.values() if pod.birth is not None]
    spent = _spent(board)

    turns = {pod: place for place, pod in enumerate(board.turns)}

    def urgency(birth: Birth) -> tuple[bool, int, bool, float, int, int, str]:
        pod = board.pods[birth.pod]
        first = birth.round == 1 and pod.replaces is None
        lot = pod.failures if first else stable_hash(birth.pod, birth.round)
        turn = turns.get(birth.pod, len(turns))
        share = 0.0 if first else spent[birth.algorithm]
        return bool(pod.rests), turn, not first, share, birth.round, lot, birth.pod

    return rescores + sorted(births, key=urgency)


def _spent(board: Board) -> dict[str, float]:
    """The mean cost of an algorithm's living pods, in slot-seconds, by algorithm."""
    costs: dict[str, list[float]] = {}
    for pod in board.living:
        costs.setdefault(pod.algorithm, []).append(_cost_of_place(board, pod))
    return {algorithm: mean(found) for algorithm, found in costs.items()}


def _cost_of_place(board: Board, pod: PodState) -> float:
    """Slot-seconds of a pod, and of its kin that failed in its place before.

    Else an algorithm whose pods fail again and again would always have cost least, and all
    others would wait for it.
    """
    # of 5 hours one slot gave 4.9 to what diverged
    cost, algorithm = pod.cost + pod.lost, pod.algorithm
    while pod.replaces is not None:
        scratch, pod = pod.cause != "copy", board.pods[pod.replaces]
        if (pod.algorithm, pod.fate) != (algorithm, "failed"):
            break
        cost += pod.lost + (pod.cost if scratch else 0.0)
    return cost


def lineage(board: Board, pod: str) -> list[PodState]:
    """A pod's ancestors from the founder on, and the pod itself."""
    line, known = [board.pods[pod]], {pod}
    # Another user may have written the board: a circle of parents had no end.
    while (parent := line[-1].parent) in board.pods and parent is not None and parent not in known:
        line.append(board.pods[parent])
        known.add(parent)
    return line[::-1]


def needed_checkpoints(board: Board) -> set[str]:
    """The sha256 of every blob that must not be pruned."""
    kept = [entry.checkpoint for entry in board.entries]
    kept += [order.checkpoint for order in board.rescores.values()]
    kept += [m.checkpoint for order in board.rescores.values() for m in order.members]
    kept += [member.checkpoint for member in board.finals.finalists]
    kept += [s.checkpoint for s in board.confirmed if s.passed or s.purpose != "confirm"]
    kept += [snapshot.checkpoint for snapshot in board.snapshots.values()]
    for pod in board.pods.values():
        kept += [evaluation.checkpoint for evaluation in pod.history]
        if pod.best is not None:
            kept.append(pod.best.checkpoint)
        # those withdrawn an extension gives out again
        orders = [order for order in (pod.birth, pod.withdrawn) if order is not None]
        kept += [order.checkpoint for order in orders if order.checkpoint is not None]
        kept += [order.teacher.checkpoint for order in orders if order.teacher is not None]
    return {blob for checkpoint in kept for blob in checkpoint.blobs()}


def _without_broken(board: Board) -> Board:
    """The board with all pods dead whose algorithm raises the same exception in each of them."""
    pods = dict(board.pods)
    for algorithm in broken(board):
        for name, pod in board.pods.items():
            if pod.algorithm == algorithm and pod.fate == "alive":
                reason = f"each pod of {algorithm} raised the same in its first round"
                pods[name] = as_dead(pod, f"{reason}: {pod.failure}", "failed")
    return replace(board, pods=pods)


def _evolve(
    board: Board,
    before: Board,
    reports: Mapping[str, Report],
    rules: Rules,
    rulings: Rulings,
    now: float,
) -> Board:
    """Judge every pod that finished a round, replace the beaten and the dead, rank the best.

    All judgements see the same board, the one with every report in; births follow one by
    one, in the order of names. Places of the dead stay empty only if every algorithm is
    hopeless: then the run has failed. ``before`` is the board that was merged into. Pods that wait
    at a barrier are judged when it opens.
    """
    slots = slots_at_work(board, rules.config, now)
    cohorts = Cohorts(board, rules.config, rules.algorithms, slots)
    offspring = Offspring(board, rules)
    admitted: list[Entry] = []
    compared, listed = False, {entry.pod for entry in board.entries}
    fallen = [pod for pod in before.living if board.pods[pod.id].fate == "failed"]
    for report in reports.values():
        pod = board.pods[report.pod]
        if pod.fate != "alive" or pod.failures > 0:
            continue
        waits = at_barrier(board, pod)
        verdict = rulings.judge(cohorts, report, counts=not waits)
        if pod.best is not None and (verdict.admit or pod.id in listed):
            admitted.append(entry_of(pod, pod.best))
        if waits:
            continue
        compared = compared or verdict.round > 0
        if verdict.round:
            judged = max(pod.judged, verdict.round)
            pod = replace(pod, judged=judged, verdict=in_short(verdict))
        offspring.pods[pod.id] = pod
        key = stable_hash(rules.config.seed, pod.id, report.round)
        child = rulings.challenge(cohorts, offspring, pod, verdict, key)
        if child is not None:
            cohorts.succeed(pod, child)
        elif verdict.beaten_by:
            words = rulings.stays(cohorts, pod, verdict)
            offspring.pods[pod.id] = replace(pod, verdict=words)
    for pod in (board.pods[each.id] for each in fallen):
        if cohorts.hopeful():
            key = stable_hash(rules.config.seed, pod.id, "successor")
            cohorts.succeed(pod, rulings.replace(cohorts, offspring, pod, key))
    if compared:
        board = replace(board, compared=board.rounds, compared_at=now)
    return _rank(offspring.board(board), admitted, rules.config.population.capacity)


def _why_hopeless(board: Board) -> str:
    """Why a board whose dead are not replaced any more has failed."""
    dead = [pod for _, pod in sorted(board.pods.items()) if pod.fate == "failed"]
    last = dead[-1]
    many = "1 pod" if len(dead) == 1 else f"{len(dead)} pods"
    none = "none has finished a round" if board.rounds == 0 else "none is left"
    return f"{many} failed, and {none}; {last.id} {last.algorithm}, {last.failure}"


def _rank(board: Board, admitted: Collection[Entry], capacity: int) -> Board:
    """The board with its entries up to date: one for each pod, the worst leave."""
    rows = {entry.pod: entry for entry in board.entries}
    rows |= {entry.pod: entry for entry in admitted}
    entries = ranked(rows.values())[:capacity]
    kept = {entry.pod for entry in entries}
    pods = {
        name: replace(pod, best=None)
        if pod.fate != "alive" and pod.best is not None and name not in kept
        else pod
        for name, pod in board.pods.items()
    }
    return replace(board, pods=pods, entries=entries)
