"""The schedule of a lineage: each stretch of training from a founder's first step to a policy.

Everything in it comes from the board and the reports, which are never pruned: blobs may be gone.
A round is a function of what stands here, so the schedule can be trained again from scratch, to the
very bits with the run's own seed, or with another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hpcpod.config.schema import RunConfig
from hpcpod.errors import UserError
from hpcpod.records.records import (
    Birth,
    Board,
    Hyperparameters,
    Member,
    PodState,
    Report,
    stable_hash,
)
from hpcpod.run.pod_history import require_pod
from hpcpod.run.status import best_of
from hpcpod.run.text import listed, many
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import lineage
from hpcpod.tournament.settle import failure
from hpcpod.tournament.statistics import mean


@dataclass(frozen=True)
class TrainedRound:
    """One round of a schedule."""

    round: int
    """Its number, from 1."""
    begins: float | None
    """Share of the run's budget that was spent at its first step, in [0, 1]: learning rates that
    fall, and exploration, follow it. None: nothing limits the run."""
    ends: float | None
    """The share at its last step."""
    core: str | None
    """The sha256 of the checkpoint in which it ended; None if its report is lost."""
    mean: float | None
    """Mean return of its panel; None if its report is lost."""


@dataclass(frozen=True)
class Stretch:
    """A part of a schedule between two births: one pod's rounds, with its hyperparameters."""

    pod: str
    """The pod that trained it."""
    seed: int
    """The pod's seed, from which all random numbers of its rounds follow."""
    hyperparameters: Hyperparameters
    """Every one of the agent's."""
    mutated: tuple[str, ...]
    """Those that differ from the stretch before."""
    parent: str | None
    """The pod whose weights, optimizer, normaliser and replay rows it took over, in environments
    that began anew; None: it began from scratch."""
    shrink: bool
    """Its weights were shrunk and perturbed before its first step, and its optimizer reset."""
    first_step: int
    """Environment steps of experience at its begin, its ancestors' included."""
    last_step: int
    """The same at its end."""
    evidence: str
    """The reason for its birth."""
    rounds: tuple[TrainedRound, ...]
    """Its rounds, oldest first."""


@dataclass(frozen=True)
class Schedule:
    """The training behind a policy, from scratch: what ``hpcpod replay`` trains again."""

    run: str
    """The run's name."""
    env: str
    """The environment."""
    pod: str
    """The pod whose policy it leads to."""
    algorithm: str
    """The name of its algorithm."""
    seed: int
    """The seed of the run's configuration."""
    round_steps: int
    """Environment steps of a round."""
    stretches: tuple[Stretch, ...]
    """Its parts, oldest first: one for each pod of the lineage."""
    lost: tuple[str, ...] = ()
    """Sentences on what the run's files do not tell any more, and what stands in for it."""
    ensemble: str = ""
    """The ensemble that the run delivers, if no pod was named: the schedule is of its best member
    alone. Empty if it delivers a single policy."""

    @property
    def rounds(self) -> int:
        """Rounds from the first step to the policy."""
        return self.stretches[-1].rounds[-1].round

    @property
    def env_steps(self) -> int:
        """Environment steps from the first one to the policy."""
        return self.stretches[-1].last_step

    def births(self, seed: int, rounds: int) -> Iterator[Birth]:
        """The orders that train it again; each goes on from the checkpoint of the one before.

        Args:
            seed: as if it had been the seed of the run's configuration.
            rounds: how many; behind the schedule's end they go on with its last hyperparameters.
        """
        last = self.stretches[-1]
        tail = last.rounds[-1]
        beyond = None if tail.ends is None else 1.0
        for stretch in self.stretches:
            own = stretch.seed if seed == self.seed else stable_hash(seed, stretch.pod)
            base = Birth(stretch.pod, 1, 1, self.algorithm, stretch.hyperparameters, own)
            more: list[TrainedRound] = []
            if stretch is last:
                numbers = range(tail.round + 1, rounds + 1)
                more = [TrainedRound(number, beyond, beyond, None, None) for number in numbers]
            for place, each in enumerate((*stretch.rounds, *more)):
                if each.round > rounds:
                    return
                copied = place == 0 and stretch.parent is not None
                yield replace(
                    base, round=each.round, inherited=copied, shrink=copied and stretch.shrink,
                    begins=each.begins, ends=each.ends,
                )  # fmt: skip


