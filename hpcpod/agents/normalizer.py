"""Running means and variances of observations and returns, kept inside the agent."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hpcpod.agents.operations import Program, Value
from hpcpod.envs.vec_env import State

_CLIP = 10.0
_LEAST_SCALE = 0.01
"""Of returns: equal ones have no spread, and must not be blown up."""


class Moments:
    """Running mean and variance of all that was seen; 0 and 1 at first."""

    def __init__(self, size: int, device: str) -> None:
        # float32 is enough: no harm was measured at constants of 1e6, nor at 1e6 ± 5.
        self.mean = torch.zeros(size, device=device)
        self.var = torch.ones(size, device=device)
        self.count = torch.zeros((), dtype=torch.float64, device=device)

    def update(self, x: Tensor) -> None:
        """Take float32 [B, size] into the statistics (Chan, Golub and LeVeque 1983)."""
        if len(x) == 0:  # a rollout of resets alone, whose mean made all of this NaN
            return
        count = self.count + len(x)
        share = (len(x) / count).to(torch.float32)
        var, mean = torch.var_mean(x, dim=0, correction=0)
        delta = mean - self.mean
        # M2 = M2a + M2b + δ² na nb / n, divided by n
        spread = share * var + share * (1 - share) * delta.square()
        # In place: a captured graph goes on reading these very tensors.
        self.var.mul_(1 - share).add_(spread)
        self.mean.add_(share * delta)
        self.count.copy_(count)

    def state(self) -> State:
        """``mean``, ``var`` and ``count``."""
        return {"mean": self.mean.clone(), "var": self.var.clone(), "count": self.count.clone()}

    def load(self, state: State) -> None:
        """Take over a ``state()``."""
        for name, tensor in (("mean", self.mean), ("var", self.var), ("count", self.count)):
            tensor.copy_(state[name])


class RunningNorm(Moments):
    """Scales inputs to mean 0 and variance 1 by what was seen so far, clipped to ±10.

    Until the first ``update`` it only clips.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Scale float32 [B, size]."""
        return ((x - self.mean) * (self.var + 1e-8).rsqrt()).clamp(-_CLIP, _CLIP)

    def write_operations(self, program: Program, x: Value) -> Value:
        """See ``Portable``."""
        moments = {"mean": self.mean, "scale": (self.var + 1e-8).rsqrt()}
        return program.add(
            "clip", program.add("normalise", x, arrays=moments), low=-_CLIP, high=_CLIP
        )


class RewardScale(Moments):
    """Rewards in units of the running standard deviation of the discounted return, at most ±10.

    R_t = γ R_{t-1} (1 - done_{t-1}) + r_t of each environment, and r_t / √(var R + 1e-8), as
    VecNormalize (Stable-Baselines3) and NormalizeReward (gymnasium, CleanRL) have it. They take the
    variance as it is at each step; here a rollout is taken in whole, and then scaled by one.
    """

    def __init__(self, num_envs: int, gamma: float, device: str) -> None:
        super().__init__(1, device)
        self._gamma = gamma
        self._running = torch.zeros(num_envs, device=device)
        """R of the last step of each environment; 0 where the episode has ended."""

    def learn(self, rollout: State) -> Tensor:
        """Take a rollout in, and scale its rewards by all that was seen.

        Args:
            rollout: ``reward`` float32 [T, N], ``terminated``, ``truncated`` and ``valid``
                bool [T, N].

        Returns:
            float32 [T, N].
        """
        valid, running = rollout["valid"], self._running
        reward = rollout["reward"].where(valid, 0.0)
        going_on = (~(rollout["terminated"] | rollout["truncated"])).float()
        returns = []
        for r, on in zip(reward.unbind(), going_on.unbind(), strict=True):
            returns.append(torch.add(r, running, alpha=self._gamma))
            running = returns[-1] * on
        self._running.copy_(running)
        if bool(valid.any()):
            self.update(torch.stack(returns)[valid].unsqueeze(-1))
        return (reward * (self.var + 1e-8).rsqrt()).clamp(-_CLIP, _CLIP)

    def state(self) -> State:
        """The statistics, and ``running`` float32 [N], the discounted returns so far."""
        return {**super().state(), "running": self._running.clone()}

    def load(self, state: State) -> None:
        """Take over a ``state()``; returns of another number of environments begin at 0."""
        super().load(state)
        same = state["running"].shape == self._running.shape
        self._running.copy_(state["running"] if same else torch.zeros_like(self._running))


class PopArt(Moments):
    """Returns scaled to mean 0 and variance 1, for a critic whose last layer follows the scale.

    When the statistics move, the layer is changed so that what the critic says in units of
    reward stays the same (van Hasselt et al. 2016, arXiv:1602.07714, section 2.2).
    """

    def __init__(self, device: str) -> None:
        # Of all returns so far, where the paper forgets: it lags when they grow a hundredfold.
        super().__init__(1, device)

    def learn(self, returns: Tensor, layer: nn.Linear) -> None:
        """Take float32 [B] in; ``layer`` is the critic's last one, with one output."""
        before, shift = (tensor.clone() for tensor in self._scale())
        self.update(returns.unsqueeze(-1))
        now, mean = self._scale()
        with torch.no_grad():
            layer.weight.mul_(before / now)
            layer.bias.mul_(before).add_(shift - mean).div_(now)

    def normalize(self, returns: Tensor) -> Tensor:
        """Returns as the critic gives them, float32 [B]."""
        scale, mean = self._scale()
        return (returns - mean) / scale

    def denormalize(self, values: Tensor) -> Tensor:
        """The critic's output in units of reward, float32 [B]."""
        scale, mean = self._scale()
        return values * scale + mean

    def scaled(self, differences: Tensor) -> Tensor:
        """Differences of returns, such as advantages, in units of their standard deviation."""
        return differences / self._scale()[0]

    def _scale(self) -> tuple[Tensor, Tensor]:
        return _scale_of(self.var), self.mean


def in_reward_units(weight: Tensor, bias: Tensor, statistics: State) -> tuple[Tensor, Tensor]:
    """A critic's last layer as it would be without ``PopArt``, whose ``state()`` this is."""
    scale, mean = _scale_of(statistics["var"]).to(weight), statistics["mean"].to(weight)
    return weight * scale, bias * scale + mean


def in_popart_units(weight: Tensor, bias: Tensor, statistics: State) -> tuple[Tensor, Tensor]:
    """The inverse of ``in_reward_units``."""
    scale, mean = _scale_of(statistics["var"]).to(weight), statistics["mean"].to(weight)
    return weight / scale, (bias - mean) / scale


def _scale_of(var: Tensor) -> Tensor:
    return var.sqrt().clamp(min=_LEAST_SCALE)
