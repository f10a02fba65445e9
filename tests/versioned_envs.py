"""Backends that are not quite gymnasium."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hpcpod.envs.gymnasium import PreprocessVecEnv

VERSION = "HPCPOD_TEST_ENGINE"


class Versioned(PreprocessVecEnv):
    """Its simulator's version is what a variable says."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.spec = replace(self.spec, engine=f"simulator {os.environ[VERSION]}")


class Lenient(Versioned):
    """Takes any argument."""

    def __init__(self, env: Any, num_envs: int, device: str, wrappers: Any, kwargs: Any) -> None:
        super().__init__(env, num_envs, device, wrappers, {})


class Impostor(Versioned):
    """Plays something else under any id."""

    def __init__(self, env: Any, *others: Any) -> None:
        super().__init__("Pendulum-v1", *others)
