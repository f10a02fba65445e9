"""Scores beside scipy, rliable, hand-worked samples, and worlds in which the truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy  # which loads its parts when they are used

# Its first import closes all of logging's handlers; after rliable's absl that was stderr's end.
import submitit  # noqa: F401
from numpy.typing import NDArray

from hpcpod.tournament.scores import (
    Sample,
    covariance,
    improvement,
    improvement_over_tasks,
    improvement_test,
    iqm,
    iqm_interval,
    posterior,
    profile,
    profile_band,
    trend,
)

Array = NDArray[np.float64]


def panels(rng: np.random.Generator, truths: Array, episodes: int, common: float) -> list[Sample]:
    """Samples on common seeds, whose episodes correlate by ``common``; sd 1."""
    hard = rng.standard_normal(episodes) * math.sqrt(common)
    own = rng.standard_normal((len(truths), episodes)) * math.sqrt(1 - common)
    return [Sample(tuple(row), "round 3") for row in truths[:, None] + hard + own]


def means_of(samples: list[Sample]) -> Array:
    return np.array([np.mean(sample.returns) for sample in samples])


def test_a_covariance_by_hand() -> None:
    # of two pods the scatter of correlations is unknown: r = 1 is believed, less 1 / (n - 3)
    same = [Sample((1.0, 2.0, 3.0, 4.0, 5.0), 7), Sample((2.0, 3.0, 4.0, 5.0, 6.0), 7)]
    found = covariance(same)
    # variance 2.5, of the mean 0.5; z = atanh(.999) = 3.8002, kept 1 - (1 / 2) / z^2 = .9654
    assert np.diag(found) == pytest.approx([0.5, 0.5])
    assert found[0, 1] == pytest.approx(0.5 * math.tanh(0.965377 * 3.800201), rel=1e-5)


def test_pods_without_common_seeds_have_no_covariance() -> None:
    rows = [Sample((1.0, 2.0, 3.0, 4.0, 5.5), 7), Sample((1.0, 2.0, 3.0, 4.0, 5.0), 8)]
    assert covariance(rows)[0, 1] == 0
    assert covariance([Sample((1.0, 2.0)), Sample((1.0, 2.0))])[0, 1] == 0
    assert covariance([Sample((5.0,) * 9, 7), Sample((1.0,) * 4 + (2.0,) * 5, 7)])[0, 1] == 0


def test_a_sample_of_one_has_no_covariance() -> None:
    with pytest.raises(ValueError, match="at least two"):
        covariance([Sample((1.0,), 7)])


@pytest.mark.parametrize("common", [0.0, 0.5, 0.9])
def test_shrunk_correlations_are_nearer_to_the_truth_than_the_sample_s(common: float) -> None:
    rng, ours, plain = np.random.default_rng(5), 0.0, 0.0
    truth = np.full((12, 12), common) + np.eye(12) * (1 - common)
    for _ in range(60):
        samples = panels(rng, np.zeros(12), 16, common)
        found = covariance(samples)
        assert np.linalg.eigvalsh(found)[0] > -1e-12
        errors = np.sqrt(np.diag(found))
        ours += float(((found / np.outer(errors, errors) - truth) ** 2).sum())
        plain += float(((np.corrcoef([s.returns for s in samples]) - truth) ** 2).sum())
    assert ours < 0.9 * plain


def test_estimates_are_those_of_the_normal_model() -> None:
    """One spread known: with a huge population of equal errors the plain formulas hold."""
    rng = np.random.default_rng(1)
    truths = rng.normal(10, 2, 400)
    seen = truths + rng.normal(0, 1, 400)
    found = posterior(seen, np.eye(400), draws=16)
    kept = 1 - 1 / seen.var(ddof=1)  # tau^2 / (tau^2 + 1), by moments
    assert found.means == pytest.approx(seen.mean() + kept * (seen - seen.mean()), abs=0.1)
    assert found.errors == pytest.approx(np.full(400, math.sqrt(kept)), rel=0.03)
    assert ((found.means - truths) ** 2).mean() < 0.85 * ((seen - truths) ** 2).mean()


def test_one_pod_is_the_best() -> None:
    alone = posterior([3.0], np.array([[0.25]]))
    assert (alone.means[0], alone.errors[0], alone.best[0]) == (3.0, 0.5, 1.0)


def test_pods_that_never_vary_are_known() -> None:
    known = posterior([1.0, 2.0, 9.0], np.zeros((3, 3)))
    assert known.means == pytest.approx([1.0, 2.0, 9.0])
    assert known.best[2] == 1.0
    equal = posterior([5.0] * 4, np.zeros((4, 4)))
    assert equal.means == pytest.approx([5.0] * 4)
    assert equal.best == pytest.approx([0.25] * 4)  # and not the first one for certain
    two = posterior([5.1, 2.0, 5.1], np.zeros((3, 3)))
    assert two.best == pytest.approx([0.5, 0.0, 0.5])


def test_pods_that_are_level_have_equal_chances_beside_others_that_vary() -> None:
    """The covariance's zeros come out of its eigenvalues as 1e-16."""
    rng = np.random.default_rng(5)
    for number in range(40):
        level = [Sample((500.0,) * 16, number) for _ in range(3)]
        noisy = [
            Sample(tuple(rng.normal(400, 60, 16).clip(max=500.0)), number)
            for _ in range(int(rng.integers(1, 6)))
        ]
        samples = [*level, *noisy]
        best = posterior(means_of(samples), covariance(samples)).best[:3]
        assert best == pytest.approx(np.full(3, best.mean()), abs=1e-9)


