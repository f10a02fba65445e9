"""One run, by its folder: looked at and steered from any machine. Loads no torch."""

from __future__ import annotations

import contextlib
import logging
import math
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpcpod.config.arguments import door, numbers
from hpcpod.config.resolved import Resolved
from hpcpod.config.space import Range
from hpcpod.errors import Interrupted, StorageError, UserError
from hpcpod.launchers.factory import launcher_here
from hpcpod.orchestrator.snapshot import RunState, Snapshot
from hpcpod.records.records import Board, Decision, PodState
from hpcpod.run import requests
from hpcpod.run.advice import Advice, advice
from hpcpod.run.advice_facts import facts_of
from hpcpod.run.explain import why
from hpcpod.run.extend import extend
from hpcpod.run.home import folder_of
from hpcpod.run.home import runs_here as runs_here
from hpcpod.run.home import runs_home as runs_home
from hpcpod.run.leaderboard import Row, ranking, rows
from hpcpod.run.pod_history import require_pod
from hpcpod.run.policy_folder import exported
from hpcpod.run.population_scores import PodScore, pod_scores
from hpcpod.run.progress_line import progress_text
from hpcpod.run.run_tables import RunTables
from hpcpod.run.snapshot import counted_here, see
from hpcpod.run.snapshot_scores import SnapshotScore, snapshot_scores
from hpcpod.run.status import Best, Doubts, Status, best_of, status_of
from hpcpod.run.tables import summary
from hpcpod.storage.disk import check_writable
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.delivery import BEST_FOLDER
from hpcpod.tournament.leaderboard import lineage
from hpcpod.tournament.merge import after_merge, export_best, read_board

log = logging.getLogger(__name__)

ENDED: tuple[RunState, ...] = ("finished", "paused", "interrupted")
"""States in which nothing more happens by itself."""

SCHEDULER_SECONDS = 60.0  # squeue's manual: not in loops; sites limit each user (Slurm 23.02)
"""Pause between two questions to the scheduler, by a process that waits for a run."""


