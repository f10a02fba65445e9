"""Fusion: the replicas of one pod become one agent again, from time to time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from hpcpod.agents.base import Agent
from hpcpod.agents.fusion import Rule, fusion_rules
from hpcpod.agents.optimizer import Adam
from hpcpod.envs.vec_env import State
from hpcpod.errors import UserError
from hpcpod.pod.ranks.communicator import Communicator
from hpcpod.pod.ranks.packing import Packing

_LEAST = 1e-6
"""Samples: a rank without any has no say, unless none has."""


class Fusion(Protocol):
    """Makes the replicas of an agent, one on each rank, equal.

    ``fusion_class(agent, group)`` makes one on each rank, of replicas that are equal.
    """

    @property
    def equal(self) -> bool:
        """True if all replicas are equal now, but for what their rules say is local."""
        ...

    @property
    def in_step(self) -> bool:
        """True if ranks exchange inside an update: one that fails there leaves without a word."""
        ...

    def learned(self) -> None:
        """Take note of an update of this replica, on all ranks at once.

        Raises:
            RankLost: another rank is gone.
        """
        ...

    def fuse(self, weight: float) -> None:
        """Exchange and load, on all ranks at once.

        Args:
            weight: samples that this replica has learned from since the last fusion.

        Raises:
            RankLost: another rank is gone.
        """
        ...

    def take(self, rank: int, own: State) -> None:
        """Give all replicas the weights that one of them had, on all ranks at once.

        Args:
            rank: whose.
            own: what the agent of this rank was then.

        Raises:
            RankLost: another rank is gone.
        """
        ...

    def state(self) -> State:
        """The state from which fusions go on, beside the agent's own."""
        ...

    def load(self, state: State) -> None:
        """Take over a ``state()``; the agent has been loaded already."""
        ...


class Mean:
    """The mean of the replicas, weighted by samples (McMahan et al. 2017, arXiv:1602.05629)."""

    in_step = False

    def __init__(self, agent: Agent, group: Communicator) -> None:
        """The replicas must be equal."""
        self._agent, self._group = agent, group
        state = self._state()
        self._packing = Packing(
            self._exchanged(fusion_rules(agent, state)), state, group.rank, group.size
        )
        self._kept = [*self._packing.since]
        self._since: State = {}
        self._remember(state)

    def _exchanged(self, rules: Mapping[str, Rule]) -> Mapping[str, Rule]:
        """By which rules a fusion goes."""
        return rules

    def _state(self) -> State:
        """The agent's state in units that all replicas have: see ``PPO.comparable``."""
        convert = getattr(self._agent, "comparable", None)
        state = self._agent.state()
        return state if convert is None else dict(convert(state))

    def _load(self, state: State) -> None:
        """The inverse of ``_state``."""
        convert = getattr(self._agent, "as_own", None)
        self._agent.load(state if convert is None else convert(state))

    def _remember(self, fused: State) -> None:
        self._since = {name: fused[name] for name in self._kept}
        self.equal = True

    def learned(self) -> None:
        """See ``Fusion``."""
        self.equal = False

    def fuse(self, weight: float) -> None:
        """See ``Fusion``. Where no rank has learned from anything, all count alike."""
        # Two ranks, gloo: 1.2 ms with 0.1 MB, 3.1 ms with 2 MB.
        self._take(self._combined(self._exchange(max(weight, _LEAST))))

    def take(self, rank: int, own: State) -> None:
        """See ``Fusion``; statistics and counters stay those of all."""
        convert = getattr(self._agent, "comparable", dict)
        theirs = convert(own)
        self._load(self._state() | {name: theirs[name] for name in self._packing.mean})
        self._take(self._exchange(1.0 if self._group.rank == rank else 0.0))

    def _take(self, fused: State) -> None:
        self._load(fused)
        self._remember(fused)

    def _exchange(self, weight: float) -> State:
        state = self._state()
        self._packing.pack(state, weight)
        self._group.sum_(self._packing.vector)
        return self._packing.unpack(state, self._since)

    def _combined(self, mean: State) -> State:
        """What the replicas become, of their mean."""
        return mean

    def state(self) -> State:
        """Of replicas that are not equal: what has been added since they were."""
        if self.equal:
            return {}
        return {f"since/{name}": tensor.clone() for name, tensor in self._since.items()}

    def load(self, state: State) -> None:
        """See ``Fusion``."""
        self._remember(self._state())
        since = {name: state[f"since/{name}"] for name in self._kept if f"since/{name}" in state}
        self._since |= since
        self.equal = not since


