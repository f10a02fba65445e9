"""Curves in a run folder: rows of numbers from the training of each round, a file for each round.

==================================  ==============================================================
``<pod>/<round>-<attempt>.json``    of a round in progress: checksummed, replaced whole
``<pod>/<round>-<attempt>.h5``      of a round that is trained: an array for each name
==================================  ==============================================================

One file for each round, and not one that grows with the pod: rounds of one pod are trained by
different slots on different hosts, which would have to write it in turns. A round has as many
reports. Nothing here is synced: a crash of a machine may cost the newest rows of a curve.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hpcpod.config.space import Scalar
from hpcpod.errors import Corrupt
from hpcpod.records.records import decode, encode, order_name
from hpcpod.storage.checksummed import pack
from hpcpod.storage.layout import plain
from hpcpod.storage.store import Store

Columns = Mapping[str, tuple[float | None, ...]]
"""Numbers by name, one for each row; None where a row has none of that name."""

EARLIER = 8
"""Attempts at a round before the present one whose rows are looked for."""

_FILE = re.compile(r"(\d{5,9})-(\d{1,9})\.(?:h5|json)")
_CHECKSUM = "sha256"


@dataclass(frozen=True)
class Curve:
    """Rows of numbers from the training of one round, in order of ``env_steps``."""

    pod: str
    round: int
    attempt: int
    algorithm: str = ""
    hyperparameters: Mapping[str, Scalar] = field(default_factory=dict)
    """Of the birth."""
    seconds: float = 0.0
    """Least time between two rows by now."""
    columns: Columns = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"columns of a curve of {self.pod} have different lengths")

    @property
    def order(self) -> str:
        """``Birth.id`` of the order."""
        return order_name(self.pod, self.round, self.attempt)

    @property
    def rows(self) -> list[dict[str, float]]:
        """The numbers of each row."""
        named = (zip(self.columns, row, strict=True) for row in zip(*self.columns.values()))  # noqa: B905
        return [{name: value for name, value in row if value is not None} for row in named]

    def cut(self, env_steps: float) -> Curve:
        """The curve without rows of more steps than these."""
        rows = [row for row in self.rows if row.get("env_steps", math.inf) <= env_steps]
        return replace(self, columns=columns_of(rows))


def columns_of(rows: Sequence[Mapping[str, float]]) -> Columns:
    """The inverse of ``Curve.rows``."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row.get(name) for row in rows) for name in names}


