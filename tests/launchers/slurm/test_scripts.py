"""The texts that would be submitted, and how Slurm's commands are called: no Slurm needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.config.schema import RunConfig
from hpcpod.errors import LaunchError, UserError
from hpcpod.launchers.slurm.launcher import SlurmLauncher, environment
from hpcpod.launchers.slurm.templates import template_folder
from hpcpod.records.records import Intent
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.run_id import run_id
from tests.launchers.runs import COORDINATOR, SLOTS, run_config

GOLDEN = Path(__file__).parent / "golden"
UPDATE = "HPCPOD_UPDATE_GOLDEN"

SITE = {"constraint": "a100", "mem": "16G", "exclude": "node[1,2]", "mail_user": "a b@c.d"}
CASES = {
    "slots-plain": (run_config(), SLOTS),
    "slots-site": (
        run_config(
            "Ant v5", 8, 1, partition="low", account="ab1", qos="normal", minutes=1440,
            sbatch=SITE, setup=("module load cuda/12.4", "export NCCL_SOCKET_IFNAME=ib0"),
        ),
        SLOTS,
    ),
    "slots-ranks": (run_config(cpus=16, gpus=8, nodes=2), SLOTS),
    "coordinator-plain": (run_config(), COORDINATOR),
    "coordinator-site": (
        run_config("Ant v5", 8, 2, partition="low", minutes=2, sbatch=SITE),
        COORDINATOR,
    ),
}  # fmt: skip


def text_of(case: str) -> str:
    config, intent = CASES[case]
    return SlurmLauncher(Path("/runs/it's/ant"), config, python="python3").script(intent)


@pytest.mark.parametrize("case", CASES)
def test_rendered_texts_are_as_recorded(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcpod.launchers.slurm.scripts.__version__", "0.0.0")
    path = GOLDEN / f"{case}.sbatch"
    if os.environ.get(UPDATE):
        path.write_text(text_of(case))
    assert text_of(case) == path.read_text(), f"set {UPDATE}=1 to record it anew"


@pytest.mark.parametrize("case", CASES)
def test_rendered_texts_are_valid_bash(case: str) -> None:
    subprocess.run(["bash", "-n"], input=text_of(case), text=True, check=True)


def test_the_readme_names_every_variable_of_a_template() -> None:
    readme = (template_folder("default") / "README.md").read_text()
    documented = re.findall(r"^\| `@\{(\w+)\}` \|", readme, re.MULTILINE)
    assert sorted(documented) == sorted(
        SlurmLauncher(Path("/r"), run_config()).scripts.variables(SLOTS)
    )


def options(config: RunConfig, intent: Intent = SLOTS) -> set[str]:
    text = SlurmLauncher(Path("/runs/ant"), config).script(intent)
    return {line[10:] for line in text.splitlines() if line.startswith("#SBATCH --")}


def test_a_short_job_is_not_told_to_end_at_its_start() -> None:
    assert "signal=USR2@15" in options(run_config(minutes=1))
    assert "signal=USR2@90" in options(run_config(minutes=240))


def test_the_coordinator_asks_for_none_of_the_slots_hardware() -> None:
    sbatch = {
        "gres": "gpu:a100:1", "gpus-per-task": "1", "exclusive": "", "mem-per-gpu": "40G",
        "reservation": "class",
    }  # fmt: skip
    asked = options(run_config(cpus=8, gpus=1, sbatch=sbatch), COORDINATOR)
    assert {"cpus-per-task=1", "mem=2G", "reservation=class", "dependency=singleton"} <= asked
    assert not [option for option in asked if "gpu" in option or "gres" in option]
    assert "exclusive" not in asked


@pytest.mark.parametrize(
    ("sbatch", "complaint"),
    [
        ({"array": "0-9"}, "'array' can't be set here: set cluster.slots instead"),
        ({"--comment": "hi"}, "'--comment' can't be set here: hpcpod sets it itself"),
        ({"job_name": "x"}, "'job_name' can't be set here: set name instead"),
        ({"mem 16G": ""}, "'mem 16G' is not an option of sbatch"),
        ({"mem": "16G\n#SBATCH --array=0-99"}, "mem has a newline or a backslash in it"),
    ],
)
def test_options_that_would_break_a_promise_are_refused(
    sbatch: dict[str, str], complaint: str
) -> None:
    with pytest.raises(UserError) as caught:
        options(run_config(sbatch=sbatch))
    assert str(caught.value) == f"cluster.sbatch: {complaint}"


@pytest.mark.parametrize("name", ["50%j", "back\\slash", "two\nlines"])
def test_a_path_that_slurm_would_rewrite_is_refused(name: str) -> None:
    with pytest.raises(LaunchError, match="choose another"):
        SlurmLauncher(Path("/runs") / name, run_config()).script(SLOTS)


def test_every_run_folder_has_an_id_of_its_own_even_a_copy(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "ant")
    ids = [run_id(tmp_path / name) for name in ("ant", "link", "copy")]
    assert ids[0] == ids[1] != ids[2]
    assert SlurmLauncher(tmp_path / "link", run_config()).run_id == ids[0]


def test_a_run_has_one_id_wherever_a_machine_mounts_it(tmp_path: Path) -> None:
    home, elsewhere, ant = tmp_path / "home", tmp_path / "autofs", tmp_path / "home" / "ant"
    home.mkdir()
    before = run_id(ant)
    RunFolder.create(ant, {})
    assert run_id(ant) == before, "a dry run shows the mark that the run will have"

    home.rename(elsewhere)
    assert run_id(elsewhere / "ant") == before
    home.symlink_to(elsewhere)
    assert run_id(ant) == run_id(elsewhere / "ant") == before

    shutil.copytree(ant, elsewhere / "copy")
    assert run_id(elsewhere / "copy") not in {before, run_id(tmp_path / "unmade")}
    assert run_id(elsewhere / "ant") == before


def test_a_copy_keeps_its_id_whatever_becomes_of_the_original(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "ant", {})
    copies = [tmp_path / "first", tmp_path / "second"]
    for copy in copies:
        shutil.copytree(tmp_path / "ant", copy)
    ids = [run_id(path) for path in (tmp_path / "ant", *copies)]
    assert len(set(ids)) == 3
    (tmp_path / "ant").rename(tmp_path / "moved")
    assert [run_id(path) for path in (tmp_path / "moved", *copies)] == ids
    shutil.rmtree(tmp_path / "moved")
    assert [run_id(path) for path in copies] == ids[1:]


def test_a_coordinators_own_job_does_not_leak_but_the_cluster_it_is_on_does() -> None:
    outer = {
        "HOME": "/h", "SLURM_CONF": "/c", "SLURM_CLUSTERS": "a", "SLURM_MEM_PER_NODE": "512",
        "SLURMD_NODENAME": "n1", "SBATCH_TIMELIMIT": "1", "SQUEUE_STATES": "RUNNING",
        "PMIX_RANK": "0", "CUDA_VISIBLE_DEVICES": "0", "SBATCH_ACCOUNT": "mine",
        "SBATCH_PARTITION": "mine",
    }  # fmt: skip
    kept = environment(outer, run_config(partition="low"))
    assert kept == {
        "HOME": "/h", "SLURM_CONF": "/c", "SLURM_CLUSTERS": "a", "SBATCH_ACCOUNT": "mine",
    }  # fmt: skip


def fake(folder: Path, name: str, script: str) -> None:
    """A command of Slurm that does what a test wants, found first in PATH."""
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def patient(folder: Path) -> SlurmLauncher:
    launcher = SlurmLauncher(folder, run_config())
    launcher.pauses = (0.0, 0.0)
    return launcher


def test_a_busy_controller_is_asked_again(commands: Path, tmp_path: Path) -> None:
    launcher = patient(tmp_path)
    fake(
        commands, "squeue",
        f"echo >> {tmp_path}/asked; (( $(wc -l < {tmp_path}/asked) > 2 )) &&"
        f" echo '4_0|RUNNING|0|0:01|59:59|N/A|low|n1|None|hpcpod:{launcher.run_id}:slots:5eed|' &&"
        " exit 0\n"
        "echo 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2; exit 1",
    )  # fmt: skip
    assert [job.slot for job in launcher.observe().jobs] == ["4_0"]


def test_a_refusal_is_not_asked_again_and_is_shown(commands: Path, tmp_path: Path) -> None:
    fake(
        commands, "squeue",
        f"echo >> {tmp_path}/asked; echo 'squeue: error: Invalid user id' >&2; exit 1",
    )  # fmt: skip
    with pytest.raises(LaunchError, match=r"^squeue failed: Invalid user id$"):
        patient(tmp_path).observe()
    assert len((tmp_path / "asked").read_text()) == 1


def test_a_controller_that_stays_away_is_an_error_never_an_empty_view(
    commands: Path, tmp_path: Path
) -> None:
    fake(commands, "squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(LaunchError, match="Unable to contact slurm controller"):
        patient(tmp_path).observe()


def test_a_machine_without_slurm_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = SlurmLauncher(tmp_path, run_config())
    with pytest.raises(LaunchError, match="there is no squeue on this machine"):
        launcher.observe()
    with pytest.raises(LaunchError, match="there is no sbatch on this machine"):
        launcher.submit(SLOTS)


def test_many_jobs_are_cancelled_a_few_hundred_at_a_time(commands: Path, tmp_path: Path) -> None:
    fake(commands, "scancel", f'echo "$#" >> {tmp_path}/asked')
    SlurmLauncher(tmp_path, run_config()).cancel([f"1_{n}" for n in range(1001)])
    assert (tmp_path / "asked").read_text().split() == ["501", "501", "2"]
    SlurmLauncher(tmp_path, run_config()).cancel([])


def test_the_login_node_loads_neither_torch_nor_submitit() -> None:
    code = (
        "import sys, hpcpod.launchers.slurm.launcher;"
        "assert not {'torch', 'submitit', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
