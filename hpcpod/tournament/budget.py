"""A run's progress, the share of its budget that is spent, and each birth's part of it.

Schedules (a learning rate that falls, exploration that ends) follow it. It is written into a birth
when that is ordered, and again when a slot takes it up after a while: a round stays a function of
the birth that its process was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Literal

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import (
    Birth,
    Board,
    Checkpoint,
    Evaluation,
    Milestone,
    Order,
    PodState,
)
from hpcpod.tournament.settle import onward

Axis = Literal["env_steps", "seconds"]
ATTEMPTS = 32
"""See ``later_share``: a 32nd is what each of 8 founders has."""
LONGEST = 4
"""See ``later_share``: with more than 8 slots a 32nd of all slots' time is more than this part of a
run's length."""


def dated(board: Board, before: Board | None, config: RunConfig, now: float) -> Board:
    """The board whose new births say which part of the run's budget they are.

    Another attempt at a round keeps the part of the first one.

    Args:
        board: after a merge.
        before: the board that was merged into; None: there was none.
        config: of the run.
        now: Unix time in seconds.
    """
    new: dict[str, PodState] = {}
    living, kin = len(board.living), {} if before is None else _of_kin(before)
    for name, pod in board.pods.items():
        birth, known = pod.birth, None if before is None else before.pods.get(name)
        last = None if known is None else known.birth
        if birth is None or birth is last:
            continue
        if last is None or (last.round, last.checkpoint) != (birth.round, birth.checkpoint):
            new[name] = replace(pod, birth=_dated(birth, last, board, living, kin, config, now))
    return replace(board, pods={**board.pods, **new}) if new else board


def taken_up(order: Order, board: Board, config: RunConfig, now: float) -> Order:
    """An order as a slot begins with it: where fewer slots than pods are at work it has waited, and
    the others have spent a part of the budget since.

    Args:
        order: of the board.
        board: as the slot has just read it.
        config: of the run.
        now: Unix time in seconds.
    """
    if not isinstance(order, Birth) or order.begins is None or order.ends is None:
        return order
    # with 8 pods on one slot the last began at 0.7, dated 0.0
    spent = _spent(order, board, config, now)
    if spent is None or spent <= order.begins:
        return order
    # Of what was expected to pass until the round's end the waiting is over.
    return _lasting(order, spent, max(0.0, order.ends - spent), config)


def axis_of(config: RunConfig) -> Axis:
    """The axis of a run's budget."""
    return config.population.budget or ("env_steps" if config.stop.minutes is None else "seconds")


def followed(config: RunConfig) -> bool:
    """True if a pod that has trained its rounds is followed by another while there is budget."""
    stop, population = config.stop, config.population
    limited = stop.env_steps is not None or stop.minutes is not None
    follows = population.generator == "random_search" or population.allocator == "replicates"
    return stop.rounds is not None and limited and follows


def slots_of(config: RunConfig) -> int | None:
    """The slots that are asked for; None: as many as fit on this machine."""
    cluster, pods = config.cluster, config.population.pods.max
    if cluster.slots is None:
        return None if cluster.launcher == "local" else pods
    return min(cluster.slots, pods)


def slots_at_work(board: Board, config: RunConfig, now: float) -> float | None:
    """The slots that were at work on average, by the slot-seconds of all reports: fewer than are
    asked for where a cluster grants fewer. Those that are asked for until there are as many rounds
    as places; None: neither is known.

    Args:
        board: of the run.
        config: of the run.
        now: Unix time in seconds.
    """
    elapsed, done, places = board.elapsed(now), board.slot_seconds, config.population.pods.max
    asked = slots_of(config)
    if board.rounds < places or elapsed <= 0 or done <= 0:
        return None if asked is None else float(asked)
    # What each slot has in hand is half of a round, on average.
    going = elapsed - min(elapsed, done / board.reports) / 2
    return min(float(places), max(1.0, done / going))


def experience(each: Evaluation | Milestone, axis: Axis, config: RunConfig) -> float:
    """The cost of what a pod had learned, its ancestors' included, on an axis."""
    return each.cost if axis == "seconds" else float(each.round * config.round.env_steps)


def stage_count(pods: int) -> int:
    """Stages of a budget that halving gives to fewer and fewer pods: one more than halvings."""
    return math.ceil(math.log2(max(1, pods))) + 1


def first_share(config: RunConfig) -> float:
    """The experience that a founder has a right to: its part of the first stage of a budget that
    all stages divide equally; 0 where the axis has no limit. See ``young``.

    Before it a policy that does nothing may be ahead of all that learn.
    """
    pods = config.population.pods.max
    return _whole(config) / stage_count(pods) / pods


def later_share(config: RunConfig, slots: float | None = None) -> float:
    """The experience that a fresh draw has a right to once the founders have stopped gaining: one
    of so many attempts that a whole budget pays; never less than a founder's, nor more than a slot
    has of a quarter of it.

    Where there are many founders, their share is short. On MountainCarContinuous it took longer to
    learn anything: none of 16 found the hill in two rounds, and the 22nd pod did in its third.

    Args:
        config: of the run.
        slots: at work; None: those that are asked for.
    """
    whole = _whole(config)
    later = min(whole / ATTEMPTS, whole / (slots or slots_of(config) or 1) / LONGEST)
    return max(first_share(config), later)


