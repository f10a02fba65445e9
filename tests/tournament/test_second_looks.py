"""Second looks: a close test is made again with further episodes, at half of the level each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.looks import Look
from hpcpod.records.records import Board, PairTest, Rescore
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.second_looks import closest, is_close
from hpcpod.tournament.seed_sets import unused_set
from tests.tournament.test_updaters import woven
from tests.tournament.world import failed, order_of, report, rules

ZEROS = woven((0.0,) * 4, (0.0,) * 4)
AHEAD = woven((9.0,) * 4, (2.0, 0.0, 2.0, 0.0))
"""Ranks first; tested against ``ZEROS`` D = 2 0 2 0: mean 1, sd 1.155, at 2.5 % (t(3) 3.182) the
bound is 1 - 3.182 * 1.155 / 2 = -.837."""
BETTER, SAME = (2.0, 0.0, 2.0, 0.0), (0.0,) * 4


def game(
    share: float = 1.0, *, stop: StopConfig | None = None, scheme: str = "", panel: int = 8
) -> Rules:
    made = rules(2, controls=0, warmup_rounds=0, stop=stop)
    population = replace(made.config.population, second_looks=share)
    if scheme:
        population = replace(population, scheme="generational")
    config = replace(made.config, population=population)
    config = replace(config, round=replace(config.round, episodes=panel))
    return Rules.of(config, made.algorithms)


def after(the_rules: Rules, rounds: int = 2) -> Board:
    """Two pods that were equal until their last round, in which ``p0002`` comes out ahead."""
    board = first_board(the_rules, 0.0)
    for number in range(1, rounds + 1):
        panels = {"p0001": ZEROS, "p0002": AHEAD if number == rounds else ZEROS}
        board = trained(board, the_rules, panels)
    return board


def trained(board: Board, the_rules: Rules, panels: dict[str, tuple[float, ...]]) -> Board:
    births = [pod.birth for pod in board.living if pod.birth is not None and pod.id in panels]
    reports = [report(birth, panels[birth.pod]) for birth in births]
    return fold(board, reports, the_rules, now=1.0)


def looked(board: Board, the_rules: Rules, leader: tuple[float, ...]) -> Board:
    """Both pods have played their further episodes; the one that was tested returned zeros."""
    played = {"p0001": SAME, "p0002": leader}
    reports = [report(each, played[each.pod]) for each in board.rescores.values()]
    return fold(board, reports, the_rules, now=2.0)


@pytest.mark.parametrize(
    ("further", "close"),
    [
        (8, True),  # 1.837 * sqrt(4 / 12) = 1.061 is above the mean of 1.1, 1.837 of 4 is not
        (4, False),  # 1.837 * sqrt(4 / 8) = 1.299
    ],
)
def test_a_test_is_close_if_more_episodes_like_its_own_would_decide_it(
    further: int, close: bool
) -> None:
    test = PairTest("p2", 1.1, 1.1 - 1.837, 0.025, 4, True)
    assert is_close(test, further) is close
    assert not is_close(replace(test, paired=False), further)
    again = replace(test, mean=1.5, low=1.5 - 1.837, episodes=further + 1)  # by .337 too low
    assert not is_close(again, further)  # it was the second one, of an earlier round
    assert not is_close(replace(test, mean=3.0, low=3.0 - 1.837), further)  # decided


def test_the_closest_leader_is_looked_at_unless_another_one_has_won() -> None:
    near = PairTest("p2", 1.0, -0.2, 0.025, 4, True)
    far, won = replace(near, rival="p3", low=-0.9), replace(near, rival="p4", low=0.1)
    assert closest((far, near), 64) == near
    assert closest((far, near, won), 64) is None
    assert closest((), 64) is None


def test_a_close_test_orders_further_common_episodes_of_both_checkpoints() -> None:
    board = after(game())
    assert board.looks == {"p0001": Look("p0002", 2)}
    assert [(o.id, o.checkpoint.core, o.episodes) for o in map(_rescore, orders(board)[:2])] == [
        ("p0001-look2-1", "core of p0001-00002-1", 16),
        ("p0002-look2-1", "core of p0002-00002-1", 16),
    ]
    (said,) = [each for each in board.decisions.values() if each.kind == "look"]
    assert (said.pod, said.others, said.round) == ("p0001", ("p0002",), 2)
    assert {name: round(value, 3) for name, value in said.numbers.items()} == {
        "mean": 1.0,
        "low": -0.837,
    }
    assert said.tests == ()  # the comparison has it
    assert Board.from_document(board.document()) == board


def test_without_room_or_where_it_is_off_there_is_no_second_look() -> None:
    # one look takes two panels of two pods: at 0.9 they are more than that of 4 rounds
    assert after(game(0.9)).looks == after(game(0.0)).looks == {}
    assert after(game(0.9), rounds=3).looks != {}  # of 6


def test_a_leader_that_is_better_on_all_episodes_together_beats_at_half_of_the_level() -> None:
    the_rules = game()
    board = looked(after(the_rules), the_rules, BETTER)
    assert board.looks["p0001"].done
    board = trained(board, the_rules, {"p0001": ZEROS})
    old, child = board.pods["p0001"], board.pods["p0003"]
    # D = 2 0 2 0 2 0 2 0: mean 1, sd 1.069, t(7) 2.365: 1 - 2.365 * 1.069 / 8 ** .5 = .106
    assert (old.fate, child.parent, child.parent_round) == ("replaced", "p0002", 2)
    assert child.evidence == (
        "p0002 1 over p0001 0 at round 2 on 8 common seeds that did not rank them:"
        " mean difference 1, lower bound 0.106256 at 2.5 %"
    )
    assert board.looks == {}


def test_a_second_look_that_shows_nothing_is_told_and_the_pod_trains_on() -> None:
    the_rules = game()
    board = looked(after(the_rules), the_rules, SAME)
    board = trained(board, the_rules, {"p0001": ZEROS})
    assert board.pods["p0001"].fate == "alive" and board.looks == {}
    (compared,) = [each for each in board.decisions.values() if each.kind == "comparison"]
    # D = 2 0 2 0 0 0 0 0: mean .5, sd .926: .5 - 2.365 * .926 / 8 ** .5 = -.274
    assert [(test.episodes, round(test.low, 3)) for test in compared.tests] == [(8, -0.274)]


def test_a_report_before_the_further_episodes_leaves_the_look_open() -> None:
    the_rules = game()
    board = trained(after(the_rules), the_rules, {"p0001": ZEROS})
    assert not board.looks["p0001"].done and len(board.rescores) == 2
    board = trained(looked(board, the_rules, BETTER), the_rules, {"p0001": ZEROS})
    assert board.pods["p0001"].fate == "replaced"


def test_a_look_whose_checkpoint_is_forgotten_or_that_can_not_be_played_ends() -> None:
    the_rules = game()
    board = after(the_rules)
    for _ in range(4):  # four evaluations are kept
        board = trained(board, the_rules, {"p0002": AHEAD})
    assert board.looks == {} and board.rescores == {}
    board = after(the_rules)
    for _ in range(2):  # max_restarts is 1
        board = fold(board, [failed(order_of(board, "p0002"))], the_rules, now=2.0)
    assert board.looks == {}


def test_at_a_barrier_the_second_test_waits_with_the_first() -> None:
    the_rules = game(scheme="generational")
    board = looked(after(the_rules), the_rules, BETTER)
    board = trained(board, the_rules, {"p0001": ZEROS})
    assert board.looks["p0001"].done and board.pods["p0001"].fate == "alive"
    board = trained(board, the_rules, {"p0002": ZEROS})
    assert board.pods["p0001"].fate == "replaced" and board.looks == {}


def test_a_run_that_ends_looks_no_more_and_a_target_does_not_wait() -> None:
    board = after(game(stop=StopConfig(rounds=2)))
    assert board.phase == "finals" and board.looks == {}
    assert {order.purpose for order in board.rescores.values()} == {"final"}
    board = after(game(stop=StopConfig(target=-5.0, alpha=0.5)))
    assert sorted(order.purpose for order in board.rescores.values()) == ["confirm", "look", "look"]


def test_no_set_of_fresh_seeds_shares_one_with_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, int]] = []

    def seeds(_seed: int, purpose: str, number: int, episodes: int) -> list[int]:
        shown.append((purpose, episodes))
        return [7] if (purpose, number) in {("look", 2), ("final", 0)} else [len(shown) + 100]

    monkeypatch.setattr("hpcpod.tournament.seed_sets.seeds", seeds)
    the_rules = game()
    assert unused_set(after(the_rules), the_rules.config, "final", 32) == 1
    assert ("look", 16) in shown


def _rescore(order: object) -> Rescore:
    assert isinstance(order, Rescore)
    return order
