"""What networks are made of."""

from __future__ import annotations

import pytest
import torch

from hpcpod.agents.networks import Tanh


@pytest.mark.parametrize("size", [100, 100_000])
def test_tanh_is_tanh_and_so_is_its_slope(size: int) -> None:
    x = torch.linspace(-20, 20, size, requires_grad=True)
    exact = x.detach().double().tanh()
    y = Tanh()(x)
    assert float((y.detach() - exact).abs().max()) < 3e-7
    assert float(y.detach().abs().max()) <= 1.0
    y.sum().backward()
    assert x.grad is not None
    assert float((x.grad - (1 - exact.square())).abs().max()) < 1e-6
    with torch.inference_mode():
        assert torch.equal(Tanh()(x), y)
