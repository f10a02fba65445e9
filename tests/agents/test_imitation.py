"""Students of other algorithms, by hand and on CartPole and Pendulum."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.agents.distributions import Categorical, Gaussian
from hpcpod.agents.imitation import MARGIN, Taught, margin_slope, squared_distance, surprise
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, random_seeds
from tests.agents.training import evaluate, iterate, row, small_agent, spec


class Balancing:
    """A policy for CartPole that never falls, and pushes at random at times while it explores."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(5)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        best = (obs @ torch.tensor([0.05, 0.3, 1.0, 1.0]) > 0).long()
        if not explore:
            return best
        lottery = torch.rand(len(obs), generator=self._generator)
        other = torch.randint(2, (len(obs),), generator=self._generator)
        return torch.where(lottery < 0.2, other, best)


class Halfway:
    """A policy that always does 0.5, and -0.5 while it explores."""

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return torch.full((len(obs), 1), -0.5 if explore else 0.5)


class Always:
    """A policy that always chooses 1."""

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return torch.ones(len(obs), dtype=torch.int64)


def test_the_distance_from_a_teacher_by_hand() -> None:
    action = torch.tensor([[0.0, 1.0], [0.5, 0.5]])
    taught = torch.tensor([[1.0, 1.0], [0.5, -0.5]])
    # ½ (1 + 0) and ½ (0 + 1), of which the mean
    assert float(squared_distance(action, taught)) == pytest.approx(0.5)


def test_the_likelihood_of_a_teachers_choices_by_hand() -> None:
    outputs = torch.tensor([[0.0, 0.0], [1.0986123, 0.0]])  # p = ½, ½ and ¾, ¼
    loss = surprise(Categorical(2), outputs, torch.tensor([0, 1]))
    assert float(loss) == pytest.approx((0.6931472 + 1.3862944) / 2)
    # A Gaussian is one of width 1, whatever its own.
    wide = Gaussian((2,), log_std=2.0)
    means, taught = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, -1.0]])
    assert float(surprise(wide, means, taught)) == pytest.approx(0.5 * (1 + 4))


def test_the_margin_by_hand() -> None:
    values = torch.tensor([[1.0, 1.5, 0.0], [2.0, 0.0, 0.0]], requires_grad=True)
    taught = torch.tensor([0, 0])
    # 1.5 + 0.8 is more than the 1.0 of the choice that was taught; 0 + 0.8 is not more than 2.
    slope = margin_slope(values, taught)
    assert slope.tolist() == [[-0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    others = torch.tensor([[0.0, 1.0, 1.0]]).repeat(2, 1)
    loss = ((values + MARGIN * others).amax(1) - values[:, 0]).mean()
    assert torch.equal(torch.autograd.grad(loss, values)[0], slope)


@pytest.mark.parametrize("name", ["ppo", "a2c", "sac", "td3", "ddpg"])
def test_numbers_are_learned_from_a_teachers_best_action_and_not_from_its_noise(name: str) -> None:
    student: Any = small_agent(name, spec(Box((1,), -1.0, 1.0)), learning_rate=1e-2)
    taught, buffer = Taught(student, Halfway()), student.make_buffer()
    obs = torch.zeros(2, 3)
    for _ in range(12):
        for t in range(taught.horizon):
            _, _, step = row(t)
            action = taught.act(obs, explore=True)
            buffer.add(obs, action, step._replace(obs=obs, next_obs=obs, reward=torch.zeros(2)))
        metrics = taught.update(buffer)
    assert metrics["policy_loss"] >= 0
    found = float(student.act(torch.zeros(1, 3), explore=False))
    assert found == pytest.approx(0.5, abs=0.2)


def test_a_gaussians_width_stays_its_own() -> None:
    student: Any = small_agent("ppo", spec(Box((1,), -1.0, 1.0)))
    before = student.state()["network/head.log_std"]
    taught, buffer = Taught(student, Halfway()), student.make_buffer()
    for t in range(16):
        obs, _, step = row(t)
        buffer.add(obs, taught.act(obs, explore=True), step)
    taught.update(buffer)
    assert torch.equal(student.state()["network/head.log_std"], before)


def test_the_teachers_rows_are_the_students_replay_and_count_as_its_experience() -> None:
    student: Any = small_agent("dqn", spec())
    taught, buffer = Taught(student, Always()), student.make_buffer()
    for t in range(16):
        obs, _, step = row(t)
        buffer.add(obs, taught.act(obs, explore=True), step)
    taught.update(buffer)
    assert int(student.state()["env_steps"]) == 32  # 16 rows of 2 environments
    assert int(student.state()["updates"]) == 10
    assert buffer.segment(0, 16)["action"].tolist() == [[1, 1]] * 16
    assert taught.state().keys() == student.state().keys()  # all else is the student's


def test_a_teachers_actions_are_stored_as_the_environment_takes_them() -> None:
    class Wild:
        def act(self, obs: torch.Tensor, *, explore: bool) -> torch.Tensor:
            return torch.tensor([[-3.0, 0.5, 1.5]]).expand(len(obs), 3)

    student: Any = small_agent("sac", spec(Box((3,), -1.0, 1.0)))
    acted = Taught(student, Wild()).act(torch.zeros(2, 3), explore=True)
    assert acted.tolist() == [[-1.0, 0.5, 1.0]] * 2


def test_an_agent_that_can_not_imitate_is_named() -> None:
    agent: Any = Always()
    with pytest.raises(TypeError, match="Always has no method imitate"):
        Taught(agent, Balancing())


def trained(name: str, teacher: Any, **config: Any) -> float:
    """The score of an agent after 2,048 steps, in which a teacher acts if there is one."""
    env = PreprocessVecEnv("CartPole-v1", 8)
    student = small_agent(name, env.spec, seed=3, **config)
    acts: Any = student if teacher is None else Taught(student, teacher)
    buffer, obs = student.make_buffer(), env.reset(random_seeds(7, count=8))
    while buffer.rows < 256:
        obs, _ = iterate(acts, env, buffer, obs)
    return evaluate(student, "CartPole-v1", episodes=4)


@pytest.mark.parametrize(
    ("name", "config", "least"),
    [
        ("ppo", {"horizon": 64, "epochs": 5}, 400.0),
        ("dqn", {"buffer_size": 4096, "updates_per_iteration": 16}, 300.0),
    ],
)
def test_a_student_is_far_above_an_agent_that_has_learned_alone_for_as_many_steps(
    name: str, config: dict[str, Any], least: float
) -> None:
    alone, after = trained(name, None, **config), trained(name, Balancing(), **config)
    assert after > least and alone < after / 2, (alone, after)
