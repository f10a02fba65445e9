"""Training episodes, reported to the meter for libraries that keep no list of returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium

from contenders.process import Task


class TellsReturns(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up an environment's rewards and tells the meter when an episode ends."""

    def __init__(self, env: gymnasium.Env[Any, Any], task: Task) -> None:
        super().__init__(env)
        self._meter = task.meter
        self._return = 0.0

    def step(self, action: Any) -> Any:
        """As the environment's."""
        answer = self.env.step(action)
        self._return += float(answer[1])
        if answer[2] or answer[3]:
            self._meter.episode(self._return)
            self._return = 0.0
        return answer


def make(task: Task) -> gymnasium.Env[Any, Any]:
    """One of the row's environments; it tells its returns only where a threshold is measured."""
    env: gymnasium.Env[Any, Any] = gymnasium.make(task.row.env, disable_env_checker=True)
    return env if task.row.threshold is None else TellsReturns(env, task)


@dataclass(frozen=True)
class Maker:
    """``make`` for libraries that send it to processes of theirs, whatever they call it with."""

    task: Task

    def __call__(self, *_args: Any, **_settings: Any) -> gymnasium.Env[Any, Any]:
        return make(self.task)
