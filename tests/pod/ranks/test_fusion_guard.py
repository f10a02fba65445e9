"""The guard of a fusion: by hand, and with real ranks whose mean is worse than each of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hpcpod.pod.ranks.fusion_guard import chosen, worse
from tests.pod.ranks.gang import Gang


def test_worse_is_what_is_lower_beyond_the_error_of_the_differences() -> None:
    def told(apart: list[float]) -> bool:
        """Of these differences in the episodes that test; those that choose say the opposite."""
        fused = [value for d in apart for value in (100.0, 10.0 + d)]
        return worse(fused, [10.0] * len(fused))

    # d = -1, -2, -3: mean -2, deviation 1, error 1/√3 = 0.577; t of 2 degrees at 5 % is 2.92, and
    # 2.92 of it 1.69.
    assert told([-1.0, -2.0, -3.0])
    # d = -1, -2, -4.5: mean -2.5, deviation 1.80, error 1.04, 2.92 of it 3.04: not beyond doubt.
    assert not told([-1.0, -2.0, -4.5])
    assert not told([0.0, 0.0])
    assert not told([1.0, 2.0])
    assert told([-1.0, -1.0])  # nothing is drawn: any difference is one
    assert not told([-9.0])  # of one there is no error


def test_the_best_member_is_chosen_by_the_other_half_of_the_episodes() -> None:
    assert chosen([[1.0, 99.0, 1.0, 99.0], [2.0, 0.0, 2.0, 0.0], [1.5, 0.0, 1.5, 0.0]]) == 1


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_a_fusion_as_good_as_its_members_is_thrown_away_in_five_cases_of_a_hundred(
    ranks: int,
) -> None:
    """By its members' best on the same episodes it was in 9, 15 and 32."""
    rng, trials = np.random.default_rng(ranks), 3000
    seeds = rng.normal(size=(trials, 1, 32))  # an episode may be hard for all
    returns = seeds + rng.normal(size=(trials, ranks + 1, 32))
    thrown = sum(worse(fused, members[chosen(members)]) for *members, fused in returns.tolist())
    # The standard error of a share of 5 % in 3000 is 0.4 %.
    assert thrown / trials == pytest.approx(0.05, abs=0.012)


@pytest.mark.parametrize(("kept", "scores"), [(1, [1.0, 5.0, 0.0]), (None, [1.0, 5.0, 9.0])])
def test_a_fusion_for_the_worse_goes_back_to_the_best_member_on_all_ranks(
    kept: int | None, scores: list[float], tmp_path: Path
) -> None:
    # Ranks 0 and 1 score the first two, what they are fused to the third, on four episodes.
    first, second = Gang(tmp_path, "guarded", words={"scores": scores}).results()
    assert first["after"] == second["after"]
    own = {0: first["before"], 1: second["before"]}
    assert (first["after"] == own[1]) == (kept == 1)
    assert first["after"] != own[0]
    assert first["env_steps"] == second["env_steps"] == 64
