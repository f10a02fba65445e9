"""First states of episodes, drawn in one way: gymnasium's generators or a batch of seeds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.utils import seeding as gymnasium_seeding

from hpcpod.envs import seeding
from hpcpod.envs.backend import Wanted

pytest.importorskip("mujoco", reason="pip install 'hpcpod[mujoco]'")

from hpcpod.envs.mujoco.initial_states import GeneratorDraws, SeededDraws
from hpcpod.envs.mujoco.tasks import TASKS, choose
from hpcpod.envs.mujoco.warp_env import on_device

N = 3000


def beginnings(env_id: str) -> tuple[Any, torch.Tensor]:
    """qpos and qvel of N episodes, [N, nq + nv]: by generators, and by seeds."""
    chosen = choose("mujoco", Wanted(env_id, 1))
    model = chosen.model
    task = chosen.kind(model=model)
    rngs = (gymnasium_seeding.np_random(seed)[0] for seed in range(N))
    theirs = np.stack([np.concatenate(task.first_state(GeneratorDraws(rng))) for rng in rngs])
    batched = dataclasses.replace(task, model=on_device(model, "cpu"), xp=torch)
    ours = torch.cat(batched.first_state(SeededDraws(torch.arange(N))), dim=1)
    assert ours.dtype == torch.float32
    return theirs, ours


@pytest.mark.parametrize("env_id", list(TASKS))
def test_a_batch_begins_as_gymnasium_does_in_distribution(env_id: str) -> None:
    theirs, ours = beginnings(env_id)
    drawn = ours.double().numpy()
    spread = theirs.std(0)
    sigma = spread / np.sqrt(N)
    assert (np.abs(drawn.mean(0) - theirs.mean(0)) <= 6.5 * sigma + 1e-7).all()
    assert (np.abs(drawn.std(0) - spread) <= 0.08 * spread + 1e-7).all()
    high, low = theirs.max(0), theirs.min(0)
    assert (np.abs(drawn.max(0) - high) <= 0.35 * (high - low) + 1e-7).all()
    between = np.corrcoef(drawn[:, spread > 0].T) - np.corrcoef(theirs[:, spread > 0].T)
    assert np.abs(between).max() < 0.12


def test_what_is_rejected_is_never_begun_with() -> None:
    _, ours = beginnings("Reacher-v5")
    goal = ours[:, 2:4].norm(dim=1)
    assert float(goal.max()) < 0.2
    assert abs(float((goal < 0.1).float().mean()) - 0.25) < 0.04  # uniform in the disc
    _, ours = beginnings("Pusher-v5")
    place = ours[:, 7:9]
    assert float(place.norm(dim=1).min()) > 0.17
    assert bool((place >= torch.tensor([-0.3, -0.2])).all() & (place <= 0.2).all())


CALLS: dict[str, tuple[Any, ...]] = {
    "uniform": (-1.0, 2.0, 3),
    "normal": (4,),
    "uniform_where": ((0.0, 0.0), (1.0, 1.0), lambda points: points[..., 0] > 0.5),
}


def test_draws_are_functions_of_their_own_seed_and_never_twice_the_same() -> None:
    seeds = torch.tensor([7, 8, 9])
    together, alone = SeededDraws(seeds), SeededDraws(seeds[1:2])
    for _ in range(2):
        for name, arguments in CALLS.items():
            drawn = [getattr(draws, name)(*arguments) for draws in (together, alone)]
            assert torch.equal(drawn[0][1:2], drawn[1]), name
    fresh = SeededDraws(seeds)
    assert not torch.equal(fresh.uniform(0.0, 1.0, 3), fresh.uniform(0.0, 1.0, 3))
    every = seeding.uniforms(seeds, 9)
    assert torch.equal(every[4:], seeding.uniforms(seeds, 5, skip=4))


def test_normal_numbers_are_normal() -> None:
    drawn = SeededDraws(torch.arange(20_000)).normal(5).double()
    assert drawn.shape == (20_000, 5)
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert abs(float((drawn**power).mean()) - moment) < 0.05 * 2 ** (power - 1)
    assert float(drawn.abs().max()) > 4.0
