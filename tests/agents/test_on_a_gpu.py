"""Promises that were found broken on a GPU: pods, environments and markets there."""

from __future__ import annotations

from typing import Any, ClassVar

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


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("rules", [{"preset": "paper"}, {"preset": "strict"}, trading.PARITY])
def test_no_step_of_portfolios_waits_for_the_gpu(rules: dict[str, Any]) -> None:
    """Through the ends of episodes, in which all begin anew."""
    market = {**trading.MARKET, "days": 120}  # turbulence is known from day 62 on
    kwargs = {**trading.SMALL, "market": market, **rules}
    env = TradingVecEnv("trading", 64, "cuda", kwargs=kwargs)
    env.reset()
    actions = 2 * torch.rand(64, 3, device="cuda") - 1
    env.step(actions)  # what torch sets up once may wait
    assert env.spec.max_episode_steps is not None
    over = torch.zeros(64, dtype=torch.bool, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(env.spec.max_episode_steps):
            over |= env.step(actions).truncated
        with pytest.raises(RuntimeError, match="synchronizing"):  # what it would be like
            over.all().item()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert over.all()
