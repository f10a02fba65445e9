"""The registry: policies by version, the ledger of decisions about them, and what is deployed.

::

    runs/<name>.ct/
      ct.json                  the configuration of the next cycle
      cycles/<n>/plan.json     a cycle: its configuration, data and parent; then, as it goes on,
                               verdict.json, drift.json
      runs/<name>-c<n>/        the run that it trains
      versions/v<n>/           what came of it: policy.h5, entry.json, reference.json, card.json,
                               README.md
      decisions/<k>.json       the ledger: promoted, kept, rolled back
      current -> versions/v<n> what is deployed, for those who use it
      lock  logs/  scripts/

Every file is published once and never changed, but for ``ct.json``. The ledger decides what is
deployed: a decision is published under the next free number, so that of two at once one counts.
The link only follows it: whoever looks at the registry mends it.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hpcpod import plugins
from hpcpod.config.loader import from_mapping, to_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.errors import Corrupt, RunNotFound, StorageError, UserError
from hpcpod.records.codec import encode
from hpcpod.run.continuous.entries import Decision, Drift, Kind, Plan, Version, named
from hpcpod.run.home import runs_home
from hpcpod.storage.checksummed import pack, unpack, unpack_record
from hpcpod.storage.disk import TEMPORARY, Disk, explained, probe, unique
from hpcpod.storage.os_errors import may_exist
from hpcpod.storage.ownership import Ownership, read_config

log = logging.getLogger(__name__)

DOCUMENT = "ct.json"
CURRENT = "current"
POLICY = "policy.h5"
FORMAT = 1
"""The layout of a registry; one of another layout is refused."""

LEFTOVER_SECONDS = 3600.0

_T = TypeVar("_T")


@dataclass
class Registry:
    """A registry, by its folder. Every call looks anew."""

    path: Path
    document: Mapping[str, Any]
    owner: Ownership
    disk: Disk = field(default_factory=Disk)

    def __post_init__(self) -> None:
        self.disk.scheme = self.document["publish"]

    @property
    def name(self) -> str:
        """The name of its configuration."""
        return self.config.name

    @property
    def config(self) -> RunConfig:
        """The configuration of the next cycle."""
        if self.owner.trusted:
            plugins.look_in(self.document["modules"])
        return from_mapping(self.document["config"], source=str(self.path / DOCUMENT))

    @property
    def cwd(self) -> Path:
        """The folder in which relative paths of the configuration begin."""
        return Path(self.document.get("cwd") or self.path.parent.parent)

    def configure(self, config: RunConfig, cwd: Path | None = None) -> None:
        """Take another configuration for the next cycle, given in a folder; None: as before."""
        self.owner.require_mine()
        document = self.document
        self.document = _document(
            config, document["publish"], document["made_from"], cwd or self.cwd
        )
        self.disk.replace(self.path / DOCUMENT, pack(self.document, indent=1))

    def plan(self, cycle: int) -> Plan | None:
        """The plan of a cycle; None if there is none yet."""
        return self._record(Plan, self.cycle(cycle) / "plan.json")

    def plans(self) -> list[Plan]:
        """All plans, in their order."""
        return self._series(Plan, lambda n: self.cycle(n) / "plan.json")

    def publish_plan(self, plan: Plan) -> Plan:
        """Publish a plan, unless there is one of its number; the one that counts."""
        return self.settle(self.cycle(plan.cycle) / "plan.json", plan)

    def settle(self, path: Path, record: _T) -> _T:
        """Publish a record once and for all; the one that counts, which another may have
        published."""
        self.disk.publish(path, pack(encode(record), indent=1))
        found = self._record(type(record), path)
        if found is None:
            raise StorageError(f"{path} is gone, though it was just written")
        return found

    def found(self, kind: type[_T], path: Path) -> _T | None:
        """A record; None if it was not published yet."""
        return self._record(kind, path)

    def drift(self, cycle: int) -> Drift | None:
        """The report on drift of a cycle; None if it has none."""
        return self._record(Drift, self.cycle(cycle) / "drift.json")

    def decisions(self) -> list[Decision]:
        """The ledger, oldest first."""
        return self._series(Decision, self._decision)

    @property
    def current(self) -> int | None:
        """The version that is deployed, by the ledger; None: none is."""
        ledger = self.decisions()
        return ledger[-1].current if ledger else None

    def decide(
        self, kind: Kind, version: int | None, current: int | None, why: str,
        cycle: int | None = None, number: int | None = None, *, unused: bool = False,
    ) -> bool:  # fmt: skip
        """Write a line into the ledger, and have the link follow it.

        Args:
            kind: of the decision.
            version: that it is about.
            current: that is deployed from then on; if it was not before, its files are verified.
            why: in words.
            cycle: that it ends.
            number: of the line: one more than those that were read; None: those there are now.
            unused: see ``Decision``.

        Returns:
            False if another process has written a line meanwhile: look again.

        Raises:
            StorageError: the filesystem refuses, or the version is damaged; nothing is changed.
        """
        if current not in (None, self.current):  # a cycle ends though what is deployed is damaged
            self.verify(current)
        number = len(self.decisions()) + 1 if number is None else number
        line = Decision(number, kind, version, current, why, time.time(), unique(), cycle, unused)
        done = self.disk.publish(self._decision(number), pack(encode(line), indent=1))
        self.try_to_follow()
        return done

    def try_to_follow(self) -> None:
        """``follow``, where the ledger counts already, and each later call comes here again."""
        try:
            self.follow()
        except StorageError as error:
            log.error("%s does not follow the ledger yet: %s", self.path / CURRENT, error)

    def follow(self) -> None:
        """Have ``current`` point to what the ledger says."""
        link = self.path / CURRENT
        while True:
            wanted = self.current
            target = None if wanted is None else f"versions/{named(wanted)}"
            there = link.readlink() if link.is_symlink() else None
            if target is None or str(there) == target:
                return
            aside = self.path / (TEMPORARY + unique())
            with explained("change", link):
                try:
                    aside.symlink_to(target)
                    self.disk.rename(aside, link)
                    self.disk.sync(self.path)
                finally:
                    with contextlib.suppress(OSError):
                        aside.unlink()
            # Once more: who was first in the ledger may be last here.

    def tidy(self) -> None:
        """Remove what processes that were killed have left, once it is an hour old."""
        for folder in (self.path, self.path / "versions"):
            for path in folder.glob(TEMPORARY + "*"):
                with contextlib.suppress(OSError, StorageError):
                    if path.lstat().st_mtime < time.time() - LEFTOVER_SECONDS:
                        self.disk.discard(path)

    def version(self, number: int) -> Version | None:
        """A version; None if there is none."""
        return self._record(Version, self.folder(number) / "entry.json")

    def versions(self) -> list[Version]:
        """All versions, in their order; a cycle that failed has none."""
        found = (self.version(plan.cycle) for plan in self.plans())
        return [each for each in found if each is not None]

    def add(self, version: Version, files: Mapping[str, bytes]) -> Version:
        """Add a version with its files: complete, or not at all; the one that counts.

        Raises:
            StorageError: the filesystem refuses; nothing is visible under its name.
        """
        place = self.folder(version.number)
        aside = place.parent / (TEMPORARY + unique())
        whole = {**files, "entry.json": pack(encode(version), indent=1)}
        with explained("write", place):
            try:
                place.parent.mkdir(exist_ok=True)
                self.disk.mkdir(aside)
                for name, data in whole.items():
                    self.disk.write_new(aside / name, data)
                self.disk.sync(aside)
                try:
                    self.disk.rename(aside, place)
                except OSError:
                    if not place.exists():  # else another process was first
                        raise
                self.disk.sync(place.parent)
            finally:
                if aside.exists():
                    with contextlib.suppress(OSError, StorageError):
                        self.disk.discard(aside)
        found = self.version(version.number)
        if found is None:
            raise StorageError(f"{place} is gone, though it was just written")
        return found

    def verify(self, number: int) -> Version:
        """See that a version's policy is what was registered.

        Raises:
            UserError: there is no such version.
            Corrupt: its policy is damaged or gone.
        """
        version = self.version(number)
        if version is None:
            raise UserError(f"{self.name} has no version {named(number)}")
        data = self.disk.read(self.policy(number), None)
        if data is None or hashlib.sha256(data).hexdigest() != version.policy:
            raise Corrupt(f"{self.policy(number)} is not what was registered: it is damaged")
        return version

    def policy(self, number: int) -> Path:
        """The file of a version's policy."""
        return self.folder(number) / POLICY

    def folder(self, number: int) -> Path:
        """The folder of a version."""
        return self.path / "versions" / named(number)

    def cycle(self, number: int) -> Path:
        """The folder of a cycle."""
        return self.path / "cycles" / f"{number:04}"

    @property
    def runs(self) -> Path:
        """The folder of the runs that cycles train."""
        return self.path / "runs"

    def _decision(self, number: int) -> Path:
        return self.path / "decisions" / f"{number:06}.json"

    def _record(self, kind: type[_T], path: Path) -> _T | None:
        data = self.disk.read(path)
        return None if data is None else unpack_record(kind, data, path)

    def _series(self, kind: type[_T], path: Any) -> list[_T]:
        found: list[_T] = []
        while (record := self._record(kind, path(len(found) + 1))) is not None:
            found.append(record)
        return found


