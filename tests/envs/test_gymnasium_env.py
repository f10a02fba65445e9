"""Promises of the gymnasium adapter."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest
import torch

from hpcpod.envs.checking import check_env
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.gymnasium_make import Wrapper
from hpcpod.envs.known import check_known
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import (
    Box,
    Discrete,
    MultiDiscrete,
    Step,
    episode_seed,
    random_seeds,
)
from hpcpod.errors import (
    Diverged,
    UnknownPlugin,
    UnsupportedSpace,
    UnusableWrapper,
    UserError,
)
from tests.envs.small_envs import Counting, Starting, Unsound, WithAction, WithObservation

CLASSIC = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"]


LIMIT: dict[str, object] = {"max_episode_steps": 9}
PINNED = [1202735956, 1025900841]


def some_actions(env: PreprocessVecEnv, count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    n, space = env.spec.num_envs, env.spec.action
    if isinstance(space, Discrete):
        return [torch.randint(space.n, (n,), generator=generator) for _ in range(count)]
    return [torch.rand(n, 1, generator=generator) * 2 - 1 for _ in range(count)]


def assert_equal(once: list[Step], again: list[Step]) -> None:
    for a, b in zip(once, again, strict=True):
        for name, x, y in zip(Step._fields, a, b, strict=True):
            assert torch.equal(x, y), name


@pytest.mark.parametrize("env_id", CLASSIC)
def test_classic_control_keeps_the_contract(env_id: str) -> None:
    check_env(PreprocessVecEnv(env_id, 3))


@pytest.mark.parametrize(
    "source", [Counting, "tests.envs.small_envs:Counting", lambda: Counting(end=7)]
)
def test_an_environment_of_ones_own_keeps_the_contract(source: str | type[Counting]) -> None:
    check_env(PreprocessVecEnv(source, 2, wrappers=[{"gymnasium.wrappers:TimeLimit": LIMIT}]))


def test_discrete_observations_keep_the_contract() -> None:
    env = PreprocessVecEnv("FrozenLake-v1", 4)
    assert env.spec.observation == Discrete(16)
    check_env(env)


def test_the_spec_tells_what_the_environment_is() -> None:
    spec = PreprocessVecEnv("Pendulum-v1", 2).spec
    assert spec.id == "Pendulum-v1"
    assert spec.action == Box((1,), -1.0, 1.0)
    assert spec.observation == Box((3,), (-1.0, -1.0, -8.0), (1.0, 1.0, 8.0))
    assert spec.max_episode_steps == 200
    assert spec.engine == f"gymnasium {gym.__version__}"


def test_actions_are_clipped_and_rescaled_to_the_bounds() -> None:
    env = PreprocessVecEnv(Counting, 5)
    env.reset(torch.arange(5))
    # Counting's bounds are [-2, 6]: -1 -> -2, 0 -> 2, 0.5 -> 4, 1 -> 6, and 3 is clipped to 1.
    step = env.step(torch.tensor([[-1.0], [0.0], [0.5], [1.0], [3.0]]))
    assert step.reward.tolist() == [-2.0, 2.0, 4.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("source", "wrappers", "terminated"),
    [
        (Counting, [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 3}}], False),
        (lambda: Counting(cut=3), [], False),
        (lambda: Counting(end=3), [], True),
        (lambda: Counting(end=3, cut=3), [], True),  # both at once: termination wins
    ],
)
def test_the_end_of_an_episode_gives_the_true_final_observation(
    source: type[Counting], wrappers: list[dict[str, dict[str, object]]], terminated: bool
) -> None:
    env = PreprocessVecEnv(source, 1, wrappers=wrappers)
    first = env.reset(torch.tensor([5]))
    steps = [env.step(torch.zeros(1, 1)) for _ in range(3)]
    assert [bool(s.terminated) for s in steps] == [False, False, terminated]
    assert [bool(s.truncated) for s in steps] == [False, False, not terminated]
    assert torch.equal(steps[2].next_obs, first + 3)
    fresh = env.reset(torch.tensor([episode_seed(5, 1)]))
    assert torch.equal(steps[2].obs, fresh)


def test_cartpole_ends_and_is_truncated_where_gymnasium_says_so() -> None:
    env = PreprocessVecEnv("CartPole-v1", 1, kwargs={"max_episode_steps": 12})
    peer = gym.make("CartPole-v1", max_episode_steps=12)
    env.reset(torch.tensor([3]))
    peer.reset(seed=3)
    episode = 0
    for action in some_actions(env, 200):
        step = env.step(action)
        obs, reward, end, cut, _ = peer.step(action.numpy()[0])
        assert np.array_equal(step.next_obs[0].numpy(), obs)
        assert (float(step.reward), bool(step.terminated)) == (reward, end)
        assert bool(step.truncated) == (cut and not end)
        if end or cut:
            episode += 1
            peer.reset(seed=episode_seed(3, episode))
    assert episode > 10


@pytest.mark.parametrize(
    "env_id", [*CLASSIC, "tests.envs.small_envs:Counting", "tests.envs.small_envs:Drawing"]
)
def test_a_restored_environment_goes_on_bit_by_bit(env_id: str) -> None:
    env = PreprocessVecEnv(env_id, 3)
    env.reset(random_seeds(env_id, count=3))
    actions = some_actions(env, 400)
    for action in actions[:37]:
        env.step(action)
    saved = env.state()
    assert saved is not None
    assert all(isinstance(tensor, torch.Tensor) for tensor in saved.values())
    once = [env.step(action) for action in actions[37:]]
    other = PreprocessVecEnv(env_id, 3)
    other.restore(saved)
    assert_equal(once, [other.step(action) for action in actions[37:]])


@pytest.mark.parametrize("name", ["NormalizeObservation", "NormalizeReward"])
def test_a_wrapper_with_running_statistics_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="keeps statistics beyond an episode"):
        PreprocessVecEnv("CartPole-v1", wrappers=[f"gymnasium.wrappers:{name}"])


@pytest.mark.parametrize("field", ["observation", "reward"])
def test_a_number_that_is_not_finite_is_refused_by_name(field: str) -> None:
    env = PreprocessVecEnv(lambda: Unsound(field), 2)
    env.reset(torch.arange(2))
    env.step(torch.zeros(2, 1))
    env.step(torch.zeros(2, 1))
    with pytest.raises(Diverged, match=f"the {field} of environment 0 is not finite"):
        env.step(torch.zeros(2, 1))


def test_an_action_that_is_not_finite_is_refused() -> None:
    env = PreprocessVecEnv("Pendulum-v1")
    env.reset()
    with pytest.raises(Diverged, match="action is not finite"):
        env.step(torch.tensor([[float("nan")]]))


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("CartPol-v1", r"CartPol-v1 can't be made: .* Did you mean: `CartPole`"),
        ("Pendulum-v0", "Please use `Pendulum-v1` instead"),
        ("tests.envs.small_envs:Nothing", "module tests.envs.small_envs has no 'Nothing'"),
        ("no_such_module:Env", "No module named 'no_such_module'"),
        ("no_such_module:Env-v0", "a package that is missing: .*; pip install no_such_module"),
        ("builtins:dict", "gave a dict, but a gymnasium.Env is needed"),
        ("gymnasium:Env", "^gymnasium:Env has no observation_space: set it in its __init__$"),
    ],
)
def test_an_environment_that_cannot_be_made_is_one_clear_sentence(
    env_id: str, sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        PreprocessVecEnv(env_id)
    assert "\n" not in str(caught.value)


def test_wrong_arguments_are_one_clear_sentence() -> None:
    with pytest.raises(UserError, match=r"refused its arguments \(env.kwargs\): .*gravitas"):
        PreprocessVecEnv("CartPole-v1", kwargs={"gravitas": 3})


@pytest.mark.parametrize("device", ["tpu", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_when_made(device: str) -> None:
    with pytest.raises(UserError, match=f"device '{device}' can't be used here: ") as caught:
        PreprocessVecEnv("CartPole-v1", device=device)
    assert "\n" not in str(caught.value)


def test_images_may_be_read_as_plain_numbers() -> None:
    images = gym.spaces.Box(0, 255, (3, 3), np.uint8)
    named: Wrapper = {"gymnasium.wrappers:DtypeObservation": {"dtype": "float32"}}
    env = PreprocessVecEnv(lambda: WithObservation(images), wrappers=[named])
    assert env.spec.observation == Box((3, 3), 0.0, 255.0, "float32")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "Bare",
            r"its reset\(\) must return \(observation, info\) with an observation of shape \(2,\);"
            r" its info is a float32",
        ),
        (
            "FourTuple",
            r"its step\(\) must return \(observation, reward, terminated, truncated, info\) with an"
            r" observation of shape \(1,\); not enough values to unpack",
        ),
    ],
)
def test_the_api_of_old_is_refused_by_what_is_to_be_changed(source: str, sentence: str) -> None:
    env = PreprocessVecEnv(f"tests.envs.small_envs:{source}", 2)
    with pytest.raises(UserError, match=f"{source} does not keep the API of gymnasium: {sentence}"):
        env.reset()
        env.step(torch.zeros(2, 1))


class Stretchable(Counting):
    """Says that it observes three numbers, and gives one."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)


