"""A short campaign on a real Slurm; and that those who check it would see what they look for."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.config.resolved import Resolved
from hpcpod.records.records import Birth, Board, Checkpoint, Report
from hpcpod.storage.checksummed import pack
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.chaos import invariants
from tests.chaos.__main__ import off, read
from tests.chaos.accounting import audit
from tests.chaos.faults import KINDS, Fault, storms
from tests.chaos.observer import LOOK_SECONDS, Observer, Past
from tests.chaos.storms import Campaign, Summary
from tests.chaos.views import require_views
from tests.chaos.world import DQN, PPO, SCENES, Disk, Scene, World
from tests.support.slurm_cluster import SlurmCluster
from tests.support.small_runs import create

PACED = """\
env:
  id: tests.support.faulty_envs:Slow
  kwargs: {{pause: 0.002}}
  num_envs: 4
  processes: 1
  wrappers: ["gymnasium.wrappers:TimeLimit": {{max_episode_steps: 200}}]
agents: {agents}"""
"""Rounds that last as long as CartPole's at full speed, and leave the cores to others."""
IDLE = DQN.replace("}", ", updates_per_step: 0.05}")
"""A tenth of the updates: each takes a millisecond of a core."""
SHORT = (
    replace(
        SCENES[1], template=PACED, pods=3, slots=2, steps=1000,
        agents=f"{{ppo: {PPO}, dqn: {IDLE}}}",
        stop="{rounds: 8, finalists: 2, confirm_episodes: 8}",
    ),
    replace(
        SCENES[2], template=PACED, steps=2000,
        stop="{rounds: 8, finalists: 1, confirm_episodes: 8}",
    ),
    replace(SCENES[3], stop="{rounds: 8, finalists: 2, confirm_episodes: 8}"),
)  # fmt: skip


def drawn(seed: int, count: int = 20) -> list[list[Fault]]:
    return list(itertools.islice(storms(seed, mounted=True, views=True), count))


def test_a_seed_draws_the_same_faults_at_the_same_moments() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    faults = [fault for storm in drawn(7, 100) for fault in storm]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert [fault.number for fault in faults] == list(range(len(faults)))


def test_a_log_is_replayed_fault_by_fault(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    told = drawn(3, 4)
    lines = [json.dumps({**f.record(), "hit": "x", "time": 0.0}) for storm in told for f in storm]
    log.write_text("\n".join(lines))
    assert list(read(log)) == told


# What the books find. A run without a slot: its reports are written here.


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return create(tmp_path, "ppo", "ppo", population={"algorithms": {"ppo": 1}}, stop={"rounds": 9})


def answer(folder: RunFolder, order: Birth, score: float) -> None:
    """Publish a report of a round."""
    core = folder.blobs.put({}, {"order": order.id})
    checkpoint = Checkpoint(core, order.round * 512)
    returns = (score, score + 1)
    folder.reports.publish(
        Report(order.id, order.pod, order.round, order.attempt, "s", returns, (), checkpoint, 512)
    )


def rules(folder: RunFolder) -> Rules:
    resolved = Resolved.from_document(folder.config)
    return Rules.of(resolved.config, resolved.algorithms)


def births(board: Board) -> list[Birth]:
    return [order for order in orders(board) if isinstance(order, Birth)]


def trained(folder: RunFolder, rounds: int = 3) -> Past:
    """The past of a run whose pods have finished some rounds, each better than the last."""
    observer = Observer(folder.path)
    for number in range(rounds):
        for place, order in enumerate(births(read_board(folder))):
            answer(folder, order, 10.0 * number + place)
        merge(folder, rules(folder))
    observer.close()
    assert len(observer.past.generations) == rounds + 1
    assert observer.past.complaints == []
    return observer.past


def forge(folder: RunFolder, change: Callable[[Board], Board]) -> Past:
    """The past of a run with one more generation, which no merge would publish."""
    observer = Observer(folder.path)
    found = folder.board.read()
    assert found is not None
    board = change(Board.from_document(found[1]))
    assert folder.board.publish(found[0], found[1], board.document(), "forger")
    observer.close()
    return observer.past


def test_nothing_comes_into_the_books_while_they_are_checked(folder: RunFolder) -> None:
    observer = Observer(folder.path)
    with observer.still() as past:
        for order in births(read_board(folder)):
            answer(folder, order, 1.0)
        merge(folder, rules(folder))
        time.sleep(3 * LOOK_SECONDS)
        assert (len(past.generations), past.reports) == (1, {})
    observer.close()
    assert (len(past.generations), len(past.reports)) == (2, 2)
    assert audit(past).violations == []


def test_honest_books_are_right(folder: RunFolder) -> None:
    books = audit(trained(folder))
    assert books.violations == []
    assert len(books.counted) == 3 * len(read_board(folder).living)
    assert books.board == read_board(folder)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda board: replace(board, reports=board.reports + 1), "its reports say (0, 0, 0)"),
        (lambda board: replace(board, env_steps=board.env_steps + 512), "its reports say"),
        (lambda board: replace(board, entries=board.entries[1:]), "loses its best"),
        (lambda board: replace(board, entries=()), "gives way to None"),
        (lambda board: replace(board, pods={}), "without a report"),
    ],
    ids=["report twice", "steps twice", "best evicted", "leaderboard empty", "pods gone"],
)
def test_false_books_are_found_out(
    folder: RunFolder, change: Callable[[Board], Board], found: str
) -> None:
    trained(folder)
    assert found in "\n".join(audit(forge(folder, change)).violations)


