"""Algorithms whose update does not work: refused at launch, or given up in the first round."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.tournament.merge import read_board
from tests.support.command_line import problem
from tests.support.slots import SlotProcess
from tests.support.small_runs import create

BROKEN = {
    "Raises": "its first step or update in CartPole-v1 raised ValueError: no way with 256 rows"
    " (line 15 of broken_agents.py)",
    "Nothing": "update of Nothing returned None: expected its metrics, a mapping of names to"
    " finite numbers, which may be empty: {}",
    "Words": "update of Words returned 'mood' as 'good': expected its metrics, a mapping of names"
    " to finite numbers, which may be empty: {}",
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_update_that_does_not_work_is_refused_before_a_run_is_made(
    home: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    agent = f"tests.pod.broken_agents:{name}"
    said = problem(
        capsys, "launch", "good.yaml", "--set", f"population.algorithms={{{agent}: 1}}",
        "--set", "agents={}", "--set", "round.env_steps=1000",
    )  # fmt: skip
    assert said == f"population.algorithms.{agent}: {BROKEN[name]}"
    assert not Path("runs").exists()


@pytest.mark.parametrize(("name", "pods"), [("Raises", 2), ("Nothing", 1), ("Words", 1)])
def test_a_slot_gives_a_broken_algorithm_up_after_two_attempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, pods: int
) -> None:
    """Nothing is tried by ``create``, as with ``launch --no-probe``."""
    agent = f"tests.pod.broken_agents:{name}"
    folder = create(
        tmp_path, agent, agents={agent: {"horizon": 16}}, stop={"rounds": None, "minutes": 30},
        population={"pods": {"min": 1, "max": pods}},
    )  # fmt: skip
    slot = SlotProcess(folder)
    assert slot.end() == 0, slot.log
    assert "Traceback" in slot.log
    board = read_board(folder)
    assert (board.stop_reason, board.reports, len(board.pods)) == ("failed", 2 * pods, pods)
    assert main(["why", str(folder.path)]) == 0
    said = capsys.readouterr().out
    failed = "2 pods" if pods == 2 else "1 pod"
    assert f"{failed} failed, and none has finished a round; p000{pods}" in said
