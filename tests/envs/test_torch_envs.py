"""Promises of the environments in torch, beside gymnasium's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.known import check_known
from hpcpod.envs.make import make_env
from hpcpod.envs.torch_envs import CLASSIC, DYNAMICS, Batch, TorchVecEnv, transition
from hpcpod.envs.vec_env import Discrete, State, Step, episode_seed, random_seeds
from hpcpod.errors import ConfigError, Diverged, UnusableWrapper, UserError
from hpcpod.run.preflight import check, read_config

ALL = list(CLASSIC)
SPEED = {"MountainCar-v0": 1, "MountainCarContinuous-v0": 1, "Acrobot-v1": 5}
"""Where the observation has a speed: pushing along it reaches the goal."""

# One step from the same float32 state: gymnasium computes in float64. An angle in ±π has a spacing
# of 2.4e-7, Acrobot's fast link (±28 rad/s) one of 1.9e-6, and Pendulum's reward goes to -16.
OBS_ERROR = {"Acrobot-v1": 2e-5}
REWARD_ERROR = {"Pendulum-v1": 4e-6, "MountainCarContinuous-v0": 1e-5}


def actions_for(env: TorchVecEnv, obs: Tensor, generator: torch.Generator) -> Tensor:
    """Random ones, beyond the bounds too; half of the rows push along, where that leads up."""
    n, space = env.spec.num_envs, env.spec.action
    if isinstance(space, Discrete):
        action = torch.randint(space.n, (n,), generator=generator)
    else:
        action = torch.rand(n, 1, generator=generator) * 2.6 - 1.3
    if env.spec.id in SPEED:
        along = obs[: n // 2, SPEED[env.spec.id]].sign()
        action[: n // 2] = (along + 1).long() if action.dim() == 1 else along[:, None]
    return action


def played(env: TorchVecEnv, obs: Tensor, count: int) -> list[Step]:
    generator = torch.Generator().manual_seed(7)
    steps = []
    for _ in range(count):
        steps.append(env.step(actions_for(env, obs, generator)))
        obs = steps[-1].obs
    return steps


def assert_equal(once: list[Step], again: list[Step]) -> None:
    for a, b in zip(once, again, strict=True):
        for name, x, y in zip(Step._fields, a, b, strict=True):
            assert torch.equal(x, y), name


def current(env: TorchVecEnv) -> State:
    state = env.state()
    assert state is not None
    return state


def physics(env: TorchVecEnv) -> np.ndarray[Any, Any]:
    """The state of each environment, as gymnasium's has it."""
    return current(env)["state"].t().double().numpy()


@pytest.mark.parametrize("env_id", ALL)
def test_the_spec_is_gymnasiums_but_for_the_engine(env_id: str) -> None:
    spec = vars(TorchVecEnv(env_id, 3).spec)
    assert spec.pop("engine") == f"hpcpod torch {torch.__version__}"
    peer = vars(PreprocessVecEnv(env_id, 3).spec)
    assert spec == {name: value for name, value in peer.items() if name != "engine"}


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        *((env_id, {}) for env_id in ALL),
        ("CartPole-v1", {"sutton_barto_reward": True}),
        ("Pendulum-v1", {"g": 9.81}),
        ("MountainCar-v0", {"goal_velocity": 0.01}),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.01}),
    ],
)
def test_every_step_is_gymnasiums(env_id: str, kwargs: Mapping[str, Any]) -> None:
    n, limit, count = 8, 150, 700
    env = TorchVecEnv(env_id, n, kwargs={**kwargs, "max_episode_steps": limit})
    peers: list[Any] = [gym.make(env_id, **kwargs).unwrapped for _ in range(n)]
    for peer in peers:
        peer.reset(seed=0)
    high = 2.0 if env_id == "Pendulum-v1" else 1.0
    generator = torch.Generator().manual_seed(3)
    obs = env.reset(random_seeds("parity", count=n))
    ages, ends, cuts = np.zeros(n, int), 0, 0
    for _ in range(count):
        before, action = physics(env), actions_for(env, obs, generator)
        step = env.step(action)
        ages += 1
        for i, peer in enumerate(peers):
            peer.state, peer.steps_beyond_terminated = before[i], None
            own = action[i].clamp(-1, 1) * high if action.dim() > 1 else action[i]
            expected, reward, end, _, _ = peer.step(own.numpy() if own.dim() else int(own))
            error = np.abs(step.next_obs[i].numpy() - expected).max()
            assert error < OBS_ERROR.get(env_id, 1e-6)
            assert abs(float(step.reward[i]) - reward) < REWARD_ERROR.get(env_id, 1e-6)
            assert bool(step.terminated[i]) == end
            assert bool(step.truncated[i]) == (ages[i] == limit and not end)
        ages[(step.terminated | step.truncated).numpy()] = 0
        ends, cuts, obs = (
            ends + int(step.terminated.sum()),
            cuts + int(step.truncated.sum()),
            step.obs,
        )
    assert ends >= 5 or env_id == "Pendulum-v1"
    assert cuts >= 5 or env_id == "CartPole-v1"


