"""Runs on this machine, as a person starts and stops them: by the command line and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hpcpod.orchestrator import snapshot
from hpcpod.run.run import Run, open_run
from tests.support.slots import ROOT
from tests.support.small_runs import FAULTS, SLOW, mapping, wait_for

LONG: dict[str, Any] = {**SLOW, "cluster": {"slots": 1}}


pytestmark = pytest.mark.slow


class Shell:
    """A person at a terminal of this machine, with one run."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def run(self) -> Run:
        return open_run(self.home / "runs" / "small")

    def write(self, *algorithms: str, **sections: Any) -> None:
        """Write the configuration: YAML takes JSON as it is."""
        text = json.dumps(mapping(*algorithms, **sections))
        (self.home / "small.yaml").write_text(text)

    def launch(self, *algorithms: str, **sections: Any) -> subprocess.Popen[bytes]:
        """``hpcpod launch`` with this configuration."""
        self.write(*algorithms, **sections)
        config, runs = str(self.home / "small.yaml"), str(self.home / "runs")
        return self.start("launch", config, "--runs", runs, "--no-probe")

    def resume(self) -> subprocess.Popen[bytes]:
        """``hpcpod resume`` of the run."""
        return self.start("resume", str(self.run.path))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{len(self.processes)}.out").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "hpcpod", *words],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """All that a command has printed."""
        return (self.home / f"{self.processes.index(process)}.out").read_text()

    def end(self, process: subprocess.Popen[bytes], code: int) -> str:
        """Wait for a command's end; what it printed."""
        try:
            assert process.wait(600) == code, self.said(process)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.said(process)) from None
        return self.said(process)

    def until_in_mid_round(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a slot has trained a little."""

        def there() -> bool:
            assert process.poll() is None, self.said(process)
            if not (self.home / "runs" / "small" / "config.json").exists():
                return False
            return any(each.env_steps for each in self.run.folder.slots.all().values())

        wait_for("progress in a round", there)

    def orphans(self) -> list[str]:
        """Processes of the run that live, whoever started them."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if any(str(self.home) in word for word in words) and process.pid != os.getpid():
                found.append(" ".join(words))
        return found

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in (self.run.path / "logs").glob("*.log"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    home = tmp_path / "home of a person"
    home.mkdir()
    person = Shell(home)
    yield person
    for process in person.processes:
        if process.poll() is None:
            process.terminate()
        process.wait(600)
    wait_for("the end of every process", lambda: person.orphans() == [])


def test_a_run_ends_with_its_winner_and_leaves_no_process(shell: Shell) -> None:
    said = shell.end(shell.launch("ppo", "dqn", stop={"rounds": 1}), 0)
    assert "finished: rounds" in said
    assert shell.orphans() == []
    assert (shell.run.path / "best.h5").exists()
    assert shell.run.status().state == "finished"
    assert shell.run.folder.slots.all() == {}


def test_a_killed_launcher_leaves_no_process_and_its_run_is_resumed_in_mid_round(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "STARTING_SECONDS", 0.0)
    launched = shell.launch(**LONG, stop={"rounds": 1})
    shell.until_in_mid_round(launched)
    launched.kill()
    shell.end(launched, -signal.SIGKILL)
    wait_for("the end of every process", lambda: shell.orphans() == [])
    assert shell.run.status().state == "interrupted"
    resumed = shell.resume()
    shell.until_in_mid_round(resumed)
    second = shell.resume()
    assert "already; see `hpcpod status`" in shell.end(second, 2)
    assert len(shell.said(second).splitlines()) == 1
    assert "finished: rounds" in shell.end(resumed, 0)
    assert "goes on at" in shell.logs()
    assert shell.orphans() == []


def test_one_ctrl_c_lets_every_slot_finish_its_round_and_pauses(shell: Shell) -> None:
    launched = shell.launch(**LONG, stop={"rounds": 2})
    shell.until_in_mid_round(launched)
    launched.send_signal(signal.SIGINT)
    said = shell.end(launched, 75)
    assert "draining: every slot finishes its round" in said and "paused; go on with" in said
    assert shell.orphans() == []
    assert shell.run.status().state == "paused"
    assert shell.run.board().reports == 1
    assert "finished: rounds" in shell.end(shell.resume(), 0)
    assert len(shell.run.board().pods["p0001"].history) == 2


def test_a_second_ctrl_c_ends_at_once_and_loses_no_more_than_that(shell: Shell) -> None:
    launched = shell.launch(**LONG, stop={"rounds": 1})
    shell.until_in_mid_round(launched)
    launched.send_signal(signal.SIGINT)
    wait_for("draining", lambda: "draining" in shell.said(launched))
    launched.send_signal(signal.SIGINT)
    assert "paused; go on with" in shell.end(launched, 75)
    assert shell.orphans() == []
    assert shell.run.board().reports == 0
    assert shell.run.folder.checkpoints.latest("p0001", 1) is not None
    assert "finished: rounds" in shell.end(shell.resume(), 0)
    assert "goes on at" in shell.logs()


def test_a_run_outlives_the_reader_of_its_progress_and_ends_as_it_would(shell: Shell) -> None:
    shell.write(**LONG, stop={"rounds": 2})
    words = ["launch", "small.yaml", "--runs", "runs", "--no-probe"]
    launched = subprocess.Popen(
        [sys.executable, "-m", "hpcpod", *words],
        cwd=shell.home, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    shell.processes.append(launched)
    assert launched.stdout is not None and launched.stderr is not None
    (shell.home / "0.out").write_bytes(launched.stdout.readline())
    launched.stdout.close()
    shell.until_in_mid_round(launched)
    slots = shell.run.folder.slots
    wait_for("round 2", lambda: any("-00002-" in (s.order or "") for s in slots.all().values()))
    launched.send_signal(signal.SIGINT)
    assert launched.wait(600) == 75
    assert launched.stderr.read() == b""
    launched.stderr.close()
    assert shell.run.status().state == "paused"
    assert shell.run.board().reports == 2


def test_a_slot_that_gives_up_shows_its_last_words_and_is_replaced(shell: Shell) -> None:
    fault = {"fault": "raise", "tally": str(shell.home / "tally"), "times": 2}
    launched = shell.launch(
        "ppo", "dqn", env={"wrappers": [{FAULTS: fault}]}, stop={"rounds": 1},
        cluster={"slots": 1, "max_restarts": 1},
    )  # fmt: skip
    said = shell.end(launched, 0)
    assert "slot local-0-0 ended with exit code 1" in said
    assert "RuntimeError: the simulator lost its mind" in said
    assert "this slot gives up" in said
    tried = "p0001 ppo round 1, attempt 1 on local-0-0 failed"
    assert f"{tried}: RuntimeError: the simulator lost its mind (line " in said
    assert len(shell.run.folder.intents.all()) == 2
    # The pods of a slot that no order can be done in are no poorer for it than an attempt.
    assert {pod.fate for pod in shell.run.board().pods.values()} == {"alive"}


SCRIPT = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import hpcpod

def launch():
    run = hpcpod.launch(sys.argv[1], runs=sys.argv[2])
    while not run.status().slots:
        time.sleep(0.1)
    return run

if __name__ == "__main__":
    with ThreadPoolExecutor(1) as pool:  # its thread ends, and the run goes on
        run = pool.submit(launch).result()
    print(run.wait().stop_reason if sys.argv[3] == "wait" else time.sleep(300))
"""


def script(shell: Shell, *words: str) -> list[str]:
    return [sys.executable, "-c", SCRIPT, str(shell.home / "small.yaml"), *words]


def test_a_script_launches_from_a_thread_and_waits(shell: Shell) -> None:
    shell.write(stop={"rounds": 1})
    done = subprocess.run(
        script(shell, str(shell.home / "runs"), "wait"),
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "rounds\n"), done.stderr
    wait_for("the end of every process", lambda: shell.orphans() == [])


def test_a_script_that_dies_takes_its_run_along(shell: Shell) -> None:
    shell.write(**LONG, stop={"rounds": 5})
    process = subprocess.Popen(script(shell, str(shell.home / "runs"), "sleep"), cwd=ROOT)
    shell.processes.append(process)
    (shell.home / "0.out").touch()
    shell.until_in_mid_round(process)
    process.kill()
    process.wait(600)
    wait_for("the end of every process", lambda: shell.orphans() == [])
    assert shell.run.folder.checkpoints.latest("p0001", 1) is not None
