"""HDF5 files that another user may have made: checked before they are read.

HDF5's library opens other files that one names, and allocates what one declares. So the
kind, the place and the size of everything in it are checked before any of it is read: a blob has
arrays of numbers that lie in the file itself, in one piece each, and together no larger than it.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

_IN_THE_FILE = (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT)
_KINDS = "biufc"


class NotOurs(ValueError):
    """The bytes are not HDF5 as a blob is written; the message says why."""


class Image:
    """An HDF5 file in memory. Every method raises ``NotOurs``, or what h5py raises of damage."""

    def __init__(self, data: bytes) -> None:
        # A reader of our own took a tenth of the time, and was one more parser to mend.
        self._file = h5py.File(h5py.h5f.open_file_image(data))
        self._size = len(data)
        self._given = 0

    def arrays(self, group: str) -> dict[str, NDArray[Any]]:
        """All datasets of a group in the root, which has nothing else in it."""
        inside = self._at(self._file, group)
        if not isinstance(inside, h5py.Group):
            raise NotOurs(f"'{group}' is no group")
        datasets = {name: self._dataset(inside, name) for name in inside}
        if not all(storable(dataset.dtype) for dataset in datasets.values()):
            raise NotOurs("an array in it holds something other than booleans and numbers")
        return {name: np.asarray(dataset[()]) for name, dataset in datasets.items()}

    def text(self, name: str) -> bytes:
        """The dataset of this name in the root: one string of a fixed length."""
        dataset = self._dataset(self._file, name)
        if dataset.shape != () or dataset.dtype.kind != "S":
            raise NotOurs(f"'{name}' is no text")
        text: bytes = dataset[()]
        return text

    def close(self) -> None:
        """Free the memory."""
        self._file.close()

    @staticmethod
    def _at(group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
        encoded = name.encode()
        if not group.id.links.exists(encoded):
            raise NotOurs(f"there is no '{name}' in it")
        if group.id.links.get_info(encoded).type != h5py.h5l.TYPE_HARD:
            raise NotOurs("it has links to other places or files")
        return group[name]

    def _dataset(self, group: h5py.Group, name: str) -> h5py.Dataset:
        dataset = self._at(group, name)
        if not isinstance(dataset, h5py.Dataset):
            raise NotOurs(f"'{name}' is no array")
        created = dataset.id.get_create_plist()
        if created.get_nfilters():
            raise NotOurs("it has compression or other filters, which a blob does not")
        if created.get_layout() not in _IN_THE_FILE:
            raise NotOurs("an array in it does not lie in one piece")
        if created.get_external_count():
            raise NotOurs("it has data in another file")
        # Not before: to tell how large a virtual array is, the library opens whatever it names, and
        # waited for ever at a pipe.
        if dataset.shape is None:
            raise NotOurs(f"'{name}' is no array")
        # Several names may stand for the same bytes, and each gets a copy.
        self._given += dataset.nbytes
        if self._given > self._size:
            raise NotOurs("its arrays are larger than the file")
        return dataset


def storable(dtype: np.dtype[Any]) -> bool:
    """Check that an array of this type can be stored, and read on every machine."""
    # A long double has 80 bits on x86, and other machines have none or another.
    return dtype.kind in _KINDS and dtype != np.longdouble and dtype != np.clongdouble
