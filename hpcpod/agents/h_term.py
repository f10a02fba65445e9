"""The Hamiltonian term of the ElegantRL-Podracer papers: an add-on to an actor's loss.

Taken at its word it is a spin model's energy: with π(a|s) for the states of K spins in a row,

    H = -Σ_{k<K} γ_h^k r̂_{t+k} π(a_t|s_t) π(a_{t+1}|s_{t+1}) ... π(a_{t+k}|s_{t+k}),

averaged over runs of K steps of one episode whose returns are among the best of those drawn; r̂ is
the reward scaled to [0, 1] among them. Source: the H-term of ElegantRL's documentation (algorithm
1, equation 15) and the submissions at NeurIPS 2022 and ICLR 2023 ("Hamiltonian term", OpenReview
DGwX7wSoC- and LVum7knUA7g), whose published code survives in parts and shuffles its rows, so
that K had no effect there.

In plain words: it makes more probable, once more, what was done in the best short runs. That is
self-imitation, weighted by the densities themselves. A density of continuous actions has no upper
bound and a product of K of them overflows: the sum of their logarithms is cut to [-16, 2], and
beyond these nothing is learned. With many numbers in an action most products are beyond them.
It did not help in the ablation (``benchmarks/h_term.py``, benchmarks/RESULTS.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

from hpcpod.envs.vec_env import State

_DISCOUNT = 0.8
"""As in the code of the papers."""
_SHARE = 8
"""One run in so many is among the best: theirs keeps the upper 2⁻³."""
_LOWEST, _HIGHEST = -16.0, 2.0
"""Limits at which a product's logarithm is cut."""


def candidates(batch_size: int, steps: int) -> int:
    """Runs to draw, so that the best of them are one batch of transitions."""
    return max(1, batch_size // steps) * _SHARE


def best_runs(reward: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """The runs of highest Σ γ_h^k r_{t+k}, one in eight, and what their steps are worth.

    Args:
        reward: r_{t+k}, float32 [B, K].
        whole: bool [B]: the run lies in one episode. Others are worth nothing.

    Returns:
        Their places, int64 [M], and r̂: their rewards scaled to [0, 1] between the lowest and
        the highest of all whole runs (1 where these are equal), 0 in others, float32 [M, K].
    """
    counted = whole.unsqueeze(-1)
    low = torch.where(counted, reward, torch.inf).amin()
    high = torch.where(counted, reward, -torch.inf).amax()
    spread = high - low
    # constant rewards were all scaled to 0, and nothing was learned from any run
    scaled = torch.where(spread > 0, (reward - low) / spread.clamp(min=1e-8), 1.0)
    scaled = torch.where(counted, scaled, 0.0)
    value = torch.where(whole, (reward * _powers(reward)).sum(dim=1), -torch.inf)
    best = value.topk(-(-len(value) // _SHARE)).indices
    return best, scaled[best]


def energy(log_p: Tensor, worth: Tensor) -> Tensor:
    """H of these runs, a differentiable float32 scalar.

    Args:
        log_p: log π(a_{t+k}|s_{t+k}), float32 [M, K].
        worth: r̂_{t+k}, float32 [M, K]; a run that is worth nothing at all is none.
    """
    products = log_p.cumsum(dim=1).clamp(_LOWEST, _HIGHEST).exp()
    runs = (worth > 0).any(dim=1).sum().clamp(min=1)
    return -(products * worth * _powers(worth)).sum() / runs


def rollout_runs(inputs: Tensor, action: Tensor, rollout: State, steps: int) -> State | None:
    """The best runs of a rollout of T steps of N environments.

    Args:
        inputs: prepared observations, [T N, ...].
        action: [T N, *action].
        rollout: ``reward`` float32, ``terminated``, ``truncated`` and ``valid`` bool, [T, N].
        steps: K.

    Returns:
        ``inputs`` [M, K, ...], ``action`` [M, K, *action] and ``worth`` float32 [M, K]; None if
        the rollout has fewer than K steps.
    """
    rows, num_envs = rollout["reward"].shape
    if rows < steps:
        return None
    starts = torch.arange((rows - steps + 1) * num_envs, device=inputs.device)
    index = starts.unsqueeze(1) + num_envs * torch.arange(steps, device=inputs.device)
    ended = (rollout["terminated"] | rollout["truncated"]).flatten()[index]
    whole = ~ended[:, :-1].any(dim=1) & rollout["valid"].flatten()[index].all(dim=1)
    best, worth = best_runs(rollout["reward"].flatten()[index], whole)
    return {"inputs": inputs[index[best]], "action": action[index[best]], "worth": worth}


def _powers(reward: Tensor) -> Tensor:
    return _DISCOUNT ** torch.arange(reward.shape[1], dtype=reward.dtype, device=reward.device)
