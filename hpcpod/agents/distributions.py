"""Action distributions on a policy network's outputs: categorical, Gaussian, squashed Gaussian.

Small heads instead of ``torch.distributions``, whose checks and allocations cost more
than the networks of this size. All of them take the network's outputs [B, ``inputs``]; actions
are [B, *action]; log-probabilities and entropies are in nats, float32 [B].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpcpod.agents.networks import Slopes
from hpcpod.agents.noise import Noise
from hpcpod.envs.vec_env import Box, Discrete, MultiDiscrete, Space

SlopesBy = Callable[[Tensor, float], Slopes]
"""The map from a loss's derivatives by log-probabilities, float32 [B], and by each entropy, to
those by the outputs, which come first, and by free parameters.

``head.with_slopes(outputs, action)`` is ``evaluate`` with these in closed form as its third.
"""
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_LOG_2 = math.log(2.0)


# Agents that users wrote give ``sample`` a generator alone: noise comes behind it.
class Categorical(nn.Module):
    """One of n choices; the outputs are logits."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.inputs = n

    def sample(
        self, outputs: Tensor, generator: torch.Generator, noise: Noise | None = None
    ) -> Tensor:
        """Draw by the Gumbel-max trick, argmax of logits - log(E), E ~ Exp(1); never correlated."""
        drawn = torch.empty_like(outputs).exponential_(generator=generator)
        return (outputs - drawn.log_()).argmax(dim=-1)

    def mode(self, outputs: Tensor) -> Tensor:
        """The largest logit."""
        return outputs.argmax(dim=-1)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """Of all choices: float32 [B, n]."""
        return outputs.log_softmax(dim=-1)

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy -Σ p log p."""
        return self.with_slopes(outputs, action)[:2]

    def with_slopes(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, SlopesBy]:
        """∂log p_a/∂x_i = [i = a] - p_i and ∂H/∂x_i = -p_i (log p_i + H)."""
        log_p, index = outputs.log_softmax(dim=-1), action.unsqueeze(-1)
        p = log_p.exp()
        entropy = -(p * log_p).sum(dim=-1)

        def slopes(by_log_p: Tensor, by_entropy: float) -> Slopes:
            by_log_p = by_log_p.unsqueeze(-1)
            by_outputs = (p * -by_log_p).scatter_add_(-1, index, by_log_p)
            if by_entropy:
                by_outputs.addcmul_(p, log_p + entropy.unsqueeze(-1), value=-by_entropy)
            return [(outputs, by_outputs)]

        return log_p.gather(-1, index).squeeze(-1), entropy, slopes


class MultiCategorical(nn.Module):
    """Several independent choices; the outputs are their logits in a row."""

    def __init__(self, nvec: tuple[int, ...]) -> None:
        super().__init__()
        self.inputs = sum(nvec)
        self._sizes = list(nvec)
        self._choice = Categorical(max(nvec))

    def sample(
        self, outputs: Tensor, generator: torch.Generator, noise: Noise | None = None
    ) -> Tensor:
        """Draw each choice."""
        parts = outputs.split_with_sizes(self._sizes, dim=-1)
        return torch.stack([self._choice.sample(part, generator) for part in parts], dim=-1)

    def mode(self, outputs: Tensor) -> Tensor:
        """The largest logit of each choice."""
        parts = outputs.split_with_sizes(self._sizes, dim=-1)
        return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        """Those of each choice in a row: float32 [B, Σ n]."""
        parts = outputs.split_with_sizes(self._sizes, dim=-1)
        return torch.cat([part.log_softmax(dim=-1) for part in parts], dim=-1)

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over the choices."""
        return self.with_slopes(outputs, action)[:2]

    def with_slopes(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, SlopesBy]:
        """Those of each choice in its own outputs."""
        pairs = zip(outputs.split_with_sizes(self._sizes, dim=-1), action.unbind(-1), strict=True)
        log_p, entropy, each = zip(*[self._choice.with_slopes(o, a) for o, a in pairs], strict=True)

        def slopes(by_log_p: Tensor, by_entropy: float) -> Slopes:
            parts = [slope for of in each for _, slope in of(by_log_p, by_entropy)]
            return [(outputs, torch.cat(parts, dim=-1))]

        return torch.stack(log_p).sum(0), torch.stack(entropy).sum(0), slopes


