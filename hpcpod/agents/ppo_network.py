"""The networks of PPO and A2C."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hpcpod.agents import networks
from hpcpod.agents.distributions import head_for
from hpcpod.agents.observations import Observations
from hpcpod.agents.ppo_config import PPOConfig
from hpcpod.envs.vec_env import EnvSpec


class PolicyAndValue(nn.Module):
    """A policy and a value network of the same shape; they share an encoder of images alone.

    Their hidden layers are one stack of two: a layer of both is one product.
    """

    def __init__(
        self,
        spec: EnvSpec,
        config: PPOConfig,
        observations: Observations,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        inputs, hidden = observations.width, [config.hidden] * config.layers
        self.head = head_for(spec.action, config.log_std_init)
        self.encoder = observations.encoder(generator)
        activation = {"tanh": networks.TANH, "relu": networks.RELU}[config.activation]
        self.hidden = networks.Stacks(2, [inputs, *hidden], activation, generator)
        self.policy = networks.linear(config.hidden, self.head.inputs, 0.01, generator)
        self.value = networks.linear(config.hidden, 1, 1.0, generator)

    def actor(self, features: Tensor) -> Tensor:
        """The head's outputs, float32 [B, outputs]."""
        outputs: Tensor = self.policy(self.hidden.first(features))
        return outputs.float()

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """The head's outputs and the values, float32 [B, outputs] and [B]."""
        for_policy, for_value = self.hidden(features).unbind()
        values: Tensor = self.value(for_value).squeeze(-1)
        return self.policy(for_policy).float(), values.float()

    def with_slopes(
        self, features: Tensor
    ) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], networks.Slopes]]:
        """``forward`` without a graph, and from a loss's derivatives by outputs and values to those
        by weights, and by ``features`` if they require a gradient; see ``Stacks.with_slopes``.
        """
        hidden, slopes_below = self.hidden.with_slopes(features)
        last = self.policy, self.value
        policy, value = (layer(h).float() for layer, h in zip(last, hidden, strict=True))

        def slopes(by_outputs: Tensor, by_values: Tensor) -> networks.Slopes:
            found, below = [], []
            for layer, h, slope in zip(last, hidden, (by_outputs, by_values[:, None]), strict=True):
                found += [(layer.weight, slope.mT @ h), (layer.bias, slope.sum(dim=0))]
                below.append(slope @ layer.weight)
            return found + slopes_below(torch.stack(below))

        return policy, value.squeeze(-1), slopes
