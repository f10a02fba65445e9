"""An ensemble acts by the rule that it names, whatever its members are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod import plugins
from hpcpod.agents.base import Probabilistic, Valuing
from hpcpod.config.schema import EnvConfig
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import Bound, Box, Discrete, EnvSpec, MultiDiscrete, Space
from hpcpod.pod.ensemble import default_rule, ensemble_of
from hpcpod.pod.ensemble_rules import Ensemble
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.policy import Policy, load_policy_file
from hpcpod.storage.policy_blobs import RULES, Rule
from tests.agents.image_env import Bright
from tests.envs.small_envs import Starting
from tests.envs.test_observations import Watching


class Linear:
    """Acts by w s; values an action a by -scale (a - target)²."""

    def __init__(self, w: float, scale: float = 1.0, target: float = 0.0) -> None:
        self.w, self._scale, self._target = w, scale, target

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        assert not explore
        return self.w * obs

    def action_values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        return -self._scale * (candidates - self._target).square().squeeze(-1)


class Table:
    """Takes these choices, by these probabilities, whatever it observes."""

    def __init__(self, *choices: float, q: Sequence[float] = ()) -> None:
        self._choices, self._q = torch.tensor(choices), torch.tensor(q)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return self._choices.long().expand(len(obs), -1).squeeze(-1)

    def log_probabilities(self, obs: Tensor) -> Tensor:
        return self._choices.log().expand(len(obs), -1)

    def action_values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        return self._q[candidates]


def spec(action: Space, bounds: tuple[Bound, Bound] | None = None) -> EnvSpec:
    return EnvSpec("Task-v0", Box((1,), -1.0, 1.0), action, 2, "cpu", None, "", bounds)


ONE = spec(Box((1,), -1.0, 1.0), (-2.0, 2.0))


def of(rule: Rule, env_spec: EnvSpec, *agents: Any) -> Policy:
    members = [Policy(agent, env_spec, {"agent": "own"}) for agent in agents]
    return ensemble_of(members, rule)


def test_the_mean_is_of_actions_that_the_environment_would_take() -> None:
    policy = of("mean", ONE, Linear(3.0), Linear(-0.25))
    # at s = 1: clip(3) = 1 and -0.25, whose mean is 0.375 of the bound 2
    assert policy([1.0]).tolist() == [0.75]
    # at s = 0.2: (0.6 - 0.05) / 2 = 0.275
    assert policy([[0.2], [-0.2]]) == pytest.approx(np.array([[0.55], [-0.55]]), abs=1e-7)


@pytest.mark.parametrize(
    ("choices", "winner"),
    [
        ((1, 2, 2), 2),
        ((1, 2, 0), 1),  # all alike: the best member's
        ((0, 2, 1, 1, 2), 2),  # two of two: the one whose voter stands first
        ((3, 0, 0, 1, 1), 0),
    ],
)
def test_the_action_that_most_members_take_wins(choices: tuple[int, ...], winner: int) -> None:
    policy = of("vote", spec(Discrete(4, start=7)), *map(Table, choices))
    assert policy([0.0]) == winner + 7
    assert policy(np.zeros((3, 1))).tolist() == [winner + 7] * 3


def test_several_choices_are_voted_on_each_alone() -> None:
    several = spec(MultiDiscrete((3, 2)))
    policy = of("vote", several, Table(0, 1), Table(2, 0), Table(2, 1))
    assert policy([0.0]).tolist() == [2, 1]


def test_the_product_takes_what_all_members_find_likely() -> None:
    # 0.6 * 0.1 = 0.06, 0.3 * 0.5 = 0.15, 0.1 * 0.4 = 0.04: the first choice of the second alone
    one = spec(Discrete(3))
    assert of("product", one, Table(0.6, 0.3, 0.1), Table(0.1, 0.5, 0.4))([0.0]) == 1
    # 0.5 * 0.4 = 0.2, 0.3 * 0.35 = 0.105, 0.45 * 0.49 = 0.2205: nobody's first choice
    assert of("product", one, Table(0.5, 0.05, 0.45), Table(0.4, 0.11, 0.49))([0.0]) == 2
    several = spec(MultiDiscrete((2, 3)))
    first, second = Table(0.6, 0.4, 0.6, 0.3, 0.1), Table(0.3, 0.7, 0.1, 0.5, 0.4)
    # 0.18 < 0.28 of the first choice; of the second as above
    assert of("product", several, first, second)([0.0]).tolist() == [1, 1]


def test_values_of_several_scales_count_alike() -> None:
    # Actions at s = 1: 0, 0.5 and -0.5. Values of the first member -100 (a - 0.5)² are -25, 0 and
    # -100: mean -41.667, deviation 42.492, standardised 0.392, 0.981 and -1.373. Of the others,
    # -a²: 0, -0.25 and -0.25, standardised 1.414, -0.707 and -0.707. Sums: 3.221, -0.434, -2.787,
    # where the plain sum, -25, -0.5 and -100.5, would take the second.
    agents = Linear(0.0, 100.0, 0.5), Linear(0.5), Linear(-0.5)
    assert of("q_weighted", ONE, *agents)([1.0]).tolist() == [0.0]


def test_choices_are_valued_all_of_them_and_ties_go_to_the_best_member() -> None:
    one = spec(Discrete(3))
    # (0, 1, 2) * 100 standardised is -1.225, 0, 1.225; (3, 0, 0) 1.414, -0.707, -0.707; (2, 1, 0)
    # 1.225, 0, -1.225: choice 0, though the plain sums 5, 101 and 200 are for 2
    agents = [Table(0, q=q) for q in ((0.0, 100.0, 200.0), (3.0, 0.0, 0.0), (2.0, 1.0, 0.0))]
    assert of("q_weighted", one, *agents)([0.0]) == 0
    up, down = Table(0, q=(0.0, 1.0, 2.0)), Table(0, q=(2.0, 1.0, 0.0))
    assert of("q_weighted", one, up, down)([0.0]) == 2
    assert of("q_weighted", one, down, up)([0.0]) == 0
    # 1e-7 of 1 is no difference that float32 could tell: the other member decides
    even = Table(0, q=(1.0, 1.0, 1.0000001))
    assert of("q_weighted", one, even, down)([0.0]) == 0


def test_two_critics_overrule_the_best_member_only_together() -> None:
    agree, differ = Linear(-0.5, 1.0, 0.5), Linear(-0.5, 1.0, -0.5)
    # actions at s = 1: -0.5 and 0.5
    assert of("q_weighted", ONE, agree, Linear(0.5, 9.0, 0.5))([1.0]).tolist() == [1.0]
    assert of("q_weighted", ONE, differ, Linear(0.5, 9.0, 0.5))([1.0]).tolist() == [-1.0]


DISCRETE, CONTINUOUS = ["ppo", "a2c", "dqn"], ["ppo", "a2c", "sac", "td3", "ddpg"]
Make = str | Callable[[], gym.Env[Any, Any]]
CASES: dict[str, tuple[Make, list[str], Rule]] = {
    "mean": ("Pendulum-v1", CONTINUOUS, "mean"),
    "vote": ("Acrobot-v1", DISCRETE, "vote"),
    "product": ("Acrobot-v1", ["ppo", "a2c", "ppo"], "product"),
    **{name: ("Pendulum-v1", [name] * 3, "q_weighted") for name in ("sac", "td3", "ddpg")},
    "dqn": ("Acrobot-v1", ["dqn"] * 3, "q_weighted"),
    "several choices": (partial(Starting, many=True), ["ppo", "a2c", "ppo"], "vote"),
    "product of several choices": (partial(Starting, many=True), ["ppo", "a2c"], "product"),
    "images, choices": (partial(Bright, discrete=True), ["ppo", "dqn", "a2c"], "vote"),
    "images, continuous": (partial(Bright, discrete=False), ["sac", "td3", "ppo"], "mean"),
    "images, critics": (partial(Bright, discrete=False), ["td3"] * 2, "q_weighted"),
    "dictionaries": (Watching, ["ppo", "dqn", "a2c"], "vote"),
}


def agent_of(name: str, env_spec: EnvSpec, seed: int) -> Policy:
    """A policy that has its own mind, and its own statistics of vectors."""
    hyperparameters = {"hidden": 16, "normalize_obs": True}
    agent = make_agent(name, env_spec, hyperparameters, seed, "cpu")
    state = agent.state()
    for key, tensor in state.items():
        if key.endswith("policy.weight") or ("network/actor" in key and "weight" in key):
            tensor *= 5  # the first actions of a fresh network are all near 0
        if key.endswith("observations/mean") or key == "normalizer/mean":
            tensor += 0.1 * seed
    agent.load(state)
    about = {"agent": name, "hyperparameters": hyperparameters, "pod": f"p{seed:04}", "round": 2}
    return Policy(agent, env_spec, about)


def observations(env_spec: EnvSpec, rows: int) -> np.ndarray[Any, Any]:
    space, random = env_spec.observation, np.random.default_rng(1)
    if isinstance(space, Box):
        if space.dtype == "uint8":
            return random.integers(0, 256, (rows, *space.shape), np.uint8)
        return random.normal(size=(rows, *space.shape)).astype(np.float32)
    assert isinstance(space, Discrete)
    return random.integers(space.start, space.start + space.n, rows)


def test_the_cases_are_of_every_agent_that_is_built_in() -> None:
    assert {name for _, names, _ in CASES.values() for name in names} == set(
        plugins.known("agents")
    )
    assert {rule for *_, rule in CASES.values()} == set(RULES)


@pytest.mark.parametrize("case", CASES)
def test_members_of_any_kind_act_as_one_from_a_file_too(case: str, tmp_path: Path) -> None:
    make, names, rule = CASES[case]
    env_spec = make_env(make, 2).spec
    members = [agent_of(name, env_spec, seed) for seed, name in enumerate(names)]
    policy = ensemble_of(members, rule)
    obs = observations(env_spec, 40)
    batch = policy(obs)
    each = np.stack([member(obs) for member in members])
    single = np.stack([policy(one) for one in obs])
    np.testing.assert_allclose(batch, single, rtol=0, atol=1e-6)
    if rule == "mean":
        np.testing.assert_allclose(batch, each.mean(axis=0), rtol=0, atol=1e-6)
    elif rule == "q_weighted" and isinstance(env_spec.action, Box):
        assert (batch == each).any(axis=0).all()
    elif rule == "vote":
        alike = each[1] == each[2]
        assert (batch == np.where(alike, each[1], each[0])).all()
    assert batch.dtype == each.dtype and batch.shape == each.shape[1:]
    policy.save(tmp_path / "ensemble.h5")
    read = load_policy_file(tmp_path / "ensemble.h5")
    assert read(obs).tobytes() == batch.tobytes()
    assert read.spec == policy.spec == env_spec.__class__(**vars(env_spec))
    assert read.about["rule"] == rule and default_rule(read.spec) in RULES
    known = [(m["pod"], m["round"], m["agent"]) for m in read.about["members"]]
    assert known == [(f"p{seed:04}", 2, name) for seed, name in enumerate(names)]
    assert read.stored()[1] == policy.stored()[1]


@pytest.mark.parametrize("task", ["Acrobot-v1", partial(Starting, many=True)])
def test_distributions_are_such_and_an_agent_takes_the_likeliest(task: Make) -> None:
    env_spec = make_env(task, 2).spec
    policy = agent_of("ppo", env_spec, 1)
    agent, obs = policy.agent, torch.from_numpy(policy._read(observations(env_spec, 9))[0])
    assert isinstance(agent, Probabilistic)
    nvec = list(env_spec.action.nvec) if isinstance(env_spec.action, MultiDiscrete) else [3]
    parts = agent.log_probabilities(obs).split_with_sizes(nvec, dim=-1)
    assert all(torch.allclose(part.exp().sum(-1), torch.ones(9)) for part in parts)
    likeliest = torch.stack([part.argmax(-1) for part in parts], dim=-1)
    assert torch.equal(agent.act(obs, explore=False).view(9, -1), likeliest)


def test_a_value_is_the_one_that_the_agent_learns_by() -> None:
    env_spec = make_env("Acrobot-v1", 2).spec
    dqn, obs = agent_of("dqn", env_spec, 1).agent, torch.from_numpy(observations(env_spec, 9))
    assert isinstance(dqn, Valuing)
    choices = torch.arange(3).view(3, 1).expand(3, 9)
    assert torch.equal(dqn.action_values(obs, choices).argmax(0), dqn.act(obs, explore=False))
    env_spec = make_env("Pendulum-v1", 2).spec
    sac, obs = agent_of("sac", env_spec, 1).agent, torch.from_numpy(observations(env_spec, 9))
    assert isinstance(sac, Valuing)
    candidates = torch.linspace(-1, 1, 5).view(5, 1, 1).expand(5, 9, 1)
    of_agent: Any = sac
    seen = of_agent._observations(obs)
    each = torch.stack([of_agent._critics(seen, action).amin(0) for action in candidates])
    torch.testing.assert_close(sac.action_values(obs, candidates), each)


def test_each_member_sees_by_its_own_normaliser() -> None:
    env_spec = make_env("Pendulum-v1", 2).spec
    same = [agent_of("sac", env_spec, 1).agent for _ in range(2)]
    moved: Any = same[1]
    moved.load({**moved.state(), "normalizer/mean": torch.full((3,), 5.0)})
    members = [Policy(agent, env_spec, {"agent": "sac"}) for agent in same]
    obs = observations(env_spec, 9)
    one, other = (member(obs) for member in members)
    assert np.abs(one - other).max() > 0.01
    np.testing.assert_allclose(ensemble_of(members, "mean")(obs), (one + other) / 2, atol=1e-6)


def test_an_evaluator_scores_it_as_it_scores_an_agent() -> None:
    make = EnvFactory(EnvConfig("CartPole-v1"), "cpu")
    env_spec = make(1).spec
    good = agent_of("ppo", env_spec, 3)
    evaluator = PanelEvaluator(make)
    alone = evaluator.evaluate(good.agent, "panel", episodes=4)
    joined = ensemble_of([good, agent_of("dqn", env_spec, 0), good], "vote")
    assert evaluator.evaluate(joined.agent, "panel", episodes=4) == alone
    assert evaluator.evaluate(agent_of("dqn", env_spec, 0).agent, "panel", episodes=4) != alone


def test_its_agent_shows_its_members_and_its_rule() -> None:
    env_spec = make_env("CartPole-v1", 2).spec
    members = [agent_of(name, env_spec, seed) for seed, name in enumerate(["ppo", "dqn"])]
    joint = ensemble_of(members, "vote").agent
    assert isinstance(joint, Ensemble)
    assert joint.members == tuple(members) and joint.rule == "vote" and joint.spec is env_spec
    obs = torch.from_numpy(observations(env_spec, 5))
    assert torch.equal(joint.act(obs), joint.act(obs, explore=True))
