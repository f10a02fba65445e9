"""Fit of a task and each agent, seen before a run is launched. No torch on this side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Tell = Callable[[str, str], None]
"""Called before each step with words that go behind "while", and the field that is to blame if it
never ends."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that one pod of an algorithm keeps on the disk, and how often it updates."""

    core: int
    """Weights, optimizer, counters: written anew at every checkpoint."""
    replay: int
    """The replay buffer when it is full: written once, in segments."""
    horizon: int
    """Rows that it collects between two updates."""


@dataclass(frozen=True)
class Look:
    """A task as it was seen once."""

    footprints: Mapping[str, Footprint]
    """The footprint of one pod of each algorithm."""
    max_episode_steps: int | None
    """The time limit of an episode in steps; None without one."""
    deterministic: bool
    """Two episodes of different seeds began alike, and went on alike under the same actions, as far
    as there was time to try."""
    saved_steps: float
    """Steps of an episode after which the next round can still go on in it: 0 where nothing can be
    saved, infinity where the state of the environment can."""
    endless: int = 0
    """Random steps in which no episode has ended, of an environment without a time limit; 0 of any
    other."""
    strange: tuple[str, ...] = ()
    """Numbers that the environment gave and that are hardly meant, a sentence each."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Its spec as plain data, see ``envs.spec_json``."""
    most_episodes: int | None = None
    """Episodes that its evaluator can score on data of their own; None: any number."""
