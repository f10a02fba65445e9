"""The evaluator of trading: pods train on the fit part, and are scored on the selection part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hpcpod.envs.vec_env import VecEnv
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.factory import EnvFactory


class SelectionEvaluator(PanelEvaluator):
    """Scores an agent on windows of the selection part, which no pod trains on."""

    def __init__(self, make: Callable[[int], VecEnv]) -> None:
        if isinstance(make, EnvFactory):
            kwargs = {**make.env.kwargs, "part": "selection"}
            make = replace(make, env=replace(make.env, kwargs=kwargs))
        super().__init__(make)
