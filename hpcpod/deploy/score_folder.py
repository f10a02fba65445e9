"""A folder of scores: the episodes that are to be played, who plays them, and their returns.

It belongs to whoever evaluates, so that no run is written into. A score is called by a digest of
policy, environment and seeds, so that nothing is played twice. No torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hpcpod.config.loader import from_plain
from hpcpod.config.schema import EnvConfig
from hpcpod.errors import Corrupt, StorageError, UserError
from hpcpod.records.codec import decode, encode
from hpcpod.storage.disk import Disk, explain, explained
from hpcpod.storage.ownership import require_own

ROWS = 16
"""Episodes that are played in one batch. It depends neither on the cores nor on the jobs, for the
last bit of a network's output depends on the size of its batch."""


@dataclass(frozen=True)
class Chunk:
    """Episodes of one policy in one environment, played side by side."""

    policy: str
    """SHA-256 of the policy's file."""
    env: EnvConfig
    """The environment as it is asked for; gymnasium's own plays it where that is the same task."""
    seeds: tuple[int, ...]
    """Of the episodes."""

    @cached_property
    def name(self) -> str:
        """A digest of policy, environment and seeds. The simulator's version stands beside the
        returns; code of a user's own, which may change, is in neither."""
        return _digest(encode(self))


@dataclass(frozen=True)
class Score:
    """The outcome of a chunk."""

    returns: tuple[float, ...]
    """Undiscounted returns, in the order of the seeds."""
    engine: str
    """The simulators, with versions."""
    seeded: bool
    """True if the seeds decide the episodes."""
    blocks: tuple[int, ...] = ()
    """Of each episode the stretch of data that it was played on; empty: each has its own."""


@dataclass(frozen=True)
class Work:
    """The chunks of one evaluation."""

    chunks: tuple[Chunk, ...]
    modules: tuple[str, ...] = ()
    """Folders in which the environments' and the agents' modules are looked for."""

    @cached_property
    def name(self) -> str:
        """A digest of the chunks: the same evaluation has the same."""
        return _digest([chunk.name for chunk in self.chunks])[:16]


