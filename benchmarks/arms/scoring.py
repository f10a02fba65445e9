"""The score of a delivered policy: ``python -m arms.scoring FILE ENV EPISODES``.

It is played in gymnasium's own environments, by nothing but ``load_policy``, on seeds that no
optimiser has used, the same for every arm.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

SEED = 1_000_000_007
"""Of the first episode; the others follow."""
BATCH = 250
"""Episodes side by side, at most."""


def returns_of(policy: Callable[[Any], Any], env: str, episodes: int) -> list[float]:
    """The return of each episode, by a policy of batches of observations."""
    found: list[float] = []
    for first in range(0, episodes, BATCH):
        count = min(BATCH, episodes - first)
        batch: Any = gymnasium.make_vec(env, num_envs=count, vectorization_mode="sync")
        obs, _ = batch.reset(seed=[SEED + first + i for i in range(count)])
        total, running = np.zeros(count), np.ones(count, dtype=bool)
        while running.any():  # a step after an episode's end begins another: that does not count
            obs, reward, terminated, truncated, _ = batch.step(policy(obs))
            total += np.where(running, reward, 0.0)
            running &= ~(terminated | truncated)
        batch.close()
        found += total.tolist()
    return found


def main() -> None:
    import hpcpod  # not above: peers' processes score their own policies by this module

    file, env, episodes = sys.argv[1:]
    print(json.dumps(returns_of(hpcpod.load_policy(file), env, int(episodes))))


if __name__ == "__main__":
    main()
