"""A run of a group: all read and merge it, one owns it, and nobody's code is run by another."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpod._process import PYTHON
from hpcpod.storage.layout import CLOSED, SHARED
from tests.security.people import Person, shared_folder
from tests.support.command_line import GOOD

CREATE = "create(Path(sys.argv[1]), name=sys.argv[2], stop={'rounds': 1})"


@pytest.fixture(scope="module")
def new(everybody: tuple[Person, Person, Person]) -> Iterator[Path]:
    """A run of Ann's that nobody works on, to copy."""
    with shared_folder(everybody[0]) as runs:
        everybody[0].does(CREATE, str(runs), "shared", cwd=runs)
        yield runs / "shared"


@pytest.fixture
def run(new: Path, runs: Path) -> Path:
    """The same, to do something with."""
    subprocess.run(["cp", "-a", str(new), str(runs)], check=True)
    return runs / "shared"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_group_may_write_what_it_merges_and_nothing_that_is_obeyed(
    run: Path, ann: Person
) -> None:
    assert {path.stat().st_gid for path in run.rglob("*")} == {ann.gid}
    assert {mode(run / name) for name in SHARED} == {0o2775}
    assert {mode(run / name) for name in CLOSED} == {0o2755}
    assert (mode(run), mode(run / "config.json")) == (0o2755, 0o644)
    boards = [path for path in (run / "board").rglob("*.json")]
    assert [mode(path) for path in boards] == [0o664]
    assert [mode(path.parent) for path in boards] == [0o2775]


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_what_is_written_later_is_as_open_as_its_folder(run: Path, ann: Person, umask: int) -> None:
    text = """
folder = RunFolder.open(sys.argv[1])
owner = Owner("1_0", "1", "here", 1)
assert folder.claims.take("p0001-00001-1", owner)
sha256 = folder.blobs.put({}, {})
folder.checkpoints.save("p0001", 1, 1, Checkpoint(sha256, 3))
folder.reports.publish(Report("p0001-00001-1", "p0001", 1, 1, "1_0"))
folder.slots.write("1_0", SlotStatus(state="idle"))
folder.engines.agree("panel", "gymnasium")
folder.requests.publish(Drain())
folder.slots.retire("1_0", "now", "")
folder.intents.publish(Intent(0, "a", "slots"))
with folder.locks.merge(), folder.locks.coordinator():
    pass
"""
    ann.does(text, str(run), cwd=run.parent, umask=umask)
    for path in run.rglob("*"):
        top = path.relative_to(run).parts[0]
        if path.name != "coordinator":  # filelock lets nobody else write a lease
            shared = top in SHARED
            assert bool(mode(path) & stat.S_IWGRP) == shared, path
            assert mode(path) & stat.S_IRGRP, path
        assert not mode(path) & stat.S_IWOTH, path
        assert path.stat().st_gid == ann.gid


def test_a_private_umask_keeps_a_run_private(runs: Path, ann: Person, bob: Person) -> None:
    ann.does(CREATE, str(runs), "private", cwd=runs, umask=0o077)
    found = [runs / "private", *(runs / "private").rglob("*")]
    assert not [path for path in found if mode(path) & 0o077]
    said = bob.hpcpod("status", "private", cwd=runs.parent, code=2)
    assert said.startswith("hpcpod: ")
    assert len(said.splitlines()) == 1


def test_everybody_looks_and_only_the_owner_acts(
    run: Path, ann: Person, bob: Person, carol: Person
) -> None:
    home = run.parent.parent
    for person in (ann, bob, carol):
        assert person.hpcpod("status", "shared", cwd=home).startswith("shared: ")
        assert "leaderboard" in person.hpcpod("leaderboard", "shared", cwd=home)
    before = sorted(path for path in run.rglob("*"))
    for verb in (["stop"], ["stop", "--drain"], ["resume"]):
        said = bob.hpcpod(*verb, "shared", cwd=home, code=2)
        assert "belongs to user 65521, and only user 65521 submits, steers, retires" in said
        assert len(said.splitlines()) == 1
    said = bob.hpcpod("scale", "shared", cwd=home)
    assert said.startswith("shared: how many slots are wanted can't be told here (the run at ")
    said = bob.run(bob.python, "-m", "hpcpod.orchestrator", str(run), cwd=home, code=2)
    assert "belongs to user 65521" in said
    said = bob.hpcpod("export", "shared", cwd=home, code=2)
    assert "say where the policy is to go" in said
    assert sorted(path for path in run.rglob("*")) == before


