"""Rows of a run's tables that no other module has: pods, births, episodes, tests, runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hpcpod.config.resolved import Resolved
from hpcpod.config.space import Scalar
from hpcpod.records.records import Board, Confirmed, Decision, PodState
from hpcpod.run.history import Result
from hpcpod.run.usage import Used
from hpcpod.tournament.finals import ensemble_words
from hpcpod.tournament.provenance import seed_set
from hpcpod.tournament.stopping import allowed, leader


@dataclass(frozen=True)
class PodRow:
    """One agent of the population, alive or dead."""

    pod: str
    """The pod's name."""
    algorithm: str
    """The name of its algorithm."""
    family: str
    """Its algorithm and network shape: weights fit within a family."""
    cause: str
    """``fresh``, from scratch; ``copy`` of another pod's checkpoint; ``inherited`` from another
    run's policy; ``taught`` by one, whose rollouts it has imitated."""
    control: bool
    """True if it has the agent's default hyperparameters, as a measure of what evolution gains."""
    parent: str | None
    """The pod whose checkpoint it began with."""
    parent_round: int
    """The parent's round that it began from; 0 of a fresh one."""
    replaces: str | None
    """The pod whose place it took."""
    mutated: tuple[str, ...]
    """Hyperparameters that differ from the parent's."""
    evidence: str
    """The reason for its birth, with the numbers of the test."""
    fate: str
    """``alive``, ``replaced``, ``failed`` or ``given up``."""
    fate_reason: str
    """The reason for it, once it is dead."""
    rests: str
    """Empty, or why others began to train instead, or first (see ``population.budget``)."""
    winner: bool
    """True of the run's winner."""
    rounds: int
    """Rounds that it has trained under this name."""
    trained_steps: int
    """Environment steps trained under this name."""
    env_steps: int
    """Environment steps of experience in its last checkpoint, its ancestors' included."""
    cost: float
    """Slot-seconds that its experience took, its ancestors' included."""
    lost: float
    """Slot-seconds of its attempts that failed."""
    failures: int
    """Attempts that failed."""
    last_mean: float | None
    """Mean return of its last panel."""
    best_mean: float | None
    """The highest mean return of a panel of its; as the best of several it is too high."""
    estimate: float | None
    """The estimated mean return by which it ranks, of a pod that lives or is on the leaderboard."""
    score: float | None
    """Mean return on fresh seeds, if it was scored; the last such score."""
    score_low: float | None
    """Lower end of its interval: of a finalist's for all finalists at once, of a confirmation a
    one-sided bound at the level that it spent."""
    score_high: float | None
    """Upper end of it."""
    score_episodes: int
    """Episodes of the score; 0 without one."""
    hyperparameters: Mapping[str, Scalar]
    """Its hyperparameters; a pod of another algorithm has none of that name."""


@dataclass(frozen=True)
class BirthRow:
    """One birth: a founder, a copy, or a fresh pod in the place of another."""

    pod: str
    """The pod that was born."""
    algorithm: str
    """The name of its algorithm."""
    time: float | None
    """Unix time of the merge that decided it, in seconds; None if that decision is lost."""
    seconds: float | None
    """The same since the first slot began to work; founders have a time before it."""
    rounds: int
    """Rounds that the population had finished then."""
    cause: str
    """``fresh``, ``copy``, ``inherited`` or ``taught``, as of a pod."""
    parent: str | None
    """The pod whose checkpoint it began with."""
    parent_round: int
    """The parent's round that it began from; 0 of a fresh one."""
    replaces: str | None
    """The pod whose place it took."""
    rule: str
    """The generator that decided it; empty of a founder."""
    mutated: tuple[str, ...]
    """Hyperparameters that differ from the parent's."""
    evidence: str
    """The reason, with the numbers of the test."""
    transfer_exact: bool | None
    """True if the copy scored its parent's panel exactly as its parent did; None if unknown."""


