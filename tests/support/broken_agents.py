"""Agents that break the contract, each in one way."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpcpod.agents.base import Buffer, Metrics
from hpcpod.agents.ppo import PPO, PPOConfig
from hpcpod.envs.vec_env import EnvSpec, State
from hpcpod.errors import Diverged

NAME = "policy.weight"
WEIGHT = f"network/{NAME}"


class GivesLiveTensors(PPO):
    def state(self) -> State:
        return {**super().state(), WEIGHT: self._network.get_parameter(NAME).detach()}


class GivesParameters(PPO):
    def state(self) -> State:
        return {**super().state(), WEIGHT: self._network.get_parameter(NAME)}


class KeepsAHyperparameter(PPO):
    FUSION = {"gamma": "mean"}  # noqa: RUF012

    def state(self) -> State:
        return {**super().state(), "gamma": torch.tensor(self._config.gamma)}


class ForgetsItsGenerator(PPO):
    def state(self) -> State:
        return {name: tensor for name, tensor in super().state().items() if name != "rng"}

    def load(self, state: State) -> None:
        self._generator.manual_seed(0)
        rng = self._generator.get_state()
        given, self.state = self.state, super().state  # type: ignore[method-assign]
        super().load({**state, "rng": rng})
        self.state = given  # type: ignore[method-assign]


class DrawsFromEverywhere(PPO):
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        torch.rand(1)
        return super().act(obs, explore=explore)


class AlwaysExplores(PPO):
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return super().act(obs, explore=True)


class CountsItsActions(PPO):
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        self._updates += 1
        return super().act(obs, explore=explore)


class GivesSmallIntegers(PPO):
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return super().act(obs, explore=explore).int()


class ChoosesWhatIsNotThere(PPO):
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return super().act(obs, explore=explore) + 1


class SaysNoRule(PPO):
    def state(self) -> State:
        return {**super().state(), "scale": torch.ones(())}


class TakesWhateverFits(PPO):
    def load(self, state: State) -> None:
        super().load({**self.state(), **{k: v for k, v in state.items() if k in self.state()}})


class KeepsWhatItLoads(PPO):
    def load(self, state: State) -> None:
        super().load(state)
        self._loaded = state[WEIGHT]

    def update(self, buffer: Buffer) -> Metrics:
        metrics = super().update(buffer)
        if hasattr(self, "_loaded"):
            self._loaded.copy_(self._network.get_parameter(NAME).detach())
        return metrics


class NeverDies(PPO):
    def update(self, buffer: Buffer) -> Metrics:
        with contextlib.suppress(Diverged):
            return super().update(buffer)
        buffer.restore(buffer.rows, ())
        return {}


class LearnsNothing(PPO):
    def update(self, buffer: Buffer) -> Metrics:
        buffer.restore(buffer.rows, ())
        return {}


class IgnoresReseed(PPO):
    def reseed(self, seed: int) -> None:
        pass


class ReseedsWeights(PPO):
    def reseed(self, seed: int) -> None:
        super().reseed(seed)
        self._updates = 0


class IgnoresItsSeed(PPO):
    def __init__(self, spec: EnvSpec, config: PPOConfig, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, config, 0, device)


class CountsOnTheBatch(PPO):
    def __init__(self, spec: EnvSpec, config: PPOConfig, seed: int, device: str = "cpu") -> None:
        super().__init__(spec, config, seed + spec.num_envs, device)


class Undocumented(PPO):
    @dataclass(frozen=True)
    class Config(PPOConfig):
        """Hyperparameters."""

        patience: int = 1


class Misspelled(PPO):
    @dataclass(frozen=True)
    class Config(PPOConfig):
        """Hyperparameters."""

        gamma: float = field(default=0.9, metadata={"near1": True})
        """Discount factor."""


class Open(PPO):
    @dataclass
    class Config:
        """Hyperparameters."""

        gamma: float = 0.9
        """Discount factor."""


class Required(PPO):
    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        gamma: float
        """Discount factor."""
