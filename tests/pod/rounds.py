"""Executing rounds in this process, stopping them where a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.pod import Pod
from hpcpod.pod.round import Watch
from hpcpod.records import Birth, Report
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board


def births(folder: RunFolder) -> dict[str, Birth]:
    """The open births, by pod."""
    pods = read_board(folder).pods
    return {name: pod.birth for name, pod in pods.items() if pod.birth is not None}


def first_birth(folder: RunFolder) -> Birth:
    """The first round of the first pod."""
    return births(folder)["p0001"]


def train(folder: RunFolder, birth: Birth, *stops: int) -> Report:
    """Execute a round; at each of ``stops`` iterations it is stopped and a new Pod goes on."""
    for iterations in stops:
        pod = prepare(folder)
        try:
            pod.execute(birth, "here", Watch(_after(iterations)))
        except Stopped:
            pod.close()
            continue
        raise AssertionError(f"the round ended before iteration {iterations}")
    return execute(prepare(folder), birth)


def execute(pod: Pod, birth: Birth) -> Report:
    """Execute a round to its end."""
    return pod.execute(birth, "here", Watch())


def _after(iterations: int) -> Callable[[], bool]:
    left = iterations

    def should_stop() -> bool:
        nonlocal left
        left -= 1
        return left <= 0

    return should_stop


def onward(birth: Birth, report: Report) -> Birth:
    """The pod's next round."""
    return replace(birth, round=birth.round + 1, checkpoint=report.checkpoint, inherited=False)


def copy_of(parent: Birth, report: Report, **hyperparameters: float) -> Birth:
    """The first round of a mutated copy of what ``report`` reported."""
    return replace(
        parent,
        pod="p0099",
        round=report.round + 1,
        seed=99,
        hyperparameters={**parent.hyperparameters, **hyperparameters},
        checkpoint=report.checkpoint,
        inherited=True,
    )
