"""The common part of hpcpod's own agents: counters, schedules, random numbers, named state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from hpcpod.agents.base import Metrics
from hpcpod.agents.cuda_graphs import Captured, Outputs, recorder_for
from hpcpod.agents.noise import Noise
from hpcpod.agents.observations import Observations
from hpcpod.agents.optimizer import Adam
from hpcpod.agents.schedules import Clock
from hpcpod.agents.state import (
    check_names,
    generator_on,
    load_generator,
    load_module,
    module_state,
    prefixed,
    under,
)
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, MultiDiscrete, State
from hpcpod.errors import UnsupportedSpace

S = TypeVar("S", Box, Discrete)
_KINDS = {Box: "continuous", Discrete: "discrete", MultiDiscrete: "multi-discrete"}


class Part(Protocol):
    """A part of an agent with a state of its own."""

    def state(self) -> State:
        """A copy of its tensors."""

    def load(self, state: State) -> None:
        """Take over a ``state()``, in place."""


class GradientAgent(ABC):
    """An agent that learns by ``Adam``; a GPU replays what it captures.

    A subclass makes its networks, lists them in ``_parts`` and writes the update.
    """

    name: ClassVar[str]
    """Its name in messages."""

    _added_later: ClassVar[tuple[str, ...]] = ()
    """Names that states of older versions lack."""

    _config: Any
    _noise: Noise | None = None

    def __init__(self, spec: EnvSpec, config: Any, seed: int, device: str) -> None:
        """Keep the arguments; make no weights."""
        self._spec, self._config, self._device = spec, config, device
        self._observations = Observations(spec, config.normalize_obs, device)
        self._generator = generator_on(device, seed)
        self._recorder = recorder_for(self._generator)
        self._captured_act = {
            True: Captured(self._explore, self._recorder),
            False: Captured(self._best, self._recorder),
        }
        self._clock = Clock()
        self._env_steps = self._updates = 0
        self._parts: dict[str, nn.Module | Part] = {}
        """All that has a state, by the prefix of its names."""

    @property
    def horizon(self) -> int:
        """Rows to collect between two updates."""
        horizon: int = self._config.horizon
        return horizon

    @property
    def learning_rate(self) -> float:
        """Step size of every Adam now."""
        return self._clock.rate(self._config, self._env_steps)

    def proceed(self, progress: float) -> None:
        """Learn how far the run has come; see ``Scheduled``."""
        self._clock.progress = progress

    def begin_run(self) -> None:
        """Take the experience so far for another run's: schedules begin."""
        self._env_steps = 0

    def optimizers(self) -> list[Adam]:
        """Those that it steps: gradients may be exchanged there."""
        return [part for part in self._parts.values() if isinstance(part, Adam)]

    def curve_metrics(self) -> Metrics:
        """Euclidean norm of the last update's gradients, of all optimizers together."""
        norms = [optimizer.gradient_norm for optimizer in self.optimizers()]
        norm = math.hypot(*norms)
        return {"grad_norm": norm} if norm else {}  # 0: there was no update yet

    def modules(self) -> dict[str, nn.Module]:
        """Those that have weights, by the prefix of their names: ``network/actor``."""
        parts = self._parts.items()
        return {prefix: part for prefix, part in parts if isinstance(part, nn.Module)}

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Choose actions. See ``Agent.act``."""
        with torch.inference_mode():
            return self._captured_act[explore]({"obs": obs})[0]

    def state(self) -> State:
        """Weights, optimizers, statistics, random stream and counters."""
        state: State = {}
        for prefix, part in self._parts.items():
            own = module_state(part) if isinstance(part, nn.Module) else part.state()
            state |= prefixed(prefix, own)
        return {
            **state,
            **(self._noise.state() if self._noise is not None else {}),
            "rng": self._generator.get_state(),
            "env_steps": torch.tensor(self._env_steps),
            "updates": torch.tensor(self._updates),
        }

    def load(self, state: State) -> None:
        """Take over a ``state()``; see ``Agent.load``."""
        sized = ("rng", "noise", "normalizer/rewards/running")
        check_names(self.state(), state, f"{self.name} agent", self._added_later, sized)
        for prefix, part in self._parts.items():
            own = under(prefix, state)
            load_module(part, own) if isinstance(part, nn.Module) else part.load(own)
        load_generator(self._generator, state["rng"])
        if self._noise is not None:
            self._noise.load(state)
        self._env_steps = int(state["env_steps"])
        self._updates = int(state["updates"])

    def reseed(self, seed: int) -> None:
        """Restart the random numbers; weights stay."""
        self._generator.manual_seed(seed)
        if self._noise is not None:
            self._noise.begin()

    @abstractmethod
    def _explore(self, inputs: State) -> Outputs:
        """Actions for ``obs``, drawn."""

    @abstractmethod
    def _best(self, inputs: State) -> Outputs:
        """Actions for ``obs``, the same each time."""


def space_of(kind: type[S], algorithm: str, spec: EnvSpec) -> S:
    """The action space, if it is of the kind in which an algorithm acts.

    Raises:
        UnsupportedSpace: it is not; says which algorithm can act in it.
    """
    if isinstance(spec.action, kind):
        return spec.action
    remedy = "dqn or ppo" if isinstance(spec.action, Discrete) else "ppo"
    raise UnsupportedSpace(
        f"{algorithm} acts in {_KINDS[kind]} spaces only, but {spec.id} has a"
        f" {_KINDS[type(spec.action)]} action space; use {remedy}"
    )
