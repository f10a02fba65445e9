"""An environment under trial: each call is reported to the process that waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import Tensor

from hpcpod.envs.suspect_values import Strange
from hpcpod.envs.vec_env import Step, VecEnv

OFTEN = 0.2
"""Seconds between two words on steps: no oftener than a person can read."""


class Watched:
    """A ``VecEnv`` that says what it is asked for, and what was seen of it."""

    def __init__(self, env: VecEnv, tell: Callable[[str], None], expected: int = 0) -> None:
        """Watch an environment, which its maker closes.

        Args:
            env: that is tried.
            tell: called with what is done.
            expected: steps that the contract is checked in; 0: it is stepped for another reason.
        """
        self.spec, self.state, self.restore = env.spec, env.state, env.restore
        self.close = env.close
        self._env = env
        self._tell, self._told = tell, time.monotonic()
        self._expected = expected
        self._steps = self._ends = 0
        self._last: Step | None = None
        self._looks = Strange(env.spec)
        self._strange: list[str] = []

    @property
    def ends(self) -> int:
        """Ends of episodes so far."""
        # Counted a step later: by then the check has seen that these are tensors of booleans.
        if self._last is not None:
            ended = (self._last.terminated | self._last.truncated) & self._last.valid
            self._ends += int(ended.sum())
            self._strange += self._looks.look(self._last)
            self._last = None
        return self._ends

    @property
    def strange(self) -> tuple[str, ...]:
        """Sentences on numbers seen so far that are hardly meant."""
        _ = self.ends
        return tuple(self._strange)

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """See ``VecEnv``, as for the others."""
        if not self._steps and not self._expected:
            self._tell("resetting it for the first time")
        return self._env.reset(seeds)

    def step(self, action: Tensor) -> Step:
        """Counts it."""
        self._ends = self.ends
        if not self._steps and not self._expected:
            self._tell("stepping it for the first time")
        step = self._env.step(action)
        self._last, self._steps = step, self._steps + 1
        first = self._steps == 1 and not self._expected
        if first or time.monotonic() - self._told >= OFTEN:
            self._told = time.monotonic()
            done = min(self._steps, self._expected)  # going back to a saved state takes more
            of = f"checking the contract: {done} of {self._expected} steps"
            self._tell(of if self._expected else "stepping it at random")
        return step
