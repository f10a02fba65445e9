"""``hpcpod.evaluate``: score policies of any runs on common seeds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.config.arguments import door, numbers
from hpcpod.config.decoder import build
from hpcpod.config.limits import Count
from hpcpod.config.schema import EnvConfig, RunConfig, Wrapper
from hpcpod.deploy.score_folder import Chunk, Score, ScoreFolder, Work, chunks_of
from hpcpod.errors import ConfigError, UserError
from hpcpod.records.records import Keep
from hpcpod.run.evaluation.conditions import OWN, Condition, check_same_task, conditions
from hpcpod.run.evaluation.policies import Candidate, Source, candidates
from hpcpod.run.evaluation.pool import LocalPool, Pool, Tell, Waiting
from hpcpod.run.evaluation.slurm import ELEMENTS, SlurmPool, slurm_config
from hpcpod.run.evaluation.table import Evaluation, EvaluationRow, Played, rows_of, seeds_said
from hpcpod.run.progress_line import progress_text
from hpcpod.run.run import Run, runs_home
from hpcpod.tournament.statistics import mean

EPISODES = 64
"""Episodes of a policy in a condition, if nobody says how many."""
FIRST_SEED = 2**31
"""The first seed, if nobody says which: a run draws its own below (``random_seeds``), those of its
panels, of its target's test and of its final evaluation."""
LARGEST_SEED = 2**32
FOLDER = Path("evaluations")
"""The place of the scores of Slurm's jobs, if nobody says where."""


@door(pods=list[str] | None, top=Count | None, keep=Keep, episodes=Count | None, cores=Count | None,
      trust=bool, progress=bool | None)  # fmt: skip
def evaluate(  # noqa: PLR0913 (what one says of an evaluation, by name)
    policies: Sequence[Source] | Source,
    *,
    pods: Sequence[str] | None = None,
    top: int | None = None,
    keep: Keep = "best",
    envs: Sequence[str] | str = (),
    kwargs: Mapping[str, Sequence[object]] | None = None,
    wrappers: Sequence[Wrapper] = (),
    episodes: int | None = None,
    seeds: int | range | None = None,
    cores: int | None = None,
    folder: str | Path | None = None,
    slurm: bool | Mapping[str, object] | RunConfig = False,
    trust: bool = False,
    progress: bool | None = None,
) -> Evaluation:
    """Score policies on common seeds, without exploring, in their own environment or in others.

    gymnasium's own environment plays, as in a run's final evaluation, where there is one.

    Args:
        policies: runs, their folders or names, or policies' files (``.h5``).
        pods: of each run, these pods; by default its best policy alone.
        top: of each run, the pods of the first rows of its leaderboard, instead of ``pods``.
        keep: of each pod, the policy at its ``best`` evaluation, or its ``last`` one.
        envs: ids of environments in which to score instead of the policies' own.
        kwargs: values of keyword arguments of the environment, each a condition beside the
            unchanged one: ``{"gravity": [9.0, 12.0]}``.
        wrappers: of gymnasium, each a condition: the environment with it on the outside.
        episodes: of each policy in each condition; 64, or as many as there are ``seeds``.
        seeds: of the episodes, or the first one; by default from 2**31 on, where no run draws.
        cores: processes at once; by default one for each core of this machine, on Slurm 16.
        folder: keeps the scores, so that nothing is played twice; by default nowhere, and with
            ``slurm`` in ``evaluations``.
        slurm: submit an array of jobs; a mapping has fields of ``cluster``, over those of the
            first run that trained on Slurm.
        trust: take code that is not built in, though another user's policy names it.
        progress: show on standard error how far it is. None: in a terminal or a notebook.

    Returns:
        The rows, a policy in a condition each; ``frame()`` of it is a pandas DataFrame.

    Raises:
        UserError: policies or environments can't be had, don't fit, or can't be compared.
        HpcpodError: processes that play die again and again.
    """
    sources = [policies] if isinstance(policies, (Run, str, Path)) else list(policies)
    asked = _conditions(envs, numbers(kwargs), numbers(wrappers))
    played_on = seeds_of(seeds, episodes)
    array = _array(slurm, sources)
    with _scores(folder, array) as kept, LocalPool(kept) as pool, progress_text(progress) as show:
        if folder is None and array is None and all(map(_is_there, sources)):
            # torch takes longer to import than policies to be read; each has a chunk at least
            pool.start(min(cores or _cores(), len(sources) * len(asked)))
        found = candidates(sources, pods=pods, top=top, keep=keep, trust=trust)
        if not envs:
            check_same_task(found)
        plan = [(condition, policy) for condition in asked for policy in found]
        return evaluated(kept, plan, played_on, array or pool, cores, show)