def test_returns_whose_squares_are_0_have_no_spread() -> None:
    samples = [Sample((k * 1e-300, 2e-300, 1e-300, 0.0), 3) for k in (1.0, 2.0)]
    assert not covariance(samples).any()
    assert posterior(means_of(samples), covariance(samples)).best.tolist() == [0.0, 1.0]


def test_panels_without_a_spread_say_nothing_of_the_others_correlation() -> None:
    rng = np.random.default_rng(0)
    noisy = panels(rng, np.zeros(3), 12, 0.9)
    constant = [Sample((0.1 * k,) * 12, noisy[0].seeds) for k in (1, 3, 6, 7)]
    assert np.std(constant[0].returns, ddof=1) > 0  # twelve times 0.1, by rounding
    together = covariance([*constant, *noisy])
    assert together[4:, 4:] == pytest.approx(covariance(noisy))
    assert not together[:4].any()


def test_common_seeds_tell_apart_what_own_seeds_do_not() -> None:
    rng = np.random.default_rng(2)
    samples = panels(rng, np.array([0.0, 0.0, 0.0, 0.4]), 32, 0.95)
    alone = [Sample(sample.returns) for sample in samples]
    paired = posterior(means_of(samples), covariance(samples)).best[3]
    assert paired > 0.95 > posterior(means_of(alone), covariance(alone)).best[3]


@pytest.mark.parametrize(("pods", "spread"), [(2, 0.3), (8, 0.1), (8, 0.5), (24, 0.3)])
@pytest.mark.parametrize("common", [0.0, 0.8])
def test_who_is_said_to_be_the_best_is_as_often_as_said(
    pods: int, spread: float, common: float
) -> None:
    rng, claimed, right, covered = np.random.default_rng(pods), 0.0, 0, 0
    runs = 300
    for _ in range(runs):
        truths = rng.normal(0, spread, pods)
        samples = panels(rng, truths, 16, common)
        found = posterior(means_of(samples), covariance(samples), draws=500)
        claimed += float(found.best.max())
        right += int(found.best.argmax() == truths.argmax())
        covered += int((abs(found.means - truths) < 1.96 * found.errors).sum())
    # the standard error of `right` is at most 0.029, and of the share that is covered 0.02: pods
    # on common seeds are missed together
    assert claimed / runs == pytest.approx(right / runs, abs=0.1)
    assert 0.87 < covered / runs / pods < 0.99


def test_among_equal_pods_no_one_is_said_to_be_the_best() -> None:
    rng, claims = np.random.default_rng(4), []
    for _ in range(200):
        samples = panels(rng, np.zeros(8), 16, 0.5)
        claims.append(posterior(means_of(samples), covariance(samples), draws=500).best.max())
    assert np.mean(claims) < 0.4
    assert np.mean(np.array(claims) > 0.95) < 0.02


@pytest.mark.long
def test_the_interquartile_mean_is_scipy_s_and_rliable_s() -> None:
    from rliable import metrics  # 2 s of imports

    rng = np.random.default_rng(6)
    for size in (1, 3, 4, 7, 32, 101):
        values = rng.standard_t(2, size)
        assert iqm(values) == pytest.approx(float(scipy.stats.trim_mean(values, 0.25)))
        assert iqm(values) == pytest.approx(float(metrics.aggregate_iqm(values[:, None])))


