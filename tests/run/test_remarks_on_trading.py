"""Remarks on trading tasks, and their absence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.run.remarks_on_trading import on_trading
from tests.support.small_runs import mapping

PANEL = "pod.evaluator: panel scores pods on the sessions that they train on"
SEEN = "env.kwargs: orders are filled at the price that was seen when they were decided"


@pytest.mark.parametrize(
    ("evaluator", "kwargs", "said"),
    [
        ("trading", {}, []),
        ("trading", {"preset": "paper"}, []),
        ("panel", {}, [PANEL]),
        ("trading", {"fill": "seen"}, [SEEN]),
        ("trading", {"preset": "finrl_parity"}, [SEEN]),
        ("trading", {"preset": "finrl_parity", "fill": "open"}, []),
        ("trading", {"preset": "strict", "fill": "seen"}, [SEEN]),
    ],
)
def test_scores_that_say_little_are_remarked_on(
    evaluator: str, kwargs: Mapping[str, Any], said: list[str]
) -> None:
    env = {"id": "trading", "backend": "trading", "kwargs": dict(kwargs)}
    found = on_trading(from_mapping(mapping("x", env=env, pod={"evaluator": evaluator})), None)
    assert [each.split(", which")[0] for each in found] == said
    gym = from_mapping(mapping("x", env={"id": "x", "kwargs": dict(kwargs)}))
    assert not [*on_trading(gym, None)]
