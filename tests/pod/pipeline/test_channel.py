"""A channel between two processes: words through a pipe, tensors through shared memory."""

from __future__ import annotations

import math
import os
from multiprocessing import Pipe

import torch

from hpcpod.pod.pipeline.channel import Channel


def test_a_channel_carries_tensors_of_any_kind_and_size() -> None:
    here, there = Pipe()
    memory = [os.memfd_create(name) for name in ("to", "back")]
    one, other = Channel(here, *memory), Channel(there, *reversed(memory))
    generator = torch.Generator().manual_seed(0)
    for size in (3, 0, 1000, 20):  # it grows, and what was received stays
        sent = {
            "scalar": torch.tensor(math.pi, dtype=torch.float64),
            "many": torch.rand((size, 2, 3), generator=generator),
            "turned": torch.rand((3, size), generator=generator).t(),
            "flags": torch.rand(size, generator=generator) < 0.5,
            "bytes": torch.arange(size).to(torch.uint8),
        }
        one.send(("word", size), sent)
        word, received = other.receive()
        other.send("heard")
        assert one.receive() == ("heard", {})
        one.send("written over", {"many": torch.zeros(size, 2, 3)})
        other.receive()
        assert word == ("word", size) and received.keys() == sent.keys()
        for name, tensor in sent.items():
            assert torch.equal(received[name], tensor), name
            assert received[name].dtype == tensor.dtype
    for descriptor in memory:
        os.close(descriptor)
