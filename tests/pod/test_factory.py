"""Agents of stored runs are what they were, whatever the defaults became."""

from __future__ import annotations

import dataclasses

import pytest

from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.pod.factory import make_agent
from tests.agents.training import spec


@pytest.mark.parametrize(("stored", "falls"), [(True, True), (False, False)])
def test_a_run_from_before_schedules_keeps_its_learning_rate(stored: bool, falls: bool) -> None:
    given = dataclasses.asdict(DQNConfig())
    if not stored:
        del given["anneal"]
    agent = make_agent("dqn", spec(), given, 0, "cpu")
    assert isinstance(agent, DQN)
    agent.proceed(0.5)
    assert (agent.learning_rate < 5e-4) == falls
