"""Replays: the schedule behind a policy trained again, from scratch, with a score that is honest.

A policy that a tournament chose has the luck of the choice in it, and its training is a tree of
births. Its schedule (``run/lineage_schedule.py``) is one training that others can repeat.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod.config.placement import ranks_of
from hpcpod.config.resolved import Resolved, versions
from hpcpod.config.schema import RunConfig
from hpcpod.errors import RunExists, UserError
from hpcpod.records.records import Birth, Board, Report, encode
from hpcpod.run.data import Columns
from hpcpod.run.data_files import as_csv
from hpcpod.run.lineage_schedule import Schedule, TrainedRound
from hpcpod.storage.disk import Disk, explained
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import score_of
from hpcpod.tournament.statistics import interval, mean, sd

if TYPE_CHECKING:
    from hpcpod.pod.ipc.messages import Progress

TRAINING = "training"
"""Folder, in that of a replay, from which an interrupted one goes on; gone when it is done."""
FILES = ("policy.h5", "curve.csv", "replay.json")
"""Files of a replay that is done."""


@dataclass(frozen=True)
class Asked:
    """A replay as it is asked for."""

    schedule: Schedule
    seed: int
    """As if it had been the seed of the run's configuration."""
    rounds: int
    """Rounds to train."""
    out: Path
    """The folder of its files."""

    @property
    def again(self) -> bool:
        """True if it has the run's own seed: the same bits are expected."""
        return self.seed == self.schedule.seed

    @property
    def env_steps(self) -> int:
        """Environment steps to train."""
        return self.rounds * self.schedule.round_steps


@dataclass(frozen=True)
class CurvePoint:
    """A row of ``curve.csv``: a round of the replay, beside the same round of the run."""

    round: int
    """Its number, from 1."""
    env_steps: int
    """Environment steps of experience at its end."""
    pod: str
    """The pod of the run whose round it is."""
    mean: float
    """Mean return of its panel."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end of it."""
    episodes: int
    """Episodes of the panel."""
    run_mean: float | None
    """Mean return of the run's own round; None behind the schedule's end, or if it is lost."""
    same_bits: bool | None
    """True if it ended in the very checkpoint of the run, by its sha256; None if none is known, or
    the replay has another seed."""


@dataclass(frozen=True)
class Replayed:
    """A replay that is done."""

    curve: tuple[CurvePoint, ...]
    returns: tuple[float, ...]
    """Of the last policy, on fresh seeds, without exploring."""
    out: Path
    """The folder with ``policy.h5``, ``curve.csv`` and ``replay.json``."""

    @property
    def same_bits(self) -> bool | None:
        """True if all rounds that can be compared ended in the run's bits; None if none can."""
        known = [each.same_bits for each in self.curve if each.same_bits is not None]
        return all(known) if known else None


