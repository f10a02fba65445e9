"""Requests of a person to a run on this machine: by the command line and from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.errors import UserError
from hpcpod.orchestrator import snapshot
from hpcpod.orchestrator.backoff import Backoff
from hpcpod.orchestrator.snapshot import refusals_of
from hpcpod.run.run import Run, open_run
from hpcpod.storage.requests import Drain, Refusals, Scale
from tests.support.command_line import refusal
from tests.support.small_runs import SLOW, create, mapping, wait_for


@pytest.fixture
def run(home: Path) -> Run:
    """A run of two to five pods on a cluster, that nobody works on."""
    pods: dict[str, Any] = {"population": {"pods": {"min": 2, "max": 5}}}
    return Run(create(home / "runs", cluster={"launcher": "slurm"}, **pods))


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Slurm's commands."""
    monkeypatch.setenv("PATH", "/nonexistent")


@pytest.mark.usefixtures("nowhere")
def test_scaling_says_what_was_and_will_be(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", "small"]) == 0
    said = capsys.readouterr().out
    assert "small: 5 slots at once, as many as population.pods.max has work for" in said
    assert main(["scale", "small", "3"]) == 0
    said = capsys.readouterr().out
    assert "small: slots at once were 5, will be 3 (a person asked for as many" in said
    assert main(["scale", "4"]) == 0  # of the only run there is
    assert "were 3, will be 4" in capsys.readouterr().out
    assert open_run("small").target().wanted == 4
    assert main(["scale", "small", "auto"]) == 0
    assert "were 4, will be 5" in capsys.readouterr().out


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("word", ["2", "auto"])
def test_who_scales_a_run_is_not_held_up_by_what_was_refused_before(run: Run, word: str) -> None:
    """While slots are at work it is not paused, so that nobody has to resume it."""
    run.folder.requests.replace(Refusals(10, time.time(), "QOSMaxSubmitJobPerUserLimit"))
    assert Backoff(refusals_of(run.folder)).pause()
    assert main(["scale", "small", word]) == 0
    assert not Backoff(refusals_of(run.folder)).pause()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("6", "small can't have 6 slots at once, only 1 to 5: as many as population.pods.max has"),
        ("0", "expected a number of slots, at least 1, or auto, got '0'; `hpcpod pause"),
        ("-2", "expected a number of slots, at least 1, or auto, got '-2'"),
        ("many", "expected a number of slots, at least 1, or auto, got 'many'"),
        ("9" * 5000, "expected a number of slots, at least 1, or auto, got '999"),
    ],
)
def test_a_number_of_slots_that_cannot_be_is_a_sentence(
    run: Run, capsys: pytest.CaptureFixture[str], word: str, words: str
) -> None:
    assert words in refusal(capsys, "scale", "small", word)
    assert run.folder.requests.read(Scale) is None


