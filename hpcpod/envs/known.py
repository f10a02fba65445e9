"""Environments that are known by their name, as far as that is seen without torch."""

from __future__ import annotations

import gymnasium as gym

from hpcpod.envs.simulator_warnings import one_line
from hpcpod.errors import UserError


def check_known(env: str, backend: str = "auto") -> None:
    """See that an environment exists, as far as that can be seen without making it.

    Of a path, and of what another backend makes, nothing can be seen.

    Raises:
        UserError: the backend, gymnasium or torch, knows no such environment.
    """
    if backend in ("auto", "gymnasium") and ":" not in env:
        try:
            gym.spec(env)  # no module is imported
        except gym.error.Error as error:
            raise UserError(f"{env} can't be made: {one_line(error)}") from error
    if backend == "torch":
        from hpcpod.envs import torch_envs  # loads torch

        torch_envs.check_known(env)
