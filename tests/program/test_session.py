"""Sessions: what a script is given, what it may tell, and what is refused in one sentence."""

from __future__ import annotations

import ast
import math
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import hpcpod
from hpcpod.program import session as module
from hpcpod.program.session import ENDLESS, Session, SessionError
from tests.program.given import give, lines, read, variables


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of another run, nor of another launcher, counts."""
    for name in (*module.RANKS, module.FOLDER):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session's folder, which the environment names."""
    monkeypatch.setenv("HPCPOD_SESSION", str(tmp_path / "session"))
    return tmp_path / "session"


def told(pod: Session, *steps: int) -> None:
    for each in steps:
        pod.progress(steps=each)


def asked_to_stop(pod: Session) -> bool:
    return pod.should_stop


def saved(pod: Session) -> Session:
    (pod.save_to / "model.txt").write_text("w", encoding="utf-8")
    return pod


def test_a_script_is_given_its_task(folder: Path, tmp_path: Path) -> None:
    give(folder, checkpoint=str(tmp_path), steps_done=40)
    pod = hpcpod.session(learning_rate=1.0, width=64)
    assert (pod.pod, pod.round, pod.attempt, pod.mode) == ("p0001", 3, 1, "train")
    assert pod.hyperparameters == {"learning_rate": 0.001, "width": 64}
    assert (pod.seed, pod.panel_seeds) == (7, [11, 12, 13, 14])
    assert (pod.checkpoint, pod.save_to) == (tmp_path, folder / "save")
    assert (pod.train_steps_left, pod.seconds_left) == (60, math.inf)


def test_what_it_tells_stands_in_files(folder: Path) -> None:
    give(folder, steps_done=40)
    pod = saved(hpcpod.session())
    pod.progress(steps=32, loss=0.5)
    assert pod.train_steps_left == 28
    pod.progress(entropy=2)
    pod.progress(steps=64)  # a rollout goes beyond the round's end
    assert pod.train_steps_left == 0
    pod.report(returns=[1, 2, 3, 4], energy=0.25)
    assert lines(folder / "progress.jsonl") == [
        {"steps": 32, "loss": 0.5},
        {"steps": 32, "entropy": 2.0},
        {"steps": 64},
    ]
    assert read(folder / "report-0.json") == {
        "format": 1,
        "steps": 64,
        "returns": [1.0, 2.0, 3.0, 4.0],
        "metrics": {"energy": 0.25},
    }
    assert {path.name for path in folder.iterdir()} == {
        "task.json", "progress.jsonl", "report-0.json", "save", "begun-0",
    }  # fmt: skip


def test_returns_may_be_given_by_seed_and_scores_without_seeds(folder: Path) -> None:
    give(folder)
    saved(hpcpod.session()).report(returns={14: 4, 13: 3, 12: 2, 11: 1}, steps=100)
    assert read(folder / "report-0.json")["returns"] == [1, 2, 3, 4]
    give(folder, number=1)
    hpcpod.session().report(score=-0.5, error=0.1, episodes=30, steps=100)
    told = {"format": 1, "steps": 100, "score": -0.5, "error": 0.1, "episodes": 30, "metrics": {}}
    assert read(folder / "report-1.json") == told
    give(folder, number=2)
    hpcpod.session().report(score=2, steps=100)
    assert read(folder / "report-2.json") == {
        "format": 1, "steps": 100, "score": 2.0, "metrics": {},
    }  # fmt: skip


def test_a_script_is_asked_to_stop_by_a_file_or_by_the_clock(folder: Path) -> None:
    give(folder)
    pod = hpcpod.session()
    assert not asked_to_stop(pod)
    (folder / "stop").touch()
    assert asked_to_stop(pod) and pod.train_steps_left == 100
    (folder / "stop").unlink()
    give(folder, steps=None, seconds=1000.0)
    pod = hpcpod.session()
    assert pod.train_steps_left == ENDLESS and 900 < pod.seconds_left <= 1000
    assert not pod.should_stop
    give(folder, steps=None, seconds=-1.0)
    pod = hpcpod.session()
    assert pod.train_steps_left == 0 and pod.should_stop


def test_a_save_in_the_middle_of_a_round_waits_until_it_is_taken(folder: Path) -> None:
    give(folder)
    pod = saved(hpcpod.session())
    pod.progress(steps=10)
    seen: list[dict[str, Any]] = []

    def take() -> None:
        mark = folder / "saved-10.json"
        while not mark.exists():
            pass
        seen.append(read(mark))
        mark.unlink()

    taker = threading.Thread(target=take)
    taker.start()
    pod.saved()
    taker.join()
    assert seen == [{"format": 1, "steps": 10}]
    pod.report(returns=[0] * 4)


