"""A policy takes an environment's own observations, and refuses all others in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import hpcpod
from hpcpod.agents.base import Agent
from hpcpod.envs.make import make_env
from hpcpod.envs.spec_json import spec_to_plain
from hpcpod.envs.vec_env import VecEnv
from hpcpod.errors import Corrupt, UserError
from hpcpod.pod.factory import make_agent
from hpcpod.pod.policy import Policy, load_policy_file
from tests.agents.image_env import Bright
from tests.envs.test_observations import ONE, SPACE, Watching
from tests.pod.test_policy import saved

CHOICES = spaces.MultiDiscrete([2, 3], start=[5, -1])
GRID = spaces.Dict(grid=spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), me=spaces.Discrete(2))
PAIR = spaces.Tuple([spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))]), CHOICES])
Make = Callable[[], gym.Env[Any, Any]]
TASKS: dict[str, Make] = {
    "dictionaries in one another": Watching,
    "a tuple": lambda: gym.make("Blackjack-v1"),
    "a tuple in a tuple": lambda: Watching(PAIR),
    "a grid of choices": lambda: Watching(GRID),
    "images": lambda: Bright(True),
    "several choices": lambda: Watching(CHOICES),
    "a choice": lambda: gym.make("FrozenLake-v1"),
    "bits": lambda: Watching(spaces.MultiBinary(6)),
    "numbers": lambda: gym.make("CartPole-v1"),
}


class Kept(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps what the environment itself observes."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.last: Any = None

    def reset(self, **arguments: Any) -> Any:
        self.last, info = super().reset(**arguments)
        return deepcopy(self.last), info

    def step(self, action: Any) -> Any:
        answer = super().step(action)
        self.last = deepcopy(answer[0])
        return answer


def decided(env: VecEnv, seed: int = 0) -> Agent:
    """An agent that mostly does now this, now that."""
    agent = make_agent("ppo", env.spec, {"hidden": 16}, seed, "cpu")
    fresh = agent.state()
    name = next(name for name in fresh if name.endswith("policy.weight"))
    agent.load({**fresh, name: 400 * fresh[name]})
    return agent


def policy_of(make: Make, home: Path, **meta: Any) -> Policy:
    env = make_env(make, 1)
    return load_policy_file(saved(decided(env), env, home / "policy.h5", **meta))


def walk(
    make: Make, home: Path, seed: int = 0
) -> tuple[Policy, gym.Space[Any], list[Any], list[int]]:
    """A policy, and what the environment observed and its agent did in 40 steps of training."""
    raw = Kept(make())
    env = make_env(lambda: raw, 1, backend="gymnasium")
    agent = decided(env, seed)
    obs = env.reset(torch.tensor([7]))
    seen, done = [], []
    for _ in range(40):
        seen.append(raw.last)
        action = agent.act(obs, explore=False)
        done.append(int(action[0]))
        obs = env.step(action).obs
    if len(set(done)) == 1 and seed < 20:
        return walk(make, home, seed + 1)
    policy = load_policy_file(saved(agent, env, home / "policy.h5"))
    return policy, raw.observation_space, seen, done


@pytest.mark.parametrize("task", TASKS)
def test_a_policy_does_as_in_training_what_the_environment_itself_observes(
    task: str, tmp_path: Path
) -> None:
    policy, space, seen, done = walk(TASKS[task], tmp_path)
    assert [int(policy(obs)) for obs in seen] == done
    assert len(set(done)) > 1
    assert policy(seen[0]).shape == ()
    out: Any = gym.vector.utils.create_empty_array(space, len(seen))
    assert policy(gym.vector.utils.concatenate(space, seen, out)).tolist() == done
    assert policy(seen).tolist() == done
    if isinstance(space, spaces.Dict | spaces.Tuple):
        flat = [spaces.utils.flatten(space, obs) for obs in seen]
        assert [int(policy(row)) for row in flat] == policy(flat).tolist() == done
    assert policy.spec == load_policy_file(tmp_path / "policy.h5").spec


def test_a_policy_that_is_trained_on_dictionaries_plays_its_environment(tmp_path: Path) -> None:
    file, task = tmp_path / "policy.h5", "tests.envs.test_observations:Watching"
    training = hpcpod.train("ppo", task, env_steps=64, horizon=4, minibatch_size=8, save_to=file)
    env = Watching()
    obs, _ = env.reset(seed=1)
    for policy in (training.policy, hpcpod.load_policy(file)):
        for _ in range(3):
            obs, *_ = env.step(int(policy(obs)))


def test_a_vector_environment_s_policy_takes_its_batches(tmp_path: Path) -> None:
    mode = AutoresetMode.SAME_STEP
    env = make_env(lambda num_envs: SyncVectorEnv([Watching] * num_envs, autoreset_mode=mode), 3,
                   backend="vector")  # fmt: skip
    agent = decided(env)
    policy = load_policy_file(saved(agent, env, tmp_path / "policy.h5"))
    raw = SyncVectorEnv([Watching] * 3, autoreset_mode=mode)
    batch, _ = raw.reset(seed=[1, 2, 3])
    rows = env.reset(torch.tensor([1, 2, 3]))
    assert policy(batch).tolist() == agent.act(rows, explore=False).tolist()


SEEN = (
    "test_observations:Watching observes {'zone': a number from 4 to 6, 'arm': {'pose': shape"
    " (2, 2), 'grip': choices of shape (2,)}, 'rest': (shape (2,), bytes of shape (1,))}, or a"
    " batch of them, in which each part has one axis more; "
)
ARM: Any = ONE["arm"]
REST: Any = ONE["rest"]
POSE = ARM["pose"]
HURT = np.where([[False, False], [True, False]], np.nan, POSE)
WRONG: list[tuple[Any, str]] = [
    ({"zone": 5, "arm": ARM}, "this observation has no 'rest'"),
    ({"arm": ARM}, "this observation has no 'zone', 'rest'"),
    ({**ONE, "arm": {"pose": POSE}}, "'arm' of this observation has no 'grip'"),
    ({**ONE, "arm": POSE}, "'arm' of this observation is of type ndarray, not a dictionary"),
    ({**ONE, "rest": REST[:1]}, "'rest' of this observation has 1 parts, not 2"),
    ({**ONE, "rest": {0: 1}}, "'rest' of this observation is of type dict, not a tuple"),
    ({**ONE, "zone": 7}, "'zone' of this observation has 7, not a whole number from 4 to 6"),
    ({**ONE, "zone": 4.5}, "'zone' of this observation has 4.5, not a whole number from 4 to 6"),
    ({**ONE, "zone": "x"}, "'zone' of this observation is no array of numbers, but of type <U1"),
    ({**ONE, "zone": None}, "'zone' of this observation is no array of numbers, but of type None"),
    (
        {**ONE, "arm": {**ARM, "pose": POSE.ravel()}},
        "'arm/pose' of this observation has shape (4,), not (2, 2)",
    ),
    (
        {**ONE, "arm": {**ARM, "pose": HURT}},
        "'arm/pose' of this observation has nan at [1, 0], not a finite float32",
    ),
    (
        {**ONE, "arm": {**ARM, "pose": 1e300 * POSE}},
        "'arm/pose' of this observation has 5e+299 at [0, 0], not a finite float32",
    ),
    (
        {**ONE, "arm": {**ARM, "grip": [2, 2]}},
        "'arm/grip' of this observation has 2 at [1], not a whole number from -1 to 1",
    ),
    ({**ONE, "zone": [4, 5]}, "'arm/pose' of this observation has shape (2, 2), not (2, 2, 2)"),
    ([ONE, {**ONE, "zone": 9}], "at 1 of this batch, 'zone' of this observation has 9, not a"),
    (np.zeros(14), "this observation has shape (14,)"),
    ([ONE, 3], "this observation is no array of numbers, but of type list"),
    ("north", "this observation is no array of numbers, but of type <U5"),
    (
        np.full(15, np.nan),
        "this observation has nan at [0], not a finite float32",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("obs", "said"), WRONG)
def test_an_observation_that_is_wrong_in_a_part_is_one_sentence(
    obs: Any, said: str, tmp_path: Path
) -> None:
    policy = policy_of(Watching, tmp_path)
    with pytest.raises(UserError) as caught:
        policy(obs)
    wanted = f"tests.envs.{SEEN}{said}"
    assert str(caught.value)[: len(wanted)] == wanted
    assert "\n" not in str(caught.value)


def test_an_empty_batch_of_dictionaries_is_refused(tmp_path: Path) -> None:
    policy = policy_of(lambda: Watching(GRID), tmp_path)
    with pytest.raises(UserError, match="; this batch is empty"):
        policy({"grid": np.zeros((0, 2, 2)), "me": np.zeros(0)})


@pytest.mark.parametrize(
    ("task", "obs", "said"),
    [
        ("a choice", 16, " observes a number from 0 to 15, or a batch of them (batch);"
         " this observation has 16, not a whole number from 0 to 15"),
        ("a choice", [3, 2.5], "this observation has 2.5 at [1], not a whole number from 0 to 15"),
        ("several choices", [4, 0], "has 4 at [0], not a whole number from 5 to 6"),
        ("several choices", {"a": 1}, "observes choices of shape (2,), or a batch of them (batch,"
         " 2); this observation is no array of numbers, but of type dict"),
        ("images", np.full((8, 8, 1), 0.5), "observes bytes of shape (8, 8, 1), or a batch of them"
         " (batch, 8, 8, 1); this observation has 0.5 at [0, 0, 0], not a whole number from 0 to"
         " 255"),
        ("images", np.full((8, 8, 1), 256), "has 256 at [0, 0, 0], not a whole number from 0 to"),
        ("images", np.zeros((8, 8), np.uint8), "; this observation has shape (8, 8)"),
        ("a tuple", (4, 1), " observes (a number from 0 to 31, a number from 0 to 10,"
         " a number from 0 to 1), or a batch of them, in which each part has one axis more; this"
         " observation has 2 parts, not 3"),
        ("a tuple", (4, 1, 2), "'2' of this observation has 2, not a whole number from 0 to 1"),
        ("numbers", ["1", "2", "3", "4"], "this observation is no array of numbers, but of type"),
        ("numbers", np.zeros(4, complex), "this observation is no array of numbers, but of type c"),
    ],
)  # fmt: skip
def test_what_an_environment_does_not_observe_is_one_sentence(
    task: str, obs: Any, said: str, tmp_path: Path
) -> None:
    policy = policy_of(TASKS[task], tmp_path)
    with pytest.raises(UserError) as caught:
        policy(obs)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_an_image_of_floats_that_are_bytes_is_read(tmp_path: Path) -> None:
    policy, _, seen, done = walk(TASKS["images"], tmp_path)
    assert policy(np.stack(seen).astype(np.float32)).tolist() == done


def test_a_file_from_before_takes_the_vector_and_says_so(tmp_path: Path) -> None:
    plain = spec_to_plain(make_env(Watching, 1).spec)
    del plain["structure"]
    policy = policy_of(Watching, tmp_path, spec=plain)
    assert policy(spaces.utils.flatten(SPACE, ONE)) in (0, 1)
    with pytest.raises(UserError, match=r"observes shape \(15,\).*; this observation is no array"):
        policy(ONE)


@pytest.mark.parametrize(
    "structure",
    [
        {"kind": "Tuple", "parts": []},
        {"kind": "Tuple", "parts": [3]},
        {"kind": "Dict", "parts": [["a"]]},
        {"kind": "Box", "shape": [-1], "dtype": "float32"},
        {"kind": "Box", "shape": [15], "dtype": "no"},
        {"kind": "Discrete", "n": -1, "start": 0},
        {"kind": "Discrete", "n": 15},
        {"kind": "MultiDiscrete", "nvec": "x", "start": 0},
        [],
    ],
)  # fmt: skip
def test_a_structure_that_is_none_is_damage(structure: Any, tmp_path: Path) -> None:
    plain = {**spec_to_plain(make_env(Watching, 1).spec), "structure": structure}
    with pytest.raises(Corrupt, match="does not fit its own description"):
        policy_of(Watching, tmp_path, spec=plain)


def test_names_that_no_json_holds_leave_the_vector(tmp_path: Path) -> None:
    space = spaces.Dict({("a", 1): spaces.Box(-1, 1, (2,))})  # type: ignore[dict-item]
    policy = policy_of(lambda: Watching(space), tmp_path)
    assert policy.spec.structure is None
    assert policy([0.5, -0.5]) in (0, 1)