def test_an_observation_that_numpy_would_stretch_is_of_the_wrong_shape() -> None:
    with pytest.raises(UserError, match=r"observation of shape \(3,\); this one has shape \(1,\)"):
        PreprocessVecEnv(Stretchable, 2).reset()


@pytest.mark.parametrize("many", [False, True])
def test_choices_are_counted_from_0_whatever_the_environment_calls_them(many: bool) -> None:
    env = PreprocessVecEnv(lambda: Starting(many), 2)
    assert env.spec.observation == Discrete(3, start=5)
    assert env.reset().tolist() == [0, 0]
    if many:
        assert env.spec.action == MultiDiscrete((2, 3), start=(7, -1))
        step = env.step(torch.tensor([[0, 0], [1, 2]]))
        assert step.reward.tolist() == [6.0, 9.0]
    else:
        assert env.spec.action == Discrete(2, start=7)
        step = env.step(torch.tensor([0, 1]))
        assert step.reward.tolist() == [7.0, 8.0]
    assert step.obs.tolist() == [1, 1]


class Raising(Counting):
    def __init__(self) -> None:
        raise KeyError("a file")


def test_whatever_an_environment_raises_when_made_is_one_clear_sentence() -> None:
    with pytest.raises(UserError, match=r"Raising can't be made: KeyError: 'a file'"):
        PreprocessVecEnv(Raising)


