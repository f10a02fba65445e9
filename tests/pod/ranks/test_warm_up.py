"""Real ranks warm up by transitions of their own, however many of them there are."""

from __future__ import annotations

from pathlib import Path

from tests.pod.ranks.gang import Gang


def test_each_rank_collects_as_many_random_transitions_as_a_pod_of_one(tmp_path: Path) -> None:
    # Their steps are summed at each fusion: that counter divided the 64 by the number of ranks.
    told = Gang(tmp_path, "warm_up", size=2).results()
    # The 64th is collected in the iteration after whose end the first update is made.
    assert told == [[64, 56, 240], [64, 56, 240]]
