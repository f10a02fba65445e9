"""The start of a run from another's best: found, checked, copied into the new run's folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.config.decoder import encode
from hpcpod.config.resolved import code_in, versions
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.config.start_from import StartFrom
from hpcpod.errors import Corrupt, StorageError, UserError
from hpcpod.pod.trial.fit import Look
from hpcpod.records.records import Board, Checkpoint, Evaluation, Origin, PodState
from hpcpod.run.home import folder_of
from hpcpod.run.pod_history import require_pod
from hpcpod.run.text import listed, many
from hpcpod.storage.disk import Disk
from hpcpod.storage.layout import blob_path
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.spaces import difference
from hpcpod.tournament.heirs import Parent, heirs, inherits, misfits
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.stopping import leader

FORMAT = 2
"""Of policies, see ``pod.policy``."""
_RUN_AND_POD = re.compile(r"(?P<run>.+):(?P<pod>p\d{4,})")
_HERE = ("num_envs", "processes", "trial_seconds")
"""Fields of ``env`` that decide no score of a panel."""


@dataclass(frozen=True)
class Source:
    """A policy of another run, with the folder that has its blobs."""

    folder: RunFolder
    parent: Parent
    spec: Mapping[str, Any]
    """Of the environment that it was trained in, as plain data."""

    def copy(self, disk: Disk, to: Path, needed: AbstractSet[str]) -> None:
        """Copy blobs of its checkpoint into another run's folder, each verified by its hash.

        Args:
            disk: of the other run.
            to: its folder.
            needed: the sha256 of those that it needs; a teacher's replay it does not.

        Raises:
            UserError: a blob is gone or damaged.
        """
        for sha256 in needed & {*self.parent.checkpoint.blobs()}:
            disk.replace(blob_path(to / "blobs", sha256), self._blob(sha256))

    def _blob(self, sha256: str) -> bytes:
        path = blob_path(self.folder.path / "blobs", sha256)
        try:
            data = self.folder.disk.read(path, None, sha256)
        except Corrupt as error:
            raise UserError(f"{_named(self.parent.origin)} can't be copied: {error}") from error
        if data is None:
            raise UserError(f"{_named(self.parent.origin)} can't be copied: {path} is gone")
        return data


def asked_for(
    word: object, overrides: Mapping[str, Any] | None = None, distill: int | None = None
) -> dict[str, Any]:
    """Overrides of a configuration that have it start from a run.

    Args:
        word: ``RUN`` or ``RUN:POD``, by the run's name or folder; None changes nothing.
        overrides: sections and keys beside it.
        distill: the field of this name, if it is asked for, too.

    Raises:
        UserError: it is, of no run.
    """
    changes = dict(overrides or {})
    if word is None:
        if distill is not None:
            raise UserError("--distill needs --from: the run whose policy is to be imitated")
        return changes
    named = _RUN_AND_POD.fullmatch(str(word))
    wanted: dict[str, Any] = (
        {"run": named["run"], "pod": named["pod"]} if named else {"run": str(word)}
    )
    if distill is not None:
        wanted["distill"] = distill
    population = changes.get("population", {})
    own = {"auto": True} if population == "auto" else dict(population)
    start = own.get("start_from")
    given = dict(start) if isinstance(start, Mapping) else {}
    return {**changes, "population": {**own, "start_from": {**given, **wanted}}}


def source_of(wanted: StartFrom, config: RunConfig) -> Source:
    """The policy that a configuration names.

    No code of the other run is imported: it may be another user's.

    Args:
        wanted: names it.
        config: of the new run.

    Raises:
        UserError: there is no such run or pod, it has no policy, or one that can't be read here.
    """
    folder = folder_of(wanted.run)
    theirs, board = folder.resolved, read_board(folder)
    if theirs.config.program is not None:
        raise UserError(f"{theirs.config.name} trains a program, and has no policy to start from")
    pod, round_number, checkpoint = _chosen(theirs.config.name, board, wanted.pod)
    found = _evaluation(pod, round_number)
    if found is not None:  # of an ensemble that is delivered, its first member
        checkpoint = found.checkpoint
    space = theirs.algorithms.get(pod.algorithm)
    if space is None:
        raise UserError(f"{pod.id} of {theirs.config.name} is of no algorithm of its run")
    origin = Origin(
        theirs.config.name, str(folder.path), pod.id, round_number, checkpoint.core,
        checkpoint.env_steps, theirs.config.seed,
    )  # fmt: skip
    comparable = found is not None and _same_panel(folder, config)
    returns = found.returns if found is not None and comparable else ()
    parent = Parent(space.agent, pod.hyperparameters, checkpoint, origin, returns)
    return Source(folder, parent, _spec(folder, origin))


def unusable(
    config: RunConfig, algorithms: Mapping[str, AlgorithmSpace], look: Look | None
) -> Iterator[str]:
    """Reasons why a configuration can't start from the run that it names: one at most."""
    wanted = config.population.start_from
    if wanted is None:
        return
    try:
        source = source_of(wanted, config)
        for sha256 in source.parent.checkpoint.blobs():
            if not folder_has(source.folder, sha256):
                raise UserError(f"{_named(source.parent.origin)} has lost blob {sha256[:12]}")
    except (UserError, StorageError) as error:
        yield f"population.start_from: {error}"
        return
    parent = source.parent
    students = {n: space for n, space in algorithms.items() if not inherits(space, parent)}
    if wanted.distill:
        yield from _unteachable(config, parent, students)
    elif students and len(students) == len(algorithms):
        shape = ", ".join(_shape(parent, algorithms))
        yield (
            f"population.start_from: {_named(parent.origin)} is of agent {parent.agent}"
            f"{f' with {shape}' if shape else ''}, and no algorithm of this configuration is; train"
            " one that is, so that a pod can inherit, or set population.start_from.distill, so that"
            " others learn from what it does"
        )
    try:
        differs = difference(source.spec, look.spec) if look is not None and look.spec else ""
    except (LookupError, TypeError, AttributeError) as error:  # another user may have written it
        yield f"population.start_from: the spec of {_named(parent.origin)} is none: {error!r}"
        return
    if differs:
        yield (
            f"population.start_from: {_named(parent.origin)} can't act in {config.env.id}:"
            f" {differs}"
        )