class Nesterov(Mean):
    """The mean as one step of an outer optimizer with Nesterov's momentum.

    DiLoCo (Douillard et al. 2023, arXiv:2311.08105): the outer gradient is g = θ - mean(θ_r), then
    u ← μ u + g and θ ← θ - η (g + μ u). Only weights have a momentum; the rest is averaged.
    """

    def __init__(
        # DiLoCo's, for long intervals: at every update it ended no better than without fusion.
        self,
        agent: Agent,
        group: Communicator,
        rate: float = 0.7,
        momentum: float = 0.9,
    ) -> None:
        """η is ``rate``, μ is ``momentum``."""
        super().__init__(agent, group)
        self._rate, self._momentum = rate, momentum
        state = self._state()
        weights = [name for name in self._packing.mean if name.startswith("network/")]
        self._velocity = {name: torch.zeros_like(state[name]) for name in weights}
        self._kept += weights
        self._remember(state)

    def _combined(self, mean: State) -> State:
        moved = dict(mean)
        for name, velocity in self._velocity.items():
            gradient: Tensor = self._since[name] - mean[name]
            velocity.mul_(self._momentum).add_(gradient)
            moved[name] = self._since[name] - self._rate * (gradient + self._momentum * velocity)
        return moved

    def state(self) -> State:
        """The momentum too, by the weights' names."""
        momentum = {f"velocity/{name}": u.clone() for name, u in self._velocity.items()}
        return super().state() | momentum

    def load(self, state: State) -> None:
        """See ``Fusion``."""
        super().load(state)
        for name, velocity in self._velocity.items():
            if f"velocity/{name}" in state:
                velocity.copy_(state[f"velocity/{name}"])


class GradAllReduce(Mean):
    """Synchronous gradients: every minibatch's is the mean of all ranks'.

    What data-parallel training does (Li et al. 2020, arXiv:2006.15704), for comparison: an
    exchange for each step of an optimizer instead of one for each update. Statistics and counters
    are exchanged in ``fuse``.
    """

    in_step = True

    def __init__(self, agent: Agent, group: Communicator) -> None:
        """Take part in each step of the agent's optimizers, ``agent.optimizers()``.

        Raises:
            UserError: the agent does not show its optimizers.
        """
        super().__init__(agent, group)
        shown = getattr(agent, "optimizers", None)
        if shown is None:
            raise UserError(
                f"pod.fusion.scheme: grad_allreduce needs {type(agent).__name__}.optimizers(), the"
                " hpcpod.agents.optimizer.Adam that it steps; use mean, or define it"
            )
        optimizers: list[Adam] = list(shown())
        self._vectors = []
        for optimizer in optimizers:
            vector = optimizer.vector.new_zeros(len(optimizer.vector) + 1, requires_grad=False)
            self._vectors.append(vector)
            optimizer.exchange = self._exchanger(vector)

    def _exchanged(self, rules: Mapping[str, Rule]) -> Mapping[str, Rule]:
        # The same gradients from the same weights: what would be averaged is equal already, but for
        # what an agent moves by its own rows beside (PopArt's layer: ``rescaled``).
        moved = frozenset(getattr(self._agent, "rescaled", ()))
        return {
            name: "local" if rule == "mean" and name not in moved else rule
            for name, rule in rules.items()
        }

    def _exchanger(self, vector: Tensor) -> Callable[[Tensor], None]:
        gradient, stepping = vector[:-1], vector[-1:]

        def exchange(own: Tensor) -> None:
            gradient.copy_(own)
            stepping.fill_(1.0)
            self._group.sum_(vector)
            self._check(stepping)
            # 163 times an epoch: 0.26 of 0.36 s by gloo, 6 to 9 of 80 ms by MPI (two ranks).
            torch.div(gradient, self._group.size, out=own)

        return exchange

    def learned(self) -> None:
        """See ``Fusion``; finds out whether all have made as many steps.

        Raises:
            UserError: they have not.
        """
        super().learned()
        vector = self._vectors[0].zero_()
        self._group.sum_(vector)
        self._check(vector[-1:], but=0)

    def _check(self, stepping: Tensor, but: int | None = None) -> None:
        count = int(stepping)
        if count != (self._group.size if but is None else but):
            raise UserError(
                "pod.fusion.scheme: grad_allreduce needs as many steps of the optimizer on every"
                f" rank, but {count} of {self._group.size} made one more than the others; use"
                " mean, or let ranks collect as many rows and none stop early (target_kl: 0)"
            )


class Apart:
    """No fusion: every rank trains a replica alone, and the first one is the pod's."""

    equal = in_step = False

    def __init__(self, agent: Agent, group: Communicator) -> None:
        """Nothing is needed of either."""

    def learned(self) -> None:
        """See ``Fusion``."""

    def fuse(self, weight: float) -> None:
        """Nothing."""

    def take(self, rank: int, own: State) -> None:
        """Nothing."""

    def state(self) -> State:
        """Nothing."""
        return {}

    def load(self, state: State) -> None:
        """Nothing."""