@pytest.mark.parametrize("env_id", ALL)
def test_episodes_begin_where_gymnasiums_do(env_id: str) -> None:
    env, peer = TorchVecEnv(env_id, 4000), gym.make(env_id).unwrapped
    env.reset(random_seeds("begin", count=4000))
    begun: Any = peer
    theirs = np.array([(peer.reset(seed=i), np.array(begun.state))[1] for i in range(2000)])
    span = np.ptp(theirs, axis=0)
    for ends in (np.min, np.max, np.mean):
        assert (np.abs(ends(physics(env), axis=0) - ends(theirs, axis=0)) <= 0.03 * span).all()
    assert (np.abs(physics(env).std(axis=0) - theirs.std(axis=0)) <= 0.03 * span).all()


def test_cartpole_is_truncated_at_500_steps() -> None:
    env = TorchVecEnv("CartPole-v1", 2)
    obs = env.reset(torch.tensor([1, 2]))
    for t in range(1, 501):
        push = obs[:, 2] + 0.25 * obs[:, 3] + 0.05 * obs[:, 1] + 0.02 * obs[:, 0]
        step = env.step((push > 0).long())
        assert not step.terminated.any()
        assert step.truncated.tolist() == [t == 500] * 2
        obs = step.obs


@pytest.mark.parametrize("env_id", ALL)
def test_an_episode_seed_gives_the_same_episodes_in_a_batch_of_any_size(env_id: str) -> None:
    kwargs = {"max_episode_steps": 40}
    seeds = random_seeds("panel", count=19)
    batch = TorchVecEnv(env_id, 19, kwargs=kwargs)
    together = played(batch, batch.reset(seeds), 100)
    generator = torch.Generator().manual_seed(7)
    obs, actions = batch.reset(seeds), []
    for step in together:
        actions.append(actions_for(batch, obs, generator))
        obs = step.obs
    for i in (0, 3, 18):
        alone = TorchVecEnv(env_id, 1, kwargs=kwargs)
        alone.reset(seeds[i : i + 1])
        episode = 0
        for action, step in zip(actions, together, strict=True):
            single = alone.step(action[i : i + 1])
            assert_equal([single], [Step(*(t[i : i + 1] for t in step))])
            if single.terminated or single.truncated:
                episode += 1
                begun = torch.tensor([episode_seed(int(seeds[i]), episode)])
                assert torch.equal(single.obs, TorchVecEnv(env_id).reset(begun))
        assert episode >= 2


@pytest.mark.parametrize("env_id", ALL)
def test_a_restored_environment_goes_on_bit_by_bit(env_id: str) -> None:
    kwargs = {"max_episode_steps": 50}
    env = TorchVecEnv(env_id, 6, kwargs=kwargs)
    assert env.state() is None
    obs = played(env, env.reset(random_seeds(env_id, count=6)), 70)[-1].obs
    saved = env.state()
    assert saved is not None
    once = played(env, obs, 130)
    other = TorchVecEnv(env_id, 6, kwargs=kwargs)
    other.restore(saved)
    assert_equal(once, played(other, obs, 130))
    assert sum(int((s.terminated | s.truncated).sum()) for s in once) >= 6


