"""The evaluator of trading: pods train on the fit part, and are scored on the selection part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hpcpod.config.schema import EnvConfig
from hpcpod.envs.vec_env import VecEnv
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.factory import EnvFactory


class SelectionEvaluator(PanelEvaluator):
    """Scores an agent on windows of the selection part, which no pod trains on; no two windows
    share a day."""

    def __init__(self, make: Callable[[int], VecEnv]) -> None:
        if isinstance(make, EnvFactory):
            make = replace(make, env=self.scored_in(make.env))
        super().__init__(make)

    @staticmethod
    def scored_in(env: EnvConfig) -> EnvConfig:
        """The environment in which it scores pods that train in ``env``."""
        return replace(env, kwargs={**env.kwargs, "part": "selection", "apart": True})
