"""A lineage of three pods, trained in this process: a founder, its copy, and a restart's copy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hpcpod.pod.__main__ import prepare
from hpcpod.pod.round import Watch
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.rules import Rules
from tests.support.hand_played import birth_of, merged
from tests.support.small_runs import create

SPANS = {1: (0.0, 0.2), 2: (0.3, 0.55), 3: (0.6, 0.9)}
"""Shares of the budget that a slot tells each round of: not what its number would say."""
LINE = ("p0001", "p0003", "p0004")
"""Who trains each round of the lineage; p0002 founds it, too, and is replaced by p0003."""


def created(home: Path, algorithm: str = "dqn") -> RunFolder:
    """A run of two pods, whose budget is environment steps, with nothing trained."""
    return create(
        home, algorithm, name="family", seed=3, population={"pods": {"min": 2, "max": 2}},
        stop={"rounds": None, "env_steps": 100_000, "finalists": 1, "confirm_episodes": 4},
    )  # fmt: skip


def bear(folder: RunFolder, parent: str, at: int, instead: str, *, restart: bool = False) -> str:
    """Publish a copy of a pod at a round, with twice its learning rate; the child's name."""
    before = read_board(folder)
    old = before.pods[parent].hyperparameters
    new = {**old, "learning_rate": 2.0 * float(old["learning_rate"])}
    copy = Copy(parent, at, new, ("learning_rate",), "a test says so", restart)
    born = Offspring(before, Rules.of_run(folder))
    child = born.add(copy, before.pods[instead])
    found = folder.board.read()
    assert found is not None
    after = born.board(before).document()
    assert folder.board.publish(found[0], found[1], after, "a test")
    return child.id


def trained(home: Path, algorithm: str = "dqn") -> RunFolder:
    """The same after three rounds: p0003 is a copy of p0001, and p0004 a restart's of p0003."""
    folder = created(home, algorithm)
    with closing(prepare(folder)) as pod:
        for number, name in enumerate(LINE, 1):
            if number == 2:
                assert bear(folder, "p0001", 1, "p0002") == name
            if number == 3:
                assert bear(folder, "p0003", 2, "p0001", restart=True) == name
            begins, ends = SPANS[number]
            birth = replace(birth_of(folder, name), begins=begins, ends=ends)
            assert birth.round == number
            assert folder.reports.publish(pod.execute(birth, "here", Watch()))
            merged(folder)
    return folder