class Gaussian(nn.Module):
    """Independent normals; the outputs are the means, the log-σ are free parameters."""

    def __init__(self, shape: tuple[int, ...], log_std: float) -> None:
        super().__init__()
        self.inputs = math.prod(shape)
        self._shape = shape
        self.log_std = nn.Parameter(torch.full((self.inputs,), log_std))

    def sample(
        self, outputs: Tensor, generator: torch.Generator, noise: Noise | None = None
    ) -> Tensor:
        """Draw μ + σ ε, not clipped; ε is white, or the next of a correlated ``noise``."""
        if noise is None:
            drawn = torch.empty_like(outputs).normal_(generator=generator)
        else:
            drawn = noise.draw(outputs)
        return (outputs + self.log_std.exp() * drawn).view(-1, *self._shape)

    def mode(self, outputs: Tensor) -> Tensor:
        """The means, clipped to [-1, 1]."""
        return outputs.clamp(-1.0, 1.0).view(-1, *self._shape)

    def evaluate(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Σ -z²/2 - log σ - log √2π with z = (a - μ)/σ, and Σ 1/2 + log √2π + log σ."""
        return self.with_slopes(outputs, action)[:2]

    def with_slopes(self, outputs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, SlopesBy]:
        """∂log p/∂μ = z/σ, ∂log p/∂log σ = z² - 1, ∂H/∂log σ = 1."""
        narrow = torch.exp(-self.log_std)
        z = (action.view(outputs.shape) - outputs) * narrow
        constant = self.log_std.sum() + self.inputs * _LOG_SQRT_2PI
        log_p = -0.5 * z.square().sum(dim=-1) - constant

        def slopes(by_log_p: Tensor, by_entropy: float) -> Slopes:
            by_z = z * by_log_p.unsqueeze(-1)
            by_log_std = (by_z * z).sum(dim=0) - by_log_p.sum() + by_entropy * len(z)
            return [(outputs, by_z * narrow), (self.log_std, by_log_std)]

        return log_p, (constant + 0.5 * self.inputs).expand(len(outputs)), slopes


class SquashedGaussian:
    """a = tanh(u), u ~ N(μ, σ); the outputs are the means, then the log-σ, cut to [-20, 2].

    After Haarnoja et al. 2018 (arXiv:1812.05905, appendix C); the cut is their code's.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.size = math.prod(shape)
        """Numbers in one action, A."""
        self.inputs = 2 * self.size
        self._shape = shape

    def at(self, outputs: Tensor, noise: Tensor) -> Tensor:
        """tanh(μ + σ ε), float32 [N, *action], of ε float32 [N, A], standard normal."""
        mean, log_std = self._parameters(outputs)
        return torch.tanh(mean + log_std.exp() * noise).view(-1, *self._shape)

    def mode(self, outputs: Tensor) -> Tensor:
        """tanh(μ)."""
        return torch.tanh(outputs[:, : self.size]).view(-1, *self._shape)

    def reparameterised(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The action of this noise and its own log-probability, both differentiable.

        log p(a) = Σ log N(u; μ, σ) - log(1 - tanh² u), whose last term is
        2 (log 2 - u - softplus(-2u)): exact where 1 - tanh² u is rounded to 0.

        Args:
            outputs: float32 [B, 2 A].
            noise: ε, standard normal, float32 [B, A].

        Returns:
            The action, float32 [B, A], and the log-probability, float32 [B].
        """
        mean, log_std = self._parameters(outputs)
        u = mean + log_std.exp() * noise
        return torch.tanh(u), self._log_p(u, noise, log_std)

    def log_prob(self, outputs: Tensor, action: Tensor) -> Tensor:
        """Log-probability of actions that were taken: float32 [B, A] in [-1, 1] to [B].

        At ±1 u is infinite: a is cut to 1e-6 within.
        """
        mean, log_std = self._parameters(outputs)
        u = torch.atanh(action.clamp(-1.0 + 1e-6, 1.0 - 1e-6))
        return self._log_p(u, (u - mean) * torch.exp(-log_std), log_std)

    @staticmethod
    def _log_p(u: Tensor, noise: Tensor, log_std: Tensor) -> Tensor:
        log_normal = -0.5 * noise.square() - log_std - _LOG_SQRT_2PI
        log_slope = 2.0 * (_LOG_2 - u - F.softplus(-2.0 * u))
        return (log_normal - log_slope).sum(dim=-1)

    def _parameters(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = outputs.chunk(2, dim=-1)
        return mean, log_std.clamp(-20.0, 2.0)


def head_for(space: Space, log_std: float) -> Categorical | MultiCategorical | Gaussian:
    """The head that acts in this space; ``log_std`` is where a Gaussian's begins."""
    if isinstance(space, Discrete):
        return Categorical(space.n)
    if isinstance(space, MultiDiscrete):
        return MultiCategorical(space.nvec)
    assert isinstance(space, Box)
    return Gaussian(space.shape, log_std)