class Run(RunTables):
    """One run, by its folder. Every call looks anew, from any machine that sees the folder."""

    def __init__(self, folder: RunFolder, progress: bool | None = None) -> None:
        self.folder = folder
        """The storage behind it."""
        self._progress = progress
        self._resolved  # noqa: B018 (raises what a damaged configuration does)

    @property
    def _resolved(self) -> Resolved:
        return self.folder.resolved

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def word(self) -> str:
        """The run as a word of a command line."""
        return shlex.quote(str(self.path))

    @property
    def name(self) -> str:
        """The run's name."""
        return self._resolved.config.name

    @property
    def local(self) -> bool:
        """Its slots are processes of one machine."""
        return self._resolved.config.cluster.launcher == "local"

    @property
    def searched(self) -> dict[str, tuple[str, ...]]:
        """The hyperparameters that have a range, by algorithm."""
        return {
            name: tuple(key for key, value in space.values.items() if isinstance(value, Range))
            for name, space in self._resolved.algorithms.items()
        }

    def board(self) -> Board:
        """The latest generation of the board, whole."""
        return read_board(self.folder)

    def status(self, board: Board | None = None, *, ask_scheduler: bool = False) -> Status:
        """The status of the run now.

        Args:
            board: a board that was read before, to look at; by default the latest.
            ask_scheduler: of a run on a cluster, what is in the queue, and why it waits.
        """
        return status_of(self.folder, see(self.folder, board, ask=ask_scheduler))

    def target(self) -> Snapshot:
        """The slots that the run should have at once, ``wanted`` of a snapshot without the rest, by
        the GPUs that this machine has now."""
        return counted_here(self.folder, self.board(), launcher_here(self.folder))

    @door(pod=str | None)
    def why(self, pod: str | None = None) -> list[str]:
        """Explain what a pod does now, or why the run has the slots that it has.

        Returns:
            Sentences, with what can be done about it.

        Raises:
            UserError: the run has no such pod.
        """
        return why(self.folder, pod)

    def advice(self) -> tuple[Advice, ...]:
        """Advice for the next run, by what the slots of this one have used so far."""
        return advice(facts_of(self.folder, self.board()))

    def leaderboard(self, board: Board | None = None) -> tuple[Row, ...]:
        """The rows, best first."""
        return rows(board or self.board())

    def scores(self, board: Board | None = None) -> tuple[PodScore, ...]:
        """The living pods side by side, by their last panels: shrunk means, IQM, P(best), slopes.

        It needs numpy, which nothing else here imports.
        """
        return pod_scores(board or self.board())

    @door(pod=str | None)
    def decisions(self, pod: str | None = None, board: Board | None = None) -> list[Decision]:
        """Every decision of the updater, the generator and the allocator so far, oldest first.

        ``table("decisions")`` is a table of them. It reads a small file for each merge.

        Args:
            pod: those alone that are about this pod, or name it.
            board: a board that was read before, to end at; by default the latest.

        Raises:
            UserError: the run has no such pod.
        """
        board = board or self.board()
        if pod is not None:
            require_pod(board, pod, self.name)
        every = {**self.folder.decisions.all(), **board.decisions}.values()
        return [each for each in every if pod is None or pod in (each.pod, *each.others)]

    def snapshots(self, board: Board | None = None) -> tuple[SnapshotScore, ...]:
        """The leader's policy at equal wall times (``snapshots.seconds``), oldest first, each with
        mean, deviation, environment steps and seconds; scored when the run has ended."""
        return snapshot_scores(self.folder, board or self.board())

    def ranking(self, board: Board | None = None) -> str:
        """The order of the leaderboard, and what its intervals allow for, in a sentence or two."""
        return ranking(board or self.board())

    def best(self, board: Board | None = None) -> Best | None:
        """The winner, or the leader so far; None before the first report."""
        return best_of(self.folder, board or self.board())

    @door(pod=str | None)
    def lineage(self, pod: str | None = None, board: Board | None = None) -> list[PodState]:
        """The ancestors of a pod, founder first; by default of the best one.

        Raises:
            UserError: the run has no such pod.
        """
        board = board or self.board()
        if pod is None:
            best = self.best(board)
            if best is None:
                return []
            pod = best.pod
        require_pod(board, pod, self.name)
        return lineage(board, pod)

    @door(timeout=float | None, poll=float, progress=bool | None)
    def wait(
        self, timeout: float | None = None, poll: float = 0.5, progress: bool | None = None
    ) -> Status:
        """Wait until the run has finished or is paused; return its status.

        Args:
            timeout: seconds; None waits as long as it takes.
            poll: seconds between two looks at the board.
            progress: show how far it is, on standard error. None: as in ``launch``, else in a
                terminal or a notebook.

        Raises:
            TimeoutError: it is still going on.
            Interrupted: no process goes on with it: the one that ran it here is gone.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with progress_text(self._progress if progress is None else progress) as show:
            for status in self.looks(poll):
                show(summary(status))
                if status.state == "finished":
                    with contextlib.suppress(StorageError):  # a looker may have no right to write
                        after_merge(self.folder, self.board())
                if status.state in ("finished", "paused"):
                    break
                if status.state == "interrupted":
                    said = f"no process runs {self.name}; `hpcpod resume {self.word}` goes on"
                    raise Interrupted(said)
                if end is not None and time.monotonic() > end:
                    raise TimeoutError(f"{self.name} is still {status.state} after {timeout:g} s")
        return self.status()

    def looks(self, seconds: float) -> Iterator[Status]:
        """Its status now, and again after each pause of ``seconds``, without an end.

        A run is interrupted once no process was seen for longer than old answers are believed.
        """
        asked, doubts = -math.inf, Doubts()
        while True:
            due = time.monotonic() - asked > SCHEDULER_SECONDS
            asked = time.monotonic() if due else asked
            # In between nothing is known of a cluster's jobs.
            yield doubts.settled(self.status(ask_scheduler=due), known=due or self.local)
            time.sleep(seconds)

    @door(drain=bool, now=bool)
    def stop(self, *, drain: bool = False, now: bool = False) -> Status:
        """End the run and keep the best policy of it.

        The slots at work leave their rounds, score the finalists on fresh seeds and end; ``wait``
        waits for that. A run on this machine that is paused or interrupted has them scored by
        processes that end with this one, as by ``resume``. Where there is no slot on a cluster,
        and if this is asked a second time, the run is finished at once, by the scores there are.

        Args:
            drain: let every slot finish the round it is in, then pause: ``hpcpod resume``
                goes on.
            now: finish at once, without scores on fresh seeds.
        """
        if drain:
            self.drain()
            return self.status()
        unable = requests.end(self.folder, score=not now)
        self._warn(unable, "its slots end by themselves within a minute")
        return self.status()

    def drain(self) -> bool:
        """Ask every slot to end after its round; False if that was asked before."""
        asked = requests.drain(self.folder)
        self._act()
        return asked

    def pause(self) -> Status:
        """Have every slot checkpoint and leave now, and what waits in the queue too.

        Raises:
            UserError: the run is finished, or another user's.
        """
        requests.pause(self.folder)
        self._act()
        return self.status()

    def undrain(self) -> bool:
        """Take the wish to pause back, if there was one; nothing is started."""
        return requests.undrain(self.folder)

    @door(detach=bool)
    def resume(self, *, detach: bool = False) -> list[str]:
        """Go on with a run that was paused, or whose slots are gone.

        Args:
            detach: on this machine, train in processes that go on when the calling one ends; by
                default they end with it.

        Returns:
            The ids of jobs that were submitted.

        Raises:
            UserError: it is finished, another process runs it, or the scheduler refuses.
        """
        return requests.resume(self.folder, detach=detach)

    @door(detach=bool)
    def extend(self, *, detach: bool = False, **stop: Any) -> list[str]:
        """Give a finished run larger limits and go on with it, as ``resume`` does.

        What was decided stays, and so does ``best.h5`` until the next end writes it anew; until
        then ``best`` is the leader so far.

        Args:
            detach: as of ``resume``.
            stop: limits by their names in ``stop``, such as ``env_steps=2_000_000``; None takes
                one away.

        Returns:
            The ids of jobs that were submitted.

        Raises:
            UserError: it has not finished, or failed, or is another user's; a limit is no larger,
                or the run would end again at once.
        """
        extend(self.folder, numbers(stop))
        return self.resume(detach=detach)

    @door(slots=int | None)
    def scale(self, slots: int | None) -> Status:
        """Have so many slots at once from now on; None: as many as the configuration says.

        Raises:
            UserError: the run is finished, another user's, or can't have as many.
        """
        requests.scale(self.folder, slots)
        self._act()
        return self.status()

    def tick(self) -> Status:
        """Observe, plan, act once, as the coordinator does.

        Slots of a local run belong to the process that launched it: there, only the reports
        are merged. The same is done of another user's run, with a warning that says so.

        Raises:
            LaunchError: the scheduler can't be asked from here.
            UserError: the run is another user's, and merging it would run code of theirs.
        """
        requests.tick(self.folder)
        return self.status()

    def _act(self) -> None:
        self._warn(requests.act(self.folder), "whoever coordinates the run does it")

    def _warn(self, why: str, then: str) -> None:
        if why:
            log.warning("%s: asked for, but not done from here, %s; %s", self.name, then, why)

    @door(to=str | None, folder=str | None, overwrite=bool, licence=str)
    def export(
        self, to: str | Path | None = None, *, folder: str | Path | None = None,
        overwrite: bool = False, licence: str = "unknown",
    ) -> Path:  # fmt: skip
        """Write the best policy so far to a file; by default ``best.h5`` in the run folder, and of
        a program's run the folder ``best`` there.

        Args:
            to: the file.
            folder: instead, one that plays without hpcpod: see ``policy_folder.export_folder``.
            overwrite: write it even where there is one; that of the run folder always is.
            licence: for the folder's card, by its name on Hugging Face.

        Raises:
            UserError: it can't be written, or is there, or acts in another way than the agent.
        """
        if folder is not None:
            return exported(self.folder, to, folder, overwrite=overwrite, licence=licence)
        board = self.board()
        if to is not None and self._resolved.config.program is not None:
            raise UserError(
                f"{self.name} trains a program: its checkpoints are folders, say folder="
            )
        if to is None:
            self.folder.owner.require_mine("writes its best.h5: say where the policy is to go")
        else:
            check_writable(Path(to), overwrite=overwrite)
        done = export_best(self.folder, board, None if to is None else Path(to).absolute())
        if done is None:
            if board.entries:
                raise UserError(f"{self.name} has no policy: all that led it are damaged or gone")
            raise UserError(f"{self.name} has no policy yet: no round was reported")
        best = "best.h5" if self._resolved.config.program is None else BEST_FOLDER
        return Path(to) if to is not None else self.path / best

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"


def only_run() -> Run | None:
    """The run under ``runs/``, if there is just one."""
    found = runs_here()
    return open_run(found[0]) if len(found) == 1 else None


@door(path=str)
def open_run(path: str | Path) -> Run:
    """A run, by the path of its folder or by its name under ``runs/``.

    Raises:
        RunNotFound: there is none.
    """
    return Run(folder_of(path))
