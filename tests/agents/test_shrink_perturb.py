"""Shrink-perturb: what becomes of weights, and what stays, in each of hpcpod's agents."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from hpcpod.agents.base import Agent
from hpcpod.agents.dqn import DQN, DQNConfig
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.agents.sac import SAC, SACConfig
from hpcpod.agents.shrink_perturb import shrink_perturb
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import Box, State, random_seeds
from tests.agents.image_env import Bright
from tests.agents.training import CLASSES, iterate, small_agent, spec
from tests.pod.ageing_agent import Ageing, AgeingConfig

CONTINUOUS = ("sac", "td3", "ddpg")


def trained(name: str) -> Agent:
    """An agent after three updates, with all that its moments and statistics can hold."""
    env = PreprocessVecEnv("Pendulum-v1" if name in CONTINUOUS else "CartPole-v1", 4)
    more = {"normalize_returns": True} if name in ("ppo", "a2c") else {}
    agent = small_agent(name, env.spec, normalize_obs=True, **more)
    obs, buffer = env.reset(random_seeds(name, count=4)), agent.make_buffer()
    for _ in range(3):
        obs, _ = iterate(agent, env, buffer, obs)
    return agent


def twin(agent: Agent, seed: int) -> Agent:
    """An agent of the same class and hyperparameters, from scratch."""
    fresh: Agent = type(agent)(agent._spec, agent._config, seed)  # type: ignore[attr-defined]
    return fresh


def weights(state: State, kind: str = "network") -> State:
    return {name: t for name, t in state.items() if name == kind or name.startswith(f"{kind}/")}


def mixed(old: Tensor, new: Tensor) -> Tensor:
    return 0.2 * old + 0.1 * new


def test_a_weight_is_a_fifth_of_the_old_one_and_a_tenth_of_a_fresh_one() -> None:
    agents = [DQN(spec(), DQNConfig(hidden=1, layers=1), seed=seed) for seed in (0, 1)]
    for agent, weight, bias in zip(agents, (3.0, -2.0), (1.0, 4.0), strict=True):
        for name, value in agent.modules()["network"].state_dict().items():
            value.fill_(weight if name.endswith("weight") else bias)
    assert shrink_perturb(agents[0], agents[1])
    for kind in ("network", "target"):
        found = weights(agents[0].state(), kind)
        assert {name.removeprefix(f"{kind}/") for name in found} == {
            "0.weight", "0.bias", "2.weight", "2.bias",
        }  # fmt: skip
        for name, value in found.items():
            # 0.2 * 3 - 0.1 * 2 and 0.2 * 1 + 0.1 * 4
            expected = 0.4 if name.endswith("weight") else 0.6
            torch.testing.assert_close(value, torch.full_like(value, expected))
    assert all((w == -2.0).all() for n, w in weights(agents[1].state()).items() if "weight" in n)


@pytest.mark.parametrize("name", CLASSES)
def test_networks_shrink_targets_equal_them_optimizers_begin_anew_and_the_rest_stays(
    name: str,
) -> None:
    agent = trained(name)
    fresh, before = twin(agent, 7), agent.state()
    new, global_stream = fresh.state(), torch.get_rng_state()
    assert shrink_perturb(agent, fresh)
    after = agent.state()
    assert torch.equal(torch.get_rng_state(), global_stream)
    assert all(torch.equal(new[n], tensor) for n, tensor in fresh.state().items())
    rest = dict(after)
    for kind in ("network", "target", "optimizer"):
        assert kind == "target" or weights(after, kind)
        for changed, tensor in weights(after, kind).items():
            del rest[changed]
            online = changed.replace("target", "network", 1)
            if kind == "optimizer":
                assert not tensor.any(), changed
            elif tensor.dim() == 0:  # SAC's temperature
                assert torch.equal(tensor, before[changed])
            else:
                torch.testing.assert_close(tensor, mixed(before[online], new[online]))
    assert any(t.any() for n, t in before.items() if "exp_avg/" in n)
    assert any("normalizer" in n for n in rest)
    assert int(rest["env_steps"]) == 3 * 4 * agent.horizon
    for kept, tensor in rest.items():
        assert torch.equal(tensor, before[kept]), kept


@pytest.mark.parametrize("name", CLASSES)
def test_equal_seeds_give_equal_agents_which_learn_on(name: str) -> None:
    one, other = trained(name), trained(name)
    assert shrink_perturb(one, twin(one, 7)) and shrink_perturb(other, twin(other, 7))
    for agent in (one, other):
        env = PreprocessVecEnv("Pendulum-v1" if name in CONTINUOUS else "CartPole-v1", 4)
        obs, buffer = env.reset(random_seeds("more", count=4)), agent.make_buffer()
        for _ in range(3):
            obs, metrics = iterate(agent, env, buffer, obs)
        assert metrics
    theirs = other.state()
    assert all(torch.equal(tensor, theirs[n]) for n, tensor in one.state().items())
    third = trained(name)
    shrink_perturb(third, twin(third, 8))
    different = weights(third.state())
    again = trained(name)
    shrink_perturb(again, twin(again, 7))
    assert any(not torch.equal(t, different[n]) for n, t in weights(again.state()).items())


def test_a_policy_s_free_deviations_shrink_and_a_temperature_stays() -> None:
    continuous = spec(Box((2,), -1.0, 1.0))
    ppo = PPO(continuous, PPOConfig(hidden=16, log_std_init=-1.0), seed=0)
    with torch.no_grad():
        ppo.modules()["network"].get_parameter("head.log_std").fill_(-3.0)
    shrink_perturb(ppo, PPO(continuous, PPOConfig(hidden=16, log_std_init=-1.0), seed=1))
    assert ppo.state()["network/head.log_std"].tolist() == pytest.approx([-0.7, -0.7])
    sac = SAC(continuous, SACConfig(hidden=16, temperature_init=0.5), seed=0)
    shrink_perturb(sac, SAC(continuous, SACConfig(hidden=16, temperature_init=0.5), seed=1))
    assert float(sac.alpha) == pytest.approx(0.5)
    assert float(sac.state()["network/temperature/log_alpha"]) == pytest.approx(math.log(0.5))


def test_encoders_of_images_shrink_too() -> None:
    env = PreprocessVecEnv(partial(Bright, discrete=True), 2)
    agent, fresh = (small_agent("dqn", env.spec, seed=seed) for seed in (0, 1))
    before = agent.state()
    assert shrink_perturb(agent, fresh)
    new = fresh.state()
    found = weights(agent.state())
    assert any(tensor.dim() == 4 for tensor in found.values())
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, mixed(before[name], new[name]))


def test_an_agent_of_another_kind_is_left_as_it_is() -> None:
    agent, fresh = (Ageing(spec(), AgeingConfig(), seed) for seed in (0, 1))
    before = agent.state()
    assert not shrink_perturb(agent, fresh)
    assert agent.state() == before
