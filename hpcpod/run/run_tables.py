"""The tables of a run, as methods of ``Run``; ``run/data.py`` has what is in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from hpcpod.config.arguments import door
from hpcpod.records.records import Board
from hpcpod.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from hpcpod.run.configuration_scores import ConfigurationScore
    from hpcpod.run.lineage_schedule import Schedule


class RunTables(ABC):
    """The tables of a run, for ``Run``."""

    folder: RunFolder

    @abstractmethod
    def board(self) -> Board:
        """The latest generation of the board, whole."""

    @door(name=str)
    def table(self, name: str, board: Board | None = None) -> Any:
        """A table of the run; ``hpcpod results RUN --columns`` tells the columns of each.

        Args:
            name: ``pods``, ``births``, ``rounds``, ``episodes``, ``leaderboard``, ``scores``,
                ``configurations``, ``decisions``, ``tests``, ``usage``, ``slots`` or ``snapshots``.
            board: a board that was read before, to look at; by default the latest.

        Returns:
            A pandas DataFrame; without pandas a list of a mapping for each row.

        Raises:
            UserError: there is no such table.
        """
        # Rows and their columns are 30 ms of imports, which verbs on a login node do without.
        from hpcpod.run.data import TABLES, Look, as_frame, columns_of

        found = columns_of(Look(self.folder, board or self.board()), name)
        return as_frame(TABLES[name].kind, found)

    def configurations(self, board: Board | None = None) -> tuple[ConfigurationScore, ...]:
        """Hyperparameters side by side, over the seeds that trained them, the best estimate first.

        None but with ``allocator: replicates``, which alone trains a pod's hyperparameters again.
        It needs numpy. ``table("configurations")`` is the frame.

        Args:
            board: a board that was read before, to look at; by default the latest.
        """
        from hpcpod.run.configuration_scores import configuration_scores

        return configuration_scores(board or self.board(), self.folder.resolved.config)

    @door(pod=str | None)
    def curves(self, pod: str | None = None) -> Any:
        """The numbers of all pods, or of one, while they train: a row for each look at one.

        Also of a run that goes on, and of a copied folder. ``docs/metrics.md`` has the columns.

        Args:
            pod: this one alone.

        Returns:
            A pandas DataFrame; without pandas a list of a mapping for each row.

        Raises:
            UserError: the run has no such pod.
        """
        from hpcpod.run.curves import frame_of
        from hpcpod.run.pod_history import require_pod

        if pod is not None:
            require_pod(self.board(), pod, self.folder.resolved.config.name)
        return frame_of(self.folder, pod)

    @door(pod=str | None)
    def schedule(self, pod: str | None = None, board: Board | None = None) -> Schedule:
        """The training behind a pod's best policy, from scratch: environment steps,
        hyperparameters and seeds, stretch by stretch; ``hpcpod replay`` trains it again.

        Args:
            pod: by default the winner, or the leader so far.
            board: a board that was read before, to look at; by default the latest.

        Raises:
            UserError: the run has no such pod, or no round of it was reported.
        """
        from hpcpod.run.lineage_schedule import schedule_of

        return schedule_of(self.folder, board or self.board(), pod)

    def pods(self, board: Board | None = None) -> Any:
        """The pods, alive and dead, with their hyperparameters: ``table("pods")``."""
        return self.table("pods", board)

    def births(self, board: Board | None = None) -> Any:
        """The births: when, from whom, and why: ``table("births")``."""
        return self.table("births", board)

    def rounds(self, board: Board | None = None) -> Any:
        """The reports, with means, intervals and metrics: ``table("rounds")``."""
        return self.table("rounds", board)

    def episodes(self, board: Board | None = None) -> Any:
        """The return of every episode: ``table("episodes")``."""
        return self.table("episodes", board)

    def usage(self, board: Board | None = None) -> Any:
        """The hours of all slots by purpose: ``table("usage")``."""
        return self.table("usage", board)

    def slots(self, board: Board | None = None) -> Any:
        """The slots, each with its time by purpose: ``table("slots")``."""
        return self.table("slots", board)