@pytest.mark.long
def test_its_interval_is_rliable_s() -> None:
    from rliable import library, metrics

    scores = np.random.default_rng(7).exponential(size=(10, 4))  # runs x tasks
    np.random.seed(0)
    _, theirs = library.get_interval_estimates(
        {"a": scores}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=4000
    )
    ours = iqm_interval(list(scores.T), draws=4000)
    assert ours == pytest.approx(tuple(theirs["a"][:, 0]), abs=0.03)


@pytest.mark.parametrize(("runs", "share"), [(3, 0.74), (5, 0.89), (10, 0.94)])
def test_of_few_runs_the_interval_covers_as_seldom_as_a_report_says(
    runs: int, share: float
) -> None:
    rng, covered, samples = np.random.default_rng(runs), 0, 600
    for _ in range(samples):
        low, high = iqm_interval([list(rng.standard_normal(runs))], draws=400)
        covered += low <= 0.0 <= high
    assert covered / samples == pytest.approx(share, abs=0.05)  # three standard errors


def test_the_interval_covers_the_truth() -> None:
    rng, truth, covered = np.random.default_rng(8), float(scipy.stats.norm.expect(lb=-0.6744898,
        ub=0.6744898)) * 2, 0  # fmt: skip
    for _ in range(300):
        low, high = iqm_interval([list(rng.standard_normal(32))], draws=400)
        covered += low <= truth <= high
    assert 0.88 < covered / 300 < 0.985


@pytest.mark.long
def test_improvement_is_scipy_s_and_rliable_s() -> None:
    from rliable import metrics

    rng = np.random.default_rng(9)
    one, other = rng.integers(0, 6, 14).astype(float), rng.integers(0, 5, 9).astype(float)
    found = improvement(one, other, paired=False)
    u = scipy.stats.mannwhitneyu(one, other).statistic
    assert found.probability == pytest.approx(u / 14 / 9)
    theirs = metrics.probability_of_improvement(one[:, None], other[:, None])
    assert found.probability == pytest.approx(float(theirs))


@pytest.mark.long
def test_profiles_and_improvement_over_tasks_are_rliable_s() -> None:
    from rliable import library, metrics

    rng = np.random.default_rng(10)
    one, other = rng.normal(size=(6, 3)), rng.normal(0.4, 1.0, size=(5, 3))  # runs x tasks
    levels = np.linspace(-2, 2, 9)
    np.random.seed(0)
    theirs, bands = library.create_performance_profile({"a": one}, levels, reps=500)
    assert profile(one, levels) == pytest.approx(theirs["a"])
    low, high = profile_band(list(one.T), levels)
    assert low == pytest.approx(bands["a"][0], abs=0.08)  # shares are eighteenths
    assert high == pytest.approx(bands["a"][1], abs=0.08)
    found = improvement_over_tasks(list(one.T), list(other.T))
    assert found.probability == pytest.approx(metrics.probability_of_improvement(one, other))
    _, interval = library.get_interval_estimates(
        {"a": (one, other)}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]),
        reps=500,
    )  # fmt: skip
    assert (found.low, found.high) == pytest.approx(tuple(interval["a"][:, 0]), abs=0.05)


def test_a_profile_is_the_share_above_each_level() -> None:
    assert list(profile([1.0, 2.0, 2.0, 4.0], [0.0, 1.0, 2.0, 3.0, 4.0])) == [
        1,
        0.75,
        0.25,
        0.25,
        0,
    ]


def test_improvement_on_one_task_is_that_of_two_samples() -> None:
    one, other = [1.0, 2.0, 5.0], [0.0, 3.0, 4.0]
    assert improvement_over_tasks([one], [other]) == improvement(one, other, paired=False)


def test_paired_improvement_is_wilson_s() -> None:
    # 7 wins, 3 losses: statistics' binomial interval of 7 in 10
    one, other = np.array([1.0] * 7 + [0.0] * 3), np.array([0.0] * 7 + [1.0] * 3)
    found = improvement(one, other, paired=True)
    theirs = scipy.stats.binomtest(7, 10).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert improvement([1, 1], [1, 1], paired=True).probability == 0.5


