"""Continuous training from Python: what ``hpcpod ct`` does, as calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcpod.config.arguments import door
from hpcpod.run.continuous import cycle, rollback, training
from hpcpod.run.continuous.entries import Decision, Drift, Outcome, Version
from hpcpod.run.continuous.find import registry_of
from hpcpod.run.continuous.registry import CURRENT, POLICY, Registry, writable
from hpcpod.run.preflight import site_for
from hpcpod.run.run import runs_home


@dataclass(frozen=True)
class Deployment:
    """A policy that is retrained when there are news. Every call looks anew."""

    registry: Registry
    """Its files."""

    def advance(
        self, *, now: bool = False, fresh: bool = False, probe: bool = True,
        progress: bool | None = None,
    ) -> Outcome:  # fmt: skip
        """Do what is due: train, judge, and deploy the new policy if it is ahead; or go on with
        the cycle that was interrupted.

        Args:
            now: begin a cycle though ``ct.every`` or the data say that it is not due.
            fresh: start no pod from the deployed policy.
            probe: make the environment once before.
            progress: show on standard error how far it is. None: in a terminal or a notebook.

        Returns:
            The outcome: its ``kind``, such as ``promoted``, ``kept`` or ``not due``, and ``words``.

        Raises:
            UserError: the data or the configuration are broken; what is deployed stays.
            StorageError: the filesystem refuses; what is deployed stays.
        """
        return cycle.advance(self.registry, force=now, fresh=fresh, probe=probe, progress=progress)

    def abandon(self) -> Outcome:
        """End the cycle that is open without a new version."""
        return cycle.abandon(self.registry)

    def rollback(self, version: int | None = None) -> Decision:
        """Deploy an earlier version again; None: the one before.

        Raises:
            UserError: it was never deployed, or is deployed, or there is none.
        """
        return rollback.rolled_back(self.registry, version)

    def repeat(self, version: int, to: Path | None = None) -> training.Repeated:
        """Train a version again, and compare the weights to the bit; in ``to``, or ``repeats/``."""
        writable(self.registry)
        stream = cycle.stream_of(self.registry.config)
        return training.repeat(self.registry, version, to or self.registry.path / "repeats", stream)

    @property
    def current(self) -> int | None:
        """The number of the version that is deployed; None: none is."""
        return self.registry.current

    @property
    def policy(self) -> Path:
        """The file of what is deployed, for ``hpcpod.load_policy``; a link leads there."""
        return self.registry.path / CURRENT / POLICY

    def versions(self) -> list[Version]:
        """All versions with their verdicts, also those that were kept out."""
        return self.registry.versions()

    def history(self) -> list[Decision]:
        """The decisions, oldest first."""
        return self.registry.decisions()

    def drift(self) -> Drift | None:
        """The report on drift of the last cycle; None if it has none."""
        plans = self.registry.plans()
        return self.registry.drift(plans[-1].cycle) if plans else None


@door(run=str, runs=str | None, site=str | None)
def ct(
    run: str | Path,
    *,
    runs: str | Path | None = None,
    site: str | Path | None = None,
    overrides: Sequence[str] = (),
) -> Deployment:
    """Continuous training of a configuration; it trains nothing before ``advance``.

    Args:
        run: a YAML file with a section ``ct``, a finished run that has one, or the name or folder
            of what is there already.
        runs: the folder that holds runs; default ``$HPCPOD_RUNS``, else ``runs``.
        site: a site's file that is laid under it; default as of ``launch``.
        overrides: ``ct.level=0.01`` each, as ``--set`` has them, for the next cycles.

    Raises:
        UserError: there is nothing of that name, or it has no section ``ct``.
    """
    home = None if runs is None else runs_home(runs)
    return Deployment(registry_of(str(run), overrides, home, site_for(site, None)))
