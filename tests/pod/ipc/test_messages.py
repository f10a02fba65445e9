"""Work on its way to a process, and what becomes of it."""

from __future__ import annotations

import pytest

from hpcpod.pod.ipc.messages import Work, failed, whole
from hpcpod.records.records import Birth, Checkpoint, Order, Report, Rescore, Segment

CHECKPOINT = Checkpoint("ab" * 32, 512, 128, (Segment(0, 128, "cd" * 32),))
BIRTH = Birth("p0001", 2, 3, "ppo", {"gamma": 0.9, "hidden": 16}, 2**60 + 1, CHECKPOINT)
RESCORE = Rescore("final", 0, "p0001", 1, "ppo", {"gamma": 0.9}, CHECKPOINT, 2)


@pytest.mark.parametrize(
    "work",
    [
        Work(BIRTH),
        Work(BIRTH, "train", claimed=False),
        Work(BIRTH, "score", CHECKPOINT),
        Work(RESCORE),
    ],
)
def test_work_arrives_as_it_was_sent(work: Work) -> None:
    line = work.line()
    assert line.endswith("\n") and line.count("\n") == 1
    assert Work.parse(line) == work


@pytest.mark.parametrize(
    ("work", "kind"), [(Work(BIRTH), "corrupt"), (Work(BIRTH, "score", CHECKPOINT), "crash")]
)
def test_a_checkpoint_that_was_damaged_before_it_was_scored_is_not_its_birth_s(
    work: Work, kind: str
) -> None:
    report = failed(work, "s", {"failure": "it is damaged", "kind": "corrupt"})
    assert (report.failure, report.failure_kind) == ("it is damaged", kind)
    assert (report.order, report.round, report.attempt, report.slot) == (BIRTH.id, 2, 3, "s")


@pytest.mark.parametrize("order", [BIRTH, RESCORE])
def test_a_failure_says_of_which_order_it_is(order: Order) -> None:
    assert failed(Work(order), "s", {"failure": "no", "kind": "memory"}).order == order.id


def test_a_round_that_failed_to_be_scored_has_failed() -> None:
    trained = Report(BIRTH.id, "p0001", 2, 3, "s", checkpoint=CHECKPOINT, wall_seconds=5.0)
    scored = Report(BIRTH.id, "p0001", 2, 3, "s", (1.0, 2.0), wall_seconds=1.5)
    both = whole(trained, scored)
    assert (both.checkpoint, both.returns, both.wall_seconds) == (CHECKPOINT, (1.0, 2.0), 6.5)
    broken = failed(Work(BIRTH, "score", CHECKPOINT), "s", {"failure": "no", "kind": "memory"})
    assert whole(trained, broken) == broken and broken.checkpoint is None