def _array(
    slurm: bool | Mapping[str, object] | RunConfig, sources: Sequence[Source]
) -> RunConfig | None:
    """The configuration of an array on Slurm; None: this machine plays."""
    if isinstance(slurm, RunConfig):
        return slurm
    if slurm is False:
        return None
    return slurm_config(sources, slurm if isinstance(slurm, Mapping) else {})


def evaluated(
    scores: ScoreFolder, asked: Sequence[tuple[Condition, Candidate]], seeds: range,
    by: RunConfig | LocalPool, cores: int | None, show: Tell,
) -> Evaluation:  # fmt: skip
    """Have policies played in their conditions, and read what came of it.

    Args:
        scores: keeps what is played.
        asked: each policy in each of its conditions, condition by condition.
        seeds: of the episodes.
        by: the configuration of an array on Slurm, or processes of this machine.
        cores: processes at once; None: as ``evaluate`` has it.
        show: called again and again with how far it is.
    """
    plan = [(c, p, _chunks(scores, c, p, seeds)) for c, p in asked]
    named = {chunk.name: (p, c) for c, p, chunks in plan for chunk in chunks}
    work = _work([chunks for _, _, chunks in plan])
    scores.add_work(work)
    there = scores.scored()
    earlier = sum(len(chunk.seeds) for chunk in work.chunks if chunk.name in there)
    pool: Pool
    if isinstance(by, RunConfig):
        pool, places = SlurmPool(scores, work, by), cores or ELEMENTS
    else:
        pool, places = by, cores or _cores()
        by.begin(work)
    waiting = Waiting(scores, work, pool, lambda chunk: _name(*named[chunk.name], chunk))
    results = _collected(scores, work, waiting, places, show)
    return Evaluation(tuple(_rows(plan, results)), seeds, earlier)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _is_there(source: Source) -> bool:
    """True if a source is worth the start of processes: it may still be no policy."""
    return isinstance(source, Run) or any(
        path.exists() for path in (Path(source), runs_home() / source)
    )


def seeds_of(seeds: int | range | None, episodes: int | None) -> range:
    """The episodes' seeds.

    Raises:
        UserError: there are fewer than two, or other than ``episodes``, or one that can't be.
    """
    if isinstance(seeds, range):
        if episodes is not None and episodes != len(seeds):
            said = f"{len(seeds)} seeds are as many episodes, not {episodes}"
            raise UserError(f"{said}: leave one of both out")
        chosen = seeds
    else:
        first = FIRST_SEED if seeds is None else seeds
        chosen = range(first, first + (EPISODES if episodes is None else episodes))
    if len(chosen) < 2:
        raise UserError("an interval takes at least two episodes")
    if min(chosen) < 0 or max(chosen) >= LARGEST_SEED:
        raise UserError(f"seeds are from 0 to {LARGEST_SEED - 1}, got {seeds_said(chosen)}")
    return chosen