@pytest.mark.usefixtures("nowhere")
def test_slots_are_not_pods_so_one_is_enough_for_any_number_of_them(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.folder.resolved.config.population.pods.min == 2
    assert main(["scale", "small", "1"]) == 0
    assert "small: slots at once were 5, will be 1" in capsys.readouterr().out
    assert run.target().wanted == 1


@pytest.mark.usefixtures("nowhere")
def test_a_run_may_be_scaled_to_the_few_slots_that_it_has(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pods: dict[str, Any] = {"population": {"pods": {"min": 2, "max": 5}}}
    create(home / "runs", cluster={"launcher": "slurm", "slots": 1}, **pods)
    assert main(["scale", "small", "3"]) == 0
    assert main(["scale", "small", "1"]) == 0
    assert "were 3, will be 1" in capsys.readouterr().out


@pytest.mark.usefixtures("nowhere")
def test_pausing_is_asked_for_also_where_nothing_can_be_submitted(
    run: Run, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run.drain()
    assert main(["pause", "small"]) == 0
    assert run.folder.requests.read(Drain) == Drain(now=True, reason="")
    assert "small: paused\ngo on with: hpcpod resume" in capsys.readouterr().out
    assert "asked for, but not done from here" in caplog.text
    assert "there is no sq" in caplog.text
    assert "there is no sq" in refusal(capsys, "resume", "small")
    assert run.folder.requests.read(Drain) is None


def test_a_finished_run_is_not_steered(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in (["pause"], ["scale"], ["resume"]):
        amount = ["1"] if verb == ["scale"] else []
        said = refusal(capsys, *verb, str(finished_run), *amount)
        longer = "; `hpcpod extend` gives it larger limits" if verb == ["resume"] else ""
        assert said == f"hpcpod: looked-at is finished: there is nothing to {verb[0]}{longer}\n"


def test_where_fewer_slots_fit_than_pods_min_there_are_as_few(tmp_path: Path) -> None:
    pods: dict[str, Any] = {"population": {"pods": {"min": 4, "max": 4}}}
    assert Run(create(tmp_path, cluster={"slots": 1}, **pods)).target().wanted == 1


def test_a_run_here_is_paused_scaled_and_gone_on_with_from_python(tmp_path: Path) -> None:
    most = min(2, len(os.sched_getaffinity(0)))
    config = mapping("ppo", "dqn", **SLOW, stop={"rounds": 100}, cluster={"slots": 1})
    run = hpcpod.launch(config, runs=tmp_path)
    wait_for("a slot", lambda: any("env_steps" in s for s in run.status().slots.values()))
    assert any("is being trained by slot local-0-0 on" in said for said in run.why("p0001"))
    with pytest.raises(UserError, match=f"can't have 3 slots at once, only 1 to {most}"):
        run.scale(3)
    assert run.scale(most).slots_wanted == most
    wait_for("as many slots", lambda: len(run.status().slots) == most)
    assert run.scale(None).slots_wanted == 1
    wait_for("one slot", lambda: len(run.status().slots) == 1)
    run.pause()
    wait_for("nobody at work", lambda: run.status().state == "paused")
    assert run.why() == [
        f"the run is paused, as a person asked; `hpcpod resume {run.word}` goes on"
    ]
    wait_for("its driver to end", lambda: run.folder.locks.driven() is False)
    assert run.resume() == []
    wait_for("a slot again", lambda: run.status().state == "running")
    with pytest.raises(UserError, match="another process runs small already"):
        run.resume()
    run.stop()
    assert run.wait(timeout=600).stop_reason == "user"


@pytest.mark.parametrize("now", [False, True])
def test_a_paused_run_here_that_is_stopped_has_its_finalists_scored(
    tmp_path: Path, now: bool
) -> None:
    stop = {"rounds": 100, "confirm_episodes": 16}
    run = hpcpod.launch(mapping(stop=stop, cluster={"slots": 1}), runs=tmp_path)
    wait_for("an evaluation", lambda: run.board().rounds > 0)
    run.pause()
    wait_for("its driver to end", lambda: run.folder.locks.driven() is False)
    command = [sys.executable, "-m", "hpcpod", "stop", str(run.path), *(["--now"] if now else [])]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    best, ended = run.best(), run.status()
    assert best is not None and (ended.state, ended.stop_reason) == ("finished", "user")
    assert best.fresh is not now
    assert ("its finalists are scored here; finish it without: hpcpod stop" in said) is not now
    assert ("it was not scored on fresh seeds" in said) is now


def test_so_has_one_that_is_stopped_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "STARTING_SECONDS", 0.0)  # as if launched long ago
    stop = {"rounds": 100, "confirm_episodes": 16}
    run = hpcpod.launch(mapping(stop=stop, cluster={"slots": 1}), runs=tmp_path)
    wait_for("an evaluation", lambda: run.board().rounds > 0)
    run.pause()
    wait_for("its driver to end", lambda: run.folder.locks.driven() is False)
    assert run.stop().state not in ("finished", "interrupted")
    ended, best = run.wait(timeout=600), run.best()
    assert (ended.state, ended.stop_reason) == ("finished", "user")
    assert best is not None and best.fresh


def test_a_run_that_is_stopped_while_its_slots_drain_has_its_finalists_scored(
    tmp_path: Path,
) -> None:
    stop = {"rounds": 100, "confirm_episodes": 16}
    config = mapping("ppo", **SLOW, stop=stop, cluster={"slots": 1})
    run = hpcpod.launch(config, runs=tmp_path)
    wait_for("an evaluation", lambda: run.board().rounds > 0)
    run.folder.requests.publish(Drain())
    assert run.status().state == "draining"
    run.stop()
    ended, best = run.wait(timeout=600), run.best()
    assert (ended.state, ended.stop_reason) == ("finished", "user")
    assert best is not None and best.fresh


def test_status_has_what_was_used_and_when_it_ends(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(finished_run), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["core_hours"] > 0
    assert (status["gpu_hours"], status["requeues"], status["forecast"]) == (0, 0, None)
    assert (status["slots_wanted"], status["slots_running"]) == (None, 0)


def test_why_of_what_is_not_there_is_a_sentence(
    home: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "small has no pod p0099; it has p0001 to p0005" in refusal(
        capsys, "why", "small", "p0099"
    )
    assert refusal(capsys, "logs", "small").endswith("small/logs yet\n")
    assert main(["why", "p0002"]) == 0  # of the only run there is
    assert "round 1 waits for a slot" in capsys.readouterr().out
    create(home / "runs" / "another")
    create(home / "runs", name="second")
    assert "there is no run at p0002" in refusal(capsys, "why", "p0002")
