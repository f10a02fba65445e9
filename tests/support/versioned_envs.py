"""Backends that are not quite gymnasium."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import torch

from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import State

VERSION = "HPCPOD_TEST_ENGINE"


class Versioned(PreprocessVecEnv):
    """Its simulator's version is what a variable says; none reads another one's states."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._version = int(os.environ[VERSION])
        self.spec = replace(self.spec, engine=f"simulator {self._version}")

    def state(self) -> State | None:
        saved = super().state()
        return None if saved is None else {**saved, "version": torch.tensor(self._version)}

    def restore(self, state: State) -> None:
        if int(state["version"]) != self._version:
            raise ValueError("the state is of another version")
        super().restore(state)


class Lenient(Versioned):
    """Takes any argument."""

    def __init__(self, env: Any, num_envs: int, device: str, wrappers: Any, kwargs: Any) -> None:
        super().__init__(env, num_envs, device, wrappers, {})


class Impostor(Versioned):
    """Plays something else under any id."""

    def __init__(self, env: Any, *others: Any) -> None:
        super().__init__("Pendulum-v1", *others)


class Cliff(Versioned):
    """So does this, with as many actions as a frozen lake and more fields."""

    def __init__(self, env: Any, *others: Any) -> None:
        super().__init__("CliffWalking-v1", *others)