@pytest.mark.parametrize("env_id", DYNAMICS)
def test_the_pure_step_for_devices_is_the_one_of_the_cpu_bit_by_bit(env_id: str) -> None:
    env = TorchVecEnv(env_id, 9, kwargs={"max_episode_steps": 30})
    played(env, env.reset(random_seeds("pure", count=9)), 10)
    saved = env.state()
    assert saved is not None
    batch = Batch(**saved)
    obs = DYNAMICS[env_id]().observe(batch.state)
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for _ in range(100):
            action = actions_for(env, obs, generator)
            batch, step = transition(DYNAMICS[env_id](), 30, batch, action)
            assert_equal([env.step(action)], [step])
            obs = step.obs
    after = env.state()
    assert after is not None
    assert all(torch.equal(after[name], value) for name, value in batch._asdict().items())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler uses deprecated torch
@pytest.mark.parametrize("env_id", DYNAMICS)
def test_the_step_for_devices_is_one_graph_for_the_compiler(env_id: str) -> None:
    n, kwargs = 33, {"max_episode_steps": 25}
    env, twin = (TorchVecEnv(env_id, n, kwargs=kwargs) for _ in range(2))
    env._on_cpu = False  # as on any other device: nothing looks at values
    torch.compiler.reset()  # it counts how often it has compiled the method, for whatever task
    # Traced, but not turned into C++: that compiler can't link where a path has spaces.
    compiled = torch.compile(env.step, fullgraph=True, backend="aot_eager")
    seeds = random_seeds("compiled", count=n)
    obs = env.reset(seeds)
    assert torch.equal(obs, twin.reset(seeds))
    generator = torch.Generator().manual_seed(0)
    ends = 0
    for _ in range(60):
        action = actions_for(twin, obs, generator)
        step, expected = compiled(action), twin.step(action)
        for ours, theirs in zip(step, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
        ended, obs = expected.terminated | expected.truncated, expected.obs
        assert torch.equal(step.obs[ended], obs[ended])  # the same hash
        ends += int(ended.sum())
        env.restore(current(twin))  # what differs in the last digit must not grow
    assert ends > n


class NothingOnTheHost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every tensor that is made is on the device "meta", which has no values to look at."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            assert not isinstance(tensor, Tensor) or tensor.device.type == "meta", func
        return made


@pytest.mark.parametrize("env_id", DYNAMICS)
def test_a_step_off_the_cpu_waits_for_no_value_and_stays_on_its_device(env_id: str) -> None:
    env = TorchVecEnv(env_id, 4, device="meta")
    assert env.reset(torch.arange(4)).device.type == "meta"
    shape = (4,) if isinstance(env.spec.action, Discrete) else (4, 1)
    action = torch.zeros(shape, device="meta")
    with NothingOnTheHost():  # type: ignore[no-untyped-call]
        step = env.step(action)
    for tensor in step:
        assert tensor.device.type == "meta" and len(tensor) == 4


def test_seeds_come_from_the_operating_system_if_none_are_given() -> None:
    env = TorchVecEnv("CartPole-v1", 3)
    first = env.reset()
    assert len(set(first.flatten().tolist())) == 12 and not torch.equal(first, env.reset())


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ("CartPol-v1", r"backend torch has no 'CartPol-v1'; did you mean 'CartPole-v1'\?"),
        ("Ant-v5", r"backend torch has no 'Ant-v5'.* \(it has Acrobot-v1, .*use backend gymnasium"),
        (dict, "backend torch has no <class 'dict'>"),
    ],
)
def test_an_environment_that_is_not_there_is_one_clear_sentence(env: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        TorchVecEnv(env)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "sentence"),
    [
        ("Pendulum-v1", {"render_mode": "human"}, r"no argument 'render_mode' .*have: max_.*, g\)"),
        ("Acrobot-v1", {"g": 9}, r"no argument 'g' \(env.kwargs may have: max_episode_steps\)"),
        ("Pendulum-v1", {"g": "9"}, "Pendulum-v1: env.kwargs.g must be a number, got '9'"),
        ("Pendulum-v1", {"g": float("inf")}, "env.kwargs.g must be a number, got inf"),
        ("CartPole-v1", {"sutton_barto_reward": 1}, "must be true or false, got 1"),
        ("CartPole-v1", {"max_episode_steps": 0}, "must be a whole number from 1, got 0"),
        ("CartPole-v1", {"max_episode_steps": True}, "must be a whole number from 1, got True"),
    ],
)
def test_arguments_that_it_does_not_have_are_refused_by_name(
    env_id: str, kwargs: Mapping[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        TorchVecEnv(env_id, kwargs=kwargs)


def test_wrappers_devices_and_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(UnusableWrapper, match="use backend gymnasium"):
        TorchVecEnv("CartPole-v1", wrappers=["gymnasium.wrappers:FlattenObservation"])
    with pytest.raises(UserError, match="device 'tpu' can't be used here: "):
        TorchVecEnv("CartPole-v1", device="tpu")
    with pytest.raises(UserError, match="num_envs must be at least 1, got 0"):
        TorchVecEnv("CartPole-v1", 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused(value: float) -> None:
    env = TorchVecEnv("Pendulum-v1", 3)
    env.reset()
    with pytest.raises(Diverged, match="the action of environment 2 is not finite"):
        env.step(torch.tensor([[0.0], [0.0], [value]]))
    state = env.state()
    assert state is not None
    state["state"][1, 1] = value
    env.restore(state)
    with pytest.raises(Diverged, match=r"the (observation|reward) of environment 1 is not finite"):
        env.step(torch.zeros(3, 1))


def test_large_actions_are_only_clipped() -> None:
    env = TorchVecEnv("Pendulum-v1", 2)
    env.reset(torch.arange(2))
    state = env.state()
    assert state is not None
    once = env.step(torch.full((2, 1), 3e38))  # their sum is infinite
    env.restore(state)
    assert_equal([once], [env.step(torch.ones(2, 1))])


def test_calls_that_make_no_sense_are_refused() -> None:
    env = TorchVecEnv("CartPole-v1", 2)
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\)"):
        env.step(torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"expected 2 seeds, got shape \(3,\)"):
        env.reset(torch.arange(3))
    env.reset()
    with pytest.raises(ValueError, match=r"expected actions of shape \(2,\), got \(2, 1\)"):
        env.step(torch.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="has the actions 0 to 1, got 0 to 2"):
        env.step(torch.tensor([0, 2]))
    state = env.state()
    assert state is not None
    with pytest.raises(ValueError, match="the state is of 2 environments, not 3"):
        TorchVecEnv("CartPole-v1", 3).restore(state)


def test_a_configuration_names_the_backend() -> None:
    assert isinstance(make_env("CartPole-v1", 2, "torch"), TorchVecEnv)
    check_known("Pendulum-v1", "torch")
    plain: dict[str, Any] = {
        "name": "torch",
        "env": {"id": "CartPole-v1", "num_envs": 4, "backend": "torch"},
        "agents": {"ppo": {"horizon": 8, "minibatch_size": 16}},
        "stop": {"rounds": 1},
    }
    assert check(read_config(plain)).resolved.config.env.backend == "torch"
    for env, sentence in (
        ({"id": "Ant-v5"}, "env.id: backend torch has no 'Ant-v5'"),
        ({"kwargs": {"mass": 1}}, "env.id: CartPole-v1 of backend torch has no argument 'mass'"),
        ({"wrappers": ["a:B"]}, "env.wrappers: wrappers are put around gymnasium's"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            check(read_config(plain, overrides={"env": env}))
