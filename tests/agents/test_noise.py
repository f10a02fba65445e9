"""Noise of exploration: what is drawn at a step, how steps hang together, what is kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hpcpod.agents.base import Agent
from hpcpod.agents.noise import Noise
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.agents.td3 import TD3, TD3Config
from hpcpod.envs.vec_env import Box, Discrete
from hpcpod.pod.factory import make_agent
from tests.agents.training import spec

ACTION = Box((2,), -1.0, 1.0)


def noise(num_envs: int, memory: int, seed: int = 0) -> Noise:
    return Noise(num_envs, 1, memory, torch.Generator().manual_seed(seed))


def steps(made: Noise, num_envs: int, count: int) -> Tensor:
    """What is drawn at ``count`` steps, [count, num_envs]."""
    return torch.stack([made.draw(torch.empty(num_envs)) for _ in range(count)])


@pytest.mark.parametrize("memory", [1, 16, 1024])
def test_each_step_is_standard_normal_and_uniform_where_that_is_asked_for(memory: int) -> None:
    made = noise(40_000, memory)
    for _ in range(3):
        drawn = made.draw(torch.empty(40_000, 1))
        # errors of a mean, a standard deviation and a fourth moment of 40,000: 0.005, 0.0035, 0.05
        assert drawn.shape == (40_000, 1)
        assert float(drawn.mean()) == pytest.approx(0.0, abs=0.02)
        assert float(drawn.std()) == pytest.approx(1.0, abs=0.014)
        assert float(drawn.pow(4).mean()) == pytest.approx(3.0, abs=0.2)
    uniform = made.draw_uniform(torch.empty(40_000, 1)).flatten().sort().values
    assert float((uniform - torch.linspace(-1, 1, 40_000)).abs().max()) < 0.02


def test_its_processes_forget_in_1_4_and_16_steps() -> None:
    drawn = steps(noise(40_000, memory=20), 40_000, 9)
    # of the three processes the correlations after h steps are 0, 0.75^h and 0.9375^h
    for lag, expected in ((1, 0.5625), (4, 0.3629), (8, 0.2323)):
        found = float((drawn[0] * drawn[lag]).mean())
        assert found == pytest.approx(expected, abs=0.025)  # five standard errors


def test_its_power_falls_as_one_over_the_frequency() -> None:
    drawn = steps(noise(512, memory=1024), 512, 4096)
    power = torch.fft.rfft(drawn, dim=0).abs().square().mean(dim=1)
    frequency = torch.arange(len(power)) / 4096
    used = (frequency > 1 / 1024) & (frequency < 1 / 8)
    x, y = frequency[used].log(), power[used].log()
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    assert slope == pytest.approx(-1.0, abs=0.1)
    white = torch.fft.rfft(steps(noise(512, 1), 512, 4096), dim=0).abs().square().mean(dim=1)
    ratio = float(white[used][: len(x) // 2].mean() / white[used][len(x) // 2 :].mean())
    assert ratio == pytest.approx(1.0, abs=0.05)


def test_white_noise_is_what_the_generator_gives() -> None:
    made, generator = noise(5, memory=1), torch.Generator().manual_seed(0)
    assert torch.equal(made.draw(torch.empty(5, 1)), torch.empty(5, 1).normal_(generator=generator))
    expected = torch.empty(5, 1).uniform_(-1, 1, generator=generator)
    assert torch.equal(made.draw_uniform(torch.empty(5, 1)), expected)
    assert made.state() == {}


def test_environments_and_numbers_of_an_action_have_noise_of_their_own() -> None:
    made = Noise(20_000, 2, 1024, torch.Generator().manual_seed(0))
    drawn = made.draw(torch.empty(20_000, 2))
    assert float((drawn[:, 0] * drawn[:, 1]).mean()) == pytest.approx(0.0, abs=0.03)
    assert float((drawn[1:] * drawn[:-1]).mean()) == pytest.approx(0.0, abs=0.03)


def sac(memory: int = 1024, num_envs: int = 3, seed: int = 0) -> SAC:
    config = SACConfig(hidden=8, learning_starts=6, noise_memory=memory)
    return SAC(spec(ACTION, num_envs=num_envs), config, seed)


def acts(agent: Agent, count: int, num_envs: int = 3) -> Tensor:
    return torch.stack([agent.act(torch.zeros(num_envs, 3), explore=True) for _ in range(count)])


def test_a_saved_agent_goes_on_in_the_middle_of_its_noise() -> None:
    agent, other = sac(), sac(seed=1)
    acts(agent, 5)
    other.load(agent.state())
    assert torch.equal(acts(agent, 5), acts(other, 5))


def test_a_child_has_noise_of_its_own() -> None:
    parent, child = sac(), sac()
    child.load(parent.state())
    child.reseed(7)
    assert not torch.equal(acts(parent, 1), acts(child, 1))
    assert not torch.equal(parent.state()["noise"], child.state()["noise"])


@pytest.mark.parametrize(("memory", "num_envs"), [(1, 3), (64, 3), (1024, 5)])
def test_a_state_of_another_memory_or_of_other_environments_is_taken_without_its_noise(
    memory: int, num_envs: int
) -> None:
    agent = sac(memory, num_envs)
    agent.load(sac().state())
    assert torch.isfinite(acts(agent, 5, num_envs)).all()
    assert ("noise" in agent.state()) == (memory > 1)


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg", "ppo", "a2c"])
def test_states_and_runs_from_before_there_was_pink_noise_go_on_with_white(algorithm: str) -> None:
    stored = make_agent(algorithm, spec(ACTION, num_envs=3), {"hidden": 8}, 0, "cpu")
    assert "noise" not in stored.state()
    child = make_agent(
        algorithm, spec(ACTION, num_envs=3), {"hidden": 8, "noise_memory": 9}, 1, "cpu"
    )
    child.load(stored.state())
    assert "noise" in child.state()


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_the_noise_of_a_rollout_goes_on_in_the_middle_and_choices_have_none(algorithm: str) -> None:
    agent, other = (
        make_agent(algorithm, spec(ACTION, num_envs=3), {"noise_memory": 16}, seed, "cpu")
        for seed in (0, 1)
    )
    acts(agent, 5)
    other.load(agent.state())
    assert torch.equal(acts(agent, 5), acts(other, 5))
    assert agent.state()["noise"].shape == (3, 3, 2)
    choices = make_agent(algorithm, spec(Discrete(2), num_envs=3), {"noise_memory": 16}, 0, "cpu")
    assert "noise" not in choices.state()


def test_td3_pushes_on_where_white_noise_turns_round_at_once() -> None:
    def same_direction(memory: int) -> float:
        config = TD3Config(hidden=8, learning_starts=0, noise_memory=memory)
        agent = TD3(spec(ACTION, num_envs=2_000), config, 0)
        obs = torch.zeros(2_000, 3)  # the fresh policy's own action is 0
        drawn = torch.stack([agent.act(obs, explore=True) for _ in range(9)])
        return float((drawn[0].sign() == drawn[8].sign()).float().mean())

    # 1/2 + arcsin(ρ) / π, with ρ = (0.75^8 + 0.9375^8 + 0.9844^8 + 0.9961^8 + 0.9990^8) / 6
    assert same_direction(1024) == pytest.approx(0.7009, abs=0.03)
    assert same_direction(1) == pytest.approx(0.5, abs=0.03)
