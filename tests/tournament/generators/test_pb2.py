"""PB2: what the model has learned, in numbers worked by hand."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hpcpod.config.space import AlgorithmSpace, LogUniform
from hpcpod.records.records import Board, Order
from hpcpod.tournament.cohorts import Cohorts
from hpcpod.tournament.generators import bandit
from hpcpod.tournament.generators.bandit import Bandit
from hpcpod.tournament.generators.gains import Gain, gains_of, unit
from hpcpod.tournament.generators.gaussian_process import matern, process, standardized
from tests.tournament.generators.play import born, by_place, game, played
from tests.tournament.world import SPACE

ONE = AlgorithmSpace("toy", {"step": LogUniform(0.01, 1.0)}, {"step": 0.1})


@pytest.mark.parametrize(
    ("name", "value", "place"),
    [
        ("learning_rate", 1e-3, 0.5),
        ("gamma", 0.99, 0.5),  # 1 - gamma goes from 0.1 to 0.001
        ("epochs", 1, 0.0),
        ("epochs", 10, 1.0),
        ("batch_size", 128, 0.5),
    ],
)
def test_a_hyperparameter_s_place_in_its_range(name: str, value: float, place: float) -> None:
    assert unit(SPACE, name, value) == pytest.approx(place)


def test_a_process_after_one_value() -> None:
    # k(0.5) = (1 + a + a^2 / 3) e^-a with a = sqrt(5) / 2; mean k y / (1 + noise)
    a = math.sqrt(5) / 2
    k = (1 + a + a**2 / 3) * math.exp(-a)
    model, log = process(np.zeros((1, 1)), np.array([2.0]), matern(1.0), 0.25)
    at = np.array([[0.5]])
    assert model.mean(at)[0] == pytest.approx(k * 2 / 1.25)
    assert model.deviation(at)[0] == pytest.approx(math.sqrt(1 - k**2 / 1.25))
    assert log == pytest.approx(-(2**2) / 1.25 / 2 - math.log(1.25) / 2)


def test_values_are_in_standard_deviations() -> None:
    assert standardized(np.array([1.0, 2.0, 3.0])).tolist() == [-1.0, 0.0, 1.0]
    assert standardized(np.array([4.0, 4.0])).tolist() == [0.0, 0.0]


def test_the_gains_of_a_pod_are_those_since_it_was_copied() -> None:
    # p0002 gives way to a copy of p0001 at round 2, which has 51, 58 and 65 from then on
    def score(board: Board, order: Order) -> float:
        if board.pods[order.pod].parent is not None:
            return 30.0 + 7 * order.round
        first = 20 if order.pod == "p0001" else 0  # it leads, or it would give way, too
        return first + by_place(board, order) + 5 * order.round

    board = played(game("gentle_truncation", 4), 5, score)
    child = next(pod for pod in board.living if pod.replaces == "p0002")
    control = board.pods["p0001"]
    found = [
        [(gain.round, gain.before, gain.gained) for gain in gains_of(pod, board.pods)]
        for pod in (child, control)
    ]
    assert found[0] == [(2, 31, 20), (3, 51, 7), (4, 58, 7)]
    assert found[1] == [(1, 26, 5), (2, 31, 5), (3, 36, 5), (4, 41, 5)]


def best_step(now: int, seed: int = 0) -> float:
    """The step that the model holds most of after 60 gains that are best at 0.3, and were best at
    0.03 long before."""
    rng, gains = Random(seed), []
    for number in range(60):
        step = 10 ** rng.uniform(-2, 0)
        best = 0.03 if number < 20 else 0.3
        gained = -((math.log10(step) - math.log10(best)) ** 2) + rng.gauss(0, 0.05)
        gains.append(Gain({"step": step}, number // 2, 50.0, gained))
    candidates = [{"step": 10 ** (-2 + place / 50)} for place in range(101)]
    found = Bandit(ONE, gains).bounds(candidates, now, 50.0)
    return float(candidates[int(found.argmax())]["step"])


def test_the_highest_bound_is_near_the_best_step_of_late() -> None:
    # now and then it is at the range's end, where little is known
    found = [best_step(30, seed) for seed in range(12)]
    assert sum(0.15 < step < 0.6 for step in found) >= 10


def test_rounds_in_progress_make_the_bound_lower_there() -> None:
    pods = played(game("gentle_truncation", 4), 1, by_place).living
    values = [pod.hyperparameters for pod in pods]
    gains = [Gain(each, 1, 0.0, float(n)) for n, each in enumerate([*values, *values])]
    alone = Bandit(SPACE, gains).bounds(values, 2, 0.0)
    beside = Bandit(SPACE, gains, [(each, 2, 0.0) for each in values]).bounds(values, 2, 0.0)
    assert (beside < alone).all()


def test_no_more_rounds_in_progress_count_than_are_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model's matrix has a row for each: with 2,000 pods a copy took half a second."""
    monkeypatch.setattr(bandit, "MOST", 3)
    the_rules = game("pb2")
    board = played(the_rules, 3, by_place)
    sizes: list[int] = []

    def noted(x: NDArray[np.float64], *args: Any) -> Any:
        sizes.append(len(x))
        return process(x, *args)

    monkeypatch.setattr(bandit, "process", noted)
    assert bandit.Bandit.of(Cohorts(board, the_rules.config, the_rules.algorithms), "ppo")
    assert len(board.living) == 8 and max(sizes) == 3 + 3


def test_a_copy_has_its_parent_s_shape_and_differs() -> None:
    board = played(game("pb2"), 8, by_place)
    children = born(board)
    assert len(children) == 7
    for child in children:
        parent = board.pods[str(child.parent)]
        assert child.family == parent.family
        changed = {
            name for name, value in child.hyperparameters.items()
            if value != parent.hyperparameters[name]
        }  # fmt: skip
        assert changed == set(child.mutated)
        assert changed
    assert played(game("pb2"), 8, by_place) == board
