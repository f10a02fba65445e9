"""A preempted slot comes back, loses nothing that it had time to save, and disturbs no other."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import pytest

from tests.preemption.cells import DEAF, EVERY, Cell, pairwise
from tests.preemption.matrix import Outcome, play_all
from tests.support.slurm_cluster import SBIN

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

CHOSEN = [replace(cell, ranks=min(cell.ranks, 2)) for cell in (*pairwise(EVERY), DEAF[0])]
"""Two ranks lie on two nodes as four do. ``python -m tests.preemption`` plays all, with four."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[Cell, Outcome | Exception]:
    if shutil.which("slurmctld", path=f"{os.environ.get('PATH', os.defpath)}:{SBIN}") is None:
        required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
        (pytest.fail if required else pytest.skip)("no slurmctld here")
    home = tmp_path_factory.mktemp("cells")
    return {cell: outcome for cell, outcome, _ in play_all(CHOSEN, home, at_once=3)}


@pytest.mark.parametrize("cell", CHOSEN, ids=str)
def test_a_preempted_slot_goes_on(cell: Cell, outcomes: dict[Cell, Outcome | Exception]) -> None:
    outcome = outcomes[cell]
    if isinstance(outcome, Exception):
        raise outcome
    assert outcome.saved
    assert outcome.bystanders
    if cell.hears:
        assert outcome.lost_steps == 0
    else:
        assert outcome.lost_steps > 0
    # Once, and again if Slurm refused: it was at that moment about to requeue the job by itself.
    once = ("squeue", "scontrol")
    assert outcome.calls == (once * 2)[: len(outcome.calls)]
    # Where the site requeues, or leaves a slot the time to ask for it, it keeps its name.
    stays = cell.mode == "REQUEUE" or cell.grace > 0
    assert (outcome.what, outcome.restarts) == (("requeued", 1) if stays else ("resubmitted", 0))
