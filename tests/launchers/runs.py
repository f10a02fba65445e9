"""Configurations and a stand-in slot for the tests of the launchers."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from hpcpod.config.cluster import ClusterConfig, ResourcesConfig
from hpcpod.config.schema import (
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RunConfig,
)
from hpcpod.records.records import Intent

SLOTS = Intent(0, "5eed", "slots", 4)
COORDINATOR = Intent(1, "c0de", "coordinator")


def run_config(
    name: str = "ant",
    cpus: int = 1,
    gpus: int = 0,
    pods: int = 8,
    nodes: int | None = None,
    **cluster: Any,
) -> RunConfig:
    return RunConfig(
        name=name,
        env=EnvConfig("CartPole-v1"),
        population=PopulationConfig(pods=PodsConfig(max=pods)),
        resources=ResourcesConfig(gpus_per_pod=gpus, cpus_per_pod=cpus, nodes_per_pod=nodes),
        cluster=ClusterConfig(launcher="slurm", **cluster),
    )


STAND_IN = """\
# Says that it lives, then does as it is ordered: a job's process, with no hpcpod in it.
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[3])
me = os.environ.get("SLURM_ARRAY_TASK_ID", "job") + "." + os.environ.get("SLURM_RESTART_COUNT", "0")
stop = []
if not (folder / (me + ".deaf")).exists():
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, lambda *_: stop.append(1))
(folder / (me + ".tmp")).write_text(json.dumps(dict(arguments=sys.argv[1:], env=dict(os.environ))))
(folder / (me + ".tmp")).rename(folder / (me + ".alive"))
order = folder / (me + ".order")
while not stop:
    if order.exists() and (text := order.read_text()):
        sys.exit(int(text))
    time.sleep(0.05)
time.sleep(0.3)
sys.exit(75)
"""


def stand_in(folder: Path) -> str:
    """The command that stands in for Python: it ignores ``-m hpcpod.slot``, not the rest."""
    path = folder / "stand-in"
    path.write_text(STAND_IN)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


class Lives:
    """What the stand-ins of one run folder have written, and what they are told to do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def alive(self, element: int | str, life: int = 0) -> bool:
        return (self.folder / f"{element}.{life}.alive").exists()

    def seen(self, element: int | str, life: int = 0) -> dict[str, Any]:
        """Its arguments and its environment."""
        read: dict[str, Any] = json.loads((self.folder / f"{element}.{life}.alive").read_text())
        return read

    def end(self, element: int | str, code: int, life: int = 0) -> None:
        (self.folder / f"{element}.{life}.order").write_text(str(code))

    def deafen(self, element: int | str, life: int = 0) -> None:
        """It will die of a signal, as Python does before it has installed a handler."""
        (self.folder / f"{element}.{life}.deaf").touch()