def test_a_save_that_nothing_takes_any_more_is_an_error(folder: Path) -> None:
    give(folder)
    pod = saved(hpcpod.session())

    def end() -> None:
        while not (folder / "saved-10.json").exists():
            pass
        folder.rename(folder.with_name("gone"))  # at once: a mark alone that goes was taken

    ender = threading.Thread(target=end)
    ender.start()
    with pytest.raises(SessionError, match="is over: nothing takes its save"):
        pod.saved(steps=10)
    ender.join()


def test_to_score_needs_neither_steps_nor_a_save(folder: Path, tmp_path: Path) -> None:
    give(folder, mode="score", save_to=None, checkpoint=str(tmp_path))
    pod = hpcpod.session()
    assert pod.train_steps_left == 0
    with pytest.raises(SessionError, match="nothing is saved in mode 'score'"):
        _ = pod.save_to
    pod.report(returns=[1, 1, 1, 1])
    assert read(folder / "report-0.json")["steps"] == 0


BAD: list[tuple[str, Callable[[Session], object]]] = [
    (r"3 returns for 4 panel_seeds", lambda pod: pod.report(returns=[1, 2, 3], steps=1)),
    (r"return 2 \(seed 12\) is nan", lambda pod: pod.report(returns=[1, math.nan, 3, 4])),
    (r"of other seeds than panel_seeds",
     lambda pod: pod.report(returns={1: 1, 2: 2, 3: 3, 4: 4}, steps=1)),
    (r"give returns=, or score= and its error=", lambda pod: pod.report(steps=1)),
    (r"give returns=, or score=", lambda pod: pod.report(returns=[1] * 4, score=1, steps=1)),
    (r"error=-1 is negative", lambda pod: pod.report(score=1, error=-1, steps=1)),
    (r"score is inf", lambda pod: pod.report(score=math.inf, error=1, steps=1)),
    (r"episodes=0 is not 1 or more", lambda pod: pod.report(score=1, error=1, episodes=0)),
    (r"steps= is missing", lambda pod: pod.report(returns=[1] * 4)),
    (r"nothing is saved in .*save: save first", lambda pod: pod.report(returns=[1] * 4, steps=9)),
    (r"nothing is saved in .*save: save first", lambda pod: pod.saved(steps=9)),
    (r"steps=-1 is no whole number", lambda pod: pod.progress(steps=-1)),
    (r"steps=0.5 is no whole number", lambda pod: pod.progress(steps=0.5)),  # type: ignore[arg-type]
    (r"loss is nan; leave out", lambda pod: pod.progress(steps=1, loss=math.nan)),
    (r"loss='low' is no number",
     lambda pod: pod.progress(steps=1, loss="low")),  # type: ignore[arg-type]
    (r"steps=32 a second time; count from the session's begin",
     lambda pod: told(pod, 32, 32)),
    (r"steps fell from 32 to 31", lambda pod: told(pod, 32, 31)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wrong"), BAD)
def test_a_wrong_call_is_one_sentence_and_leaves_no_report(
    folder: Path, words: str, wrong: Callable[[Session], object]
) -> None:
    give(folder)
    pod = hpcpod.session()
    with pytest.raises(ValueError, match=words) as error:
        wrong(pod)
    assert "\n" not in str(error.value)
    assert not (folder / "report-0.json").exists() and not pod.reported


def test_after_a_report_nothing_more_is_taken(folder: Path) -> None:
    give(folder)
    pod = saved(hpcpod.session())
    pod.report(returns=[1] * 4, steps=100)
    more: Iterable[Callable[[], object]] = (
        lambda: pod.report(returns=[2] * 4, steps=100),
        lambda: pod.progress(steps=101),
        pod.saved,
        lambda: hpcpod.session().report(returns=[2] * 4, steps=100),
    )
    for call in more:
        with pytest.raises(SessionError, match="this round was reported already"):
            call()
    assert read(folder / "report-0.json")["returns"] == [1] * 4


def test_a_hyperparameter_that_the_script_does_not_name_is_refused(folder: Path) -> None:
    give(folder, hyperparameters={"learning_rat": 0.1})
    with pytest.raises(
        SessionError, match=r"searches learning_rat, which session\(\) does not name"
    ):
        hpcpod.session(learning_rate=0.1, width=64)
    assert hpcpod.session().hyperparameters == {"learning_rat": 0.1}


def test_a_folder_without_a_task_and_a_newer_one_are_refused(folder: Path) -> None:
    with pytest.raises(SessionError, match=r"HPCPOD_SESSION names .*, which has no task: "):
        hpcpod.session()
    give(folder, format=2)
    with pytest.raises(SessionError, match=r"has format 2, and this session\.py knows 1"):
        hpcpod.session()


@pytest.mark.parametrize("name", module.RANKS)
def test_other_ranks_check_what_they_tell_and_write_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    give(folder)
    before = set(folder.rglob("*"))
    monkeypatch.setenv(name, "1")
    pod = hpcpod.session()
    pod.progress(steps=10)
    pod.saved()
    with pytest.raises(SessionError, match="2 returns for 4"):
        pod.report(returns=[1, 2])
    pod.report(returns=[1] * 4)
    assert set(folder.rglob("*")) == before and pod.reported


def test_a_kept_process_takes_one_task_after_another(folder: Path) -> None:
    task = give(folder)
    taken = []
    for pod in hpcpod.sessions():
        taken.append((pod.pod, pod.hyperparameters["learning_rate"], pod.train_steps_left))
        saved(pod).report(returns=[1] * 4, steps=pod.train_steps_left)
        assert read(Path(pod._task["report_to"]))["steps"] == pod.steps
        if len(taken) == 1:
            assert read(folder / "hello.json") == {"format": 1, "keep": True}
            give(folder, number=1, pod="p0002", hyperparameters={"learning_rate": 1.0}, steps=50)
        else:
            give(folder, number=2, end=True)
    assert taken == [("p0001", 0.001, 100), ("p0002", 1.0, 50)] and task["number"] == 0


def test_a_kept_process_ends_when_it_is_to_stop_or_its_folder_is_gone(folder: Path) -> None:
    ways: tuple[Callable[[], object], ...] = (
        (folder / "stop").touch,
        lambda: shutil.rmtree(folder),
    )
    for end in ways:
        give(folder)
        (folder / "report-0.json").unlink(missing_ok=True)
        for pod in hpcpod.sessions():
            saved(pod).report(returns=[1] * 4, steps=100)
            end()
        (folder / "stop").unlink(missing_ok=True)


def test_an_interrupted_task_needs_no_report(folder: Path) -> None:
    give(folder)
    for _ in hpcpod.sessions():
        (folder / "stop").touch()
    assert not (folder / "report-0.json").exists()


def test_a_task_that_is_left_without_a_report_is_an_error(folder: Path) -> None:
    give(folder)
    with pytest.raises(SessionError, match="round 3 of p0001 was left without a report"):
        for _ in hpcpod.sessions():
            pass


def test_outside_of_a_run_a_script_runs_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [pod] = [each for each in hpcpod.sessions(steps=50, episodes=2, width=64)][:1]
    assert (pod.hyperparameters, pod.seed, pod.checkpoint) == ({"width": 64}, 0, None)
    assert (pod.panel_seeds, pod.train_steps_left, pod.should_stop) == ([0, 1], 50, False)
    saved(pod).progress(steps=50, loss=1.0)
    pod.saved()
    pod.report(returns=[1, 2])
    assert pod.train_steps_left == 0
    assert {path.name for path in tmp_path.rglob("*")} == {"hpcpod-session", "model.txt"}
    said = capsys.readouterr()
    assert said.out == "hpcpod: no run: mean return 1.5 of 2 episodes after 50 steps\n"
    assert said.err == "hpcpod: no run: saving to hpcpod-session\n"


def test_outside_of_a_run_variables_say_what_a_run_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("MODE", "score"), ("SEED", "3"), ("STEPS", "8"), ("CHECKPOINT", "here")):
        monkeypatch.setenv(f"HPCPOD_{name}", value)
    monkeypatch.setenv("HPCPOD_HYPERPARAMETERS", '{"width": 32}')
    pod = hpcpod.session(width=64)
    assert (pod.mode, pod.seed, pod.steps, pod.checkpoint) == ("score", 3, 8, Path("here"))
    assert pod.hyperparameters == {"width": 32}
    pod.report(score=1, error=0.5)
    assert capsys.readouterr().out == "hpcpod: no run: score 1 ± 0.5 after 0 steps\n"


def test_the_file_alone_serves_a_python_without_hpcpod(tmp_path: Path) -> None:
    source = Path(module.__file__)
    ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 8))
    shutil.copy(source, tmp_path / "session.py")
    script = """
        import sys
        import session as hpcpod
        pod = hpcpod.session(width=64)
        (pod.save_to / "model.txt").write_text("w")
        pod.report(returns=range(4), steps=pod.train_steps_left)
        ours = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
        print(sorted(ours - {"__main__", "session"}))
    """
    path = tmp_path / "train.py"
    path.write_text(re.sub("^ {8}", "", script, flags=re.MULTILINE), encoding="utf-8")
    folder = tmp_path / "session"
    task = give(folder, hyperparameters={"width": 32})
    alone = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import train"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", alone],
        env=variables(folder, task), check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert read(folder / "report-0.json")["returns"] == [0, 1, 2, 3]
    assert done.stdout == "['train']\n"