def home_of(name: str, home: Path | None = None) -> Path:
    """The folder of the registry of a configuration of this name."""
    return (home or runs_home()) / f"{name}.ct"


def create(config: RunConfig, made_from: str, home: Path | None = None) -> Registry:
    """Make the registry of a configuration; the one that is there, if there is one.

    Args:
        config: of the cycles; ``ct`` is not None.
        made_from: the configuration's file, or the run.
        home: folder that holds runs.

    Raises:
        UserError: the folder can't be made, or is another user's; or there is a registry of that
            name, of another task and another file.
    """
    path = home_of(config.name, home).absolute()
    if not may_exist(path / DOCUMENT):
        disk = Disk()
        try:
            for folder in (path, *(path / name for name in ("cycles", "decisions", "runs"))):
                disk.make_folder(folder)
            disk.close(path)
            disk.scheme = probe(disk, path / "cycles")
            _try_a_link(path)
            document = _document(config, disk.scheme, made_from, Path.cwd())
            disk.publish(path / DOCUMENT, pack(document, indent=1))
        except StorageError as error:
            raise UserError(f"{config.name} can't have a registry: {error}") from error
    found = open_registry(path)
    if found.document["made_from"] != made_from and found.config.env != config.env:
        raise UserError(
            f"{path} is the registry of {found.document['made_from']}, whose env is another: give"
            f" {made_from} another name than {config.name}"
        )
    return found