class Curves(Store):
    """The curves of a run. Each file has the slot that trains the order as its one writer."""

    def write(self, curve: Curve) -> None:
        """Put the rows of a round in progress in the place of those written before.

        Raises:
            StorageError: the filesystem refuses; the old ones stand.
        """
        path = self._path(curve.pod, curve.round, curve.attempt, ".json")
        self._disk.replace(path, pack(encode(curve)), durable=False)

    def seal(self, curve: Curve, *, ordered: bool) -> None:
        """Write the rows of a round that is trained, and remove what the round had before.

        Args:
            curve: all rows.
            ordered: False for a speculative round whose order has not come yet. Its file may be
                another slot's in the end, which then takes the place of this one.

        Raises:
            StorageError: the filesystem refuses.
        """
        path = self._path(curve.pod, curve.round, curve.attempt, ".h5")
        data = _sealed(curve)
        if ordered:
            self._disk.overwrite(path, data)
        else:
            self._disk.publish(path, data)
        if ordered:  # else the rows in progress may be those of the slot that has the order
            for old in self._files(curve.pod, curve.round, curve.attempt):
                if old != path:
                    self._disk.remove(old)

    def up_to(self, env_steps: int, pod: str, round: int, attempt: int) -> Curve | None:
        """The rows up to a checkpoint in a round, by the attempt whose rows reach closest to it:
        this one, or one of the ``EARLIER`` before it.

        Rows behind it are of training that is lost. None if there is none before it.
        """
        found = map(self._read, self._files(pod, round, attempt))
        of_round = (each for each in found if each and (each.pod, each.round) == (pod, round))
        cut = (each.cut(env_steps) for each in of_round)
        return max((each for each in cut if each.columns), key=_reach, default=None)

    def pods(self) -> list[str]:
        """The pods that have curves, by name."""
        return sorted(path.name for path in self._folder.glob("[!.]*"))

    def of(self, pod: str) -> Iterator[Curve]:
        """The curve of each round of a pod, first to last, by the round's newest attempt.

        Damaged files are passed over, and set aside where this process may.
        """
        newest: dict[int, int] = {}
        for path in self._folder.glob(f"{plain(pod)}/[!.]*"):
            if match := _FILE.fullmatch(path.name):
                number, attempt = int(match[1]), int(match[2])
                newest[number] = max(attempt, newest.get(number, 0))
        for number, attempt in sorted(newest.items()):
            # The first again: the round may have come to its end between the two.
            for suffix in (".h5", ".json", ".h5"):
                curve = self._read(self._path(pod, number, attempt, suffix))
                if curve is not None and curve.order == order_name(pod, number, attempt):
                    yield curve
                    break

    def _read(self, path: Path) -> Curve | None:
        """The curve in a file; None if there is none, or a damaged one, which is set aside."""
        if path.suffix == ".json":
            return self._quarantine.sound(Curve, path)
        try:
            data = self._disk.read(path)
            return None if data is None else _opened(data, str(path))
        except Corrupt as error:
            self._quarantine.move(path, str(error))
            return None

    def _files(self, pod: str, round: int, attempt: int) -> Iterator[Path]:
        # By name: a pod's folder grows with its rounds, and is not listed by who trains.
        for number in range(max(1, attempt - EARLIER), attempt + 1):
            for suffix in (".h5", ".json"):
                yield self._path(pod, round, number, suffix)

    def _path(self, pod: str, round: int, attempt: int, suffix: str) -> Path:
        return self._folder / plain(pod) / f"{round:05d}-{attempt}{suffix}"


def _reach(curve: Curve) -> tuple[float, int]:
    steps = [row["env_steps"] for row in curve.rows]
    return max(steps), len(steps)


def _sealed(curve: Curve) -> bytes:
    """The curve as an HDF5 file: float64 arrays, NaN where a row has no number."""
    import numpy as np

    from hpcpod.storage.blobs import encode_blob  # h5py: 0.3 s

    arrays = {
        name: np.array([math.nan if value is None else value for value in column], float)
        for name, column in curve.columns.items()
    }
    about = encode(replace(curve, columns={}))
    return encode_blob(arrays, {**about, _CHECKSUM: _checksum(about, arrays)})


def _opened(data: bytes, name: str) -> Curve:
    """The inverse of ``_sealed``.

    Raises:
        Corrupt: these are not the bytes of a curve.
    """
    from hpcpod.storage.blobs import decode_blob

    arrays, about = decode_blob(data, name)
    given = about.pop(_CHECKSUM, None)
    if any(array.ndim != 1 or array.dtype.kind != "f" for array in arrays.values()):
        raise Corrupt(f"{name} is not a curve of hpcpod: a column is no list of numbers")
    if given != _checksum(about, arrays):
        raise Corrupt(f"{name} does not match its checksum")
    columns = {
        key: [None if math.isnan(value) else value for value in array.tolist()]
        for key, array in arrays.items()
    }
    try:
        return decode(Curve, {**about, "columns": columns})
    except (TypeError, ValueError) as error:
        raise Corrupt(f"{name} is not a curve of hpcpod: {error}") from error


def _checksum(about: Any, arrays: Mapping[str, Any]) -> str:
    """The sha256 of all that a sealed curve says."""
    said = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(arrays):
        said.update(name.encode(errors="surrogateescape") + b"\0" + arrays[name].tobytes())
    return said.hexdigest()
