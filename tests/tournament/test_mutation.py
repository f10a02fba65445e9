"""Hyperparameters stay in their ranges, and a mutation always changes something."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.config.space import (
    AlgorithmSpace,
    Choice,
    Int,
    LogUniform,
    Range,
    Scalar,
    Uniform,
    Value,
)
from hpcpod.tournament.mutation import moved_at_once, mutate, sample

ENDS = st.tuples(st.floats(1e-6, 1e6), st.floats(1.001, 1e3))
RANGES: st.SearchStrategy[Range] = st.one_of(
    ENDS.map(lambda e: LogUniform(e[0], e[0] * e[1])),
    ENDS.map(lambda e: Uniform(e[0], e[0] * e[1])),
    st.tuples(st.integers(-1000, 1000), st.integers(1, 1000)).map(lambda e: Int(e[0], e[0] + e[1])),
    st.lists(st.integers(0, 99), min_size=2, max_size=5, unique=True).map(
        lambda values: Choice(tuple(values))
    ),
)


def space(
    values: dict[str, Value],
    *,
    defaults: dict[str, Scalar] | None = None,
    structural: tuple[str, ...] = (),
    near_one: tuple[str, ...] = (),
    initial: tuple[str, ...] = (),
) -> AlgorithmSpace:
    return AlgorithmSpace("ppo", values, defaults or {}, structural, near_one, initial)


def inside(value: Scalar, allowed: Range) -> bool:
    if isinstance(allowed, Choice):
        return value in allowed.values
    whole = not isinstance(allowed, Int) or isinstance(value, int)
    return isinstance(value, (int, float)) and allowed.low <= value <= allowed.high and whole


@given(allowed=st.lists(RANGES, min_size=1, max_size=4), key=st.integers(0, 2**63))
def test_every_mutation_stays_inside_and_changes_as_many_as_it_says(
    allowed: list[Range], key: int
) -> None:
    ranges: dict[str, Value] = {f"h{i}": each for i, each in enumerate(allowed)}
    where = space({**ranges, "fixed": 1.5, "shape": Choice((1, 2))}, structural=("shape",))
    rng = Random(key)
    parent = sample(where, rng)
    for _ in range(20):
        child, changed = mutate(where, parent, rng)
        assert all(inside(child[f"h{i}"], each) for i, each in enumerate(allowed))
        assert len(changed) == moved_at_once(len(ranges))
        assert changed == tuple(sorted(changed)) and set(changed) <= ranges.keys()
        assert {name for name in child if child[name] != parent[name]} == set(changed)
        assert (child["fixed"], child["shape"]) == (1.5, parent["shape"])
        parent = child


@given(allowed=RANGES, key=st.integers(0, 2**63))
def test_a_value_at_either_end_turns_back(allowed: Range, key: int) -> None:
    ends = (
        (allowed.values[0], allowed.values[-1])
        if isinstance(allowed, Choice)
        else (allowed.low, allowed.high)
    )
    for end in ends:
        child, changed = mutate(space({"h": allowed}), {"h": end}, Random(key))
        assert changed == ("h",)
        assert inside(child["h"], allowed)


@pytest.mark.parametrize(("ranges", "moved"), [(0, 0), (1, 1), (2, 1), (3, 2), (8, 4)])
def test_half_of_the_ranges_move_at_a_birth(ranges: int, moved: int) -> None:
    assert moved_at_once(ranges) == moved


def test_each_range_moves_as_often_as_the_others() -> None:
    where = space({name: Uniform(0.0, 1.0) for name in "abcd"})
    parent: dict[str, Scalar] = dict.fromkeys("abcd", 0.5)
    found = Counter(name for key in range(1000) for name in mutate(where, parent, Random(key))[1])
    # two of four in each: 500, with a standard deviation of 16
    assert sum(found.values()) == 2000
    assert all(abs(found[name] - 500) < 64 for name in "abcd")


def moves(allowed: Range, old: float, near_one: tuple[str, ...] = ()) -> list[float]:
    """Where a value goes in many mutations."""
    where = space({"h": allowed}, near_one=near_one)
    found = []
    for key in range(2000):
        value = mutate(where, {"h": old}, Random(key))[0]["h"]
        assert isinstance(value, (int, float))
        found.append(value)
    return found


def share(values: list[float], low: float, high: float) -> float:
    """The share of values that moved, rather than being drawn anew, lies in [low, high]."""
    return sum(low <= value <= high for value in values) / len(values)


def test_a_log_uniform_value_moves_by_a_part_of_the_range_s_logarithm() -> None:
    found = moves(LogUniform(1e-4, 1.0), 0.01)
    # of four decades 0.05 to 0.15: factors of 10^0.2 = 1.58 to 10^0.6 = 3.98; nine in ten moves,
    # half of them each way; the tenth is drawn from the whole range
    up, down = share(found, 0.0158, 0.0399), share(found, 0.0025, 0.0064)
    assert up == pytest.approx(0.46, abs=0.03)
    assert down == pytest.approx(0.46, abs=0.03)


def test_gamma_moves_by_its_distance_from_one() -> None:
    found = moves(Uniform(0.0, 0.9999), 0.99, near_one=("h",))
    # 1 - gamma has four decades: .01 goes to .0158 ... .0398, or to .0025 ... .0063
    assert share(found, 1 - 0.0399, 1 - 0.0158) == pytest.approx(0.45, abs=0.03)
    assert share(found, 1 - 0.0064, 1 - 0.0025) == pytest.approx(0.45, abs=0.03)


def test_gamma_of_one_can_still_move() -> None:
    child, changed = mutate(space({"h": Uniform(0.9, 1.0)}, near_one=("h",)), {"h": 1.0}, Random(1))
    assert changed == ("h",)
    assert inside(child["h"], Uniform(0.9, 1.0))


def test_a_uniform_value_moves_by_a_part_of_the_width() -> None:
    found = moves(Uniform(0.0, 100.0), 50.0)
    assert share(found, 60, 75) + share(found, 25, 40) > 0.88


def test_small_integers_move_by_one() -> None:
    found = moves(Int(1, 5), 2)
    assert share(found, 1, 1) + share(found, 3, 3) > 0.88


def test_a_choice_moves_to_a_neighbour() -> None:
    found = moves(Choice((1, 2, 3, 4, 5)), 3)
    assert share(found, 2, 2) + share(found, 4, 4) > 0.88


def test_true_and_one_are_different_choices() -> None:
    child, changed = mutate(space({"h": Choice((True, 1))}), {"h": 1}, Random(0))
    assert (child["h"], changed) == (True, ("h",))


def test_nothing_to_mutate_is_no_error() -> None:
    assert mutate(space({"h": 1.0}), {"h": 1.0}, Random(0)) == ({"h": 1.0}, ())


def test_a_control_has_the_default_where_it_is_allowed_else_the_middle() -> None:
    where = space(
        {
            "lr": LogUniform(1e-4, 1e-2),
            "gamma": Uniform(0.9, 0.95),
            "epochs": Int(5, 8),
            "layers": Choice((1, 2, 3)),
            "width": Choice((32, 64)),
            "fixed": 7,
        },
        defaults={"lr": 1.0, "gamma": 0.93, "epochs": 4, "layers": 9, "width": 32, "fixed": 1},
    )
    control = where.unmutated()
    assert control == {
        "lr": pytest.approx(1e-3), "gamma": 0.93, "epochs": 6,
        "layers": 2, "width": 32, "fixed": 7,
    }  # fmt: skip


def test_a_draw_depends_on_the_key_and_not_on_the_order_of_names() -> None:
    values: dict[str, Value] = {"a": Uniform(0, 1), "b": LogUniform(1, 9)}
    backwards = dict(reversed(values.items()))
    assert sample(space(values), Random(3)) == sample(space(backwards), Random(3))
    assert sample(space(values), Random(3)) != sample(space(values), Random(4))


def test_what_counts_from_scratch_alone_is_drawn_for_founders_and_stays_in_copies() -> None:
    values: dict[str, Value] = {"rate": LogUniform(1e-4, 1e-2), "log_std_init": Uniform(-2.0, 0.0)}
    known = space(values, initial=("log_std_init",))
    founders = [sample(known, Random(seed)) for seed in range(20)]
    assert len({founder["log_std_init"] for founder in founders}) == 20
    for seed, founder in enumerate(founders):
        child, mutated = mutate(known, founder, Random(seed))
        assert mutated == ("rate",)
        assert child["log_std_init"] == founder["log_std_init"]


@pytest.mark.parametrize(
    ("agent", "names"),
    [
        ("ppo", {"log_std_init"}),
        ("dqn", {"learning_starts", "epsilon_start"}),
        ("sac", {"learning_starts", "temperature_init"}),
        ("td3", {"learning_starts"}),
    ],
)
def test_agents_say_what_counts_from_scratch_alone(agent: str, names: set[str]) -> None:
    data = {"name": "x", "env": {"id": "X-v0"}, "population": {"algorithms": {agent: 1}}}
    assert set(resolve_algorithms(from_mapping(data))[agent].initial) == names
