"""Agent classes for the tests of ``resolve_algorithms``: no torch, only a ``Config``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """The hyperparameters of an agent that does not exist."""

    learning_rate: float = 3e-4
    gamma: float = field(default=0.99, metadata={"near_one": True})
    batch_size: int = field(default=64, metadata={"structural": True})
    rows: int = 256
    activation: Literal["tanh", "relu"] = "tanh"
    normalise: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.gamma <= 1:
            raise ValueError(f"gamma must be in (0, 1], got {self.gamma}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate}")
        if self.rows % self.batch_size:
            raise ValueError(f"rows {self.rows} must be a multiple of batch_size {self.batch_size}")


class Good:
    """An agent as an author would write it."""

    Config = Settings


class NoConfig:
    """An agent whose author forgot the ``Config``."""


class Nested:
    """An agent with a hyperparameter that is no single value."""

    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        hidden: tuple[int, ...] = (64, 64)


class Required:
    """An agent with a hyperparameter that has no default."""

    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        learning_rate: float


class RaisesAsItLikes:
    """An agent whose author raises what comes to hand."""

    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        learning_rate: float = 1e-3

        def __post_init__(self) -> None:
            raise KeyError("a file")


class RaisesAtSome:
    """An agent that divides by a hyperparameter."""

    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        batches: int = 1

        def __post_init__(self) -> None:
            assert 1 // self.batches >= 0


class Untyped:
    """An agent whose hyperparameter has a type that is not there."""

    @dataclass(frozen=True)
    class Config:
        """Hyperparameters."""

        batches: Nothing = 1  # type: ignore[name-defined] # noqa: F821
