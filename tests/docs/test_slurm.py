"""The page on clusters, as a reader follows it: its files, its commands in their order."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.parser import parser
from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.loader import from_mapping, load_file
from hpcpod.config.manual import field_manual
from hpcpod.config.site import read_site
from hpcpod.doctor.judge_nodes import judge
from hpcpod.errors import EngineDiffers, UserError
from hpcpod.launchers.identity import admitted
from hpcpod.orchestrator.backoff import FAILED_STARTS, Backoff
from hpcpod.records.records import Owner
from hpcpod.run.preflight import scripts
from hpcpod.storage.run_folder import RunFolder
from tests.docs.pages import blocks, page, write_files
from tests.doctor.test_judge_nodes import DONE, MET, SPACE, asked
from tests.pod.ranks.gang import Gang
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster
from tests.support.small_runs import create, mapping

PAGE = page("slurm.md")
TEXT = PAGE.read_text(encoding="utf-8")
CLUSTER = Options(gpu_type="a100", extra=tuple(
    f"PartitionName={name} Nodes=ALL MaxTime=INFINITE" for name in ("gpu", "cpu")
))  # fmt: skip


def session() -> list[list[str]]:
    """The words of every command that is typed, in their order."""
    lines = "".join(blocks(PAGE, "bash")).splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def verbs() -> set[str]:
    """Those of this hpcpod."""
    [actions] = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return set(actions.choices)


@pytest.fixture
def shell(start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path) -> Shell:
    """The reader's, with the files of the page."""
    write_files(PAGE, tmp_path)
    return Shell(start_slurm(CLUSTER), tmp_path)


def test_its_fields_are_fields_of_the_configuration() -> None:
    known = set(re.findall(r"^([a-z_]+(?:\.[a-z_]+)+)", field_manual(), re.MULTILINE))
    sections = "|".join({name.partition(".")[0] for name in known})
    # As a word alone, or with a value.
    named = set(re.findall(rf"`((?:{sections})(?:\.[a-z_]+)+)(?::[^`]*)?`", TEXT))
    assert len(named) > 20
    assert named - known == set()


def test_its_parts_of_a_site_are_sections_of_one(tmp_path: Path) -> None:
    parts = blocks(PAGE, "yaml")
    assert len(parts) == 4
    for part in parts:
        path = tmp_path / "part.yaml"
        path.write_text(part)
        assert read_site(path).cluster != ClusterConfig()


def test_its_lines_for_other_sites_are_shell() -> None:
    for block in blocks(PAGE, "sh"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)


def test_its_verbs_are_verbs() -> None:
    named = set(re.findall(r"`hpcpod ([a-z]+)\b", TEXT))
    assert {words[1] for words in session()} | named <= verbs()


def messages(folder: RunFolder) -> Iterator[str]:
    """The messages of hpcpod where the quoted symptoms have happened."""
    from hpcpod.pod.finals import agree_on_engine  # torch, which no other test here needs

    yield Backoff(failed_starts=FAILED_STARTS).pause()
    with pytest.raises(UserError) as unknown:
        admitted(folder, "TOKEN", Owner("7_0", "7"))
    yield str(unknown.value)
    # Two ranks that meet, and whose site has given them one GPU.
    yield from Gang(folder.path, "gpus", words={"tries": [["GPU-1", "GPU-1"]]}).results()[0]
    wanted = asked({"ranks": 2, "fusion": {"backend": "mpi", "mpi": "pmi2"}})
    met_by_pmix = replace(DONE, ranks=MET)
    yield from (found.then for found in judge(met_by_pmix, wanted, SPACE, {}))
    config = from_mapping(mapping())
    agree_on_engine(folder, config, "panel", "simulator 1")
    with pytest.raises(EngineDiffers) as differs:
        agree_on_engine(folder, config, "panel", "simulator 2")
    yield str(differs.value)


def test_the_messages_among_its_symptoms_are_said_by_hpcpod(tmp_path: Path) -> None:
    rows = re.findall(r"^\| ([^|]*`[^|]*) \|", TEXT.partition("## Symptoms")[2], re.MULTILINE)
    quoted = [quote for row in rows for quote in re.findall(r"`([^`]+)`", row)]
    # Slurm's own words, Python's, and a verb.
    others = ("sbatch refused", "No module", "status")
    own = [quote.removesuffix(" ...") for quote in quoted if not quote.startswith(others)]
    said = list(messages(create(tmp_path)))
    assert len(own) == 5
    assert [quote for quote in own if not any(quote in message for message in said)] == []


def test_the_first_run_needs_no_gpu_over_a_site_that_has_them(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    config = load_file(tmp_path / "first.yaml", (), tmp_path / "site.yaml")
    assert (config.resources.gpus_per_pod, config.resources.gpu_type) == (0, None)
    assert read_site(tmp_path / "site.yaml").resources.gpus_per_pod == 1


def test_the_site_has_the_coordinator_beside_the_gpus(tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    on_gpus = ("cluster.partition=gpu",)
    config = load_file(tmp_path / "first.yaml", on_gpus, tmp_path / "site.yaml")
    coordinator, slots = scripts(config, tmp_path)
    assert "#SBATCH --partition=cpu\n" in coordinator
    assert "#SBATCH --partition=gpu\n" in slots


@pytest.mark.slurm
@pytest.mark.slow
def test_a_reader_launches_looks_steers_and_takes_the_policy_home(shell: Shell) -> None:
    commands = session()
    names = [words[1] for words in commands]
    assert names[:3] == ["validate", "launch", "launch"] and "stop" in names
    for at, words in enumerate(commands):
        if words[1] == "scale":  # by now there is something to look at
            shell.cluster.wait("a round", lambda: bool(shell.run("first").board().reports), 180)
        if commands[at - 1][1] == "stop":  # what the page waits for
            shell.finished("first", 300)
        assert words[0] == "hpcpod"
        said = shell.hpcpod(*words[1:])
        if words[-1] == "--dry-run":
            assert said.count("#SBATCH --partition=cpu\n") == 2  # the coordinator's, the slots'
            assert "--partition=gpu" not in said
            assert "gpus-per-node" not in said
            assert not (shell.home / "runs").exists()
        if commands[at - 1][1] == "stop":
            assert words[1] == "status" and "finished" in said
    assert (shell.home / "first.h5").stat().st_size > 1000
    assert (shell.home / "runs/first/best.h5").exists()
    assert (shell.home / "hpcpod-container" / "Dockerfile").exists()
