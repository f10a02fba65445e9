"""The evaluator of trading: pods train on the fit part, and are scored on the selection part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.vec_env import VecEnv, random_seeds
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.factory import EnvFactory
from hpcpod.trading.env import TradingVecEnv

_TRIES = 64
"""Seeds that are drawn for each episode, so that there is one of a window that was not played."""


class SelectionEvaluator(PanelEvaluator):
    """Scores an agent on windows of the selection part, which no pod trains on; no two windows
    overlap, and of so many as there are none is played twice."""

    def __init__(self, make: Callable[[int], VecEnv]) -> None:
        if isinstance(make, EnvFactory):
            make = replace(make, env=self.scored_in(make.env))
        super().__init__(make)

    @staticmethod
    def scored_in(env: EnvConfig) -> EnvConfig:
        """The environment in which it scores pods that train in ``env``."""
        return replace(env, kwargs={**env.kwargs, "part": "selection", "apart": True})

    @property
    def most_episodes(self) -> int:
        """Windows that there are."""
        return cast(TradingVecEnv, self.env(1)).windows

    def drawn(self, *panel: int | str, episodes: int) -> Tensor:
        """Seeds of as many windows: the first of each by a hash of ``panel``."""
        seeds = random_seeds(*panel, count=_TRIES * episodes)
        turns, seen = [], Counter[int]()
        for window in cast(TradingVecEnv, self.env(episodes)).blocks(seeds):
            turns.append(seen[window])  # how often it was drawn before
            seen[window] += 1
        return seeds[torch.tensor(turns).argsort(stable=True)[:episodes]]
