"""Networks: their layers, their weights, their output."""

from __future__ import annotations

import copy
from typing import Literal

import pytest
import torch
from torch import nn

from hpcpod.agents.networks import RELU, TANH, Activation, Stacks, mlp, tanh, with_slopes
from hpcpod.agents.ppo import PPO, PPOConfig
from tests.agents.training import spec


@pytest.mark.parametrize("size", [100, 100_000])
def test_tanh_is_tanh_and_so_is_its_slope(size: int) -> None:
    x = torch.linspace(-20, 20, size, requires_grad=True)
    exact = x.detach().double().tanh()
    y = tanh(x)
    assert float((y.detach() - exact).abs().max()) < 3e-7
    assert float(y.detach().abs().max()) <= 1.0
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert float((x.grad - (1 - exact.square())).abs().max()) < 1e-6
    with torch.inference_mode():
        assert torch.equal(tanh(x), y)


@pytest.mark.parametrize(("activation", "module"), [("tanh", nn.Tanh), ("relu", nn.ReLU)])
def test_policy_and_critic_in_one_stack_are_their_layers_one_by_one(
    activation: Literal["tanh", "relu"], module: type[nn.Module]
) -> None:
    agent = PPO(spec(), PPOConfig(activation=activation, normalize_obs=False), seed=0)
    network = agent._network
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    expected = []
    for k, last in enumerate((network.policy, network.value)):
        h = x
        for weight, bias in zip(network.hidden.weights, network.hidden.biases, strict=True):
            h = module()(h @ weight[k] + bias[k])
        expected.append(last(h))
    outputs, values = network(x)
    assert torch.allclose(outputs, expected[0], atol=1e-6)
    assert torch.allclose(network.actor(x), expected[0], atol=1e-6)
    assert torch.allclose(values, expected[1].squeeze(-1), atol=1e-6)


def test_a_copy_of_a_network_computes_with_its_own_weights() -> None:
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    for network in (
        mlp([3, 8, 2], nn.ReLU, 1.0, torch.Generator().manual_seed(0)),
        Stacks(2, [3, 8, 8], TANH, torch.Generator().manual_seed(0)),
    ):
        other, before = copy.deepcopy(network), network(x).detach()
        assert torch.equal(other(x), before)
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        assert torch.equal(network(x), before)
        assert not other(x).any()
        moved = network.to(torch.float64)  # keeps its Parameters: what is remembered goes along
        assert torch.allclose(moved(x.double()), before, atol=1e-6)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ELU, nn.ReLU, nn.SiLU])
def test_any_activation_stands_between_the_layers(activation: type[nn.Module]) -> None:
    network = mlp([3, 8, 8, 2], activation, 1.0, torch.Generator().manual_seed(0))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    expected = x
    for layer in network:
        expected = layer(expected)
    assert torch.allclose(network(x), expected, atol=1e-6)


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("activation", [TANH, RELU])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_way_back_by_hand_is_autograds(
    layers: int, activation: Activation, inputs: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    network = Stacks(2, [3, *[8] * layers], activation, generator)
    with torch.no_grad():
        for bias in network.biases:
            bias.normal_(generator=generator)
    x = torch.randn(5, 3, generator=generator, requires_grad=inputs)
    slope = torch.randn(2, 5, 8, generator=generator)
    free = [*network.parameters(), *([x] if inputs else [])]
    expected = torch.autograd.grad(network(x), free, slope)
    with torch.no_grad():
        y, slopes_by = network.with_slopes(x)
        found = slopes_by(slope)
    assert torch.equal(y, network(x))
    by = {id(tensor): value for tensor, value in found}
    assert len(found) == len(by) == len(free)
    for tensor, gradient in zip(free, expected, strict=True):
        assert torch.allclose(by[id(tensor)], gradient, atol=1e-6)


@pytest.mark.parametrize("inputs", [False, True])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("sizes", [[3, 8, 2], [3, 8, 8, 2]])
def test_a_perceptrons_way_back_is_autograds(
    sizes: list[int], activation: type[nn.Module], inputs: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    network = mlp(sizes, activation, 1.0, generator)
    x = torch.randn(5, 3, generator=generator, requires_grad=inputs)
    slope = torch.randn(5, 2, generator=generator)
    free = [*network.parameters(), *([x] if inputs else [])]
    expected = torch.autograd.grad(network(x), free, slope)
    with torch.no_grad():
        y, slopes_by = with_slopes(network, x)
        found = slopes_by(slope)
    assert torch.equal(y, network(x))
    if activation is nn.Tanh:  # left to autograd
        ((same, given),) = found
        assert same is y and given is slope
        found = list(zip(free, torch.autograd.grad(same, free, given), strict=True))
    by = {id(tensor): value for tensor, value in found}
    assert len(found) == len(by) == len(free)
    for tensor, gradient in zip(free, expected, strict=True):
        assert torch.allclose(by[id(tensor)], gradient, atol=1e-6)
