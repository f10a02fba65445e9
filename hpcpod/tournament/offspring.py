"""Offspring: pods from a generator's decisions, in the places of dead ones."""

from __future__ import annotations

from dataclasses import replace

from hpcpod.errors import ImpossibleBirth
from hpcpod.records.records import Birth, Board, Evaluation, PodState, stable_hash
from hpcpod.tournament.budget import first_share
from hpcpod.tournament.proposals import Copy, Fresh
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.settle import as_dead, remembered


class Offspring:
    """The pods of a merge while children are born, one after another."""

    def __init__(self, board: Board, rules: Rules) -> None:
        self.pods = dict(board.pods)
        self._board = board
        self._rules = rules
        self._next_pod = board.next_pod

    def add(self, decision: Copy | Fresh, old: PodState) -> PodState:
        """A new pod in place of an old one, which is dead, or dies now.

        Raises:
            ImpossibleBirth: the pod can't be made; nothing has changed.
        """
        name = pod_name(self._next_pod)
        child = self.child(name, decision)
        self._next_pod += 1
        self.pods[name] = child = replace(
            child,
            replaces=old.id,
            born=self._board.rounds,
            restarts=old.restarts + decision.restart,
        )
        if old.fate == "alive":
            self.pods[old.id] = as_dead(old, f"{name} took its place", "replaced")
        return child

    def child(self, name: str, decision: Copy | Fresh) -> PodState:
        """A new pod by this name; it has no place yet.

        Raises:
            ImpossibleBirth: as ``add``.
        """
        if isinstance(decision, Fresh):
            return founder(name, decision, self._rules)
        return self._copied(name, decision)

    def board(self, before: Board) -> Board:
        """A board as it was, with all pods that were born and that died."""
        return replace(before, pods=self.pods, next_pod=self._next_pod)

    def _copied(self, name: str, copy: Copy) -> PodState:
        parent = self._board.pods.get(copy.parent)
        source = None if parent is None else _kept(parent, copy.round)
        if parent is None or source is None:
            raise ImpossibleBirth(
                f"{copy.parent!r} has no checkpoint of round {copy.round} to copy: take one of a"
                " living pod's last evaluations, or a row of the leaderboard"
            )
        end = self._rules.config.stop.rounds
        if end is not None and copy.round >= end:
            raise ImpossibleBirth(
                f"a copy of {parent.id} at round {copy.round} has nothing left to train: a pod"
                f" trains {end} rounds (stop.rounds)"
            )
        space = self._rules.algorithms[parent.algorithm]
        family = space.family(parent.algorithm, copy.hyperparameters)
        if family != parent.family:
            raise ImpossibleBirth(
                f"a copy of {parent.id} must be a {parent.family}, not a {family}"
            )
        child = PodState(
            id=name,
            algorithm=parent.algorithm,
            family=family,
            hyperparameters=copy.hyperparameters,
            seed=stable_hash(self._rules.config.seed, name),
            cause="copy",
            parent=parent.id,
            parent_round=copy.round,
            parent_returns=source.returns,
            mutated=copy.mutated,
            evidence=copy.evidence,
            cost=source.cost,
            # else a slow pod that comes late has no rival in it
            milestones=remembered(parent, copy.round),
            motion=parent.motion,
        )
        birth = replace(
            _first_birth(child),
            round=copy.round + 1,
            checkpoint=source.checkpoint,
            inherited=True,
            shrink=copy.restart,
        )
        return replace(child, birth=birth)


def founder(name: str, fresh: Fresh, rules: Rules) -> PodState:
    """A pod that starts from scratch."""
    space = rules.algorithms[fresh.algorithm]
    pod = PodState(
        id=name,
        algorithm=fresh.algorithm,
        family=space.family(fresh.algorithm, fresh.hyperparameters),
        hyperparameters=fresh.hyperparameters,
        seed=stable_hash(rules.config.seed, name),
        cause="fresh",
        control=fresh.control,
        evidence=fresh.evidence,
        repeats=fresh.repeats,
        share=first_share(rules.config) if fresh.share is None else fresh.share,
    )
    return replace(pod, birth=_first_birth(pod))


def _kept(pod: PodState, at: int) -> Evaluation | None:
    """The evaluation of a round whose checkpoint is kept."""
    kept = (*pod.history, *([] if pod.best is None else [pod.best]))
    return next((each for each in kept if each.round == at), None)


def pod_name(number: int) -> str:
    """``p0001`` and so on."""
    return f"p{number:04d}"


def _first_birth(pod: PodState) -> Birth:
    return Birth(pod.id, 1, 1, pod.algorithm, pod.hyperparameters, pod.seed)
