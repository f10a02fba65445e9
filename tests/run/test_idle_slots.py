"""Slots without an order, explained: by hand, and on a run whose pods are unequal."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from hpcpod.config.schema import StopConfig
from hpcpod.orchestrator.snapshot import Snapshot
from hpcpod.records.barrier import Barrier
from hpcpod.records.records import Rescore
from hpcpod.run.idle_slots import idling
from hpcpod.run.run import Run, open_run
from hpcpod.storage.requests import Drain
from tests.run.test_forecast import NOW, pod, seen, training
from tests.support.slots import statuses
from tests.support.small_runs import mapping, wait_for

IDLE = {"state": "idle", "mtime": NOW}
SLOW = pod("p2", 100, 3, algorithm="sac")
DONE = replace(pod("p1", 10, 4), birth=None)


def late(rounds: int = 4, **slots: Any) -> Snapshot:
    """A run in which p1 has trained all its rounds, and p2 is in its fourth."""
    shown = {"a": training(SLOW), **slots}
    return seen(StopConfig(rounds=rounds), DONE, SLOW, slots=shown)


def test_a_slot_without_an_order_waits_for_the_last_round_of_a_slow_pod() -> None:
    said = idling(replace(late(b=IDLE), places=2))
    assert re.fullmatch(
        r"slot b has no order: it waits for the last round of p2, which ends in 1 to 2 min;"
        r" then come the finals",
        said,
    )
    several = idling(replace(late(rounds=6, b=IDLE, c=IDLE), places=3))
    assert (
        "slots b and c have no order: they wait for the last 3 rounds of p2, which end" in several
    )


def test_slots_that_were_handed_back_are_explained_too() -> None:
    said = idling(replace(late(), places=3))
    assert said.startswith(
        "more slots would find nothing to do: all that is left is the last round"
    )
    assert idling(replace(late(), places=1)) == ""
    assert idling(replace(late(), places=None)) == ""


def test_a_slot_at_a_barrier_waits_for_those_that_are_missing() -> None:
    run = seen(StopConfig(rounds=9), pod("p1", 10, 4), SLOW, board={"barrier": Barrier(4)})
    run = replace(run, slots=statuses({"a": training(SLOW), "b": IDLE}), places=2)
    said = idling(run)
    assert said == "slot b has no order: it waits for p2 at the barrier of round 4"


def test_nothing_is_said_while_there_is_an_order_to_take() -> None:
    free = pod("p3", 10, 3)
    run = seen(StopConfig(rounds=4), SLOW, free, slots={"a": training(SLOW), "b": IDLE})
    assert idling(replace(run, places=2)) == ""
    assert idling(replace(late(), places=1)) == ""
    assert idling(replace(late(b=IDLE), drain=Drain(), places=2)) == ""


def test_finals_in_other_hands_are_waited_for() -> None:
    assert SLOW.history
    order = Rescore("final", 0, "p2", 1, "sac", {}, SLOW.history[-1].checkpoint, 3)
    scoring = {"state": "scoring", "order": order.id, "pod": "p2", "round": 3, "mtime": NOW}
    run = late(b=IDLE, a=scoring)
    board = replace(
        run.board, phase="finals", stop_reason="rounds", rescores={"p2": order}, stopped=NOW,
        pods={name: replace(p, birth=None) for name, p in run.board.pods.items()},
    )  # fmt: skip
    said = idling(replace(run, board=board, places=2))
    assert said.startswith("slot b has no order: it waits for the final score of p2; ")


def test_at_the_end_of_a_real_run_status_and_why_say_what_is_waited_for(home: Path) -> None:
    slow = {"learning_starts": 32, "updates_per_iteration": 60, "hidden": 64}
    config = mapping("ppo", "dqn", stop={"rounds": 3}, agents={"dqn": slow})
    config["cluster"] = {**config["cluster"], "slots": 2}
    path = home / "small.yaml"
    path.write_text(yaml.safe_dump(config))
    launch = subprocess.Popen([sys.executable, "-m", "hpcpod", "launch", str(path)])
    try:
        run = _waiting(launch)
        said = run.status()
        assert "of p0001, which end" in said.idling
        assert said.forecast is not None
        assert said.forecast.low <= said.forecast.seconds <= said.forecast.high
        assert any(said.idling.split(",")[0] in line for line in run.why())
    finally:
        launch.terminate()
        launch.wait()


def _waiting(launch: subprocess.Popen[bytes]) -> Run:
    """The run, once a slot has nothing to do."""
    wait_for("a run", lambda: Path("runs/small/board/00000/00000000.json").exists())
    run = open_run("small")

    def idles() -> bool:
        assert launch.poll() is None, "it ended before a slot had nothing to do"
        return bool(run.status().idling)

    wait_for("a slot without an order", idles)
    return run