def test_a_member_s_tick_merges_and_calls_nothing_lost(run: Path, ann: Person, bob: Person) -> None:
    """Ann's slot has died; only she, who sees her jobs, can say so. Bob merges a report."""
    ann.does(
        'RunFolder.open(sys.argv[1]).claims.take("p0001-00001-1", Owner("77_0", "77", "gone", 1))',
        str(run), cwd=run.parent,
    )  # fmt: skip
    said = bob.hpcpod("tick", str(run), cwd=run.parent)
    assert "belongs to user 65521: its reports are merged, and nothing else is done" in said
    report = 'Report("p0001-00001-1", "p0001", 1, 1, "77_0", failure="x", failure_kind="crash")'
    ann.does(f"RunFolder.open(sys.argv[1]).reports.publish({report})", str(run), cwd=run.parent)
    bob.hpcpod("tick", str(run), cwd=run.parent)
    text = """
from hpcpod.tournament.merge import read_board
board = read_board(RunFolder.open(sys.argv[1]))
print(board.reports, board.pods["p0001"].birth.attempt)
"""
    assert ann.does(text, str(run), cwd=run.parent) == "1 2\n"


def test_members_can_t_change_what_the_owner_s_processes_obey(run: Path, bob: Person) -> None:
    attacks = [
        *(f"(run / '{name}' / 'x').write_text('')" for name in CLOSED),
        "(run / 'x').write_text('')",
        "(run / 'config.json').write_text('')",
        "(run / 'config.json').rename(run / 'board' / 'x')",
        "(run / 'logs').rename(run / 'board' / 'x')",
        "(run / 'control').rmdir()",
        "run.rename(run.with_name('y'))",
        "run.chmod(0o777)",
    ]
    text = """
run, refused = Path(sys.argv[1]), 0
for attack in sys.argv[2:]:
    try:
        exec(attack)
        print(attack)
    except PermissionError:
        refused += 1
print(refused)
"""
    assert bob.does(text, str(run), *attacks, cwd=run.parent) == f"{len(attacks)}\n"


def test_what_a_member_keeps_to_himself_is_damage_and_stops_nobody(
    run: Path, ann: Person, bob: Person
) -> None:
    """A file that Ann can't open lies where her processes look, or a folder of that name."""
    places = [
        "claims/3d/p0001-00001-1", "reports/3d/p0001-00001-1.json", "slots/1_0.json",
        "lives/91/1_0.json", "pods/p0001/resume/00001-1.json", "quarantine/x.reason",
    ]  # fmt: skip
    closed = """
for place in map(Path, sys.argv[1:]):
    place.parent.mkdir(parents=True, exist_ok=True)
    MAKE
"""
    for make in ("place.touch(0)", "place.mkdir(0); place.chmod(0)"):
        bob.does(closed.replace("MAKE", make), *places, cwd=run)
        ann.hpcpod("status", str(run), cwd=run.parent)
        ann.hpcpod("tick", str(run), cwd=run.parent)
        text = """
folder = RunFolder.open(sys.argv[1])
assert folder.restarts.read("1_0") is None
assert folder.checkpoints.latest("p0001", 1) is None
assert folder.claims.take("p0001-00001-1", Owner("1_0", "1"))
"""
        ann.does(text, str(run), cwd=run.parent)
        bob.does("[os.remove(p) if os.path.isfile(p) else os.rmdir(p) for p in sys.argv[1:]"
                 " if os.path.exists(p)]", *places, cwd=run)  # fmt: skip


def test_code_of_the_owner_s_is_run_by_nobody_else(runs: Path, ann: Person, bob: Person) -> None:
    own = "{'id': 'tests.support.faulty_envs:Slow'}"
    judge = "{'updater': 'hpcpod.tournament.updaters:PairedGate'}"
    ann.does(f"create(Path(sys.argv[1]), name='env', env={own})", str(runs), cwd=runs)
    ann.does(f"create(Path(sys.argv[1]), name='judge', population={judge})", str(runs), cwd=runs)
    slot = (bob.python, "-m", "hpcpod.slot")
    said = bob.run(*slot, str(runs / "env"), cwd=runs, code=2)
    assert "code of user 65521's own (env.id: tests.support.faulty_envs:Slow), and to train" in said
    assert "its reports are merged" in bob.hpcpod("tick", "env", cwd=runs.parent)
    said = bob.hpcpod("tick", "judge", cwd=runs.parent, code=2)
    assert "(population.updater: hpcpod.tournament.updaters:PairedGate), and to merge" in said
    assert bob.hpcpod("status", "judge", cwd=runs.parent).startswith("judge: ")


def test_the_owner_s_on_finish_is_run_by_the_owner_alone(
    runs: Path, ann: Person, bob: Person
) -> None:
    made = "create(Path(sys.argv[1]), name='told', on_finish='id -u; echo $HPCPOD_REASON')"
    ann.does(made, str(runs), cwd=runs)
    text = """
from hpcpod.orchestrator.tick import Orchestrator
from hpcpod.tournament.merge import merge
from hpcpod.tournament.rules import Rules
folder = RunFolder.open(sys.argv[1])
merge(folder, Rules.of_run(folder), stop="user")
assert Orchestrator(folder, None).tick().phase == "finished"
"""
    bob.does(text, str(runs / "told"), cwd=runs)
    assert not (runs / "told" / "control" / "on_finish.json").exists()
    ann.hpcpod("tick", "told", cwd=runs.parent)
    assert (runs / "told" / "logs" / "on_finish.log").read_text() == f"{ann.uid}\nuser\n"


