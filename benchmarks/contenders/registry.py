"""The registry of contenders: their rows, and the settings of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contenders.rows import Row

OURS = "hpcpod"
BATCHED = 1000
"""From so many environments on, a library's own batched ones are let in."""


@dataclass(frozen=True)
class Contender:
    """A library; its module, its requirements and its environment have its name."""

    name: str
    algorithms: tuple[str, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Rows that it can't take part in though it has the algorithm, and why."""
    plain: tuple[str, ...] = ("",)
    """Variants where settings are equal: a line of the table each, the first one compared."""
    matmul: tuple[str, ...] = ()
    """More of them for the rows of wide networks that learn from a replay."""
    best: tuple[str, ...] = ("", "medium", "2threads+medium")
    """Variants on several cores, of which the fastest counts."""
    batched: tuple[str, ...] = ("",)
    """Variants with a thousand environments."""

    def refuses(self, row: Row) -> str:
        """Why it can't take part in a row; empty if it can."""
        if row.algorithm not in self.algorithms:
            return f"has no {row.algorithm.upper()}"
        return self.excluded.get(row.name, "")

    def variants(self, row: Row) -> tuple[str, ...]:
        """What to run in a row."""
        if row.cores > 1:
            return self.best
        if row.num_envs >= BATCHED:
            return self.batched
        return self.plain + (self.matmul if row.algorithm in ("sac", "td3") else ())


_ALL = ("ppo", "sac", "td3", "dqn")
_APART = ("", "medium", "2threads+medium", "processes+medium")

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender(
            OURS,
            _ALL,
            matmul=("medium",),
            best=("medium", "pipeline+medium", "2threads+medium", "2threads+medium+calm"),
            batched=("2threads+calm", "2threads+medium+calm"),
        ),
        Contender("sb3", _ALL, best=(*_APART, "envpool+medium")),
        Contender("skrl", _ALL, best=_APART),
        Contender("tianshou", _ALL, best=(*_APART, "envpool+medium")),
        Contender(
            "cleanrl",
            _ALL,
            excluded={
                name: "its package pins a gymnasium without it"
                for name in ("sac-halfcheetah", "td3-halfcheetah", "ppo-ant", "ppo-halfcheetah")
            },
        ),
        Contender("torchrl", _ALL, best=("", "medium", "2threads+medium")),
        Contender("pufferlib", ("ppo",), batched=("native", "")),
        Contender(
            "elegantrl",
            _ALL,
            excluded={
                name: "its PPO fails on discrete actions in several environments"
                for name in ("ppo-cartpole", "ppo-cartpole-batched")
            },
        ),
        Contender("samplefactory", ("ppo",), best=_APART),
        Contender("rllib", ("ppo", "sac", "dqn"), best=("", "2threads+medium", "processes")),
    )
}
"""By name, hpcpod first."""