def _conditions(envs: Sequence[str] | str, kwargs: Any, wrappers: Any) -> list[Condition]:
    """The conditions, once their parts are seen to be what they must be."""
    listed = [envs] if isinstance(envs, str) else list(envs)
    for name, values in (kwargs or {}).items():
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise UserError(f"kwargs: expected a list of values for {name}, got {values!r}")
    env, problems = build(EnvConfig, {"id": "evaluate", "wrappers": list(wrappers)})
    if env is None:
        raise ConfigError("evaluate", problems)
    return conditions(listed, kwargs, env.wrappers)


@contextmanager
def _scores(folder: str | Path | None, array: RunConfig | None) -> Iterator[ScoreFolder]:
    """The folder of scores, made if it is not there; without one, and an array, a temporary one."""
    if folder is None and array is not None:
        folder = FOLDER
    if folder is not None:
        kept = ScoreFolder(Path(folder))
        if (kept.path / "config.json").exists():
            raise UserError(f"{folder} is a run's folder: give the scores another")
        kept.create()
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="hpcpod-") as temporary:
        kept = ScoreFolder(Path(temporary), durable=False)
        kept.create()
        yield kept


def _chunks(
    scores: ScoreFolder, condition: Condition, policy: Candidate, seeds: range
) -> list[Chunk]:
    return [*chunks_of(scores.add_policy(policy.data), condition.of(policy.env), seeds)]


def _work(plan: Sequence[Sequence[Chunk]]) -> Work:
    """All chunks, those first that show at once what can't be scored: one of each policy in each
    condition."""
    first = [chunks[0] for chunks in plan]
    rest = [chunk for chunks in plan for chunk in chunks[1:]]
    once = {chunk.name: chunk for chunk in [*first, *rest]}
    return Work(tuple(once.values()), tuple(plugins.module_folders()))


def _name(policy: Candidate, condition: Condition, chunk: Chunk) -> str:
    more = "" if condition.name in (OWN, chunk.env.id) else f" ({condition.name})"
    return f"{policy.label} can't be scored in {chunk.env.id}{more}"


def _collected(
    scores: ScoreFolder, work: Work, waiting: Waiting, places: int, show: Tell
) -> dict[str, Score]:
    """The scores of all chunks, by name; one that is damaged is played again."""
    while True:
        waiting.wait(places, show)
        found = {chunk.name: scores.score(chunk) for chunk in work.chunks}
        results = {name: score for name, score in found.items() if score is not None}
        if len(results) == len(found):
            return results


def _returns(results: Mapping[str, Score], chunks: Sequence[Chunk]) -> tuple[float, ...]:
    """A policy's returns in the order of the seeds; of episodes on one stretch of recorded data
    their mean, in the order of the stretches: an interval over episodes would be too narrow."""
    scores = [results[chunk.name] for chunk in chunks]
    returns = [each for score in scores for each in score.returns]
    blocks = [each for score in scores for each in score.blocks]
    if not blocks:
        return tuple(returns)
    stretches: dict[int, list[float]] = {}
    for block, each in zip(blocks, returns, strict=True):
        stretches.setdefault(block, []).append(each)
    if len(stretches) < 2:
        raise UserError(
            "all episodes are of one stretch of data, and an interval takes two: have episodes that"
            " are shorter, or more data to score on"
        )
    return tuple(mean(stretches[block]) for block in sorted(stretches))


def _rows(
    plan: Sequence[tuple[Condition, Candidate, list[Chunk]]], results: Mapping[str, Score]
) -> Iterator[EvaluationRow]:
    for condition, group in groupby(plan, key=lambda each: each[0]):
        found = [(policy, chunks) for _, policy, chunks in group]
        scores = [results[chunk.name] for _, chunks in found for chunk in chunks]
        engines = sorted({score.engine for score in scores})
        if len(engines) > 1:
            raise UserError(
                f"scores of '{condition.name}' are by {' and by '.join(engines)}, which are not"
                " comparable: give --folder another place, and score all of them there"
            )
        paired = all(score.seeded for score in scores)
        played = [
            Played(policy, chunks[0].env.id, _returns(results, chunks), engines[0], paired)
            for policy, chunks in found
        ]
        yield from rows_of(condition.name, played)