def test_an_open_configuration_is_obeyed_by_nobody(run: Path, ann: Person, bob: Person) -> None:
    for loose in (run, run / "config.json"):
        before = mode(loose)
        loose.chmod(before | 0o020)
        for words in (["tick", str(run)], ["resume", str(run)]):
            said = ann.hpcpod(*words, cwd=run.parent, code=2)
            assert f"{loose} can be written by others than you" in said
            assert f"chmod go-w {run} {run}/config.json" in said
        said = ann.run(ann.python, "-m", "hpcpod.slot", str(run), cwd=run.parent, code=2)
        assert "can be written by others than you" in said
        assert bob.hpcpod("status", str(run), cwd=run.parent).startswith("shared: ")
        loose.chmod(before)
    ann.hpcpod("tick", str(run), cwd=run.parent)


def test_a_run_in_the_place_of_another_is_not_obeyed(run: Path, ann: Person, bob: Person) -> None:
    """Where the folder above is open and not sticky, Bob puts a run of his under Ann's name."""
    run.parent.chmod(0o2775)
    bob.does(
        "run = Path(sys.argv[1]); run.rename(run.with_name('moved'))", str(run), cwd=run.parent
    )
    text = "create(Path(sys.argv[1]), name='shared', env={'id': 'tests.support.faulty_envs:Slow'})"
    bob.does(text, str(run.parent), cwd=run.parent)
    said = ann.run(ann.python, "-m", "hpcpod.slot", str(run), cwd=run.parent, code=2)
    assert "code of user 65522's own (env.id: tests.support.faulty_envs:Slow)" in said
    said = ann.run(ann.python, "-m", "hpcpod.orchestrator", str(run), cwd=run.parent, code=2)
    assert "belongs to user 65522" in said


def test_what_another_has_left_beside_runs_is_not_swept(
    runs: Path, ann: Person, bob: Person
) -> None:
    ann.does("Path('own').mkdir(); Path('own/x').touch(); Path('.tmp-run-mine').mkdir()", cwd=runs)
    text = """
Path(".tmp-run-his").mkdir()
Path(".tmp-run-his/link").symlink_to(Path("own").absolute())
Path(".tmp-run-link").symlink_to(Path("own").absolute())
"""
    bob.does(text, cwd=runs)
    for name in ("mine", "his", "link"):
        os.utime(runs / f".tmp-run-{name}", (0, 0), follow_symlinks=False)
    ann.does(CREATE, str(runs), "new", cwd=runs)
    assert (runs / "own" / "x").exists()
    assert sorted(path.name for path in runs.glob(".tmp-*")) == [".tmp-run-his", ".tmp-run-link"]


@pytest.mark.slow
def test_a_member_s_slot_trains_what_is_built_in(run: Path, ann: Person, bob: Person) -> None:
    slot = (bob.python, "-m", "hpcpod.slot", str(run))
    said = bob.run(*slot, "--token", "x", cwd=run.parent, code=2)
    assert "this script is a submission of user 65521's" in said
    said = bob.run(*slot, "--slot", "12_0", cwd=run.parent)
    assert "slot hand-12_0" in said
    status = bob.hpcpod("status", str(run), cwd=run.parent)
    assert status.startswith("shared: finished (rounds)")
    assert not (run / "best.h5").exists(), "a member can't write it"
    assert "finished" in ann.hpcpod("tick", str(run), cwd=run.parent)
    assert (run / "best.h5").stat().st_uid == ann.uid
    load = "import hpcpod; print(hpcpod.load_policy(sys.argv[1])([0.0] * 4).shape)"
    assert bob.does(load, str(run), cwd=run.parent) == "()\n"


@pytest.mark.slow
@pytest.mark.skipif(len(PYTHON) == 1, reason="this Python has no option -P")
def test_a_module_in_the_working_directory_is_nobody_s(
    runs: Path, ann: Person, bob: Person
) -> None:
    """Bob leaves a module of a library's name where Ann works: her slots don't import it."""
    caught = runs / "caught"
    planted = f"open({str(caught)!r}, 'w')"
    bob.does("Path('random.py').write_text(sys.argv[1])", planted, cwd=runs)
    (runs / "ann.yaml").write_text(GOOD)
    said = ann.hpcpod("launch", "ann.yaml", "--runs", ".", cwd=runs)
    assert "finished: rounds" in said
    assert not caught.exists()
