"""A round of a user's program: trained, scored, saved, stopped and gone on with."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.config.loader import from_mapping
from hpcpod.pod.watch import Stopped, Watch
from hpcpod.program import session_folder
from hpcpod.records.records import Checkpoint, Rescore, seed_of
from tests.program.programs import (
    ADDS,
    READ,
    birth_of,
    create,
    execute,
    gone,
    mapping,
    once,
    running,
    saved,
)


def test_a_round_is_trained_scored_on_the_panel_and_goes_on_from_what_was_saved(
    tmp_path: Path,
) -> None:
    folder = create(ADDS, tmp_path)
    birth = birth_of(folder)
    report = execute(folder, birth)
    rate = birth.hyperparameters["rate"]
    assert isinstance(rate, float)
    weight = rate + rate + rate + rate
    seeds = [seed_of(0, "panel", 1, i) for i in range(8)]
    assert report.returns == tuple(weight + seed / 2**40 for seed in seeds)
    assert report.trained_steps == 4 and report.checkpoint is not None
    assert report.checkpoint.env_steps == 4
    assert saved(folder, report, tmp_path / "out") == {"weight": repr(weight).encode()}
    second = execute(folder, replace(birth, round=2, checkpoint=report.checkpoint))
    assert second.checkpoint is not None and second.checkpoint.env_steps == 8
    assert second.returns[0] > 2 * weight - 1e-9
    assert 0 < report.evaluate_seconds < report.wall_seconds  # since its last progress
    [curve] = [each for each in folder.curves.of("p0001") if each.round == 1]
    assert curve.columns["env_steps"] == (1.0, 2.0, 3.0, 4.0)
    assert curve.columns["weight"][-1] == pytest.approx(4 * rate)


def test_a_copy_scores_its_parents_panel_first_and_just_as_its_parent_did(tmp_path: Path) -> None:
    folder = create(ADDS, tmp_path, program={"scores": True})
    birth = birth_of(folder)
    parent = execute(folder, birth)
    copied = replace(
        birth, pod="p0002", round=2, checkpoint=parent.checkpoint, inherited=True,
        hyperparameters={"rate": 0.75},
    )  # fmt: skip
    child = execute(folder, copied)
    assert child.inherited_returns == parent.returns
    assert child.checkpoint is not None and child.checkpoint.env_steps == 8
    assert child.returns[0] > parent.returns[0] + 2.9  # 4 steps of 0.75


def test_a_finalist_is_scored_on_fresh_seeds_without_training(tmp_path: Path) -> None:
    folder = create(ADDS, tmp_path, program={"scores": True})
    birth = birth_of(folder)
    trained = execute(folder, birth)
    assert trained.checkpoint is not None
    order = Rescore(
        "report", 0, "p0001", 1, "program", birth.hyperparameters, trained.checkpoint, 1
    )
    scored = execute(folder, order)
    rate = birth.hyperparameters["rate"]
    assert isinstance(rate, float)
    weight = 4 * rate
    seeds = [seed_of(0, "report", 0, i) for i in range(4)]
    assert scored.returns == pytest.approx([weight + seed / 2**40 for seed in seeds], abs=1e-12)
    assert scored.checkpoint is None and scored.trained_steps == 0


SAVES = (
    READ
    + """
done = int(Path(task["checkpoint"], "done").read_text()) if task["checkpoint"] else 0
print("begins at", done, task["steps_done"])
for step in range(1, task["steps"] - task["steps_done"] + 1):
    (save / "done").write_text(str(done + step))
    (session / "saved-part").write_text(json.dumps({"format": 1, "steps": step}))
    os.rename(session / "saved-part", session / f"saved-{step}.json")
    while (session / f"saved-{step}.json").exists():
        time.sleep(0.002)
    tell(steps=step)
    if step == 2 and not task["checkpoint"]:
        while not HOW:
            time.sleep(0.002)
        sys.exit(0)
report(steps=task["steps"] - task["steps_done"], returns=[float(done + step)] * 8)
"""
)
"""Saves at each step; in its first life it waits after the second one, until HOW."""


@pytest.mark.parametrize("how", ["stopping()", "False"])
def test_a_round_that_is_stopped_goes_on_at_its_last_save(tmp_path: Path, how: str) -> None:
    folder = create(SAVES.replace("HOW", how), tmp_path)
    birth = birth_of(folder)
    store = folder.checkpoints
    with pytest.raises(Stopped):
        execute(folder, birth, once(lambda: store.steps("p0001", 1) == 2))
    report = execute(folder, birth)
    assert report.trained_steps == 4  # two of them before
    assert saved(folder, report, tmp_path / "out") == {"done": b"4"}
    assert report.returns == (4.0,) * 8


def test_a_report_of_a_round_that_was_stopped_early_is_a_save(tmp_path: Path) -> None:
    script = (
        READ
        + """
done = int(Path(task["checkpoint"], "done").read_text()) if task["checkpoint"] else 0
step = 0
while task["steps_done"] + step < task["steps"] and not stopping():
    step += 1
    tell(steps=step)
    while not task["checkpoint"] and step == 3 and not stopping():
        time.sleep(0.002)
