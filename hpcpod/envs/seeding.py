"""Random numbers that are functions of a seed, equal in Python and in a batch on any device.

A counter-based generator: the j-th number of a seed is a hash of (seed, j), so a whole batch of
episodes is drawn at once, without a loop and without waiting for the device. It is not the
stream of gymnasium or of NumPy.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_EPISODE = 0x9E3779B9  # 2^32 / golden ratio, as in SplitMix (Steele, Lea & Flood, 2014)
_DRAW = 0x7F4A7C15  # another odd number: a draw must not be the next episode's seed

T = TypeVar("T", int, Tensor)


def mix(x: T) -> T:
    """Each of the 32-bit words, scrambled one to one: every bit depends on all bits.

    Two rounds of xorshift and multiply with the constants that C. Wellons' search found to be
    the least biased (hash-prospector: 16 21f0aaad 15 735a2d97 15, public domain).

    Args:
        x: in [0, 2**32), an int or int64 of any shape. Both multipliers are below 2**31, so no
            product overflows: a compiler may assume that signed numbers don't.
    """
    # Pinned by tests, as are the two functions below: old runs must stay reproducible.
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & _WORD
    x = ((x ^ (x >> 15)) * 0x735A2D97) & _WORD
    return x ^ (x >> 15)


def successor(seed: T, k: T) -> T:
    """The k-th seed that follows from a seed, in [0, 2**31).

    Args:
        seed: its lower 32 bits count.
        k: in [1, 2**31); tensors are int64, broadcast against ``seed``.
    """
    return mix((k * _EPISODE + seed) & _WORD) >> 1


def uniforms(seeds: Tensor, count: int, skip: int = 0) -> Tensor:
    """``count`` numbers of each seed, uniform on {0, 1, ..., 2^24 - 1} / 2^24.

    Args:
        seeds: int64 [N], of which the lower 32 bits count.
        count: numbers per seed; the first ones don't depend on it.
        skip: numbers of each seed that were drawn before.

    Returns:
        float32 [count, N].
    """
    j = torch.arange(skip + 1, skip + count + 1, device=seeds.device).unsqueeze(1)
    return (mix((j * _DRAW + seeds) & _WORD) >> 8) * 2.0**-24
