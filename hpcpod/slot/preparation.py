"""Preparations for the end of a round, made while it is trained: nobody waits for the disk then."""

from __future__ import annotations

import logging

from hpcpod.errors import StorageError
from hpcpod.records.records import Board, Order
from hpcpod.storage.run_folder import RunFolder

log = logging.getLogger(__name__)


def prepare_end(folder: RunFolder, order: Order, board: Board) -> None:
    """Write what the merge after an order would have to write before its board.

    Args:
        folder: of the run.
        order: that a process has begun.
        board: by which it was taken; its decisions leave it at the next merge.
    """
    try:
        folder.reports.expect(order.id)
        folder.decisions.publish(board.decisions)
    except StorageError as error:  # the merge writes them, and retries
        log.info("%s is prepared at its end: %s", order.id, error)