def _unteachable(
    config: RunConfig, parent: Parent, students: Mapping[str, AlgorithmSpace]
) -> Iterator[str]:
    """Reasons why algorithms can't learn from the parent's rollouts."""
    where, steps = "population.start_from.distill", config.population.start_from
    assert steps is not None
    own = config.population.algorithms
    if students and parent.agent not in own and (code := code_in({"agent": parent.agent})):
        yield (
            f"{where}: {_named(parent.origin)} would act by {listed(code)}, which this"
            " configuration does not name: train that agent here, too, if you trust it"
        )
    if students and config.pod.pipeline:
        yield f"{where}: a teacher can't act in a pipeline: set pod.pipeline to false"
    for name, space in students.items():
        if not hasattr(plugins.resolve("agents", space.agent), "imitate"):
            yield f"{where}: agent {space.agent} has no method imitate, by which it would be taught"
        starts = space.values.get("learning_starts")
        if isinstance(starts, int) and starts >= steps.distill:
            yield (
                f"{where}: {steps.distill} steps teach {name} nothing: it begins to learn at"
                f" agents.{name}.learning_starts, {starts}"
            )


def heirs_words(
    config: RunConfig, algorithms: Mapping[str, AlgorithmSpace], places: Mapping[str, int]
) -> Iterator[str]:
    """A sentence on who inherits, of a configuration that starts from a run."""
    wanted = config.population.start_from
    if wanted is None:
        return
    parent = source_of(wanted, config).parent
    count = {name: heirs(algorithms[name], parent, places[name], wanted) for name in places}
    said = {n: f"{k} of {many(places[n], 'pod')} of {n}" for n, k in count.items() if k}
    going = [words for name, words in said.items() if inherits(algorithms[name], parent)]
    taught = [words for words in said.values() if words not in going]
    fresh = [name for name in places if name not in said]
    parts = [f"{listed(going)} go on from {parent.origin.words}"] if going else []
    if taught:
        of = "it" if going else parent.origin.words
        parts.append(f"{listed(taught)} learn from {of} for {wanted.distill:,} environment steps")
    if fresh:
        begin = "begins" if len(fresh) == 1 else "begin"
        parts.append(f"{listed(fresh)} can't inherit, and {begin} afresh")
    yield f"population.start_from: {'; '.join(parts)}"


def folder_has(folder: RunFolder, sha256: str) -> bool:
    """True if a blob is there; its content is not verified."""
    return folder.disk.exists(blob_path(folder.path / "blobs", sha256))


def _shape(parent: Parent, algorithms: Mapping[str, AlgorithmSpace]) -> Iterator[str]:
    """The parent's structural hyperparameters, where another network is the reason."""
    spaces = [space for space in algorithms.values() if space.agent == parent.agent]
    for name in misfits(spaces[0], parent) if spaces else ():
        yield f"{name} {parent.hyperparameters.get(name)}"


def _named(origin: Origin) -> str:
    return f"{origin.pod} of {origin.run}"


def _chosen(name: str, board: Board, pod: str | None) -> tuple[PodState, int, Checkpoint]:
    """The pod, its round, and the checkpoint that is taken."""
    if pod is None:
        best = leader(board)
        if best is None:
            raise UserError(f"{name} has no policy yet: no round was reported")
        return board.pods[best.pod], best.round, best.checkpoint
    require_pod(board, pod, name)
    state = board.pods[pod]
    kept = state.best or (state.history[-1] if state.history else None)
    if kept is None:
        raise UserError(f"{pod} of {name} has no policy (it keeps none once it was replaced)")
    return state, kept.round, kept.checkpoint


def _evaluation(pod: PodState, round_number: int) -> Evaluation | None:
    kept = (*pod.history, *([] if pod.best is None else [pod.best]))
    return next((each for each in kept if each.round == round_number), None)


def _same_panel(folder: RunFolder, config: RunConfig) -> bool:
    """True if equal weights must score equally on the other run's panel: environment, episodes,
    evaluator and versions are the same."""
    theirs = folder.resolved.config
    return (
        folder.config.get("versions") == versions()
        and _env(theirs.env) == _env(config.env)
        and theirs.round.episodes == config.round.episodes
        and (theirs.pod.evaluator, theirs.pod.matmul) == (config.pod.evaluator, config.pod.matmul)
    )


def _env(env: EnvConfig) -> dict[str, Any]:
    return {name: value for name, value in encode(env).items() if name not in _HERE}


def _spec(folder: RunFolder, origin: Origin) -> Mapping[str, Any]:
    """The spec of the environment that a checkpoint is for, by its own metadata."""
    try:
        _, meta = folder.blobs.get(origin.core)
    except StorageError as error:
        raise UserError(f"{_named(origin)} can't be read: {error}") from error
    spec = meta.get("spec")
    known = isinstance(spec, Mapping) and {"observation", "action"} <= spec.keys()
    if meta.get("format") != FORMAT or not known:
        raise UserError(
            f"{_named(origin)} is a policy of format {meta.get('format')}, and this hpcpod reads"
            f" {FORMAT}: use the version that made it"
        )
    assert isinstance(spec, Mapping)
    return spec
