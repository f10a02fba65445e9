"""Isaac Gym's and Isaac Lab's adapters, over fakes that do what those do, in that order."""

from __future__ import annotations

import sys

import pytest
import torch

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.checking import check_env
from hpcpod.envs.isaac_lab import IsaacLabVecEnv
from hpcpod.envs.make import configured, make_env
from hpcpod.envs.vec_env import Step, VecEnv
from hpcpod.errors import Diverged, UserError
from hpcpod.testing import EnvContract
from tests.envs.fake_isaac import FakeLabEnv

TASK = "tests.envs.fake_isaac:FakeVecTask"


class TestIsaacGym(EnvContract):
    """By this Python, which has torch; the server starts nothing else in another one."""

    seeded = False
    saveable = False
    deterministic = True

    def make_env(self, num_envs: int) -> VecEnv:
        config = EnvConfig(TASK, num_envs, "isaacgym", kwargs={"length": 12}, python=sys.executable)
        return configured(config, num_envs, "cpu")


class TestIsaacLab(EnvContract):
    seeded = False
    final_obs = False
    saveable = False
    deterministic = True

    def make_env(self, num_envs: int) -> VecEnv:
        return IsaacLabVecEnv(FakeLabEnv, num_envs, "cpu", kwargs={"length": 12})


def test_isaac_lab_by_hand() -> None:
    # Environment 0 falls after 2 steps; the time limit is 4 - 1 steps.
    env = IsaacLabVecEnv(FakeLabEnv, 2, "cpu", kwargs={"falls": [2, 100], "length": 4})
    assert not env.spec.seeded and not env.spec.final_obs and env.spec.max_episode_steps == 4
    assert env.reset().tolist() == [[0.0, 1.0], [0.0, 1.0]]
    action = torch.tensor([[0.5, 3.0, 0.0], [0.0, 0.0, -0.25]])
    told = [env.step(action) for _ in range(4)]
    # What is simulated: steps of the episode, which episode; after an end the next one's first.
    assert [step.obs[0].tolist() for step in told] == [[1, 1], [0, 2], [1, 2], [0, 3]]
    assert [step.obs[1].tolist() for step in told] == [[1, 1], [2, 1], [0, 2], [1, 2]]
    assert [bool(step.terminated[0]) for step in told] == [False, True, False, True]
    assert [bool(step.truncated[1]) for step in told] == [False, False, True, False]
    # The last observation is lost: what was acted on stands for it.
    assert told[1].next_obs[0].tolist() == [1, 1] and told[2].next_obs[1].tolist() == [2, 1]
    assert all(step.valid.all() and step.reward.tolist() == [2.5, 0.75] for step in told)
    env.close()


class Live(IsaacLabVecEnv):
    """Gives the simulator's own buffer."""

    def step(self, action: torch.Tensor) -> Step:
        return super().step(action)._replace(reward=self._env.reward_buf)


class Resets(IsaacLabVecEnv):
    """Takes what comes after a reset for the successor."""

    def step(self, action: torch.Tensor) -> Step:
        step = super().step(action)
        return step._replace(next_obs=step.obs.clone())


@pytest.mark.parametrize(
    ("broken", "said"), [(Live, "overwrites tensors"), (Resets, "observation after the reset")]
)
def test_the_fake_bites(broken: type[IsaacLabVecEnv], said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_env(broken(FakeLabEnv, 3, "cpu"))


def test_isaac_lab_is_had_by_a_path_and_refuses_what_it_can_t_do() -> None:
    lab = "hpcpod.envs.isaac_lab:IsaacLabVecEnv"
    env = make_env("tests.envs.fake_isaac:FakeLabEnv", 3, lab)
    env.reset()
    with pytest.raises(ValueError, match=r"expected actions of shape \(3, 3\), got \(3, 1\)"):
        env.step(torch.zeros(3, 1))
    with pytest.raises(Diverged, match="an action is not finite"):
        env.step(torch.full((3, 3), float("nan")))
    with pytest.raises(ValueError, match="has no state"):
        env.restore({})
    env.close()
    with pytest.raises(UserError, match="this simulator has batches"):
        make_env("tests.envs.fake_isaac:FakeLabEnv", 3, lab, wrappers=["x:Y"])
    with pytest.raises(UserError, match=r"FakeLabEnv refused its arguments \(env\.kwargs\): "):
        make_env("tests.envs.fake_isaac:FakeLabEnv", 3, lab, kwargs={"gravity": 1.0})
