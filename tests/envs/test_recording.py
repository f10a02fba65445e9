"""Episodes whose environment can't be saved go on by being played again."""

from __future__ import annotations

import pytest
import torch
from gymnasium.wrappers import FlattenObservation

from hpcpod.envs import recording
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import episode_seed, random_seeds
from tests.envs.small_envs import Counting
from tests.envs.test_gymnasium_env import assert_equal, some_actions
from tests.pod.late_envs import Shortening

FLAT = "gymnasium.wrappers:FlattenObservation"


@pytest.mark.parametrize(
    ("source", "wrappers"),
    [
        ("CartPole-v1", [FLAT]), ("Pendulum-v1", [FLAT]), ("FrozenLake-v1", []),
        ("tests.envs.small_envs:Starting", ["gymnasium.wrappers:RecordEpisodeStatistics"]),
        ("Blackjack-v1", []), ("MountainCar-v0", [FLAT]),
    ],
)  # fmt: skip
def test_what_hides_something_goes_on_bit_by_bit_by_playing_its_episodes_again(
    source: str, wrappers: list[str]
) -> None:
    env, other = (PreprocessVecEnv(source, 3, wrappers=wrappers) for _ in range(2))
    assert env.state() is None
    env.reset(random_seeds(source, count=3))
    actions = some_actions(env, 400)
    for done in (0, 1, 70, 200):  # at a beginning, and after as many steps
        for action in actions[:done]:
            obs = env.step(action).obs
        saved = env.state()
        assert saved is not None
        once = [env.step(action) for action in actions[200:]]
        found = other.restore(saved)
        assert found is not None and (done == 0 or torch.equal(found, obs))
        again = other.state()
        assert again is not None and all(torch.equal(saved[name], again[name]) for name in saved)
        assert_equal(once, [other.step(action) for action in actions[200:]])


def test_actions_that_are_played_again_are_those_of_the_episode_in_progress() -> None:
    env = PreprocessVecEnv(lambda: FlattenObservation(Counting(end=70)), 2)
    env.reset(torch.arange(2))
    for t in range(70 * 3 + 5):
        action = torch.tensor([[0.0], [(t % 10) / 10]])
        env.step(action)
        action.fill_(9.0)  # the caller's own
    saved = env.state()
    assert saved is not None
    assert saved["episodes"].tolist() == [3, 3]
    assert saved["0/actions"].tolist() == [[2.0]] * 5  # what [-2, 6] takes for 0
    assert saved["1/actions"][:, 0].tolist() == pytest.approx([2.0, 2.4, 2.8, 3.2, 3.6])


def test_an_episode_of_too_many_actions_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_STEPS", 100)
    env = PreprocessVecEnv(lambda: FlattenObservation(Counting(end=150)), 2)
    env.reset(torch.arange(2))
    seen = [env.state() is not None for _ in range(450) if env.step(torch.zeros(2, 1))]
    assert seen == [t % 150 <= 100 for t in range(1, 451)]
    assert env._recording is not None and len(env._recording._rows) <= 100 + 64


def test_an_episode_that_ends_before_it_should_is_followed_by_the_next() -> None:
    env, other = (PreprocessVecEnv(f"tests.pod.late_envs:{n}", 2) for n in ("Late", "Shortening"))
    env.reset(torch.tensor([3, 4]))
    for _ in range(5):
        env.step(torch.zeros(2, dtype=torch.int64))
    saved = env.state()
    Shortening.over = True
    try:
        assert saved is not None
        found = other.restore(saved)
    finally:
        Shortening.over = False
    second = other.reset(torch.tensor([episode_seed(3, 1), episode_seed(4, 1)]))
    assert found is not None and torch.equal(found, second)