@pytest.mark.parametrize("gap", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("paired", [True, False])
def test_intervals_of_improvement_cover_the_truth(gap: float, paired: bool) -> None:
    rng, covered = np.random.default_rng(10), 0
    truth = float(scipy.stats.norm.cdf(gap / math.sqrt(2)))
    for _ in range(600):
        one, other = rng.normal(gap, 1, 24), rng.normal(0, 1, 24)
        found = improvement(one, other, paired=paired)
        covered += found.low <= truth <= found.high
    assert 0.92 < covered / 600 < 0.995


def test_a_trend_is_scipy_s() -> None:
    rng = np.random.default_rng(11)
    x = np.arange(9.0)
    y = 3 * x + rng.standard_normal(9)
    found, theirs = trend(x, y), scipy.stats.linregress(x, y)
    assert found is not None
    assert (found.slope, found.error) == pytest.approx((theirs.slope, theirs.stderr))


@pytest.mark.parametrize("scatter", [0.3, 3.0])
def test_a_weighted_trend_is_least_squares_and_its_error_at_least_the_panels(
    scatter: float,
) -> None:
    rng = np.random.default_rng(12)
    x, errors = np.arange(7.0), np.array([1.0, 1, 1, 5, 5, 0.5, 0.5])
    y = 2 * x + scatter * rng.standard_normal(7) * errors
    found = trend(x, y, errors)
    slope, by_scatter = np.polyfit(x, y, 1, w=1 / errors, cov=True)
    _, by_panels = np.polyfit(x, y, 1, w=1 / errors, cov="unscaled")
    assert found is not None
    assert found.slope == pytest.approx(slope[0])
    larger = by_panels if scatter < 1 else by_scatter
    assert found.error == pytest.approx(math.sqrt(larger[0, 0]))
    assert larger[0, 0] == max(by_panels[0, 0], by_scatter[0, 0])


def test_few_points_on_a_line_have_the_error_of_their_panels() -> None:
    rng = np.random.default_rng(13)
    found = [trend(range(3), rng.standard_normal(3), [1.0] * 3) for _ in range(1000)]
    beyond = [abs(each.slope) > each.error for each in found if each is not None]
    # of a normal error 32 % are; by the scatter alone of three points 50 %
    assert np.mean(beyond) < 0.32 + 2 * math.sqrt(0.32 * 0.68 / 1000)


def test_two_points_have_no_trend() -> None:
    assert trend([1, 2], [3, 4]) is None
    assert trend([2, 2, 2], [3, 4, 5]) is None


def test_the_permutation_test_is_the_exact_rank_test_of_one_task() -> None:
    rng = np.random.default_rng(12)
    for n, m in ((3, 3), (4, 6), (8, 8)):
        one, other = rng.normal(size=n), rng.normal(1.0, 1.0, size=m)
        theirs = scipy.stats.mannwhitneyu(one, other, method="exact").pvalue
        assert improvement_test([list(one)], [list(other)]) == pytest.approx(float(theirs))
    one, other = rng.normal(size=12), rng.normal(0.7, 1.0, size=12)  # 2.7 million: drawn
    theirs = scipy.stats.mannwhitneyu(one, other, method="exact").pvalue
    assert improvement_test([list(one)], [list(other)]) == pytest.approx(float(theirs), abs=0.01)


def test_complete_separation_by_hand() -> None:
    # 2 of the 20 ways, of the 70, of the 252; with two tasks 2 of 20 * 20
    assert improvement_test([[1, 2, 3]], [[4, 5, 6]]) == pytest.approx(2 / 20)
    assert improvement_test([[1, 2, 3, 4]], [[5, 6, 7, 8]]) == pytest.approx(2 / 70)
    assert improvement_test([[1, 2, 3, 4, 5]], [[6, 7, 8, 9, 10]]) == pytest.approx(2 / 252)
    two = improvement_test([[1, 2, 3], [7, 8, 9]], [[4, 5, 6], [70, 80, 90]])
    assert two == pytest.approx(2 / 400)
    assert improvement_test([[5, 5, 5]], [[5, 5, 5]]) == 1


@pytest.mark.parametrize("runs", [(3,), (4,), (3, 3)], ids=str)
def test_equal_arms_get_a_verdict_in_at_most_5_percent_of_cases(runs: tuple[int, ...]) -> None:
    rng, seen = np.random.default_rng(13), 0
    for _ in range(1000):
        one, other = ([list(rng.standard_normal(n)) for n in runs] for _ in range(2))
        seen += improvement_test(one, other) < 0.05
    assert seen <= 50 + 2 * 6.9, "50 at most are expected; 6.9 is the standard deviation"
    assert seen == 0 or runs != (3,), "the least p of three against three is 0.1"


def test_a_clear_effect_is_seen_by_five_runs_against_five() -> None:
    rng = np.random.default_rng(14)
    found = [improvement_test([list(rng.normal(3, 1, 5))], [list(rng.normal(0, 1, 5))]) < 0.05
             for _ in range(100)]  # fmt: skip
    assert sum(found) >= 85, "95 are expected"