(save / "done").write_text(str(done + step))
report(steps=step, returns=[1.0] * 8)
"""
    )
    folder = create(script, tmp_path)
    heard: list[int] = []
    watch = Watch(lambda: 3 in heard, lambda progress: heard.append(progress.env_steps))
    with pytest.raises(Stopped):
        execute(folder, birth_of(folder), watch)
    assert folder.checkpoints.steps("p0001", 1) == 3
    report = execute(folder, birth_of(folder))
    assert saved(folder, report, tmp_path / "out") == {"done": b"4"} and report.trained_steps == 4


KEPT = (
    READ
    + """
(session / "hello.part").write_text('{"format": 1, "keep": true}')
os.rename(session / "hello.part", session / "hello.json")
while True:
    save = Path(task["save_to"])
    if task["number"]:
        assert Path(task["checkpoint"], "pid").read_text() == str(os.getpid())
    (save / "pid").write_text(str(os.getpid()))
    report(steps=4, returns=[float(task["round"])] * 8)
    number = task["number"]
    while task.get("number") == number:
        time.sleep(0.002)
        task = json.loads((session / "task.json").read_text())
        if task.get("end"):
            sys.exit(0)
"""
)


def test_a_process_that_asks_for_it_is_kept_between_rounds_and_ends_when_told(
    tmp_path: Path,
) -> None:
    folder = create(KEPT, tmp_path)
    birth = birth_of(folder)
    with running(folder) as program:
        first = program.execute(birth, "here", Watch())
        later = replace(birth, round=2, checkpoint=first.checkpoint)
        second = program.execute(later, "here", Watch())
    one, other = (saved(folder, r, tmp_path / str(r.round)) for r in (first, second))
    assert one == other and second.returns == (2.0,) * 8
    assert gone(int(one["pid"]))


def test_a_process_is_not_kept_where_the_run_says_so(tmp_path: Path) -> None:
    folder = create(KEPT, tmp_path, program={"keep": False, "stop_seconds": 0.2})
    birth = birth_of(folder)
    with running(folder) as program:
        reports = [program.execute(replace(birth, round=n), "here", Watch()) for n in (1, 2)]
    pids = {saved(folder, r, tmp_path / str(r.round))["pid"] for r in reports}
    assert len(pids) == 2


def test_a_shell_script_is_a_program(tmp_path: Path) -> None:
    script = """
echo "$HPCPOD_P_RATE" > "$HPCPOD_SAVE_TO/rate"
set -- $HPCPOD_PANEL_SEEDS
made="$HPCPOD_SESSION/made"
printf '{"format": 1, "steps": %s, "score": 2.5, "error": 0.5}' "$HPCPOD_STEPS" > "$made"
mv "$made" "$HPCPOD_REPORT_TO"
"""
    folder = create(script, tmp_path, program={"command": ["sh", "train.py"]})
    birth = birth_of(folder)
    report = execute(folder, birth)
    assert saved(folder, report, tmp_path / "out")["rate"].decode().strip() == str(
        birth.hyperparameters["rate"]
    )
    assert len(report.returns) == 8 and sum(report.returns) / 8 == pytest.approx(2.5)
    assert report.metrics["score_error"] == 0.5 and report.trained_steps == 4


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    script = (
        READ
        + """
(save / "replay").write_bytes(b"r" * 9_000_000)
(save / "round").write_text(str(task["round"]))
(save / "run.sh").write_text("#!/bin/sh\\n")
(save / "run.sh").chmod(0o755)
(save / "empty").mkdir()
report(returns=[1.0] * 8)
"""
    )
    folder = create(script, tmp_path)
    birth = birth_of(folder)
    first = execute(folder, birth)
    before = {p.name: p.stat().st_ino for p in (folder.path / "blobs").rglob("*.h5")}
    second = execute(folder, replace(birth, round=2, checkpoint=first.checkpoint))
    after = {p.name: p.stat().st_ino for p in (folder.path / "blobs").rglob("*.h5")}
    assert before.items() <= after.items() and len(after) == len(before) + 1  # another core
    saved(folder, second, tmp_path / "out")
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)
    assert (tmp_path / "out" / "empty").is_dir()


def test_a_program_gets_its_budget_of_seconds_and_no_steps(tmp_path: Path) -> None:
    script = (
        READ
        + """
told = [task["steps"], task["seconds"], "HPCPOD_STEPS" in os.environ]
(save / "task").write_text(json.dumps(told))
report(steps=7, returns=[1.0] * 8)
"""
    )
    folder = create(script, tmp_path, program={"seconds": 5.0})
    report = execute(folder, birth_of(folder))
    assert json.loads(saved(folder, report, tmp_path / "out")["task"]) == [None, 5.0, False]
    assert report.trained_steps == 7


def test_less_is_better_where_the_program_says_so(tmp_path: Path) -> None:
    script = (
        READ
        + """
