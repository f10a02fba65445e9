"""Gaussian processes for generators (Rasmussen and Williams 2006), in numpy.

Constants are chosen from a grid by their likelihood: with the few points of a population an
optimizer would find no better ones, and a grid is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kernel = Callable[[Array, Array], Array]
"""The covariance of points, (n, d) and (m, d), as (n, m); 1 of a point with itself."""


@dataclass(frozen=True)
class Process:
    """A process after its data: of mean 0 and variance 1 before."""

    kernel: Kernel
    noise: float
    """Variance of a value beside the process."""
    x: Array
    """(n, d)."""
    lower: Array
    """(n, n), Cholesky's factor of the covariance of the data."""
    weights: Array
    """(n,), its inverse times the values."""

    def mean(self, at: Array) -> Array:
        """The expected values at points (m, d), (m,)."""
        return np.asarray(self.kernel(at, self.x) @ self.weights)

    def deviation(self, at: Array) -> Array:
        """The standard deviations of the process at points (m, d), (m,)."""
        known = np.linalg.solve(self.lower, self.kernel(self.x, at))
        return np.asarray(np.sqrt(np.maximum(1e-12, 1.0 - (known**2).sum(axis=0))))


def process(x: Array, y: Array, kernel: Kernel, noise: float) -> tuple[Process, float]:
    """The process after values y (n,) at points x (n, d), and the log likelihood of these."""
    whole = kernel(x, x) + max(noise, 1e-6) * np.eye(len(x))
    lower = np.asarray(np.linalg.cholesky(whole), dtype=np.float64)
    white = np.linalg.solve(lower, y)
    weights = np.linalg.solve(lower.T, white)
    log = -0.5 * float(white @ white) - float(np.log(np.diag(lower)).sum())
    return Process(kernel, noise, x, lower, weights), log


def likeliest(x: Array, y: Array, kernels: Iterable[Kernel], noises: Iterable[float]) -> Process:
    """The process with the likeliest of these kernels and noises, the first among equals."""
    levels = tuple(noises)
    fits = [process(x, y, kernel, noise) for kernel in kernels for noise in levels]
    return max(fits, key=lambda fit: fit[1])[0]


def distances(x: Array, other: Array) -> Array:
    """Euclidean distances of points, (n, d) and (m, d), as (n, m)."""
    return np.asarray(np.sqrt(((x[:, None, :] - other[None, :, :]) ** 2).sum(axis=-1)))


def matern(length: float) -> Kernel:
    """Matérn's kernel with nu = 5/2."""

    def kernel(x: Array, other: Array) -> Array:
        far = np.sqrt(5.0) * distances(x, other) / length
        return np.asarray((1.0 + far + far**2 / 3.0) * np.exp(-far))

    return kernel


def standardized(values: Array) -> Array:
    """Values less their mean, in standard deviations (n - 1); all 0 where they are equal."""
    apart = values - values.mean()
    scale = values.std(ddof=1) if len(values) > 1 else 0.0
    return np.asarray(apart / scale) if scale > 0 else np.zeros_like(apart)
