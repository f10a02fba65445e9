"""Drift: numbers by hand, a shift that is found, and alarms where there is none."""

from __future__ import annotations

import numpy as np
import pytest

from hpcpod.tournament.continuous.drift import BINS, Sample, reference_of, shifts


def sample(
    rows: np.ndarray, block: int, *, independent: bool = False, names: str = "abcd"
) -> Sample:
    blocks = np.arange(len(rows)) // block
    return Sample(tuple(names[: rows.shape[1]]), rows, blocks, independent)


def persistent(seed: int, count: int, columns: int, phi: float) -> np.ndarray:
    """An autoregression of unit variance."""
    draw = np.random.default_rng(seed).standard_normal((count, columns))
    for t in range(1, count):
        draw[t] = phi * draw[t - 1] + np.sqrt(1 - phi**2) * draw[t]
    return draw


def test_distance_psi_and_mean_are_those_by_hand() -> None:
    old = np.tile(np.arange(BINS) + 0.5, 8)[:, None]  # each bin has 8 rows, of mean 8
    new = np.tile([BINS - 0.5], 16)[:, None]  # all in the last bin
    then = reference_of(sample(old, BINS, independent=True))
    assert np.asarray(then.counts).shape == (8, 1, BINS)
    assert np.asarray(then.counts).sum(0).tolist() == [[8] * BINS]
    [found] = shifts(then, sample(new, 4, independent=True))
    assert found.distance == pytest.approx(15 / 16)
    assert found.mean == pytest.approx((15.5 - 8.0) / np.sqrt((BINS**2 - 1) / 12))
    p, q = np.full(BINS, 8.5 / 136), np.array([*[0.5 / 24] * 15, 16.5 / 24])
    assert found.psi == pytest.approx(float(((q - p) * np.log(q / p)).sum()))


def test_the_p_value_is_the_share_of_pairs_that_are_as_far_away() -> None:
    rows = persistent(0, 80, 1, 0.0)
    rows[60:] += 3.0
    [found] = shifts(reference_of(sample(rows[:60], 1)), sample(rows[60:], 1))
    assert found.p == pytest.approx(1 / 28)  # of 8 blocks of 10 there are 28 pairs


def test_one_column_that_has_shifted_is_found_among_others_that_have_not() -> None:
    rows = persistent(1, 3000, 4, 0.9)
    rows[2500:, 2] *= 3.0  # the same mean, another spread
    found = shifts(reference_of(sample(rows[:2500], 5)), sample(rows[2500:], 5))
    assert (
        found[0].name == "c"
        and found[0].p is not None
        and found[0].p < 0.05
        and found[0].psi > 0.25
    )
    assert abs(found[0].mean) < 0.5
    assert all(each.p is not None and each.p > 0.05 for each in found[1:])


@pytest.mark.long
@pytest.mark.parametrize("phi", [0.5, 0.9])
def test_without_a_drift_it_is_told_in_about_a_twentieth_of_cases(phi: float) -> None:
    count, alarms = 100, 0
    for seed in range(count):
        rows = persistent(seed, 400, 3, phi)
        found = shifts(reference_of(sample(rows[:300], 1)), sample(rows[300:], 1))
        alarms += found[0].p is not None and found[0].p < 0.05
    assert alarms <= 12  # of 100 at 5 % more than 12 come in one case of 700


@pytest.mark.long
def test_independent_blocks_are_dealt_anew() -> None:
    alarms = 0
    for seed in range(40):
        rows = np.random.default_rng(seed).standard_normal((48, 4, 2))
        rows += np.random.default_rng(seed + 999).standard_normal((48, 1, 2))  # each block its own
        flat = rows.reshape(-1, 2)
        then = reference_of(sample(flat[:96], 4, independent=True))
        [first, _] = shifts(then, sample(flat[96:], 4, independent=True))
        alarms += first.p is not None and first.p < 0.05
    assert alarms <= 7  # of 40 at 5 % more than 7 come in one case of 700


def test_what_can_not_be_told_is_nothing() -> None:
    rows = persistent(0, 100, 2, 0.0)
    then = reference_of(sample(rows[:40], 1))
    assert shifts(then, sample(rows[60:], 1)) == ()  # 4 blocks of 20: 6 pairs
    assert shifts(then, sample(rows[:1], 1)) == ()
    assert shifts(then, sample(rows[:20], 1, names="xyz")) == ()


def test_columns_that_are_constant_or_unknown_do_no_harm() -> None:
    rows = persistent(0, 100, 3, 0.0)
    rows[:, 1], rows[:, 2] = 7.0, np.nan
    found = shifts(reference_of(sample(rows[:80], 1)), sample(rows[80:], 1))
    assert {each.name: each.distance for each in found if each.name != "a"} == {"b": 0.0, "c": 0.0}
    assert all(np.isfinite([each.p or 0.0, each.psi, each.mean]).all() for each in found)


def test_a_column_without_a_test_is_told_and_changes_no_other_p_value() -> None:
    rows = persistent(2, 400, 3, 0.5)
    rows[300:, 2] += 5.0
    then, now = reference_of(sample(rows[:300], 1)), sample(rows[300:], 1)
    alone = shifts(reference_of(sample(rows[:300, :2], 1)), sample(rows[300:, :2], 1))
    *tested, last = shifts(then, now._replace(untested=("c",)))
    assert tuple(tested) == alone and all(each.p is not None for each in alone)
    assert (last.name, last.p) == ("c", None) and last.mean > 3


def test_a_flag_that_was_alike_in_all_old_blocks_and_has_changed_is_found() -> None:
    rows = np.zeros((14 * 4, 2))
    rows[:, 1] = np.tile([0.0, 1.0], 28)  # it goes on as it was
    rows[48:, 0] = -1.0
    moved, same = shifts(reference_of(sample(rows[:48], 4)), sample(rows[48:], 4))
    assert (moved.name, moved.distance) == ("a", 1.0) and moved.p == pytest.approx(1 / 91)
    assert same.p == 1.0
    # By chance a flag is up in no more of the pairs than in this one.
    rows[:, 0] = np.repeat([0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0], 4)
    [first, _] = shifts(reference_of(sample(rows[:48], 4)), sample(rows[48:], 4))
    assert first.p == 1.0


def test_of_three_new_blocks_the_last_two_are_compared() -> None:
    rows = persistent(3, 66, 1, 0.0)
    rows[60:62] = 9.0
    then = reference_of(sample(rows[:60], 2))
    [three], [two] = shifts(then, sample(rows[60:], 2)), shifts(then, sample(rows[62:], 2))
    assert (three.distance, three.p) == (two.distance, two.p), "else what was 9 is an old one"
