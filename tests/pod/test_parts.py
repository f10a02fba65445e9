"""A worker, a learner and a fusion of one's own, each by its path, in place of the built-in one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import Tensor

from hpcpod.agents.base import Agent, Buffer, Metrics
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.config.loader import from_mapping
from hpcpod.envs.vec_env import EnvSpec, State
from hpcpod.errors import UserError
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.pipeline import Turns
from hpcpod.run.preflight import check
from tests.pod.rounds import execute, first_birth, onward, train
from tests.support.small_runs import create, mapping


@dataclass(frozen=True)
class RuleConfig:
    """Hyperparameters."""

    gain: float = 1.0
    """How much the pole's angle counts beside its speed."""


class Lazy(Turns):
    """Collects half of what it should."""

    def collect(self, agent: Agent, buffer: Buffer, steps: int, *, cut: bool) -> int:
        """See ``Worker``."""
        return super().collect(agent, buffer, steps // 2, cut=cut)


class Telling(Learner):
    """Adds a metric of its own."""

    def learn(self, buffer: Buffer) -> Metrics:
        """See ``Learner``."""
        rows = buffer.rows - buffer.oldest
        return {**super().learn(buffer), "rows_learned_from": float(rows)}


class Rule:
    """A controller that learns nothing, and so has no state."""

    Config = RuleConfig
    horizon = 32

    def __init__(self, spec: EnvSpec, config: RuleConfig, seed: int, device: str = "cpu") -> None:
        self._gain = config.gain

    def make_buffer(self) -> RolloutBuffer:
        return RolloutBuffer()

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return (self._gain * obs[:, 2] + obs[:, 3] > 0).long()

    def update(self, buffer: RolloutBuffer) -> Metrics:
        buffer.rollout()
        return {}

    def state(self) -> State:
        return {}

    def load(self, state: State) -> None:
        pass

    def reseed(self, seed: int) -> None:
        pass


def test_an_agent_without_a_state_goes_on_as_one_that_was_not_stopped(tmp_path: Path) -> None:
    folder = create(tmp_path, "tests.pod.test_parts:Rule")
    first = train(folder, first_birth(folder), 2)
    second = train(folder, onward(first_birth(folder), first))
    assert len(second.returns) == 8


def test_a_worker_and_a_learner_of_one_s_own_are_used(tmp_path: Path) -> None:
    here = "tests.pod.test_parts"
    folder = create(tmp_path, pod={"worker": f"{here}:Lazy", "learner": f"{here}:Telling"})
    report = execute(prepare(folder), first_birth(folder))
    assert report.metrics["rows_learned_from"] == 16.0  # of a horizon of 32
    plain = create(tmp_path / "plain", pod={"learner": f"{here}:Telling"})
    assert execute(prepare(plain), first_birth(plain)).metrics["rows_learned_from"] == 32.0


@pytest.mark.parametrize("part", ["worker", "learner"])
def test_one_that_is_not_there_is_refused_before_the_run(part: str) -> None:
    with pytest.raises(UserError, match=f"pod.{part}: .*tests.pod.test_parts.* has no 'Absent'"):
        check(from_mapping(mapping(pod={part: "tests.pod.test_parts:Absent"})), probe=False)
