"""Promises that were found broken on a GPU: pods, environments and markets there."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from hpcpod.envs.torch_envs import TorchVecEnv
from hpcpod.envs.vec_env import VecEnv
from hpcpod.testing import EnvContract
from hpcpod.trading.env import TradingVecEnv
from tests.agents import test_agent_contract as agents
from tests.trading import test_env as trading

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]


class TestPPOOfImages(agents.TestPPOOfImages):
    device: ClassVar[str] = "cuda"


class TestDQNOfImages(agents.TestDQNOfImages):
    device: ClassVar[str] = "cuda"


class TestDDPG(agents.TestDDPG):
    device: ClassVar[str] = "cuda"


class TestPendulum(EnvContract):
    def make_env(self, num_envs: int) -> VecEnv:
        return TorchVecEnv("Pendulum-v1", num_envs, "cuda", kwargs={"max_episode_steps": 20})


class TestTrading(EnvContract):
    def make_env(self, num_envs: int) -> VecEnv:
        return TradingVecEnv("trading", num_envs, "cuda", kwargs=trading.SMALL)
