"""The guard of a fusion: by hand, and with real ranks whose mean is worse than each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.pod.ranks.guard import worse
from tests.pod.ranks.gang import Gang


def test_worse_is_what_is_lower_beyond_the_error_of_the_differences() -> None:
    # d = -1, -2, -3: mean -2, deviation 1, error 1/√3 = 0.577; 1.64 of it is 0.947.
    assert worse([9.0, 18.0, 27.0], [10.0, 20.0, 30.0])
    # d = -1, 2, -3: mean -0.667, deviation 2.517, error 1.453; 1.64 of it is 2.383.
    assert not worse([9.0, 22.0, 27.0], [10.0, 20.0, 30.0])
    assert not worse([10.0, 20.0], [10.0, 20.0])
    assert not worse([11.0, 22.0], [10.0, 20.0])


@pytest.mark.parametrize(("kept", "scores"), [(1, [1.0, 5.0, 0.0]), (None, [1.0, 5.0, 9.0])])
def test_a_fusion_for_the_worse_goes_back_to_the_best_member_on_all_ranks(
    kept: int | None, scores: list[float], tmp_path: Path
) -> None:
    # Ranks 0 and 1 score the first two, what they are fused to the third, on three episodes.
    first, second = Gang(tmp_path, "guarded", words={"scores": scores}).results()
    assert first["after"] == second["after"]
    own = {0: first["before"], 1: second["before"]}
    assert (first["after"] == own[1]) == (kept == 1)
    assert first["after"] != own[0]
    assert first["env_steps"] == second["env_steps"] == 64
