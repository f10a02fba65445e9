"""Rank correlations beside scipy's, where nothing matters, and where one thing does."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
import scipy  # which loads its parts when they are used

from hpcpod.config.space import AlgorithmSpace, Choice, Int, LogUniform, Uniform
from hpcpod.records.records import PodState
from hpcpod.report import influence
from hpcpod.report.influence import Sample, as_number, influences, ranks, samples
from hpcpod.report.story import Story
from hpcpod.tournament import mutation


def world(seed: int, pods: int, effect: float) -> Sample:
    """Pods of three drawn hyperparameters, of which the first shifts the score."""
    rng = Random(seed)
    values = {name: [rng.random() for _ in range(pods)] for name in ("a", "b", "c")}
    scores = [effect * a + rng.gauss(0, 1) for a in values["a"]]
    return Sample("ppo", "draws", 1, values, scores)


def test_ranks_of_equal_values_are_shared() -> None:
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1.0, 3.5, 2.0]
    values = [Random(1).randint(0, 5) for _ in range(20)]
    assert ranks(values) == list(scipy.stats.rankdata(values))


def test_the_correlation_is_scipy_s_and_p_is_that_of_all_orders() -> None:
    sample = Sample("ppo", "draws", 1, {"a": [1, 2, 3, 4, 5, 6]}, [2.0, 1.0, 4.0, 3.0, 7.0, 9.0])
    [found] = influences(sample)
    # differences of ranks 1, 1, 1, 1, 0, 0: 1 - 6 * 4 / (6 * 35)
    assert found.rho == pytest.approx(1 - 24 / 210)
    theirs = scipy.stats.permutation_test(
        (sample.values["a"],), lambda x: abs(scipy.stats.spearmanr(x, sample.scores).statistic),
        permutation_type="pairings", alternative="greater",
    )  # fmt: skip
    assert found.p == pytest.approx(theirs.pvalue)
    assert found.low < found.rho < found.high < 1


@pytest.mark.long
def test_where_nothing_matters_something_is_seen_in_one_of_twenty_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(influence, "DRAWS", 300)
    seen = sum(any(row.seen for row in influences(world(seed, 12, 0.0))) for seed in range(200))
    assert 2 <= seen <= 20, "10 are expected; 3.1 is the standard deviation"


def test_what_matters_is_seen_and_named_alone() -> None:
    found = [influences(world(seed, 24, 6.0)) for seed in range(6)]
    assert all(rows[0].hyperparameter == "a" and rows[0].seen for rows in found)
    assert sum(row.seen for rows in found for row in rows[1:]) <= 1


def test_small_samples_see_large_correlations_alone() -> None:
    # tables of critical values for seven pairs, two-sided 5 %: 0.786
    [alone] = influences(Sample("ppo", "draws", 1, {"a": list(range(7))}, [2, 1, 3, 4, 7, 6, 5]))
    assert alone.limit == pytest.approx(0.786, abs=1e-3)
    three, more = influences(world(1, 10, 0.0))[0].limit, influences(world(1, 60, 0.0))[0].limit
    # two-sided 5 % / 3 of Student's t with 8 degrees: 3.016; 3.016 / sqrt(8 + 3.016**2)
    assert three == pytest.approx(0.73, abs=0.04)
    assert more < three


def test_five_founders_with_four_hyperparameters_show_nothing() -> None:
    orders = [[1, 2, 3, 4, 5], [2, 1, 4, 5, 3], [3, 5, 1, 2, 4], [5, 3, 2, 1, 4]]
    values: dict[str, list[float]] = {f"h{i}": list(map(float, o)) for i, o in enumerate(orders)}
    found = influences(Sample("ppo", "draws", 1, values, [1.0, 2.0, 3.0, 4.0, 5.0]))
    # each shows 1 in two of the 120 orders: 8 of 120 are more than 5 %
    assert found[0].rho == pytest.approx(1)
    assert found[0].p == pytest.approx(8 / 120)
    assert found[0].limit == math.inf
    assert math.isnan(found[0].low), "an interval without width"
    [alone] = influences(Sample("ppo", "draws", 1, {"h0": values["h0"]}, [1.0, 2.0, 3.0, 5.0, 4.0]))
    assert alone.limit == pytest.approx(1)  # 0.9 and more: 10 of 120


SPACE = AlgorithmSpace(
    "ppo",
    {"rate": LogUniform(1e-5, 1e-2), "gamma": Uniform(0.9, 0.9999), "steps": Int(1, 2048),
     "entropy": Uniform(0.0, 0.1), "batch": Choice((16, 32, 64, 128, 256))},
    {}, near_one=("gamma",),
)  # fmt: skip


def copies(seed: int, effect: float = 0.0) -> Sample:
    """Real moves of 200 copies among eight places, with gains that fall with time."""
    rng = Random(seed)
    places = [mutation.sample(SPACE, rng) for _ in range(8)]
    values: dict[str, list[float]] = {name: [] for name in SPACE.mutable}
    gains = []
    for birth in range(200):
        parent, replaced = rng.sample(range(8), 2)
        child, _ = mutation.mutate(SPACE, places[parent], rng)
        for name in values:
            before = as_number(SPACE, name, places[parent][name])
            values[name].append(as_number(SPACE, name, child[name]) - before)
        places[replaced] = child
        gains.append(100 / (1 + birth / 4) + effect * values["rate"][-1] + rng.gauss(0, 0.5))
    return Sample("ppo", "moves", 0, values, gains)


@pytest.mark.long
def test_where_gains_fall_with_time_moves_show_no_more_than_chance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(influence, "DRAWS", 100)
    seen = sum(any(row.seen for row in influences(copies(seed))) for seed in range(200))
    assert seen <= 18, "8 are expected (4 of 100 orders); 2.8 is the standard deviation"


def test_scores_of_moves_are_exchanged_within_blocks_of_neighbours_alone() -> None:
    sample = Sample("ppo", "moves", 0, {"a": [1, 2, 3, 4, 5, 6]}, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert sample.blocks == [slice(0, 3), slice(3, 6)]
    [found] = influences(sample)
    # all orders of six would give 2 / 720; within two threes each end is 2 of 36
    assert found.p == pytest.approx(2 / 36, abs=0.02)
    assert replace(sample, kind="draws").blocks == [slice(0, 6)]


@pytest.mark.long
def test_a_move_that_matters_is_seen_though_gains_fall() -> None:
    for seed in range(3):
        rows = influences(copies(seed, effect=2.0))
        assert (rows[0].hyperparameter, rows[0].seen) == ("rate", True)


def test_choices_count_by_size_and_texts_not_at_all() -> None:
    space = AlgorithmSpace("ppo", {
        "batch": Choice((64, 16, 32)), "activation": Choice(("tanh", "relu")),
        "norm": Choice((True, False)),
    }, {})  # fmt: skip
    assert [as_number(space, "batch", value) for value in (16, 32, 64)] == [0, 1, 2]
    assert math.isnan(as_number(space, "activation", "relu"))
    assert math.isnan(as_number(space, "norm", True))


def test_a_hyperparameter_or_a_score_that_does_not_vary_is_no_sample() -> None:
    same = Sample("ppo", "draws", 1, {"a": [1.0] * 6, "b": [1, 2, 3, 4, 5, 6]}, [1, 2, 3, 4, 6, 5])
    assert [row.hyperparameter for row in influences(same)] == ["b"]
    assert influences(replace(same, scores=[2.0] * 6)) == []


def test_draws_are_founders_that_drew_and_moves_are_copies(story: Story) -> None:
    """Controls and replicates are left out, and values are logarithms where ranges are."""
    many = _with_more_founders(story, 8)
    draws = next(s for s in samples(many) if s.kind == "draws" and s.algorithm == "ppo")
    expected = [
        pod for pod in many.board.pods.values()
        if pod.algorithm == "ppo" and pod.cause == "fresh" and not pod.control
        and any(row.round == draws.round for row in many.rounds.get(pod.id, ()))
    ]  # fmt: skip
    assert len(draws.scores) == len(expected) >= 8
    assert isinstance(many.algorithms["ppo"].values["learning_rate"], LogUniform)
    assert all(-12 < value < -4 for value in draws.values["learning_rate"])  # ln 1e-5 .. ln 1e-2


@pytest.mark.parametrize("generator", ["pb2", "multi_frequency"])
def test_a_generator_that_chooses_moves_by_scores_gives_no_sample(
    story: Story, generator: str
) -> None:
    chosen = replace(
        story, config=replace(story.config, population=replace(
            story.config.population, generator=generator)),
    )  # fmt: skip
    assert not [sample for sample in samples(chosen) if sample.kind == "moves"]


def _with_more_founders(story: Story, count: int) -> Story:
    pods, results = dict(story.board.pods), list(story.results)
    founder = next(p for p in pods.values() if p.algorithm == "ppo" and not p.control
                   and p.cause == "fresh" and p.id in story.rounds)  # fmt: skip
    for i in range(count):
        made: PodState = replace(
            founder, id=f"p9{i:03d}", hyperparameters={
                **founder.hyperparameters, "learning_rate": 1e-4 * (i + 1)},
        )  # fmt: skip
        pods[made.id] = made
        results += [
            replace(row, pod=made.id, order=row.order.replace(founder.id, made.id))
            for row in story.rounds[founder.id]
        ]
    return replace(story, board=replace(story.board, pods=pods), results=tuple(results))
