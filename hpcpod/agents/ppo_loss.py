"""The losses of PPO, and their derivatives in closed form.

Autograd keeps a record of each of some forty small operations: for a minibatch of 256 it took
225 µs where the formulas take 75, and the networks' own passes 350.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hpcpod.envs.vec_env import State


class Clipped(NamedTuple):
    """The clipped objective of a minibatch."""

    loss: Tensor
    """A scalar."""
    slope: Tensor
    """∂loss/∂log π(a|s), float32 [B]."""
    approx_kl: Tensor
    """Estimate of the mean KL divergence from the policy that collected, a scalar."""
    clip_fraction: Tensor
    """Share of ratios beyond 1 ± ε, a scalar."""


def clipped_objective(
    log_p: Tensor, old_log_p: Tensor, advantage: Tensor, clip: float | Tensor
) -> Clipped:
    """-mean(min(r A, clip(r, 1 - ε, 1 + ε) A)), equation 7 of PPO's paper; keeps no graph.

    Args:
        log_p: log π(a|s), float32 [B]; r is its ratio to ``old_log_p``.
        old_log_p: of the policy that collected, float32 [B].
        advantage: A, float32 [B].
        clip: ε; a scalar tensor where it changes from call to call.
    """
    log_ratio = log_p - old_log_p
    ratio = log_ratio.exp()
    free = ratio * advantage
    # clip(r) A > r A is no minimum, and where it is smaller it is (1 + ε) A or (1 - ε) A, by A's
    # sign: a bound that does not depend on r.
    if isinstance(clip, Tensor):
        bound = torch.addcmul(advantage, advantage.abs(), clip)
    else:
        bound = torch.add(advantage, advantage.abs(), alpha=clip)
    # ∂r/∂log π = r
    slope = torch.where(free < bound, free, 0.0).mul_(-1.0 / len(free))
    change = ratio.sub_(1.0)
    return Clipped(
        loss=torch.minimum(free, bound).mean().neg_(),
        slope=slope,
        approx_kl=(change - log_ratio).mean(),  # http://joschu.net/blog/kl-approx.html, k3
        clip_fraction=(change.abs() > clip).float().mean(),
    )


def value_error(
    value: Tensor, target: Tensor, old_value: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    """mean (V - y)², or with V's change clipped the mean of the larger one of both squares.

    Keeps no graph.

    Args:
        value: V, float32 [B].
        target: y, float32 [B].
        old_value: V when the update began, float32 [B].
        clip: how far V may go from there with a gradient; 0 leaves it free.

    Returns:
        The loss, a scalar, and ∂loss/∂V, float32 [B].
    """
    error = value - target
    square = error.square()
    slope = error.mul_(2.0 / len(error))
    if clip:
        clipped = (value.clamp(old_value - clip, old_value + clip) - target).square()
        # What is larger for being clipped does not depend on V.
        slope = torch.where(square < clipped, 0.0, slope)
        square = torch.maximum(square, clipped)
    return square.mean(), slope


def normalized(advantage: Tensor) -> Tensor:
    """Advantages of mean 0 and variance 1, float32 [B]; a single one stays as it is."""
    if len(advantage) == 1:
        return advantage
    std, mean = torch.std_mean(advantage)
    return (advantage - mean).div_(std.add_(1e-8))


def gae(
    rollout: State, value: Tensor, next_value: Tensor, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalised advantages (Schulman et al. 2016, arXiv:1506.02438, equation 16).

    Args:
        rollout: ``reward`` float32 [T, N], ``terminated`` and ``truncated`` bool [T, N].
        value: V(s_t), float32 [T, N].
        next_value: V of the true successor, float32 [T, N]; means nothing where terminated.
        gamma: discount factor.
        gae_lambda: λ.

    Returns:
        float32 [T, N].
    """
    alive = (~rollout["terminated"]).float()
    # δ_t = r_t + γ V(s_{t+1}) (1 - terminated) - V(s_t)
    delta = rollout["reward"] + gamma * next_value * alive - value
    ended = rollout["terminated"] | rollout["truncated"]
    decay = gamma * gae_lambda * (~ended).float()
    # A_t = δ_t + γ λ A_{t+1} while the episode goes on
    running = torch.zeros_like(delta[0])
    advantages = []
    for d, c in zip(reversed(delta.unbind()), reversed(decay.unbind()), strict=True):
        running = torch.addcmul(d, c, running)
        advantages.append(running)
    return torch.stack(advantages[::-1])
