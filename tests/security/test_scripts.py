"""Names with all that a shell knows: a script submits them as they are, and runs none of them."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.errors import HpcpodError, UserError
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.records.records import Intent
from tests.launchers.runs import COORDINATOR, SLOTS, Lives, run_config, stand_in
from tests.support.slurm_cluster import SlurmCluster

HOSTILE = [
    "$(touch caught)", "`touch caught`", "a; touch caught; b", "a && touch caught",
    "a | touch caught", "'; touch caught; '", '"; touch caught; "', "<(touch caught)",
    "$HOME ${IFS} ~ * ? [a-z] {x,y}", "#SBATCH --bad", "-rf --help", "!! !touch",
    "größe-模型-🚀", "a > caught", "@{setup}",
]  # fmt: skip
"""Names of folders, and values of options."""


@pytest.mark.parametrize("intent", [SLOTS, COORDINATOR], ids=["slots", "coordinator"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_script_of_a_hostile_folder_runs_nothing(
    name: str, intent: Intent, tmp_path: Path
) -> None:
    """The script is run by bash, with commands of ours in the place of Slurm's."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for command in ("srun", "squeue", "scontrol", "python3"):
        file = commands / command
        file.write_text('#!/bin/sh\nprintf "%s\\0" "$@"\n')
        file.chmod(0o755)
    folder = tmp_path / name / "run"
    config = run_config(account=name, sbatch={"reservation": name})
    text = SlurmLauncher(folder, config, python="python3").script(intent)
    script = tmp_path / "script"
    script.write_text(text)
    done = subprocess.run(
        ["/bin/bash", str(script)], cwd=tmp_path, env={"PATH": f"{commands}:/bin:/usr/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(folder) in done.stdout.split("\0")
    assert not list(tmp_path.rglob("caught"))
    assert done.stderr == ""


@given(
    value=st.text(max_size=20),
    field=st.sampled_from(["partition", "account", "qos", "reservation", "constraint"]),
)
def test_whatever_an_option_is_it_stays_one_line(value: str, field: str) -> None:
    own = field in ("partition", "account", "qos")
    fields: dict[str, Any] = {field: value} if own else {"sbatch": {field: value}}
    launcher = SlurmLauncher(Path("/runs/x"), run_config(**fields), python="python3")
    plain = SlurmLauncher(Path("/runs/x"), run_config(), python="python3").script(SLOTS)
    try:
        text = launcher.script(SLOTS)
    except HpcpodError:
        assert not value.isprintable() or "\\" in value
        return
    added = [line for line in text.split("\n") if line not in plain.split("\n")]
    assert len(added) <= 1
    for line in added:
        assert line == f"#SBATCH --{field}" + (f"={shlex.quote(value)}" if value else "")


@pytest.mark.parametrize("value", ["low\ntouch caught", "low\rx", "low\\", "low\0", "low\x1b[2J"])
@pytest.mark.parametrize("field", ["partition", "account", "qos"])
def test_a_second_line_in_an_option_is_refused(value: str, field: str) -> None:
    fields: dict[str, Any] = {field: value}
    with pytest.raises(UserError, match=f"--{field} is to be, .* has a newline, a backslash or"):
        SlurmLauncher(Path("/runs/x"), run_config(**fields)).script(SLOTS)


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm_cluster.env()[name])
    yield slurm_cluster
    slurm_cluster.drained()


@pytest.mark.slurm
@pytest.mark.parametrize(
    "name",
    [
        "$(touch caught) `touch caught`",
        "'; touch caught; '",
        '"a"; touch caught #',
        "größe-模型 -rf !",
    ],
)
def test_slurm_runs_a_job_of_a_hostile_folder_and_nothing_else(
    name: str, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = cluster.folder / "hostile" / re.sub(r"\W", "", name)
    folder = home / name / "run"
    folder.mkdir(parents=True)
    monkeypatch.chdir(home)
    launcher = SlurmLauncher(folder, run_config(name="a b.c-é"), stand_in(folder))
    job = launcher.submit(Intent(0, "5eed", "slots", 1))
    lives = Lives(folder)
    cluster.wait("the slot", lambda: lives.alive(0, 0))
    (view,) = launcher.observe().jobs
    assert (view.submission, view.token) == (job, "5eed")
    launcher.cancel([view.job])
    cluster.wait("its end", lambda: not launcher.observe().jobs)
    assert not list(home.rglob("caught"))
    assert sorted(path.name for path in (folder / "logs").iterdir()) == [f"slot-{job}_0.log"]
    # submitit's way to sbatch leaves no pickle, and nothing but the text that was submitted.
    assert [path.name for path in (folder / "scripts").iterdir()] == [f"{job}.sh"]
