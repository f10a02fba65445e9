"""Configurations side by side, over the seeds that trained them: of runs with
``allocator: replicates``.

A pod is one training. Another seed with the same hyperparameters may end far from it, so what a
configuration is worth is a mean over trainings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.records.records import Board
from hpcpod.run.tables import number, plain_table, setting, visible

if TYPE_CHECKING:
    from rich.table import Table


COLUMNS = (
    "first pod", "algorithm", "trainings", "mean", "sd", "estimate", "error", "hyperparameters",
)  # fmt: skip
"""Heads of a table of configurations."""


@dataclass(frozen=True)
class ConfigurationScore:
    """A set of hyperparameters, and what its trainings from scratch say of it."""

    pod: str
    """The pod that had it first."""
    algorithm: str
    """The name of its algorithm."""
    trainings: int
    """Pods that live and have trained it to the end, each with a seed of its own."""
    going: int
    """Pods that live and have begun to, and have rounds left."""
    mean: float
    """Mean score of the trainings that are done, each by its last panels; before one is, of the
    farthest. As the best of several it is too high."""
    sd: float | None
    """Standard deviation of these scores; None of fewer than two."""
    estimate: float
    """The mean return over all seeds that there could be: the mean, shrunk towards those of all
    configurations by its error. The table is ordered by it."""
    error: float | None
    """Standard deviation of the true mean about the estimate; None while no configuration has two
    trainings."""
    hyperparameters: Mapping[str, Scalar]
    """Its hyperparameters."""


def configuration_scores(board: Board, config: RunConfig) -> tuple[ConfigurationScore, ...]:
    """The configurations of the living pods, those that were trained to the end first, and of these
    the highest estimate; none where no pod repeats another's training."""
    if not any(pod.repeats for pod in board.pods.values()):
        return ()
    from hpcpod.tournament.allocation import prospects  # numpy
    from hpcpod.tournament.allocators.replicates import configurations

    found = configurations(prospects(board, config, time.time()))
    return tuple(
        ConfigurationScore(
            each.first, board.pods[each.living].algorithm, each.trained, len(each.going),
            each.mean, each.sd, each.estimate, each.error, board.pods[each.living].hyperparameters,
        )
        for each in sorted(found, key=lambda each: not each.trained)
    )  # fmt: skip


def configurations_table(scores: Sequence[ConfigurationScore]) -> Table:
    """The configurations that were trained to the end, the best estimate first, with those of their
    hyperparameters that differ, and a caption."""
    from rich.text import Text

    table = plain_table("configurations", configurations_caption(scores))
    table.add_column(COLUMNS[0], no_wrap=True)
    table.add_column(COLUMNS[1])
    for column in COLUMNS[2:-1]:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(COLUMNS[-1])
    for score in shown(scores):
        table.add_row(
            Text(visible(score.pod)),
            Text(visible(score.algorithm), no_wrap=True, overflow="ellipsis"),
            str(score.trainings), number(score.mean), number(score.sd), number(score.estimate),
            number(score.error), Text(visible(differing(score, scores))),
        )  # fmt: skip
    return table


def shown(scores: Sequence[ConfigurationScore]) -> Sequence[ConfigurationScore]:
    """The configurations of a table: those that were trained to the end, all if none was."""
    return [score for score in scores if score.trainings] or scores


def differing(score: ConfigurationScore, scores: Sequence[ConfigurationScore]) -> str:
    """A configuration's hyperparameters in which those of its algorithm differ; "-" if none is."""
    alike = [each.hyperparameters for each in scores if each.algorithm == score.algorithm]
    return ", ".join(
        f"{name} {setting(value)}"
        for name, value in score.hyperparameters.items()
        if any(each[name] != value for each in alike)
    ) or "-"  # fmt: skip


def configurations_caption(scores: Sequence[ConfigurationScore]) -> str:
    """The sentences below a table of configurations."""
    others = len(scores) - len(shown(scores))
    return (
        "Of each configuration's trainings from scratch that still have a place, by their last"
        " panels. 'estimate' is the mean over all seeds that there could be: the mean drawn towards"
        " all configurations' by its error."
        + (f" {others} more were not trained to the end." if others else "")
    )