def due(share: float, config: RunConfig, slots: float | None) -> float:
    """A pod's share, which is a part of what all slots that are asked for would have, as a part of
    what those have that are at work."""
    whole = _whole(config)
    return share * _whole(config, slots) / whole if whole else 0.0


def young(
    last: Evaluation | None, share: float, config: RunConfig, slots: float | None = None
) -> bool:
    """True while a pod has not had its share of the budget, by none of the run's limits: the one
    that ends the run may be another than the axis's.

    Args:
        last: the pod's last evaluation; None: it has none yet.
        share: of the pod, see ``PodState.share``.
        config: of the run.
        slots: at work; None: those that are asked for.
    """
    whole, stop = _whole(config), config.stop
    if share <= 0 or whole <= 0:
        return False
    if last is None:
        return True
    # With minutes as a mere precaution no pod ever had its share, and nothing was copied.
    rounds = None if stop.rounds is None else stop.rounds * config.population.pods.max
    limits = (
        (experience(last, axis_of(config), config), _whole(config, slots)),
        (experience(last, "env_steps", config), stop.env_steps),
        (float(last.round), rounds),
    )
    return all(had < share / whole * limit for had, limit in limits if limit is not None)


def _whole(config: RunConfig, slots: float | None = None) -> float:
    """The budget of a run on its axis, with so many slots, or those that are asked for; 0:
    unlimited."""
    stop = config.stop
    if axis_of(config) == "env_steps":
        return float(stop.env_steps or 0)
    return 60 * (stop.minutes or 0.0) * (slots or slots_of(config) or 1)


def spent_share(board: Board, config: RunConfig, now: float) -> float | None:
    """The spent share of ``stop.env_steps`` or ``stop.minutes``, the larger one, in [0, 1]; None:
    neither limits the run."""
    stop, shares = config.stop, []
    if stop.env_steps is not None:
        shares.append(board.env_steps / stop.env_steps)
    if stop.minutes is not None:
        shares.append(board.elapsed(now) / (60 * stop.minutes))
    return min(1.0, max(0.0, *shares)) if shares else None


def _spent(birth: Birth, board: Board, config: RunConfig, now: float) -> float | None:
    """The spent share of the run's budget when a round begins; None: nothing limits the run. Of a
    pod that follows one that has trained its rounds it is the share of its own rounds."""
    spent, rounds = spent_share(board, config, now), config.stop.rounds
    if rounds is None:
        return spent
    own = (birth.round - 1) / rounds
    # Else what is trained again with another seed would have the end of its schedules alone.
    if followed(config) and board.pods[birth.pod].replaces is not None:
        return own
    return min(1.0, max(spent or 0.0, own))


def _dated(
    birth: Birth,
    last: Birth | None,
    board: Board,
    living: int,
    kin: Mapping[str, float],
    config: RunConfig,
    now: float,
) -> Birth:
    begins, took, total = _spent(birth, board, config, now), 0.0, config.stop.env_steps
    if begins is None:
        return replace(birth, begins=None, ends=None)
    if total is not None:  # a first guess: meanwhile each of the others trains a round, too
        took = living * config.round.env_steps / total
    if last is not None and last.begins is not None and last.round < birth.round:
        took = max(0.0, begins - last.begins)
    elif total is None:
        took = kin.get(birth.algorithm, 0.0)
    return _lasting(birth, begins, took, config)


def _of_kin(board: Board) -> dict[str, float]:
    """The part of the budget that a round of each algorithm takes by its pods' births; none of one
    of which no pod has finished one: the minutes of the first ones are unknown."""
    known: dict[str, list[float]] = {}
    for pod in board.living:
        begins, ends = (None, None) if pod.birth is None else (pod.birth.begins, pod.birth.ends)
        if begins is not None and ends is not None and ends > begins:
            known.setdefault(pod.algorithm, []).append(ends - begins)
    return {algorithm: median(parts) for algorithm, parts in known.items()}


def _lasting(birth: Birth, begins: float, took: float, config: RunConfig) -> Birth:
    """The birth of a round that begins there, and takes as much as the pod's last one took."""
    stop, ends = config.stop, begins
    if stop.env_steps is not None or stop.minutes is not None:
        ends = begins + took
    if stop.rounds is not None:
        ends = max(ends, birth.round / stop.rounds)
    return replace(birth, begins=begins, ends=min(1.0, ends))


def speculative(birth: Birth, checkpoint: Checkpoint, config: RunConfig) -> Birth | None:
    """The birth that will be ordered if a pod simply continues: before it is, its part of the
    budget is exact where ``stop.rounds`` alone limit the run, and else a guess.

    Args:
        birth: of the round that has been trained.
        checkpoint: what it ended in.
        config: of the run.
    """
    following = onward(birth, birth.round, checkpoint, config)
    if following is None or birth.begins is None or birth.ends is None:
        return following
    begins = birth.ends
    if config.stop.rounds is not None:
        begins = max(begins, birth.round / config.stop.rounds)
    return _lasting(following, begins, birth.ends - birth.begins, config)


def same_work(one: Birth | None, other: Birth) -> bool:
    """True if both are orders for the same round, whatever part of the budget they say it is."""
    return one is not None and replace(one, begins=other.begins, ends=other.ends) == other