(save / "x").write_text("x")
report(steps=4, returns=list(range(8)), metrics={"loss": 3.0, "bad": "x"}, costs=[1, 3])
"""
    )
    folder = create(script, tmp_path, program={"direction": "minimize"})
    report = execute(folder, birth_of(folder))
    assert report.returns == (0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0)
    assert report.metrics == {"loss": 3.0, "cost": 2.0}


def test_a_kept_process_that_died_is_started_again(tmp_path: Path) -> None:
    folder = create(KEPT, tmp_path)
    birth = birth_of(folder)
    with running(folder) as program:
        first = program.execute(birth, "here", Watch())
        pid = int(saved(folder, first, tmp_path / "one")["pid"])
        os.kill(pid, signal.SIGKILL)
        assert gone(pid)
        second = program.execute(replace(birth, round=2), "here", Watch())
    assert int(saved(folder, second, tmp_path / "two")["pid"]) != pid


def test_a_program_gets_the_slots_variables_but_for_its_number_among_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        READ
        + """
(save / "variables").write_text(json.dumps(dict(os.environ)))
report(returns=[1.0] * 8)
"""
    )
    for name in ("RANK", "SLURM_PROCID", "PMIX_RANK", "HPCPOD_P_OLD", "HPCPOD_SECONDS"):
        monkeypatch.setenv(name, "3")
    monkeypatch.setenv("MODULE", "cuda/12")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    folder = create(script, tmp_path, resources={"cpus_per_pod": 3})
    found = json.loads(
        saved(folder, execute(folder, birth_of(folder)), tmp_path / "o")["variables"]
    )
    assert found["MODULE"] == "cuda/12" and found["OMP_NUM_THREADS"] == "3"
    assert found["HPCPOD_MODE"] == "train" and found["HPCPOD_STEPS"] == "4"
    assert json.loads(found["HPCPOD_HYPERPARAMETERS"]) == birth_of(folder).hyperparameters
    absent = ("RANK", "SLURM_PROCID", "PMIX_RANK", "HPCPOD_P_OLD", "HPCPOD_SECONDS")
    assert not found.keys() & set(absent) and "HPCPOD_CHECKPOINT" not in found


def test_the_task_of_a_pod_on_several_nodes_lies_where_all_of_them_read_it(tmp_path: Path) -> None:
    script = (
        READ
        + """
(save / "where").write_text(f"{session} {session.stat().st_mode & 0o777:o}")
report(returns=[1.0] * 8)
"""
    )
    folder = create(script, tmp_path, resources={"nodes_per_pod": 2})
    report = execute(folder, birth_of(folder))
    where, mode = saved(folder, report, tmp_path / "out")["where"].decode().split()
    assert Path(where).parent == folder.path / "rendezvous" and mode == "700"
    assert not Path(where).exists()


def test_what_several_pods_have_saved_is_handed_to_a_kept_process_without_the_blobs(
    tmp_path: Path,
) -> None:
    folder = create(KEPT.replace('if task["number"]:', 'if task["round"] > 1:'), tmp_path)
    one = birth_of(folder)
    with running(folder) as program:
        made = {
            pod: program.execute(replace(one, pod=pod), "here", Watch()).checkpoint
            for pod in ("p0001", "p0002", "p0003")
        }
        for blob in (folder.path / "blobs").rglob("*.h5"):
            blob.unlink()
        for pod in ("p0002", "p0001", "p0003"):
            birth = replace(one, pod=pod, round=2, checkpoint=made[pod])
            assert program.execute(birth, "here", Watch()).returns == (2.0,) * 8


def test_only_so_much_of_what_pods_have_saved_is_kept_on_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_folder, "MOST_KEPT_BYTES", 250)
    program = from_mapping(mapping("", tmp_path)).program
    assert program is not None
    session = session_folder.Session(program, 1)
    for number in range(3):
        session.next()
        session.path("save").mkdir()
        (session.path("save") / "x").write_bytes(b"x" * 100)
        session.note_save()
        session.clear(f"core{number}")
    session.next()
    assert [session.hand_on(f"core{n}") for n in (0, 1)] == [False, True]
    assert (session.path("load") / "x").exists()
    session.close()
    assert not session.folder.exists()


def test_a_kept_process_loads_each_pods_own_save(tmp_path: Path) -> None:
    script = KEPT.replace(
        'if task["number"]:\n        assert Path(task["checkpoint"], "pid").read_text()'
        " == str(os.getpid())",
        'if task["checkpoint"]:\n        assert Path(task["checkpoint"], "pod").read_text()'
        ' == task["pod"]',
    ).replace(
        '    (save / "pid")', '    (save / "pod").write_text(task["pod"])\n    (save / "pid")'
    )
    assert script.count('"pod"') == 4
    folder = create(script, tmp_path)
    one = birth_of(folder)
    pids = set()
    with running(folder) as program:
        made: dict[str, Checkpoint | None] = {}
        for number, pod in [(1, "p0001"), (1, "p0002"), (2, "p0001"), (3, "p0001"), (2, "p0002")]:
            birth = replace(one, pod=pod, round=number, checkpoint=made.get(pod))
            report = program.execute(birth, "here", Watch())
            made[pod] = report.checkpoint
            pids.add(saved(folder, report, tmp_path / f"{pod}-{number}")["pid"])
    assert len(pids) == 1
