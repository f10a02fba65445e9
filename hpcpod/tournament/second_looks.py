"""Second looks: a panel that grows where a test of a pod came close.

The gate tests a pod on one half of a panel. Where that shows no leader to be better, but would if
further episodes were like these, the pod and the leader that came closest play more of them, with
the checkpoints that were compared and on seeds that all looks at a round share. When the pod has
reported again it is tested once more, by the episodes of the first test and the further ones
together. Each of the two tests has half of the gate's level (Bonferroni), so that both together
beat a pod that is no worse in 5 % of cases at most, whatever decides that there is a second.

The further episodes count for this test alone: scores, ranks and curves are those of panels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import replace

from hpcpod.config.schema import RunConfig
from hpcpod.records.records import Board, Evaluation, Look, PairTest, PodState, Rescore

PANELS = 2
"""Further episodes, in panels of ``round.episodes``."""


def is_close(test: PairTest, further: int) -> bool:
    """True if a test on common seeds that found nothing would find something after ``further`` more
    episodes like its own: its bound's distance from the mean shrinks with the root of their number.
    One that has had them is not close: it was the second.
    """
    shrunk = (test.mean - test.low) * math.sqrt(test.episodes / (test.episodes + further))
    second = test.episodes > further  # made at an earlier round
    return test.paired and not second and test.low <= 0 < test.mean - shrunk


def closest(tests: Collection[PairTest], further: int) -> PairTest | None:
    """The close test that came closest; None if one has decided, or none is close."""
    if any(test.low > 0 for test in tests):
        return None
    close = [test for test in tests if is_close(test, further)]
    return max(close, key=lambda test: (test.low, test.rival), default=None)


def room(board: Board, config: RunConfig) -> bool:
    """True if ``population.second_looks`` has room for one more: two pods play ``PANELS`` each."""
    share = config.population.second_looks
    return 2 * PANELS * (board.looked + 1) <= share * board.rounds


def possible(board: Board, pod: str, test: PairTest, round_number: int, panel: int) -> bool:
    """True if a pod that was tested at a round, and the rival, can play on with its checkpoints,
    and its panel had as many episodes as it was to have: of fewer there are no more."""
    if pod in board.looks or not _lives(board, pod, Look(test.rival, round_number)):
        return False
    found = evaluation(board.pods[pod], round_number)
    return found is not None and len(found.returns) >= panel


def begun(board: Board, pod: str, test: PairTest, round_number: int, config: RunConfig) -> Board:
    """The board with the orders of a second look.

    Args:
        board: has both pods alive, with their evaluations of the round.
        pod: who was tested.
        test: of the pod, which came close.
        round_number: at which it was made.
        config: of the run.
    """
    rescores = dict(board.rescores)
    for name in (pod, test.rival):
        one = board.pods[name]
        found = evaluation(one, round_number)
        assert found is not None
        order = Rescore(
            "look", round_number, name, 1, one.algorithm, one.hyperparameters, found.checkpoint,
            round_number, episodes=PANELS * config.round.episodes,
        )  # fmt: skip
        rescores.setdefault(_name(name, round_number), order)
    looks = {**board.looks, pod: Look(test.rival, round_number)}
    return replace(board, rescores=rescores, looks=looks, looked=board.looked + 1)


def evaluation(pod: PodState, round_number: int) -> Evaluation | None:
    """A pod's evaluation of a round, if its checkpoint is still kept."""
    return next((each for each in pod.history if each.round == round_number), None)


def played(
    looks: Mapping[str, Look], order: Rescore, returns: tuple[float, ...]
) -> dict[str, Look]:
    """The looks with a pod's further returns; without those that it can't play for."""
    found = {}
    for pod, look in looks.items():
        if look.round == order.round:
            if pod == order.pod:
                look = replace(look, returns=returns)
            elif look.rival == order.pod:
                look = replace(look, rivals=returns)
            else:
                found[pod] = look
                continue
            if not returns:
                continue
        found[pod] = look
    return found


def kept(board: Board, judged: Container[str]) -> Board:
    """The board without the looks that are over: of pods that were judged after both had played,
    that live no more, or whose rounds are forgotten; and without the orders of these.

    Args:
        board: after the judgements of a merge.
        judged: pods that it has judged.
    """
    looks = {
        pod: look
        for pod, look in board.looks.items()
        if not (look.done and pod in judged) and _lives(board, pod, look)
    }
    return _with(board, looks)


def without(board: Board) -> Board:
    """The board of a run that looks no more."""
    return _with(board, {})


def _with(board: Board, looks: Mapping[str, Look]) -> Board:
    wanted = {name for pod, look in looks.items() for name in _missing(pod, look)}
    rescores = {
        name: order
        for name, order in board.rescores.items()
        if order.purpose != "look" or name in wanted
    }
    if len(looks) == len(board.looks) and len(rescores) == len(board.rescores):
        return board
    return replace(board, looks=looks, rescores=rescores)


def _missing(pod: str, look: Look) -> Iterator[str]:
    if not look.returns:
        yield _name(pod, look.round)
    if not look.rivals:
        yield _name(look.rival, look.round)


def _name(pod: str, round_number: int) -> str:
    return f"{pod}-look{round_number}"


def _lives(board: Board, pod: str, look: Look) -> bool:
    pods = (board.pods[pod], board.pods[look.rival])
    return all(p.fate == "alive" and evaluation(p, look.round) is not None for p in pods)
