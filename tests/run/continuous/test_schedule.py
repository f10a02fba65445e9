"""Cycles by the clock: the batch script, line by line, and lines of a crontab."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.continuous import CtConfig, seconds_of
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError, LaunchError, UserError
from hpcpod.records.records import Intent
from hpcpod.run.continuous.registry import Registry, create
from hpcpod.run.continuous.schedule import CycleLauncher, crontab, submit, wait_of
from hpcpod.storage.locks import file_lock

TASK = {"name": "mine", "env": {"id": "CartPole-v1"}}


def registry(home: Path, **sections: Any) -> Registry:
    return create(from_mapping({**TASK, "ct": {"every": "1d"}, **sections}), "a test", home)


def script(made: Registry, kind: Any, begin: int = 0) -> str:
    return CycleLauncher(made, begin).script(Intent(0, "ct", kind))


def test_a_job_submits_its_successor_before_it_does_anything(tmp_path: Path) -> None:
    made = registry(tmp_path, cluster={"launcher": "slurm", "partition": "long", "minutes": 60})
    text = script(made, "coordinator", 86400)
    submitted = text.index(f"-m hpcpod ct {made.path} --submit")
    worked = text.index(f"-m hpcpod ct {made.path}\ncode=$?")
    assert submitted < worked
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", text, re.MULTILINE))
    assert options["begin"] == "now+86400" and options["dependency"] == "singleton"
    assert (options["cpus-per-task"], options["partition"], options["time"]) == ("1", "long", "60")
    assert options["signal"] == "USR2@90" and "requeue" in options
    assert shlex.split(options["chdir"]) == [str(Path.cwd())]
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("answers", "sent", "asked"), [("0", "", 1), ("1 0", "", 2), ("143 0", "kill -TERM $$;", 1)]
)
def test_a_job_submits_its_successor_again_if_the_scheduler_was_away_and_it_was_not_cancelled(
    tmp_path: Path, answers: str, sent: str, asked: int
) -> None:
    text = script(registry(tmp_path), "slots")
    own = re.sub(
        r"^((?:\[ .* \|\| )+)?.*-m hpcpod ct \S+ --submit$", r"\1submit", text, flags=re.MULTILINE
    )
    assert own.count("submit\n") == 2
    stubs = (
        f"answers=({answers}) asked=0\n"
        f"submit() {{ echo submit; {sent} return ${{answers[$((asked++))]}}; }}\n"
        "srun() { echo work; }\n"
    )
    done = subprocess.run(["bash"], input=stubs + own, text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["submit", "work", "submit"][: asked + 1]


@pytest.mark.parametrize("step", ["${SLURM_EXIT_ERROR:-1}", "137"])
@pytest.mark.parametrize(("turns", "code"), [(0, 0), (4, 0), (5, 1)])
def test_a_job_that_is_given_no_step_any_more_or_whose_is_killed_comes_back_a_few_times(
    tmp_path: Path, turns: int, code: int, step: str
) -> None:
    text = re.sub(r"^.*--submit$", "true", script(registry(tmp_path), "slots"), flags=re.MULTILINE)
    asked = tmp_path / "asked"
    stubs = (
        f"SLURM_JOB_ID=7 SLURM_RESTART_COUNT={turns}\n"
        f"srun() {{ return {step}; }}\n"
        f"squeue() {{ echo RUNNING:None; }}\nscontrol() {{ echo $* >{asked}; }}\n"
    )
    done = subprocess.run(["bash"], input=stubs + text, text=True, check=False)
    assert done.returncode == code
    assert asked.exists() == (code == 0)


def test_where_slots_are_no_jobs_of_their_own_they_have_their_cores_in_it(tmp_path: Path) -> None:
    made = registry(tmp_path, cluster={"slots": 3}, resources={"cpus_per_pod": 2})
    assert "#SBATCH --cpus-per-task=6" in script(made, "slots")


@pytest.mark.parametrize(
    ("every", "times"),
    [
        ("30m", r"\*/30 \* \* \* \*"),
        ("90s", r"\*/2 \* \* \* \*"),
        ("6h", r"\d+ \*/6 \* \* \*"),
        ("1d", r"\d+ \d+ \* \* \*"),
        ("90m", r"\*/30 \* \* \* \*"),
        ("1m", r"\* \* \* \* \*"),
        ("7h", r"\d+ \* \* \* \*"),
        ("36h", r"\d+ \*/12 \* \* \*"),
        ("7d", r"\d+ \d+ \* \* \*"),
        ("45d", r"\d+ \d+ \* \* \*"),
    ],
)
def test_a_line_of_a_crontab_has_its_times_and_its_log(
    tmp_path: Path, every: str, times: str
) -> None:
    made = registry(tmp_path, ct={"every": every})
    found = re.fullmatch(rf"({times}) (.*) >>(\S+) 2>&1", crontab(made))
    assert found is not None and found[2].endswith(f"-m hpcpod ct {made.path}")
    assert found[3] == f"{made.path}/logs/cron.log"


def test_without_a_time_there_is_no_schedule(tmp_path: Path) -> None:
    made = registry(tmp_path, ct={"every": None})
    with pytest.raises(UserError, match=r"ct\.every says how often"):
        crontab(made)


def test_without_slurm_a_job_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="there is no squeue on this machine"):
        submit(registry(tmp_path))


@pytest.mark.parametrize("every", ["1", "d", "0d", "1w", "-1h", "1h30m"])
def test_a_time_that_is_none_is_a_sentence(every: str) -> None:
    with pytest.raises(ConfigError, match="every is a time such as 30m"):
        from_mapping({**TASK, "ct": {"every": every}})


def test_a_time_is_in_seconds() -> None:
    assert [seconds_of(each) for each in ("90s", "30m", "6h", "1.5d")] == [90, 1800, 21600, 129600]
    assert CtConfig().every is None


@pytest.mark.parametrize(
    ("every", "since", "left"),
    [
        (86_400.0, 80_000.0, 6_400.0),
        (86_400.0, 82_081.0, 0.0),  # 5 % of a day early
        (60.0, 20.0, 40.0),
        (60.0, 52.0, 0.0),  # a job that its forerunner submitted 8 s before it began
        (10.0, 4.0, 6.0),
        (10.0, 5.0, 0.0),  # half of it at most
        (60.0, 100.0, 0.0),
    ],
)
def test_a_cycle_may_come_early_by_a_job_s_start(every: float, since: float, left: float) -> None:
    assert wait_of(1_000.0, every, 1_000.0 + since) == left


def test_a_job_that_comes_back_while_another_process_holds_the_lock_comes_back_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, heard = registry(tmp_path), signal.getsignal(signal.SIGTERM)
    own, count, codes = CycleLauncher(made, 0).job_name, "SLURM_RESTART_COUNT", []
    with file_lock(made.path / "lock", timeout=1.0) as held:
        assert held
        for name, value in (("SLURM_JOB_NAME", own), (count, "1"), ("SLURM_JOB_NAME", "cd")):
            monkeypatch.setenv(name, value)
            codes.append(main(["ct", str(made.path)]))
    assert codes == [0, 75, 0]
    assert signal.getsignal(signal.SIGTERM) is heard  # one that stayed was the whole process's
    assert capsys.readouterr().out.count("another process works on it") == 3
