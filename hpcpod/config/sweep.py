"""The section ``sweep`` of a file: what the cells of a sweep differ in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hpcpod.config.limits import Count, Limited


@dataclass(frozen=True)
class SweepConfig(Limited):
    """A sweep: many runs of one configuration, with equal budgets, that differ in the fields named
    here. ``hpcpod launch`` starts all of them; see docs/sweep.md."""

    over: Mapping[str, object]
    """Fields by their paths, each with a list of its levels: ``{env.id: [CartPole-v1, Acrobot-v1],
    population.generator: [gentle_truncation, random_search]}``. A level stands in place of all that
    the file has at this path, so it may be a whole section. For ``design: random`` a field may have
    a range too: ``{log_uniform: [1.0e-4, 1.0e-2]}``. Not ``name``, ``seed``, ``on_finish``,
    ``cluster`` and ``resources``, which are those of all cells."""
    design: Literal["factorial", "random", "one_at_a_time"] = "factorial"
    """``factorial``: every combination of levels. ``random``: so many ``cells``; in them each level
    of a list comes equally often, and each equal part of a range once. ``one_at_a_time``: a
    baseline, and for every other level a cell that differs from it in that alone. A field of the
    baseline is as the file has it, else it has the first level of its list."""
    cells: Count | None = None
    """Combinations that ``design: random`` draws."""
    seeds: Count = 1
    """Runs of each combination, with seeds of their own. The intervals of a sweep's report are by
    their spread, so 1 is for a look."""
    slots: Count = 1
    """Slots that each run has, so that all have the same. ``cluster.slots`` are those of all runs
    that are at work at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.cells is None) != (self.design != "random"):
            raise ValueError(
                "design random needs cells, the number of combinations to draw"
                if self.cells is None
                else f"cells is for design random: {self.design} has a number of its own"
            )
        if not self.over:
            raise ValueError("over must name at least one field, such as env.id, with its levels")