class ScoreFolder:
    """The files of evaluations, for any number of processes on any number of hosts."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """``durable``: what is written survives a crash of the machine."""
        self.path = path.absolute()
        self._disk, self._durable = Disk(), durable

    def create(self) -> None:
        """Make it, for its owner alone: scorers run the code that its files name.

        Raises:
            UserError: it can't be made, or it is there and others can have written into it.
        """
        for name in ("", "policies", "scores", "work", "claims", "logs"):
            try:
                (self.path / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"can't make the folder {self.path}: {explain(error)}") from error
            require_own(self.path / name)

    def add_policy(self, data: bytes) -> str:
        """Keep a copy of a policy's file; the checksum that names it."""
        name = hashlib.sha256(data).hexdigest()
        if self._disk.read(self.policy(name), None) != data:
            self._disk.replace(self.policy(name), data, durable=self._durable)
        return name

    def policy(self, name: str) -> Path:
        """The place of a policy's file."""
        return self.path / "policies" / f"{name}.h5"

    def add_work(self, work: Work) -> None:
        """Write down what is to be done, with nobody's claims on it."""
        data = {
            "chunks": [encode(chunk) for chunk in work.chunks], "modules": list(work.modules)
        }  # fmt: skip
        self._disk.replace(self._work(work.name), json.dumps(data).encode(), durable=self._durable)
        claims = self.path / "claims" / work.name
        with explained("make", claims):
            claims.mkdir(exist_ok=True)
        for path in self._refused(work):
            _remove(path)  # it is tried again

    def work(self, name: str) -> Work:
        """The work of this name.

        Raises:
            StorageError: there is no such work, or it can't be read.
        """
        data = self._disk.read(self._work(name), None)
        if data is None:
            raise StorageError(f"there is no work {name} in {self.path}")
        plain = json.loads(data)
        chunks = [
            Chunk(
                chunk["policy"], from_plain(EnvConfig, chunk["env"], "the work"),
                tuple(chunk["seeds"]),
            )
            for chunk in plain["chunks"]
        ]  # fmt: skip
        return Work(tuple(chunks), tuple(plain["modules"]))

    def scored(self) -> set[str]:
        """The names of all chunks that have a score.

        Raises:
            StorageError: the filesystem refuses.
        """
        scores = self.path / "scores"
        with explained("list", scores), os.scandir(scores) as found:
            return {entry.name[:-5] for entry in found if entry.name.endswith(".json")}

    def score(self, chunk: Chunk) -> Score | None:
        """The score of a chunk; None if it has none, or one that can't be read."""
        try:
            data = self._disk.read(self._score(chunk.name))
            return None if data is None else decode(Score, json.loads(data))
        except (Corrupt, ValueError, TypeError):
            _remove(self._score(chunk.name))  # it is played again
            return None

    def put(self, chunk: Chunk, score: Score) -> None:
        """Keep a score."""
        self._disk.replace(self._score(chunk.name), json.dumps(encode(score)).encode())

    def take(self, work: Work, owner: str) -> Iterator[Chunk]:
        """Chunks without a score, each claimed for this owner, until others have all that is left.

        One that the owner had claimed before it was requeued is its own still.
        """
        for chunk in work.chunks:
            scored = self._disk.exists(self._score(chunk.name))
            if not scored and self._claim(work, chunk, owner):
                yield chunk

    def _claim(self, work: Work, chunk: Chunk, owner: str) -> bool:
        path = self._claimed(work, chunk)
        try:
            self._disk.write_new(path, owner.encode(), durable=False)
        except FileExistsError:
            return self._disk.read(path) == owner.encode()
        return True

    def claims(self, work: Work, chunks: Iterable[Chunk]) -> list[tuple[Chunk, str]]:
        """Those chunks that are claimed, each with its owner; empty where that is not known yet."""
        found = [(chunk, self._disk.read(self._claimed(work, chunk))) for chunk in chunks]
        return [(chunk, data.decode()) for chunk, data in found if data is not None]

    def free(self, work: Work, chunk: Chunk) -> None:
        """Let others claim a chunk."""
        _remove(self._claimed(work, chunk))

    def refuse(self, work: Work, chunk: Chunk, why: str) -> None:
        """Say that a chunk can't be played, in one sentence."""
        path = self._claimed(work, chunk).with_suffix(".refused")
        self._disk.replace(path, why.encode())

    def refusal(self, work: Work) -> tuple[Chunk, str] | None:
        """A chunk that can't be played, and why; None if there is none."""
        for path in self._refused(work):
            why = self._disk.read(path)
            for chunk in work.chunks:
                if chunk.name == path.stem and why is not None:
                    return chunk, why.decode()
        return None

    def _refused(self, work: Work) -> list[Path]:
        claims = self.path / "claims" / work.name
        with explained("list", claims), os.scandir(claims) as found:
            return [claims / entry.name for entry in found if entry.name.endswith(".refused")]

    def _work(self, name: str) -> Path:
        return self.path / "work" / f"{name}.json"

    def _score(self, name: str) -> Path:
        return self.path / "scores" / f"{name}.json"

    def _claimed(self, work: Work, chunk: Chunk) -> Path:
        return self.path / "claims" / work.name / chunk.name


def chunks_of(policy: str, env: EnvConfig, seeds: range) -> Iterator[Chunk]:
    """A policy's episodes on these seeds in one environment, in batches of ``ROWS``."""
    for start in range(0, len(seeds), ROWS):
        yield Chunk(policy, env, tuple(seeds[start : start + ROWS]))


def _remove(path: Path) -> None:
    with explained("remove", path):
        path.unlink(missing_ok=True)


def _digest(plain: Any) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