@dataclass(frozen=True)
class EpisodeRow:
    """One episode of a panel, or on a fresh seed."""

    order: str
    """The order that it belongs to, as in ``rounds``."""
    pod: str
    """The pod that played it."""
    algorithm: str
    """The name of its algorithm."""
    round: int
    """The pod's round whose policy played."""
    purpose: str
    """``round``, ``final``, ``confirm``, ``snapshot`` or ``look``."""
    episode: int
    """Place among the episodes of the order, from 0. In one round the same place is the same seed
    for every pod."""
    episode_return: float
    """The sum of its rewards."""


@dataclass(frozen=True)
class TestRow:
    """One test of a comparison: whether a rival's returns are higher."""

    time: float
    """Unix time of the merge that made it, in seconds."""
    pod: str
    """The pod that was compared."""
    round: int
    """Its round then."""
    rival: str
    """The pod with which it was compared."""
    mean: float
    """Mean return of the rival less that of the pod."""
    low: float
    """One-sided lower bound of this difference; above 0 the rival has beaten the pod."""
    level: float
    """Error level of the bound."""
    episodes: int
    """Episodes of each."""
    paired: bool
    """True if the episodes of both began with the same seeds."""


@dataclass(frozen=True)
class RunRow:
    """One run, beside others."""

    run: str
    """The run's name."""
    path: str
    """The run folder."""
    env: str
    """The environment."""
    algorithms: tuple[str, ...]
    """Algorithms of the population."""
    places: int
    """Most pods in training at once."""
    seed: int
    """The configuration's seed."""
    phase: str
    """``running``, ``finals`` (its winner is being decided) or ``finished``."""
    stop_reason: str | None
    """``target``, ``env_steps``, ``minutes``, ``rounds``, ``user`` or ``failed``."""
    winner: str | None
    """The winner, or the leader so far; None before the first report."""
    algorithm: str | None
    """The winner's algorithm."""
    mean: float | None
    """The winner's mean return."""
    low: float | None
    """Lower end of its 95 % interval, which allows for ``best_of``."""
    high: float | None
    """Upper end of it."""
    episodes: int
    """Episodes of that score; 0 without one."""
    fresh_seeds: bool
    """True if they were on seeds of which no choice before knew. Else the score is the best of many
    panels: compare no such score with one on fresh seeds."""
    best_of: int
    """Scores among which it was chosen."""
    seeds: str
    """The set of seeds of that score: ``report`` (nothing was decided by them), ``confirm`` or
    ``select`` (sets of the final evaluation), ``target`` (they confirmed it) or ``panel``; empty
    without a score."""
    ensemble: str
    """Of an ensemble its rule and its members, in words; empty of a single policy."""
    env_steps: int
    """Environment steps trained by the whole population."""
    rounds: int
    """Rounds finished, over all pods."""
    pods: int
    """Pods ever born."""
    copies: int
    """Of these, copies of another."""
    hours: float | None
    """Wall time from the first slot's work to the end, or to the last report; None before one."""
    slot_hours: float
    """Run time of all slots, added up."""
    core_hours: float
    """The same times the cores of each."""
    gpu_hours: float
    """The same times the GPUs of each."""
    version: str
    """The version of hpcpod that made the run; empty if unknown."""


def fresh_score(board: Board, pod: str) -> Confirmed | None:
    """The score of a pod on fresh seeds: the winner's that decided, else its last one."""
    best = leader(board)
    if isinstance(best, Confirmed) and best.pod == pod and not best.rule:
        return best
    scores = (s for s in reversed(board.confirmed) if s.pod == pod and s.episodes > 0)
    return next((score for score in scores if not score.rule), None)


def pod_rows(board: Board, results: Iterable[Result]) -> Iterator[PodRow]:
    """Every pod of a run, by name."""
    ours: dict[str, list[Result]] = {}
    for result in results:
        if result.purpose == "round" and result.counted:
            ours.setdefault(result.pod, []).append(result)
    for _, pod in sorted(board.pods.items()):
        yield _pod_row(board, pod, ours.get(pod.id, []))


