"""Demands of a batch script, read as sbatch reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.launchers.slurm.demands import Demand, read_demand
from tests.launchers.slurm.test_scripts import text_of


def asked(*options: str) -> Demand:
    return read_demand("#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options))


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ([], {}),
        (["--partition=a,b", "--qos=high", "-t 1-02:00:00"],
         {"partitions": ("a", "b"), "qos": "high", "minutes": 1560.0}),
        (["-pgpu", "-c 4 -n 2"], {"partitions": ("gpu",), "cpus": 8}),
        (["--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--cpus-per-task=3"],
         {"nodes": 2, "cpus": 12}),
        (["--nodes=2", "--ntasks=8", "--cpus-per-task=3"], {"nodes": 2, "cpus": 3}),
        (["-N 2-4"], {"nodes": 2}),
        (["--cpus-per-task=64", "--overcommit"], {}),
        (["--time=UNLIMITED"], {}),
        (["--time=240", "--time-min=60"], {"minutes": 60.0}),
        (["--mem=16G"], {"memory": 16384.0}),
        (["--mem 500"], {"memory": 500.0}),
        (["--mem=0"], {}),
        (["--mem=plenty"], {}),
        (["--mem-per-cpu=2GB"], {"core_memory": 2048.0}),
        (["--gpus-per-node=2"], {"gpus": {"": 2}}),
        (["--gpus-per-node=a100:2,h100:1"], {"gpus": {"a100": 2, "h100": 1}}),
        (["--gres=gpu:a100:2,nvme:1"], {"gpus": {"a100": 2}}),
        (["--gres=shard:4"], {}),
        (["-G 2"], {"gpus": {"": 2}}),
        (["--gpus=8", "--nodes=4"], {"nodes": 4}),  # shared out as Slurm likes
        (["--constraint=ib&big"], {"features": frozenset({"ib", "big"})}),
        (["--constraint='[rack1|rack2]'"], {}),  # more than is understood here
        (["--constraint='a|b'"], {}),
        (["--clusters=other"], {"elsewhere": True}),
        (["--reservation=mine"], {"elsewhere": True}),
        (["--exclusive", "--partition=a"], {"partitions": ("a",)}),
        (["--partition=a", "--partition=b  # ours"], {"partitions": ("b",)}),
        (["--comment='"], {}),
    ],
)  # fmt: skip
def test_each_option_counts_as_sbatch_counts_it(options: list[str], fields: dict[str, Any]) -> None:
    assert asked(*options) == Demand(**fields)


def test_what_stands_behind_the_first_command_is_no_option() -> None:
    script = "#!/bin/bash\n\n# a word\n#SBATCH -c 4\nmodule load x\n#SBATCH -c 64\n"
    assert read_demand(script).cpus == 4


def test_our_own_scripts_say_what_they_ask_for() -> None:
    demand = read_demand(text_of("slots-site"))
    assert demand.partitions and demand.minutes > 0 and sum(demand.gpus.values()) > 0
    ranks = read_demand(text_of("slots-ranks"))
    assert ranks.nodes > 1
    assert read_demand(text_of("coordinator-plain")).cpus == 1


@given(st.text(alphabet="#SBATCH-=cpNtmegus:,&|'\"\\ \n0123456789GM"))
def test_any_text_is_read(text: str) -> None:
    demand = read_demand(text + "\n#SBATCH " + text)
    assert demand.nodes >= 1 and demand.cpus >= 1
