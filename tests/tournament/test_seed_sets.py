"""Fresh seeds are fresh: no set has a seed of a panel, or of another set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.envs.vec_env import random_seeds
from hpcpod.records.records import Board, Finals, Origin, seed_of, stable_hash
from hpcpod.tournament import seed_sets
from hpcpod.tournament.leaderboard import first_board
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.seed_sets import seeds, unused_set
from tests.tournament.world import rules

SIZES = {"final": 32, "candidate": 128, "report": 128}


def trained(game: Rules, rounds: int) -> Board:
    """A first board whose pods have trained so many rounds."""
    board = first_board(game, 0.0)
    steps = rounds * game.config.round.env_steps
    pods = {name: replace(pod, trained_steps=steps) for name, pod in board.pods.items()}
    return replace(board, pods=pods, confirmations=3)


def every_set(board: Board, game: Rules) -> dict[tuple[str, int], set[int]]:
    """Open twelve batches, a confirm set and a report set, each when the others are known."""
    found = {}
    for purpose in ["final"] * 12 + ["candidate", "report"]:
        number = unused_set(board, game.config, purpose, SIZES[purpose])
        sets = {**board.finals.sets, purpose: number + 1}
        board = replace(board, finals=Finals(sets=sets))
        drawn = random_seeds(game.config.seed, purpose, number, count=SIZES[purpose])
        found[purpose, number] = set(drawn.tolist())
    return found


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_seed_is_in_two_sets_or_in_a_panel(seed: int) -> None:
    game = rules(3, seed=seed, stop=StopConfig())
    found = every_set(trained(game, 60), game)
    panels: set[int] = set()
    for number in range(62):
        panels |= set(random_seeds(seed, "panel", number, count=32).tolist())
    for attempt in (1, 2, 3):
        panels |= set(random_seeds(seed, "confirm", attempt, count=128).tolist())
    whole = panels.union(*found.values())
    assert len(whole) == len(panels) + sum(map(len, found.values()))


@pytest.mark.parametrize(
    "taken", [(6, "panel", 70, 31), (5, "final", 0, 100)], ids=["of an heir", "of an older version"]
)
def test_a_seed_of_an_heir_s_panel_or_of_an_older_version_s_finals_is_not_fresh(
    taken: tuple[int | str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An heir is scored on its parent's panel; an older version played 128 episodes a finalist."""
    same = (taken, (5, "report", 0, 3))  # seeds of the run's number 5, of the other's 6
    monkeypatch.setattr(
        seed_sets, "seed_of", lambda *parts: 7 if parts in same else seed_of(*parts)
    )
    game = rules(3, seed=5, stop=StopConfig())
    board = trained(game, 0)
    assert unused_set(board, game.config, "report", 128) == 0
    origin = Origin("other", "/other", "p0009", 70, "0" * 64, 100, seed=6)
    pods = {**board.pods, "p0001": replace(board.pods["p0001"], origin=origin)}
    board = replace(board, pods=pods, finals=Finals(sets={"final": 1}))
    assert unused_set(board, game.config, "report", 128) == 1


def test_a_set_that_shares_a_seed_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2^16 seeds instead of 2^31 most sets share some."""
    monkeypatch.setattr(seed_sets, "seed_of", lambda *parts: stable_hash(*parts) % 2**16)
    game = rules(3, seed=5, stop=StopConfig())
    board = replace(trained(game, 20), confirmations=0)
    number = unused_set(board, game.config, "report", 128)
    assert number > 0
    panels = {each for k in range(22) for each in seeds(5, "panel", k, 32)}
    passed = [panels & set(seeds(5, "report", k, 128)) for k in range(number)]
    assert all(passed), "each number before it shares a seed"
    assert not panels & set(seeds(5, "report", number, 128))