def test_a_round_that_counts_without_a_report_is_found_out(folder: RunFolder) -> None:
    past = trained(folder)
    del past.reports[births(read_board(folder))[0].pod + "-00002-1"]
    assert "without a report" in "\n".join(audit(past).violations)


def test_a_report_that_counts_twice_is_found_out(folder: RunFolder) -> None:
    trained(folder)
    before = replace(read_board(folder))
    for order in births(before):
        answer(folder, order, 50.0)
    merge(folder, rules(folder))
    # A merge that had read the board before, and published after.
    past = forge(folder, lambda board: before)
    folder.board.read()
    merge(folder, rules(folder))
    observer = Observer(folder.path)
    observer.close()
    said = "\n".join(audit(observer.past).violations)
    assert "its reports say" in "\n".join(audit(past).violations)
    assert "has counted" in said


def test_a_report_that_is_passed_over_is_found_out(folder: RunFolder) -> None:
    trained(folder)
    order = births(read_board(folder))[0]
    answer(folder, order, 99.0)
    past = forge(folder, lambda board: replace(board, began=1.0))
    assert audit(past).violations == []  # it may have come while that merge was at work
    past.reports[order.id].appeared -= 60.0
    assert f"the report {order.id} was there" in "\n".join(audit(past).violations)
    past.stops.append((past.reports[order.id].appeared, time.time()))
    assert audit(past).violations == []  # whoever merged was held up


