"""The tasks for tests, followed by hand."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import pytest
import torch
from torch import Tensor

from hpcpod.envs import seeding
from hpcpod.envs.known import check_known
from hpcpod.envs.make import make_env
from hpcpod.envs.torch_envs import TOYS, TorchVecEnv
from hpcpod.envs.vec_env import Box, Discrete, episode_seed, random_seeds
from hpcpod.errors import UserError


def counter(num_envs: int, **kwargs: Any) -> TorchVecEnv:
    return TorchVecEnv("hpcpod/Counter-v0", num_envs, kwargs=kwargs)


def memory(num_envs: int, **kwargs: Any) -> TorchVecEnv:
    return TorchVecEnv("hpcpod/Memory-v0", num_envs, kwargs=kwargs)


def image(num_envs: int, **kwargs: Any) -> TorchVecEnv:
    return TorchVecEnv("hpcpod/Image-v0", num_envs, kwargs=kwargs)


def numerator(seed: int, j: int) -> int:
    """The j-th number of a seed, as a multiple of 2^-24."""
    return seeding.mix((j * 0x7F4A7C15 + seed) % 2**32) >> 8


def test_a_counter_counts_to_the_length_that_its_seed_says_and_ends_as_it_says() -> None:
    seeds = list(range(40))
    env = counter(40, longest=5)
    obs = env.reset(torch.tensor(seeds))
    episode, count = [0] * 40, [0] * 40
    for t in range(30):
        action = torch.full((40, 1), t / 10 - 1.5)
        step = env.step(action)
        for i in range(40):
            own = episode_seed(seeds[i], episode[i])
            length = 1 + numerator(own, 1) * 5 // 2**24
            cut = numerator(own, 2) >= 2**23
            assert obs[i].tolist() == [count[i], length]
            count[i] += 1
            assert step.next_obs[i].tolist() == [count[i], length]
            assert bool(step.terminated[i]) == (count[i] == length and not cut)
            assert bool(step.truncated[i]) == (count[i] == length and cut)
            assert step.reward[i] == action[i].clamp(-1, 1)
            if count[i] == length:
                episode[i], count[i] = episode[i] + 1, 0
        obs = step.obs
    assert min(episode) >= 5


def test_a_counters_lengths_are_equally_likely_and_so_are_its_ends() -> None:
    env = counter(6000, longest=3)
    lengths = env.reset(random_seeds("lengths", count=6000))[:, 1]
    ends = [env.step(torch.zeros(6000, 1)) for _ in range(3)]
    for length in (1, 2, 3):
        assert abs(int((lengths == length).sum()) - 2000) < 200  # 5.5 standard deviations
    first = ends[0]
    assert abs(int(first.terminated.sum()) - int(first.truncated.sum())) < 300


def test_the_time_limit_cuts_a_counter_before_its_length() -> None:
    env = counter(200, longest=9, max_episode_steps=4)
    lengths = env.reset(torch.arange(200))[:, 1]
    steps = [env.step(torch.zeros(200, 1)) for _ in range(4)]
    long = lengths > 4
    assert long.any() and steps[3].truncated[long].all() and not steps[3].terminated[long].any()


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_memory_shows_its_cue_first_and_asks_for_it_last(length: int) -> None:
    env = memory(50, length=length)
    seeds = list(range(50))
    obs = env.reset(torch.tensor(seeds))
    for episode in range(3):
        cues = [
            1.0 if numerator(episode_seed(seed, episode), 1) >= 2**23 else -1.0 for seed in seeds
        ]
        assert set(cues) == {-1.0, 1.0}
        answers = torch.tensor([0, 1] * 25)
        for t in range(length):
            assert obs[:, 0].tolist() == (cues if t == 0 else [0.0] * 50)
            assert obs[:, 1].tolist() == [float(t == length - 1)] * 50
            step = env.step(answers)
            last = t == length - 1
            right = [cue == answer * 2 - 1 for cue, answer in zip(cues, answers, strict=True)]
            expected = [(1.0 if each else -1.0) if last else 0.0 for each in right]
            assert step.reward.tolist() == expected
            assert step.terminated.tolist() == [last] * 50 and not step.truncated.any()
            obs = step.obs


def mean_return(env: TorchVecEnv, remember: bool) -> float:
    """Of 400 episodes, by who remembers the cue or goes by what is seen last."""
    obs = env.reset(random_seeds("recall", count=400))
    cue, total = obs[:, 0], torch.zeros(400)
    for _ in range(10):
        step = env.step(((cue if remember else obs[:, 0]) > 0).long())
        total, obs = total + step.reward, step.obs
    return float(total.mean())


def test_who_remembers_gets_1_and_who_does_not_gets_nothing() -> None:
    assert mean_return(memory(400), remember=True) == 1.0
    assert abs(mean_return(memory(400), remember=False)) < 0.25  # five standard deviations


def pixels_by_hand(seed: int, t: int, count: int) -> list[int]:
    first = numerator(seed, 1) ^ seeding.mix(t)
    words = [seeding.mix(first ^ seeding.mix(j)) for j in range(count // 4)]
    return [byte for word in words for byte in word.to_bytes(4, sys.byteorder)]


def test_every_pixel_is_what_seed_and_step_say() -> None:
    env = image(3, channels=2, side=6, max_episode_steps=4)
    seeds = [5, 2**31 - 1, 0]
    obs = env.reset(torch.tensor(seeds))
    for t in range(6):
        assert obs.dtype == torch.uint8 and obs.shape == (3, 2, 6, 6)
        for i, seed in enumerate(seeds):
            own = episode_seed(seed, t // 4)
            assert obs[i].flatten().tolist() == pixels_by_hand(own, t % 4, 72)
        step = env.step(torch.zeros(3, dtype=torch.int64))
        assert step.truncated.tolist() == [t == 3] * 3 and not step.terminated.any()
        assert step.reward.tolist() == [1.0] * 3
        if t == 3:
            assert step.next_obs[0].flatten().tolist() == pixels_by_hand(seeds[0], 4, 72)
        obs = step.obs


def test_images_are_of_atari_s_form_and_cannot_be_compressed() -> None:
    env = image(4)
    assert env.spec.observation == Box((4, 84, 84), 0.0, 255.0, "uint8")
    assert env.spec.action == Discrete(4)
    images: list[Tensor] = [env.reset(random_seeds("images", count=4))]
    images += [env.step(torch.arange(4)).obs for _ in range(9)]
    raw = torch.stack(images).numpy().tobytes()
    assert len(raw) == 40 * 4 * 84 * 84
    assert len(zlib.compress(raw)) > 0.999 * len(raw)
    counts = torch.bincount(torch.stack(images).flatten().long(), minlength=256)
    expected = len(raw) / 256
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert 150 < chi_squared < 400  # 255 degrees of freedom: far beyond 0.001 on either side


def test_an_image_of_an_odd_size_is_refused() -> None:
    with pytest.raises(UserError, match=r"Image-v0: env\.kwargs\.side must be even, got 7"):
        image(1, side=7)


@pytest.mark.parametrize("env_id", TOYS)
def test_a_configuration_names_it(env_id: str) -> None:
    check_known(env_id, "torch")
    assert make_env(env_id, 2, "torch").spec.id == env_id
    with pytest.raises(UserError, match=env_id):
        make_env(env_id, 2)  # gymnasium has none
