"""Reports in a run folder: the result of each order, published once."""

from __future__ import annotations

import contextlib
import glob
from collections.abc import Iterator
from pathlib import Path

from hpcpod.errors import Corrupt
from hpcpod.records.records import Report, encode
from hpcpod.storage.checksummed import pack, unpack_record
from hpcpod.storage.layout import plain, sharded
from hpcpod.storage.store import Store


class Reports(Store):
    """The reports of a run, by order; one writer each."""

    def publish(self, report: Report) -> bool:
        """Publish a report; False if another report of this order was first.

        Its blobs must be put before: a report that is seen is complete.
        """
        return self._disk.publish(self._path(report.order), pack(encode(report)))

    def expect(self, order: str) -> None:
        """Make the folder of an order's report, so that nobody waits for that when it is done."""
        self._disk.make_folder(self._path(order).parent)

    def read(self, order: str) -> Report | None:
        """The report of an order; None if there is none yet.

        Raises:
            Corrupt: it is damaged, or another order's. A copy goes into quarantine, and the
                file stays: the next reader gets the same answer, and the attempt is over.
        """
        path = self._path(order)
        try:
            data = self._disk.read(path)
            if data is None:
                return None
            report = unpack_record(Report, data, path)
            if report.order != order:
                raise Corrupt(f"{path} is the report of {report.order}")
        except Corrupt as error:
            self._quarantine.copy(path, str(error))
            raise
        return report

    def all(self, pod: str | None = None) -> Iterator[tuple[Report, float]]:
        """Every sound report, and the Unix time of its file in seconds, in no order.

        It is for those who look: a damaged report is passed over and stays where it is.

        Args:
            pod: reports of its orders alone.
        """
        names = "[!.]*.json" if pod is None else f"{glob.escape(plain(pod))}-*.json"
        for path in self._folder.glob(f"*/{names}"):
            with contextlib.suppress(Corrupt, FileNotFoundError):
                data = self._disk.read(path)
                if data is not None:
                    report = unpack_record(Report, data, path)
                    if report.order == path.stem:
                        yield report, path.lstat().st_mtime

    def exists(self, order: str) -> bool:
        """Look whether an order has a report, sound or damaged."""
        return self._disk.exists(self._path(order))

    def _path(self, order: str) -> Path:
        return sharded(self._folder, order, ".json")