def _try_a_link(folder: Path) -> None:
    """See that what is deployed can be linked to in a folder.

    Raises:
        StorageError: its filesystem has no symbolic links.
    """
    link = folder / (TEMPORARY + unique())
    with explained("make a symbolic link in", folder):
        link.symlink_to("versions")
        link.unlink()


def _document(config: RunConfig, scheme: str, made_from: str, cwd: Path) -> dict[str, Any]:
    return {
        "format": FORMAT, "publish": scheme, "config": to_mapping(config),
        "modules": plugins.module_folders(), "made_from": made_from, "cwd": str(cwd),
    }  # fmt: skip


def open_registry(word: str | Path) -> Registry:
    """A registry, by its folder or by the name of its configuration.

    Raises:
        RunNotFound: there is none.
        Corrupt: it is damaged, or of another version.
    """
    for path in (Path(word), home_of(str(word))):
        if may_exist(path / DOCUMENT):
            data, owner = read_config(path.absolute(), DOCUMENT)
            document = unpack(data, str(path / DOCUMENT))
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise Corrupt(f"{path / DOCUMENT} was written by another version of hpcpod")
            return Registry(path.absolute(), document, owner)
    raise RunNotFound(
        f"there is no registry at {word}, and none named so in {runs_home().absolute()}: `hpcpod ct"
        " CONFIG` makes one"
    )


def registries_here() -> list[Path]:
    """The folders of all registries under ``runs_home()``, by name."""
    return sorted(path.parent for path in runs_home().glob(f"[!.]*.ct/{DOCUMENT}"))


def digest_of(plain: Mapping[str, object]) -> str:
    """SHA-256 of a configuration as plain data."""
    return hashlib.sha256(pack(plain)).hexdigest()


def writable(registry: Registry) -> None:
    """See that this process may change a registry.

    Raises:
        UserError: it is another user's, or can't be written.
    """
    registry.owner.require_mine("trains, deploys and rolls back")
    if not os.access(registry.path, os.W_OK):
        raise UserError(f"{registry.path} can't be written: look at its mode, and at its disk's")