def asked(
    schedule: Schedule, out: Path | None = None, seed: int | None = None,
    env_steps: int | None = None,
) -> Asked:  # fmt: skip
    """A replay by what a person says.

    Args:
        schedule: what to train.
        out: the folder of its files; by default named by run, pod and seed.
        seed: by default the run's.
        env_steps: by default the schedule's; rounded up to whole rounds, for hyperparameters change
            at their ends. Behind the schedule's end its last hyperparameters go on.

    Raises:
        UserError: another replay is there already.
    """
    seed = schedule.seed if seed is None else seed
    rounds = schedule.rounds
    if env_steps is not None:
        rounds = max(1, -(-env_steps // schedule.round_steps))
    to = out or Path(f"{schedule.run}-{schedule.pod}-seed{seed}")
    ask = Asked(schedule, seed, rounds, to)
    there = [name for name in FILES if (to / name).exists()]
    # An interrupted one has its scratch folder: it goes on, though it has begun to write.
    if there and not ((to / TRAINING).exists() or is_done(ask)):
        raise UserError(f"{to} has a {there[0]} already: give another folder by --out")
    return ask


def is_done(ask: Asked) -> bool:
    """True if the folder of a replay has its files, of the same schedule, seed and steps."""
    try:
        about = json.loads((ask.out / "replay.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    same = {"run": ask.schedule.run, "seed": ask.seed, "env_steps": ask.env_steps,
            "schedule": json.loads(json.dumps(encode(ask.schedule)))}  # fmt: skip
    return isinstance(about, dict) and all(about.get(name) == same[name] for name in same)


def hindrances(folder: RunFolder, ask: Asked) -> Iterator[str]:
    """Reasons for which this replay won't have the run's bits, or can't show that it has.

    Raises:
        UserError: the run's pods are a program's.
    """
    config = folder.resolved.config
    if config.program is not None:
        raise UserError(
            f"{config.name} trains a program, which hpcpod does not replay: `hpcpod lineage` has"
            " the hyperparameters and seeds of each stretch"
        )
    if not ask.again:
        return
    yield from ask.schedule.lost
    if config.pod.device != "cpu" and config.resources.gpus_per_pod:
        yield (
            "the run's pods trained on GPUs, whose sums come in any order: the bits will differ"
            " soon, and curves by the luck that a seed has"
        )
    if (ranks := ranks_of(config)) > 1 and config.pod.fusion.backend == "mpi":
        yield (
            f"the {ranks} ranks of the run's pods exchanged by MPI, which adds in an order of its"
            " own: on other nodes, or with another MPI, the bits may differ"
        )
    made, here = folder.config.get("versions", {}), versions()
    other = [
        f"{name} {made[name]} (here {here.get(name, 'none')})"
        for name in made if made[name] != here.get(name)
    ]  # fmt: skip
    if other:
        yield f"the run was made with {', '.join(other)}: its bits are those of these versions"


def replay(
    folder: RunFolder, board: Board, ask: Asked, *,
    tell: Callable[[CurvePoint], object] = lambda point: None,
    remark: Callable[[str], object] = lambda sentence: None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Replayed:  # fmt: skip
    """Train a schedule from scratch; write ``policy.h5``, ``curve.csv`` and ``replay.json``.

    One that was interrupted goes on from its folder.

    Args:
        folder: of the run; it is only read.
        board: of the run.
        ask: what to train, and where to.
        tell: called after each round.
        remark: called before anything is trained, with each reason for other bits than the run's.
        on_progress: called every half second.

    Raises:
        UserError: the folder can't be made, or has another replay, or the run has code of another
            user's.
        Diverged: the agent's numbers are not finite.
    """
    resolved = folder.resolved
    folder.owner.require_code(resolved.own_code(), "replay")
    for sentence in hindrances(folder, ask):
        remark(sentence)
    births = list(ask.schedule.births(ask.seed, ask.rounds))
    scratch = _scratch(folder, ask, births)
    from hpcpod.deploy.replay import Retraining

    work = Retraining(scratch)
    with contextlib.closing(work):
        engine = _engine(folder, ask, births)
        if ask.again and engine not in (None, work.engine):
            remark(f"the run's scores are by {engine}, here by {work.engine}: bits will differ")
        known = {each.round: each for stretch in ask.schedule.stretches for each in stretch.rounds}
        curve: list[CurvePoint] = []

        def done(birth: Birth, report: Report) -> None:
            curve.append(_point(birth, report, known.get(birth.round), again=ask.again))
            tell(curve[-1])

        trained = work.train(births, done, on_progress)
        result = Replayed(tuple(curve), trained.final.returns, ask.out)
        about = _about(ask, result, score_of(board, ask.schedule.pod, ask.schedule.rounds))
        work.save(trained, ask.out / "policy.h5", {"replay": about, "score": about["score"]})
    disk = Disk()
    disk.replace(ask.out.absolute() / "curve.csv", as_csv(_columns(curve)).encode())
    text = json.dumps({**about, "schedule": encode(ask.schedule)}, indent=1)
    disk.replace(ask.out.absolute() / "replay.json", text.encode())
    shutil.rmtree(ask.out / TRAINING, ignore_errors=True)
    return result


def _scratch(folder: RunFolder, ask: Asked, births: list[Birth]) -> RunFolder:
    """A run folder to train in: new, or that of the same replay, which was interrupted."""
    resolved = folder.resolved
    config = _alone(resolved.config, ask.seed)
    document = {**Resolved(config, resolved.algorithms).document(), "replay": encode(births)}
    path = ask.out / TRAINING
    with explained("make the folder of the replay", ask.out):
        ask.out.mkdir(parents=True, exist_ok=True)
    try:
        return RunFolder.create(path, document)
    except RunExists:
        found = RunFolder.open(path)
    same = ("config", "algorithms", "versions", "replay")
    if any(found.config.get(name) != json.loads(json.dumps(document[name])) for name in same):
        raise UserError(
            f"{path} is of another replay, which was interrupted: give another folder by --out, or"
            " remove it"
        )
    return found


def _alone(config: RunConfig, seed: int) -> RunConfig:
    """The configuration of a replay: loggers see nothing of it, and all its ranks are here."""
    pod = replace(config.pod, curve_rows=0)
    cluster = replace(config.cluster, launcher="local")
    return replace(config, seed=seed, metrics=(), pod=pod, cluster=cluster)


def _engine(folder: RunFolder, ask: Asked, births: list[Birth]) -> str | None:
    """The simulator that has scored the last round that both have; None if its report is lost."""
    last = births[-1]
    engines = [r.engine for r, _ in folder.reports.all(last.pod) if r.engine]
    return engines[-1] if engines else None


def _point(birth: Birth, report: Report, known: TrainedRound | None, *, again: bool) -> CurvePoint:
    assert report.checkpoint is not None
    core, low_high = None if known is None else known.core, interval(report.returns)
    return CurvePoint(
        birth.round, report.checkpoint.env_steps, birth.pod, mean(report.returns), *low_high,
        len(report.returns), None if known is None else known.mean,
        report.checkpoint.core == core if again and core is not None else None,
    )  # fmt: skip


def _about(ask: Asked, result: Replayed, own: dict[str, Any]) -> dict[str, Any]:
    """The facts of a replay as plain data; what is no number is null."""
    low, high = interval(result.returns)
    score = {
        "mean": mean(result.returns), "sd": sd(result.returns), "low": low, "high": high,
        "episodes": len(result.returns), "fresh_seeds": True, "best_of": 1,
    }  # fmt: skip
    finite = {k: v if math.isfinite(v) else None for k, v in score.items()}
    return {
        "run": ask.schedule.run, "pod": ask.schedule.pod, "seed": ask.seed,
        "env_steps": ask.env_steps, "score": finite, "score_in_run": own,
        "same_bits": result.same_bits, "versions": versions(),
    }  # fmt: skip


def _columns(curve: list[CurvePoint]) -> Columns:
    names = list(CurvePoint.__dataclass_fields__)
    return {name: [getattr(point, name) for point in curve] for name in names}
