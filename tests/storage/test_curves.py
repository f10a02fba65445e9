"""Curves in a run folder: what was written is what is read, and damage costs one curve."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from hpcpod.storage.curves import Curve, Curves, columns_of
from hpcpod.storage.disk import Disk, Scheme
from hpcpod.storage.quarantine import Quarantine

CURVE = Curve(
    "p0001", 3, 1, "ppo", {"gamma": 0.99, "hidden": 64}, 0.4,
    {"env_steps": (100.0, 200.0, 300.0), "loss/critic": (None, 0.1, -2.5), ".": (None, 1.0, None)},
)  # fmt: skip


def curves_in(home: Path, disk: Disk | None = None) -> Curves:
    disk = disk or Disk()
    home.mkdir(exist_ok=True)
    disk.root = home
    return Curves(disk, home / "curves", Quarantine(disk, home))


def names(home: Path, pod: str = "p0001") -> list[str]:
    return sorted(path.name for path in (home / "curves" / pod).iterdir())


@pytest.fixture(params=["link", "directory"])
def curves(request: pytest.FixtureRequest, tmp_path: Path) -> Curves:
    return curves_in(tmp_path, Disk(request.param))


def test_rows_are_columns_and_back() -> None:
    rows = [{"a": 1.0}, {"a": 2.0, "b": 3.0}]
    assert columns_of(rows) == {"a": (1.0, 2.0), "b": (None, 3.0)}
    assert replace(CURVE, columns=columns_of(rows)).rows == rows
    assert columns_of([]) == {} and replace(CURVE, columns={}).rows == []


def test_a_curve_is_read_as_it_was_written_in_progress_and_at_the_end(
    curves: Curves, tmp_path: Path
) -> None:
    begun = replace(CURVE, columns={"env_steps": (100.0,)})
    curves.write(begun)
    assert list(curves.of("p0001")) == [begun]
    curves.write(CURVE)
    assert list(curves.of("p0001")) == [CURVE] and names(tmp_path) == ["00003-1.json"]
    curves.seal(CURVE, ordered=True)
    assert list(curves.of("p0001")) == [CURVE] and names(tmp_path) == ["00003-1.h5"]
    assert curves.pods() == ["p0001"]


def test_a_curve_is_plain_hdf5_with_nan_where_a_row_has_no_number(tmp_path: Path) -> None:
    curves_in(tmp_path).seal(CURVE, ordered=True)
    with h5py.File(tmp_path / "curves" / "p0001" / "00003-1.h5") as file:
        assert file["arrays/env_steps"][()].tolist() == [100.0, 200.0, 300.0]
        np.testing.assert_array_equal(file["arrays/loss%2Fcritic"][()], [np.nan, 0.1, -2.5])
        assert b'"hyperparameters": {"gamma": 0.99, "hidden": 64}' in file["meta"][()]


def test_rounds_come_in_order_and_of_each_the_newest_attempt(tmp_path: Path) -> None:
    curves = curves_in(tmp_path)
    for number, attempt in ((10, 1), (2, 1), (2, 3), (2, 2)):
        curves.write(replace(CURVE, round=number, attempt=attempt))
    assert [(c.round, c.attempt) for c in curves.of("p0001")] == [(2, 3), (10, 1)]
    curves.seal(replace(CURVE, round=2, attempt=3), ordered=True)  # takes older attempts along
    assert names(tmp_path) == ["00002-3.h5", "00010-1.json"]
    curves.write(replace(CURVE, round=2, attempt=2))  # a slot that was given up woke up
    assert [(c.round, c.attempt) for c in curves.of("p0001")] == [(2, 3), (10, 1)]


def test_a_resumed_round_has_the_rows_that_reach_closest_to_its_checkpoint(curves: Curves) -> None:
    def steps(checkpoint: int) -> list[float]:
        found = curves.up_to(checkpoint, "p0001", 3, 2)
        return [] if found is None else [row["env_steps"] for row in found.rows]

    assert steps(1000) == []
    curves.write(replace(CURVE, attempt=2, columns={"env_steps": (100.0, 250.0)}))
    assert steps(1000) == [100.0, 250.0] and steps(100) == [100.0] and steps(99) == []
    curves.write(CURVE)  # rows behind a checkpoint at 250 are lost, however far they reach
    assert steps(250) == [100.0, 250.0] and steps(299) == [100.0, 250.0]
    assert steps(300) == [100.0, 200.0, 300.0]
    sealed = replace(CURVE, columns={"env_steps": (150.0, 280.0, 400.0)})
    curves.seal(sealed, ordered=True)  # trained, and killed before its report
    assert steps(299) == [150.0, 280.0]
    assert curves.up_to(1000, "p0001", 4, 1) is None


def test_a_speculative_curve_gives_way_to_the_ordered_one_and_not_the_other_way_round(
    curves: Curves,
) -> None:
    guess = replace(CURVE, columns={"env_steps": (1.0,)})
    curves.seal(guess, ordered=False)
    assert list(curves.of("p0001")) == [guess]
    curves.seal(CURVE, ordered=True)
    curves.seal(guess, ordered=False)
    assert list(curves.of("p0001")) == [CURVE]


def test_a_curve_that_is_torn_anywhere_is_passed_over_and_set_aside(tmp_path: Path) -> None:
    sealed = tmp_path / "sealed"
    curves_in(sealed).seal(CURVE, ordered=True)
    whole = (sealed / "curves" / "p0001" / "00003-1.h5").read_bytes()
    for number, length in enumerate((0, 7, len(whole) // 2, len(whole) - 1)):
        home = tmp_path / str(number)
        curves = curves_in(home)
        curves.write(replace(CURVE, round=4))
        (home / "curves" / "p0001" / "00003-1.h5").write_bytes(whole[:length])
        (home / "curves" / "p0001" / "00005-1.json").write_bytes(b'{"sha256":"0123')
        assert [curve.round for curve in curves.of("p0001")] == [4]
        assert names(home) == ["00004-1.json"]
        assert len(list((home / "quarantine").glob("*.reason"))) == 2


def test_a_changed_bit_in_the_numbers_is_found(tmp_path: Path) -> None:
    curves = curves_in(tmp_path)
    curves.seal(CURVE, ordered=True)
    path = tmp_path / "curves" / "p0001" / "00003-1.h5"
    data = path.read_bytes()
    place = data.index(np.float64(-2.5).tobytes())
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    assert list(curves.of("p0001")) == []
    (reason,) = (tmp_path / "quarantine").glob("*.reason")
    assert "does not match its checksum" in reason.read_text()


class ReadOnly(Disk):
    """A folder that may only be read."""

    def write_new(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def unlink(self, path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_folder_that_may_only_be_read_is_read_past_its_damage(tmp_path: Path) -> None:
    writer = curves_in(tmp_path)
    writer.seal(CURVE, ordered=True)
    writer.write(replace(CURVE, round=4))
    (tmp_path / "curves" / "p0001" / "00005-1.h5").write_bytes(b"torn")
    assert [c.round for c in curves_in(tmp_path, ReadOnly()).of("p0001")] == [3, 4]
    assert "00005-1.h5" in names(tmp_path)


def test_other_names_in_the_folder_are_no_curves(tmp_path: Path) -> None:
    curves = curves_in(tmp_path)
    curves.seal(CURVE, ordered=True)
    home = tmp_path / "curves" / "p0001"
    for name in ("notes.txt", "3-1.h5", ".tmp-00004-1.h5", "00004-<script>.h5", "00006-1.h5.bak"):
        (home / name).write_text("?")
    (home / "00007-1.json").symlink_to(tmp_path / "elsewhere")
    curves.write(replace(CURVE, pod="p0002"))
    (tmp_path / "curves" / "p0002" / "00003-1.json").rename(home / "00008-1.json")  # another pod's
    assert list(curves.of("p0001")) == [CURVE]


class SealedMeanwhile(Disk):
    """A disk on which a round comes to its end when its rows in progress are read."""

    def __init__(self, scheme: Scheme = "link") -> None:
        super().__init__(scheme)
        self.then: Curves | None = None

    def read(self, path: Path, most: int | None = None, sha256: str | None = None) -> bytes | None:
        if path.suffix == ".json" and self.then is not None:
            self.then.seal(CURVE, ordered=True)
        return super().read(path, most, sha256)


def test_a_round_that_ends_while_it_is_read_is_read_at_its_end(tmp_path: Path) -> None:
    disk = SealedMeanwhile()
    curves = curves_in(tmp_path, disk)
    curves.write(replace(CURVE, columns={"env_steps": (100.0,)}))
    disk.then = curves_in(tmp_path)
    assert list(curves.of("p0001")) == [CURVE]


def test_columns_of_different_lengths_are_no_curve() -> None:
    with pytest.raises(ValueError, match="different lengths"):
        replace(CURVE, columns={"a": (1.0,), "b": (1.0, 2.0)})