@pytest.mark.parametrize(
    ("wrapper", "sentence"),
    [
        ("math:pi", "wrapper math:pi can't be made: TypeError: "),
        ("nowhere:X", "wrapper 'nowhere:X' can't be imported"),
        ({"gymnasium.wrappers:TimeLimit": {"most": 3}}, "TimeLimit can't be made: TypeError: "),
        ("builtins:type", "wrapper builtins:type gave a type, not a gymnasium.Env"),
    ],
)
def test_a_wrapper_that_will_not_do_is_one_clear_sentence(wrapper: Wrapper, sentence: str) -> None:
    with pytest.raises(UnusableWrapper, match=sentence):
        PreprocessVecEnv("CartPole-v1", wrappers=[wrapper])


def test_an_id_is_known_or_not_before_anything_is_made() -> None:
    check_known("CartPole-v1")
    check_known("Ant-v5")
    check_known("nowhere:Env")
    check_known("Anything", backend="pkg.mod:Simulator")
    with pytest.raises(UserError, match=r"CartPol-v1 can't be made: .* Did you mean: `CartPole`"):
        check_known("CartPol-v1")


def test_gymnasium_warnings_are_logged_once_and_do_not_crash(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        PreprocessVecEnv("CartPole-v0", 3)
    assert len(caplog.records) == 1
    assert "out of date" in caplog.text


@pytest.mark.parametrize(
    ("space", "wrapper"),
    [
        (gym.spaces.Text(3), r"add gymnasium\.wrappers:FlattenObservation"),
        # which leaves this one a Sequence
        (gym.spaces.Sequence(gym.spaces.Discrete(2)), r"write a gymnasium\.ObservationWrapper"),
    ],
)
def test_other_observations_are_refused_with_the_wrapper_to_use(
    space: gym.Space[object], wrapper: str
) -> None:
    with pytest.raises(UnsupportedSpace, match=wrapper):
        PreprocessVecEnv(lambda: WithObservation(space))


def test_action_spaces_are_translated_or_refused() -> None:
    def action(space: gym.Space[object]) -> object:
        return PreprocessVecEnv(lambda: WithAction(space)).spec.action

    assert action(gym.spaces.MultiDiscrete([3, 4])) == MultiDiscrete((3, 4))
    assert action(gym.spaces.MultiBinary(3)) == MultiDiscrete((2, 2, 2))
    with pytest.raises(UnsupportedSpace, match="without finite bounds"):
        action(gym.spaces.Box(-np.inf, np.inf, (2,)))
    with pytest.raises(UnsupportedSpace, match="no agent supports"):
        action(gym.spaces.Text(3))


def test_make_env_finds_backends_by_name_and_by_path() -> None:
    assert make_env("CartPole-v1", 2).spec.num_envs == 2
    assert make_env("CartPole-v1", backend="hpcpod.envs.gymnasium:PreprocessVecEnv").spec
    with pytest.raises(UnknownPlugin, match="gymnasiun"):
        make_env("CartPole-v1", backend="gymnasiun")


def test_seeds_are_stable_and_well_spread() -> None:
    seeds = random_seeds("run", 3, count=1000)
    assert seeds.dtype == torch.int64
    assert bool((seeds >= 0).all() and (seeds < 2**31).all())
    assert len(set(seeds.tolist())) == 1000
    assert torch.equal(seeds[:10], random_seeds("run", 3, count=10))
    assert not torch.equal(seeds, random_seeds("run", "3", count=1000))
    assert random_seeds("a", count=2).tolist() == PINNED  # old runs must stay reproducible


def test_every_episode_of_an_environment_has_a_seed_of_its_own() -> None:
    assert episode_seed(5, 0) == 5
    assert len({episode_seed(seed, k) for seed in (5, 6) for k in range(50)}) == 100


@pytest.mark.skipif(find_spec("Box2D") is None, reason="pip install 'hpcpod[box2d]'")
def test_box2d_s_types_are_no_user_s_concern() -> None:
    # once in a process: when its module is imported first
    words = "import hpcpod; hpcpod.make_env('LunarLander-v3', 2).close()"
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Swig" in done.stderr) == (0, False), done.stderr
