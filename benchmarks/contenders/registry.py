"""Who takes part, in which rows, and with which settings of its own."""

from __future__ import annotations

from dataclasses import dataclass

from contenders.rows import Row

OURS = "hpcpod"


@dataclass(frozen=True)
class Contender:
    """A library; its module, its requirements and its environment have its name."""

    name: str
    algorithms: tuple[str, ...]
    envs: tuple[str, ...] = ()
    """The only environments it has, if not gymnasium's newest; none: all."""
    plain: tuple[str, ...] = ("",)
    """Variants where settings are equal: a line of the table each, the first one compared."""
    matmul: tuple[str, ...] = ()
    """More of them for the rows of wide networks that learn from a replay."""
    best: tuple[str, ...] = ("", "medium", "2threads+medium")
    """Variants on several cores, of which the fastest counts."""

    def refuses(self, row: Row) -> str:
        """Why it can't take part in a row; empty if it can."""
        if row.algorithm not in self.algorithms:
            return f"has no {row.algorithm.upper()}"
        if self.envs and row.env not in self.envs:
            return f"its gymnasium has no {row.env}"
        return ""

    def variants(self, row: Row) -> tuple[str, ...]:
        """What to run in a row."""
        if row.cores > 1:
            return self.best
        return self.plain + (self.matmul if row.algorithm in ("sac", "td3") else ())


_ALL = ("ppo", "sac", "td3", "dqn")

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender(OURS, _ALL, matmul=("medium",), best=("", "medium", "2threads+medium")),
        Contender("sb3", _ALL, best=("", "medium", "2threads+medium", "processes+medium")),
        Contender("cleanrl", _ALL, envs=("CartPole-v1", "Pendulum-v1")),
        Contender("tianshou", _ALL, best=("", "medium", "2threads+medium", "processes+medium")),
        Contender("torchrl", _ALL),
        Contender("skrl", _ALL, best=("", "medium", "2threads+medium", "processes+medium")),
    )
}
"""By name, hpcpod first."""
