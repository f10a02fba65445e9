"""A slot that a person cancels on a real Slurm comes back, and the verbs say so, and how not to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.slurm.runs import Shell
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


@pytest.fixture
def shell(slurm_cluster: SlurmCluster, tmp_path: Path) -> Shell:
    return Shell(slurm_cluster, tmp_path)


def test_a_cancelled_slot_comes_back_with_a_word_and_fewer_can_be_asked_for(shell: Shell) -> None:
    config = shell.endless("cut")
    said = shell.hpcpod("launch", str(config), "--no-probe", "--set", "population.pods.min=2",
                        "--set", "cluster.coordinator=false",
                        "--set", "cluster.slots=9")  # fmt: skip
    assert "cluster.slots: 9 slots are wanted, but no more than 2 will be asked for" in said
    assert re.search(r"cut: submitted 2 slots as job \d+\nslots: 2 at once, as many as pop", said)
    cluster, run = shell.cluster, shell.run("cut")
    cluster.wait("two slots at work", lambda: len(run.status().slots) == 2, 90)
    assert shell.status("cut")["cancelled"] == ""
    slot = next(iter(run.status().slots))
    cluster.run("scancel", slot)
    cluster.wait("its end", lambda: slot not in shell.jobs(), 60)
    comes = (
        rf"1 slot was cancelled \d+ (s|min) ago \({slot}\) and comes back: 2 wanted, and the next"
        r" `hpcpod tick \S+` asks for them; to have fewer, `hpcpod scale \S+ 1`"
    )
    for verb in ("status", "why"):
        said = shell.hpcpod(verb, "cut")
        assert re.search(comes, said), said
    shell.hpcpod("tick", "cut")
    came = rf"1 slot was cancelled .* ago \({slot}\), and another was asked for in its place: 2 w"
    for verb in ("status", "why"):
        said = shell.hpcpod(verb, "cut")
        assert re.search(came, said), said
    assert re.search(came, shell.status("cut")["cancelled"])
    assert len(shell.jobs()) == 2
    # Fewer than pods.min: slots are not pods.
    assert "slots at once were 2, will be 1" in shell.hpcpod("scale", "cut", "1")
    cluster.wait("one slot", lambda: len(shell.jobs()) == 1, 90)
    status = shell.status("cut")
    assert (status["cancelled"], status["slots_wanted"]) == ("", 1)
    shell.hpcpod("tick", "cut")
    assert len(shell.jobs()) == 1
    assert {pod.fate for pod in run.board().pods.values()} == {"alive"}
    shell.hpcpod("stop", "cut", "--now")
    cluster.drained(60)