def test_a_damaged_generation_takes_back_what_it_counted_and_that_is_right(
    folder: RunFolder,
) -> None:
    past = trained(folder)
    data = past.generations[2].data
    folder.board.path(2).write_bytes(data[: len(data) // 2])
    past.generations[2].damaged = True
    merge(RunFolder.open(folder.path), rules(folder))
    observer = Observer(folder.path)
    observer.close()
    observer.past.generations[2].damaged = True
    books = audit(observer.past)
    assert books.violations == []
    assert books.board == read_board(RunFolder.open(folder.path))
    observer.past.generations[2].damaged = False
    assert "no fault did it" in "\n".join(audit(observer.past).violations)


def test_two_generations_may_be_damaged_one_before_and_one_after_a_merge(
    folder: RunFolder,
) -> None:
    """The merge between goes on from the first of them, while it is sound, and counts once more
    what the second had counted: in one step the rounds of both."""
    trained(folder)
    for order in births(read_board(folder)):
        answer(folder, order, 50.0)
    merge(folder, rules(folder))
    observer = Observer(folder.path)
    observer.look()
    for number in (4, 3):
        observer.past.generations[number].damaged = True
        path = folder.board.path(number)
        os.truncate(path, path.stat().st_size // 2)
        merge(RunFolder.open(folder.path), rules(folder))
    observer.close()
    books = audit(observer.past)
    assert books.violations == []
    assert books.board == read_board(RunFolder.open(folder.path))


# What the checks of files and processes find, in a world without a run on its cluster.


@pytest.fixture
def world(slurm_cluster: SlurmCluster, folder: RunFolder, tmp_path: Path) -> Iterator[World]:
    trained(folder)
    made = World(slurm_cluster, Disk(tmp_path, own=False), tmp_path, Scene("x"), folder.path)
    made.watch()
    yield made
    made.observer.close()  # else its thread opens files during the tests that follow


@pytest.mark.slurm
def test_a_sound_run_has_no_violation(world: World) -> None:
    assert invariants.of_the_run(world) == []
    assert invariants.of_processes(world) == []


@pytest.mark.slurm
def test_gaps_changes_lost_blobs_and_tracebacks_are_found(world: World) -> None:
    known, board = world.board(), world.folder.board
    world.observer.look()
    blob = known.entries[0].checkpoint.core
    head, logs = "Traceback (most recent call last):\n  File x\n    y\n", world.path / "logs"
    (logs / "slot-1.log").write_text(f"{head}KeyError: 'z'\nand on\n")
    chain = f"{head}OSError: away\n\nThe above exception was the direct cause of the following\n\n"
    (logs / "slot-2.log").write_text(f"{chain}{head}hpcpod.pod.ranks.rank.RankLost: x\n")
    world.folder.blobs.path(blob).write_bytes(b"")
    board.path(1).write_bytes(pack({"generation": 1}))
    board.path(2).unlink()
    board.path(0).write_bytes(b'{"emptied":true}\n')
    found = "\n".join(invariants.of_files(world, known))
    assert f"has lost its blob {blob[:12]}" in found
    assert "generation 1 was changed" in found
    assert "not gapless: [0, 1, 3]" in found
    assert "slot-1.log has a traceback: KeyError: 'z'" in found
    assert "slot-2.log" not in found


@pytest.mark.slurm
def test_a_process_without_a_job_is_an_orphan(world: World) -> None:
    command = [sys.executable, "-c", "input()", "-m", "hpcpod.slot"]
    env = world.cluster.env({"SLURM_JOB_ID": "999999"})
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=env) as left:
        world.wait("its start", 10.0, lambda: bool(invariants.orphans(world)))
        (found,) = invariants.orphans(world)
        left.kill()
    assert f"process {left.pid} of job 999999 is an orphan" in found
    assert invariants.orphans(world) == []


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.parametrize("scene", SHORT, ids=lambda scene: scene.name)
def test_a_short_campaign_breaks_no_promise(
    slurm_cluster: SlurmCluster, tmp_path: Path, scene: Scene
) -> None:
    """On a cluster of its own: the other one only says whether Slurm is here."""
    with World.started(tmp_path) as world:
        if os.geteuid() == 0 and os.environ.get("HPCPOD_REQUIRE_ALL"):
            assert world.disk.own
        moments = storms(1, mounted=world.disk.own, longest=5.0)
        summary = Campaign(world, moments, tmp_path / "log.jsonl", Summary(1)).run(20, (scene,))
    assert summary.violations == [], summary.text()
    assert summary.injected >= 20
    assert summary.reports > 10


@pytest.mark.slurm
@pytest.mark.slow
def test_a_short_campaign_on_a_disk_that_shows_what_was_breaks_no_promise(
    slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    """Each machine believes old listings and missing names, and the server's clock is off."""
    require_views()
    with World.started(tmp_path, off(1)) as world:
        moments = storms(1, mounted=world.disk.own, views=True, longest=8.0)
        summary = Campaign(world, moments, tmp_path / "log.jsonl", Summary(1)).run(
            20, (SHORT[0].other,)
        )
    assert summary.violations == [], summary.text()
    assert summary.by_kind["lost replies"] and summary.by_kind["disk hangs"], summary.text()
    assert summary.reports > 10