def schedule_of(folder: RunFolder, board: Board, pod: str | None = None) -> Schedule:
    """The schedule of a pod's best policy: that of its best evaluation, or that won the run.

    Args:
        folder: the run's.
        board: the latest.
        pod: by default the winner, or the leader so far.

    Raises:
        UserError: the run has no such pod, or no round of it was reported, or its board does not
            lead back to a pod that began from scratch.
    """
    config, best = folder.resolved.config, best_of(folder, board)
    ensemble = best.ensemble if best is not None and pod is None else ""
    if pod is None:
        if best is None:
            raise UserError(f"{config.name} has no policy yet: no round was reported")
        pod = best.pod
    require_pod(board, pod, config.name)
    state = board.pods[pod]
    chosen = None if state.best is None else state.best.round
    if best is not None and best.pod == pod:
        chosen = best.round
    chosen = next((member.round for member in delivered(board) if member.pod == pod), chosen)
    if chosen is None:
        raise UserError(f"{pod} of {config.name} has no schedule yet: no round of it was reported")
    line = lineage(board, pod)
    check_line(line, chosen, config.name)
    ends = [*(child.parent_round for child in line[1:]), chosen]
    found = [_reported(folder, each.id) for each in line]
    limited = any(each is not None for each in (
        config.stop.rounds, config.stop.env_steps, config.stop.minutes
    ))  # fmt: skip
    stretches, unknown, lost = [], 0, []
    for state, end, reports in zip(line, ends, found, strict=True):
        rounds = []
        for number, report in _chosen(reports, state.parent_round + 1, end):
            if report is None:
                lost.append(f"{state.id}'s round {number}")
            shares = (None, None) if report is None else (report.begins, report.ends)
            if limited and None in shares:
                shares, known = _share(config, number, ends[-1])
                unknown += not known
            core = report.checkpoint.core if report is not None and report.checkpoint else None
            scored = None if report is None else mean(report.returns)
            rounds.append(TrainedRound(number, *shares, core, scored))
        stretches.append(_stretch(board, state, rounds, config.round.env_steps))
    return Schedule(
        config.name, config.env.id, pod, state.algorithm, config.seed, config.round.env_steps,
        tuple(stretches), tuple(_losses(lost, unknown)), ensemble,
    )  # fmt: skip


def delivered(board: Board) -> tuple[Member, ...]:
    """The members of the ensemble that a run delivers, best first; empty of a single policy."""
    place = board.finals.delivered
    candidate = None if place is None else board.finals.candidates[place]
    return candidate.members if candidate is not None and candidate.rule else ()


def check_line(line: list[PodState], last: int, run: str) -> None:
    """See that a lineage can be trained again: from scratch, with one network.

    Raises:
        UserError: it can't; it began in another run, or the board was damaged, or written by
            another program.
    """
    first, pod = line[0], line[-1].id
    if first.parent is not None or first.parent_round:
        raise UserError(
            f"the lineage of {pod} in {run} does not begin from scratch: {first.id}'s parent"
            f" {first.parent} is not on the board, which is damaged"
        )
    if first.origin is not None:
        raise UserError(
            f"the lineage of {pod} in {run} can't be trained again from scratch: {first.id}"
            f" {first.origin.begun}; replay a pod of {first.origin.run} instead"
        )
    if len({state.family for state in line}) > 1:
        raise UserError(
            f"the lineage of {pod} in {run} changes its network from one pod to the next, so no"
            " weights can have been handed on: its board is damaged"
        )
    starts = [state.parent_round for state in line]
    if any(late <= early for early, late in zip(starts, [*starts[1:], last], strict=True)):
        raise UserError(f"the rounds of {pod}'s lineage in {run} do not rise: its board is damaged")


def _reported(folder: RunFolder, pod: str) -> dict[int, list[Report]]:
    """A pod's rounds that have ended well: every report of each, oldest attempt first."""
    found: dict[int, list[Report]] = {}
    for report, _ in folder.reports.all(pod):
        birth = report.order == f"{pod}-{report.round:05d}-{report.attempt}"
        if birth and report.checkpoint is not None and not failure(report)[0]:
            found.setdefault(report.round, []).append(report)
    return {number: sorted(each, key=lambda r: r.attempt) for number, each in found.items()}


def _chosen(
    reports: dict[int, list[Report]], first: int, last: int
) -> list[tuple[int, Report | None]]:
    """For each round the report that counted, as far as that can be told: attempts only ever grow
    within a pod, so it is the last one before the next round's."""
    rows: list[tuple[int, Report | None]] = []
    most: int | None = None
    for number in range(last, first - 1, -1):
        fitting = [r for r in reports.get(number, ()) if most is None or r.attempt <= most]
        rows.append((number, fitting[-1] if fitting else None))
        most = fitting[-1].attempt if fitting else most
    return rows[::-1]


def _share(config: RunConfig, number: int, rounds: int) -> tuple[tuple[float, float], bool]:
    """A round's part of the run's budget where no report tells it, and whether it is exact."""
    stop = config.stop
    if stop.rounds is not None and stop.env_steps is None and stop.minutes is None:
        return ((number - 1) / stop.rounds, number / stop.rounds), True
    return ((number - 1) / rounds, number / rounds), False


def _stretch(
    board: Board, state: PodState, rounds: list[TrainedRound], round_steps: int
) -> Stretch:
    old = board.pods.get(state.replaces or "")
    return Stretch(
        pod=state.id, seed=state.seed, hyperparameters=state.hyperparameters,
        mutated=state.mutated, parent=state.parent,
        # Only a restart of the population counts one more than the place had seen.
        shrink=state.parent is not None and old is not None and state.restarts > old.restarts,
        first_step=state.parent_round * round_steps, last_step=rounds[-1].round * round_steps,
        evidence=state.evidence, rounds=tuple(rounds),
    )  # fmt: skip


def _losses(lost: list[str], unknown: int) -> Iterator[str]:
    if lost:
        some = lost if len(lost) < 4 else [*lost[:2], f"{len(lost) - 2} more"]
        yield (
            f"the report of {listed(some)} is lost: a replay trains it all the same, but its bits"
            " can't be compared"
        )
    if unknown:
        yield (
            f"no report tells which part of the run's budget {many(unknown, 'round')} had, by which"
            " learning rates and exploration fall: equal parts stand in for it"
        )