def _pod_row(board: Board, pod: PodState, tried: list[Result]) -> PodRow:
    rounds = [each for each in tried if not each.failure_kind]
    means = [each.mean for each in rounds if each.mean is not None]
    score = fresh_score(board, pod.id)
    best = pod.best
    return PodRow(
        pod=pod.id, algorithm=pod.algorithm, family=pod.family, cause=pod.cause,
        control=pod.control, parent=pod.parent, parent_round=pod.parent_round,
        replaces=pod.replaces, mutated=pod.mutated, evidence=pod.evidence, fate=pod.fate,
        fate_reason=pod.fate_reason, rests=pod.rests, winner=pod.id == board.winner,
        rounds=len(rounds), trained_steps=pod.trained_steps,
        env_steps=rounds[-1].env_steps if rounds else 0, cost=pod.cost, lost=pod.lost,
        failures=len(tried) - len(rounds), last_mean=means[-1] if means else None,
        best_mean=max(means, default=None), estimate=None if best is None else best.estimate,
        score=None if score is None else score.mean,
        score_low=None if score is None else score.low,
        score_high=None if score is None else score.high,
        score_episodes=0 if score is None else score.episodes,
        hyperparameters=pod.hyperparameters,
    )  # fmt: skip


def birth_rows(board: Board, decisions: Iterable[Decision]) -> Iterator[BirthRow]:
    """The birth of every pod, by name."""
    decided = {each.pod: each for each in decisions if each.kind == "birth"}
    for _, pod in sorted(board.pods.items()):
        decision = decided.get(pod.id)
        founder = pod.parent is None and pod.replaces is None and pod.born == 0
        time = board.started if founder else None if decision is None else decision.time
        yield BirthRow(
            pod=pod.id, algorithm=pod.algorithm, time=time,
            seconds=None if time is None or board.began is None else time - board.began,
            rounds=pod.born, cause=pod.cause, parent=pod.parent, parent_round=pod.parent_round,
            replaces=pod.replaces, rule="" if decision is None else decision.rule,
            mutated=pod.mutated, evidence=pod.evidence, transfer_exact=pod.transfer_exact,
        )  # fmt: skip


def episode_rows(results: Iterable[Result]) -> Iterator[EpisodeRow]:
    """Every episode of the reports that have counted."""
    for each in results:
        for place, episode_return in enumerate(each.returns if each.counted else ()):
            yield EpisodeRow(
                each.order, each.pod, each.algorithm, each.round, each.purpose, place,
                episode_return,
            )  # fmt: skip


def test_rows(decisions: Iterable[Decision]) -> Iterator[TestRow]:
    """Every test of every comparison."""
    for each in decisions:
        for test in each.tests:
            yield TestRow(
                each.time, each.pod, each.round, test.rival, test.mean, test.low, test.level,
                test.episodes, test.paired,
            )  # fmt: skip


def run_row(
    path: str, resolved: Resolved, version: str, board: Board, results: Iterable[Result], use: Used
) -> RunRow:
    """A run as a row beside others."""
    config, best = resolved.config, leader(board)
    low, high, candidates = (None, None, 0) if best is None else allowed(board, best)
    if best is not None and best.episodes == 1:  # a score without an error
        low = high = None
    last = max((each.seconds for each in results if each.seconds is not None), default=None)
    if board.stopped is not None and board.began is not None:
        last = board.elapsed(board.stopped)
    return RunRow(
        run=config.name, path=path, env=config.env.id, algorithms=tuple(resolved.algorithms),
        places=config.population.pods.max, seed=config.seed, phase=board.phase,
        stop_reason=board.stop_reason, winner=None if best is None else best.pod,
        algorithm=None if best is None else board.pods[best.pod].algorithm,
        mean=None if best is None else best.mean, low=low, high=high,
        episodes=0 if best is None else best.episodes, fresh_seeds=isinstance(best, Confirmed),
        best_of=candidates, seeds="" if best is None else seed_set(best),
        ensemble=ensemble_words(best), env_steps=board.env_steps, rounds=board.rounds,
        pods=len(board.pods),
        copies=sum(pod.cause == "copy" for pod in board.pods.values()),
        hours=None if last is None else max(0.0, last) / 3600, slot_hours=use.slot_seconds / 3600,
        core_hours=use.core_hours, gpu_hours=use.gpu_hours, version=version,
    )  # fmt: skip
