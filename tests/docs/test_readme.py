"""The README, run as it stands there: its commands on a real Slurm, its Python in a script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcpod.cli.parser import parser
from tests.docs.pages import ROOT, block, blocks, run_script
from tests.slurm.runs import Shell
from tests.support.slurm_cluster import Options, SlurmCluster

PAGE = ROOT / "README.md"
TEXT = PAGE.read_text(encoding="utf-8")

SMALL = """\
name: cartpole
env: {id: CartPole-v1, num_envs: 4}
population: {pods: {min: 1, max: 1}, algorithms: {ppo: 1}}
round: {env_steps: 2048, episodes: 8}
agents: {ppo: {horizon: 64}}
stop: {target: 12, rounds: 8}
"""
"""Stands in for ``configs/cartpole.yaml``: CartPole with a target that a learner soon reaches."""
ENDLESS = SMALL.replace("{target: 12, rounds: 8}", "{minutes: 30}")
"""The same, until a person stops it. The file itself is launched on Slurm by
``tests/slurm/test_run.py``."""


def commands(has: str) -> list[list[str]]:
    """The words of each command of the block that has these."""
    return [shlex.split(line, comments=True) for line in block(PAGE, "bash", has).splitlines()]


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) < 150


def test_its_targets_of_make_are_some() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    named = [words[1] for text in blocks(PAGE, "bash") for words in map(str.split, text.split("\n"))
             if words[:1] == ["make"]]  # fmt: skip
    assert named == ["demo"] and set(named) <= targets


def test_its_verbs_parse() -> None:
    words = commands("doctor")
    assert len(words) == 5
    words += [shlex.split(line) for line in re.findall(r"`(hpcpod [^`<>]*)`", TEXT)]
    for name, *verb in words:
        assert name == "hpcpod"
        if verb != ["--help"]:
            parser().parse_args(verb)


def test_it_says_where_the_command_is() -> None:
    assert "`.venv/bin/hpcpod`" in TEXT and "`source .venv/bin/activate`" in TEXT
    assert TEXT.index("source .venv/bin/activate") < TEXT.index("hpcpod launch configs")


def test_its_picture_is_a_report_s() -> None:
    images = re.findall(r"!\[[^]]*\]\(([^)]+)\)", TEXT)
    assert images[0] == "docs/images/cartpole.svg"
    assert all((ROOT / image).is_file() for image in images)
    assert "Written by hpcpod report" in (ROOT / images[0]).read_text(encoding="utf-8")


def test_its_code_prints_what_it_says(tmp_path: Path) -> None:
    code = block(PAGE, "python", "import hpcpod")
    assert len([line for line in code.splitlines() if line]) == 8
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "cartpole.yaml").write_text(SMALL, encoding="utf-8")
    score, reason, mean, action = run_script(code, tmp_path).splitlines()
    assert float(score) > 475 and float(re.findall(r"# ([\d.]+): of", code)[0]) > 475
    assert f"stop_reason)  # {reason}\n" in code
    assert float(mean) > 12
    assert action in ("0", "1")
    assert (tmp_path / "runs" / "from-python" / "best.h5").is_file()


@pytest.mark.slurm
@pytest.mark.slow
def test_a_reader_examines_launches_looks_and_stops(
    start_slurm: Callable[[Options], SlurmCluster], tmp_path: Path
) -> None:
    shell = Shell(start_slurm(Options()), tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "cartpole.yaml").write_text(ENDLESS, encoding="utf-8")
    for words in commands("doctor"):
        if words[1] == "leaderboard":  # by now there is something to look at
            shell.cluster.wait("a round", lambda: bool(shell.run("cartpole").board().reports), 180)
        said = shell.hpcpod(*words[1:])
        assert "Traceback" not in said
    assert shell.finished("cartpole", 300)["stop_reason"] == "user"
    assert (tmp_path / "runs" / "cartpole" / "best.h5").is_file()
