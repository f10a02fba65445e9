"""TensorBoard: event files of torch's SummaryWriter, in a folder for each pod."""

from __future__ import annotations

from collections.abc import Mapping

from torch.utils.tensorboard import SummaryWriter

from hpcpod.metrics.logger import Logged

FLUSH_SECONDS = 10


class TensorBoard:
    """A logger for ``tensorboard --logdir runs/NAME/mirrors/tensorboard``."""

    def __init__(self, logged: Logged) -> None:
        # purge_step: what was trained again after a preemption is not drawn twice.
        self._writer = SummaryWriter(
            str(logged.folder / logged.pod),
            purge_step=logged.first_step,
            flush_secs=FLUSH_SECONDS,
        )
        values = "\n".join(f"- {name}: {value}" for name, value in logged.hyperparameters.items())
        self._writer.add_text("hyperparameters", values, logged.first_step)

    def log(self, row: Mapping[str, float], step: int) -> None:
        """See ``Logger.log``."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, step, walltime=row.get("time"))

    def close(self) -> None:
        """See ``Logger.close``."""
        self._writer.close()
