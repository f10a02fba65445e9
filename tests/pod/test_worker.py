"""The worker's account of episodes: returns and lengths of those that ended last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import State, Step
from hpcpod.pod.worker import RECENT, Worker

ENDS, CUT, GOES_ON, RESET = "ends", "cut", "goes on", "reset"


class Scripted:
    """Two environments of which a test says what each step brings; every step pays 2."""

    def __init__(self, *steps: Sequence[str]) -> None:
        self.spec = make_env("CartPole-v1", 2).spec
        self._steps = list(steps)

    def reset(self, seeds: torch.Tensor) -> torch.Tensor:
        return torch.zeros(2, 4)

    def step(self, action: torch.Tensor) -> Step:
        words = self._steps.pop(0)

        def is_a(word: str) -> torch.Tensor:
            return torch.tensor([each == word for each in words])

        reward = torch.tensor([0.0 if word == RESET else 2.0 for word in words])
        obs = torch.zeros(2, 4)
        return Step(obs, reward, is_a(ENDS), is_a(CUT), next_obs=obs, valid=~is_a(RESET))

    def state(self) -> State | None:
        return {}

    def restore(self, state: State) -> None:
        return None


def worker_of(*steps: Sequence[str]) -> Worker:
    env: Any = Scripted(*steps)
    worker = Worker(env)
    worker.reset(torch.arange(2))
    return worker


def collect(worker: Worker, steps: int) -> int:
    agent: Any = SimpleNamespace(act=lambda obs, explore: torch.zeros(2, dtype=torch.int64))
    buffer: Any = SimpleNamespace(add=lambda *row: None)
    return worker.collect(agent, buffer, steps, cut=False)


def test_lengths_are_counted_through_collections_and_without_rows_that_only_reset() -> None:
    worker = worker_of(
        (GOES_ON, ENDS), (ENDS, RESET), (GOES_ON, GOES_ON),  # lengths 1 and 2
        (GOES_ON, CUT), (GOES_ON, GOES_ON),  # 2
    )  # fmt: skip
    assert math.isnan(worker.mean_length)
    assert collect(worker, 1) == 2 and worker.mean_length == 1.0
    assert collect(worker, 2) == 3 and worker.mean_length == 1.5
    collect(worker, 2)
    assert worker.mean_length == pytest.approx(5 / 3)
    assert worker.mean_return == pytest.approx(2 * 5 / 3)


def test_only_the_last_episodes_count() -> None:
    worker = worker_of(*[(GOES_ON, ENDS)] * 10, *[(ENDS, ENDS)] * (RECENT // 2))
    collect(worker, 10)
    assert worker.mean_length == 1.0
    collect(worker, RECENT // 2)  # one of them has 11 steps, and all before are forgotten
    assert worker.mean_length == (11 + RECENT - 1) / RECENT


def test_a_state_goes_on_counting_and_an_older_one_does_not_know_its_lengths() -> None:
    steps = (GOES_ON, GOES_ON), (GOES_ON, ENDS), (ENDS, GOES_ON), (ENDS, ENDS)
    worker = worker_of(*steps)
    collect(worker, 2)
    state = worker.state()
    assert state is not None and state["episode_length"].tolist() == [2.0, 0.0]
    again = worker_of(*steps[2:])
    assert again.restore(state)
    collect(again, 1)
    assert again.mean_length == (2 + 3) / 2
    older = {name: tensor for name, tensor in state.items() if "length" not in name}
    aged = worker_of(*steps[2:])
    aged.restore(older)
    collect(aged, 1)
    assert math.isnan(aged.mean_length) and aged.mean_return == (4 + 6) / 2
    collect(aged, 1)  # one begun since ended; the other had begun before
    assert aged.mean_length == 1.0
