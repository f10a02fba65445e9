"""Chunks that Slurm's jobs play: one array, whose elements take them from the folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from hpcpod.config.decoder import encode
from hpcpod.config.loader import from_mapping, from_words
from hpcpod.config.schema import RunConfig
from hpcpod.deploy.score_folder import ScoreFolder, Work
from hpcpod.errors import LaunchError, UserError
from hpcpod.launchers.local import tail
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.records.jobs import Intent
from hpcpod.run.evaluation.policies import Source
from hpcpod.run.run import SCHEDULER_SECONDS, Run, open_run
from hpcpod.storage.disk import explained

log = logging.getLogger(__name__)

ELEMENTS = 16
"""Elements of the array, if nobody says how many."""


class ScorerLauncher(SlurmLauncher):
    """Submits scorers as it does a run's slots: by the site's templates, options and container."""

    module = "hpcpod.deploy.scorer"


class SlurmPool:
    """An array of scorers. They are cancelled once all is scored, or a chunk is refused. Whatever
    else ends this process, they go on, and the same evaluation, asked for again, waits for them.
    """

    poll = 1.0

    def __init__(self, folder: ScoreFolder, work: Work, config: RunConfig) -> None:
        self._folder, self._work = folder, work
        self._launcher = ScorerLauncher(folder.path, config)
        self._asked: float | None = None
        self._known: set[str] = set()
        self._arrays: set[str] = set()

    def living(self) -> set[str] | None:
        """See ``Pool``; the scheduler is asked once a minute.

        Raises:
            LaunchError: it does not answer the first question.
        """
        now = time.monotonic()
        if self._asked is not None and now - self._asked < SCHEDULER_SECONDS:
            return None
        try:
            living = {job.slot for job in self._jobs()}
        except LaunchError as error:
            if self._asked is None:
                raise
            log.warning("%s; its jobs go on, and it is asked again in a minute", error)
            living = None
        self._asked = now
        self._known |= living or set()
        return living

    def start(self, count: int) -> None:
        """See ``Pool``."""
        job = self._launcher.submit(Intent(0, self._work.name, "slots", count=count))
        log.warning("submitted %d elements as job %s", count, job)
        self._arrays.add(job)
        self._asked = time.monotonic()

    def started(self, owner: str) -> bool:
        """See ``Pool``."""
        return owner in self._known or owner.partition("_")[0] in self._arrays

    def last_words(self, owner: str) -> str:
        """See ``Pool``."""
        folder = self._folder.path / "logs"
        with explained("read", folder):
            logs = sorted(folder.glob(f"slot-{owner or '*'}.log"))
            return f"left in {logs[-1]}:\n{tail(logs[-1])}" if logs else "left no log"

    def _jobs(self) -> list[Any]:
        view = self._launcher.observe(patience=self._launcher.longest)
        return [job for job in view.jobs if job.token == self._work.name]

    def __enter__(self) -> SlurmPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        refused = isinstance(error, UserError) and not isinstance(error, LaunchError)
        if error is not None and not refused:
            if self._arrays or self._known:
                log.warning("its jobs go on; the same command waits for them, and collects")
            return
        try:
            if jobs := {job.submission or job.job for job in self._jobs()}:
                self._launcher.cancel(sorted(jobs))  # they would find nothing to do
        except LaunchError as failed:
            log.warning("%s: its jobs are left in the queue, and end by themselves", failed)


def slurm_config(
    sources: Sequence[Source], cluster: Mapping[str, object], overrides: Sequence[str] = (),
    site: str | Path | None = None,
) -> RunConfig:  # fmt: skip
    """The configuration of the array: the ``cluster`` section of the first run that trained on
    Slurm and is one's own, and what is said over it.

    Args:
        sources: as ``candidates`` has them.
        cluster: fields of the section.
        overrides: ``cluster.partition=gpu`` each.
        site: a site's file.

    Raises:
        ConfigError: says every problem.
    """
    section: dict[str, Any] = {}
    for source in sources:
        if isinstance(source, Run) or not Path(source).is_file():
            run = source if isinstance(source, Run) else open_run(source)
            if not run.local and run.folder.owner.mine:
                section = encode(run.folder.resolved.config.cluster)
                break
    # The run has its site's fields already, and the file may be gone.
    section.pop("site", None)
    section |= {"launcher": "slurm", "slots": None, **cluster}
    data = {"name": "evaluate", "env": {"id": "evaluate"}, "cluster": section}
    config = from_words(data, overrides, source="hpcpod evaluate", site=site)
    # A scorer has one core and no GPU, whatever a site's pods have.
    return from_mapping(config, {"resources": None})
