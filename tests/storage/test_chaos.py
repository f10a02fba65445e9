"""Sixteen processes write at once while they are stopped, continued and killed at random."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from pathlib import Path

from hpcpod.records.records import Checkpoint, Document, Intent, Owner, Report, Segment
from hpcpod.storage.board import writer_id
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import SlotStatus
from tests.storage.faults import finish, start

WRITERS = 16
ORDERS = 60
KILLED = 4


def fold(run: RunFolder, orders: list[str]) -> None:
    """Count reports on the board, each once: read, modify, publish, until it is in."""
    latest = -1
    while True:
        number, old = run.board.read() or (-1, {})
        assert number >= latest, "a reader never goes back"
        latest = number
        counted = old.get("orders", {})
        new_ones = [order for order in orders if order not in counted]
        if not new_ones:
            return
        total = old.get("run", {}).get("total", 0)
        new: Document = {
            "orders": {**counted, **dict.fromkeys(new_ones, writer_id())},
            # A lost update would leave this behind the number of rows, a double one ahead.
            "run": {"total": total + len(new_ones)},
        }
        if run.board.publish(number, old, new, writer_id()):
            return


def write(path: Path, writer: int, said: Path) -> None:
    # Not before all are there and can be disturbed: a fork of a large process takes long.
    while not (said.parent / "go").exists():
        time.sleep(0.001)
    run = RunFolder.open(path)
    for number in range(ORDERS):
        order = f"p{writer:04d}-{number:05d}-0"
        report = Report(order, f"p{writer:04d}", number, 0, "s", (float(writer), float(number)))
        assert run.reports.publish(report)
        fold(run, [order])
        with said.open("a") as file:
            file.write(order + "\n")
        if writer == 0:
            run.board.compact()


def disturb(pids: list[int], victims: list[int], chance: random.Random) -> dict[int, int]:
    """Stop and continue processes at random, kill the victims; the exit code of each."""
    running, codes, stopped = set(pids), dict[int, int](), set[int]()
    doomed = list(victims)
    started = time.monotonic()
    while running:
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                running.discard(pid)
                stopped.discard(pid)
                codes[pid] = os.waitstatus_to_exitcode(status)
        for pid in list(running):
            if pid in stopped and chance.random() < 0.3:
                stopped.discard(pid)
                os.kill(pid, signal.SIGCONT)
            elif pid not in stopped and chance.random() < 0.15:
                stopped.add(pid)
                os.kill(pid, signal.SIGSTOP)
        if doomed and time.monotonic() - started > 0.15 * (KILLED - len(doomed) + 1):
            pid = doomed.pop()
            if pid in running:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return codes


def test_nothing_is_lost_and_nothing_counts_twice(run: RunFolder, tmp_path: Path) -> None:
    chance = random.Random(17)
    said = [tmp_path / f"said-{writer}" for writer in range(WRITERS)]
    pids = [
        start(lambda writer=writer: write(run.path, writer, said[writer]))  # type: ignore[misc]
        for writer in range(WRITERS)
    ]
    victims = chance.sample(pids[1:], KILLED)
    (tmp_path / "go").touch()
    codes = disturb(pids, victims, chance)
    assert all(codes[pid] == 0 for pid in pids if pid not in victims)
    assert sum(codes[pid] == -signal.SIGKILL for pid in victims) >= 2

    fresh = RunFolder.open(run.path)
    found = fresh.board.read()
    assert found is not None
    generation, document = found
    counted = set(document["orders"])
    assert document["run"]["total"] == len(counted)
    acknowledged = {line for file in said if file.exists() for line in file.read_text().split()}
    assert acknowledged <= counted
    published = {path.stem for path in (run.path / "reports").glob("*/p*.json")}
    assert counted <= published
    for writer, pid in enumerate(pids):
        mine = {order for order in counted if order.startswith(f"p{writer:04d}-")}
        assert len(mine) == ORDERS or pid in victims

    # Whatever the killed ones had published and not merged yet counts after one more merge.
    fold(fresh, sorted(published))
    found = RunFolder.open(run.path).board.read()
    assert found is not None
    assert set(found[1]["orders"]) == published
    assert found[1]["run"]["total"] == len(published) >= (WRITERS - KILLED) * ORDERS
    assert found[0] in (generation, generation + 1)
    assert fresh.quarantine.list() == []


def test_a_writer_stopped_for_long_cannot_publish_an_old_generation(run: RunFolder) -> None:
    def late() -> None:
        mine = RunFolder.open(run.path)
        number, old = mine.board.read() or (-1, {})
        os.kill(os.getpid(), signal.SIGSTOP)
        assert not mine.board.publish(number, old, {"orders": {"late": 1}}, "late")
        fold(mine, [f"late-{os.getpid()}"])

    fold(run, ["first"])
    pids = [start(late), start(late)]
    for pid in pids:
        os.waitpid(pid, os.WUNTRACED)
    for number in range(100):
        fold(run, [f"order-{number}"])
    assert run.board.compact() == 64
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
        assert finish(pid) == 0
    found = RunFolder.open(run.path).board.read()
    assert found is not None
    assert found[1]["run"]["total"] == len(found[1]["orders"]) == 103


def test_one_of_sixteen_gets_the_claim(run: RunFolder) -> None:
    def take(slot: int) -> None:
        os._exit(
            10 if RunFolder.open(run.path).claims.take("p-1-0", Owner(f"1_{slot}", "1")) else 0
        )

    for _ in range(3):
        pids = [start(lambda slot=slot: take(slot)) for slot in range(16)]  # type: ignore[misc]
        codes = [finish(pid) for pid in pids]
        assert sorted(codes) == [0] * 15 + [10]
        holder = run.claims.owner("p-1-0")
        assert holder is not None
        assert codes[int(holder.slot.partition("_")[2])] == 10
        run.disk.remove(next((run.path / "claims").glob("*/p-1-0")))


def test_two_coordinators_submit_once(run: RunFolder) -> None:
    def submit(coordinator: int) -> None:
        mine = RunFolder.open(run.path)
        wins = 0
        for number in range(20):
            intent = Intent(number, f"token-{coordinator}", "slots", 4)
            wins += mine.intents.publish(intent)
        os._exit(100 + wins)

    pids = [start(lambda c=c: submit(c)) for c in range(2)]  # type: ignore[misc]
    assert sum(finish(pid) - 100 for pid in pids) == 20
    assert len(run.intents.all()) == run.intents.count() == 20


def test_of_two_jobs_of_one_intent_one_learns_that_it_is_the_duplicate(run: RunFolder) -> None:
    def enter(job: int) -> None:
        os._exit(int(RunFolder.open(run.path).intents.record(0, str(job))))

    pids = [start(lambda job=job: enter(job)) for job in (11, 12, 13)]  # type: ignore[misc]
    said = {finish(pid) for pid in pids}
    winner = run.intents.submission(0)
    assert winner is not None
    assert said == {int(winner)}
    assert run.intents.record(0, "14") == winner


def test_a_reader_never_sees_half_of_a_file_that_is_replaced(run: RunFolder) -> None:
    core = run.blobs.put({}, {})

    def save() -> None:
        mine = RunFolder.open(run.path)
        for steps in itertools.count(1):
            segments = tuple(Segment(n, n + 1, core) for n in range(steps % 7 * 200))
            mine.checkpoints.save("p1", 1, 0, Checkpoint(core, steps, steps, segments))
            filler = "x" * (steps % 5 * 5000)
            mine.slots.write("1_1", SlotStatus(state="idle", env_steps=steps, host=filler))

    run.checkpoints.save("p1", 1, 0, Checkpoint(core, 0))
    run.slots.write("1_1", SlotStatus(state="idle", env_steps=0))
    pid = start(save)
    steps = shown = reads = 0
    until = time.monotonic() + 2
    while time.monotonic() < until:
        found = run.checkpoints.latest("p1", 1)
        assert found is not None
        assert found.env_steps >= steps
        slots = run.slots.all()
        now = slots["1_1"].env_steps
        assert now is not None and now >= shown
        steps, shown = found.env_steps, now
        reads += 1
    os.kill(pid, signal.SIGKILL)
    finish(pid)
    assert steps > 10
    assert reads > 10
    assert run.quarantine.list() == []
