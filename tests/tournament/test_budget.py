"""The share of a run's budget that is spent, as births carry it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.records.records import Birth, Board, Checkpoint, PodState, decode, encode
from hpcpod.tournament.budget import same_work, speculative, taken_up
from hpcpod.tournament.leaderboard import begin, first_board, fold, orders
from hpcpod.tournament.rules import Rules
from tests.tournament.world import by_number, failed, flat, order_of, play_round, report, rules


def spans(board: Board) -> set[tuple[float | None, float | None]]:
    births = [pod.birth for pod in board.pods.values() if pod.birth is not None]
    return {(birth.begins, birth.ends) for birth in births}


def test_of_rounds_it_is_exact_and_a_copy_is_where_the_run_is() -> None:
    the_rules = rules(8, stop=StopConfig(rounds=5))
    board = first_board(the_rules, now=0.0)
    assert spans(board) == {(0.0, 0.2)}
    for number in range(1, 5):
        board = play_round(board, the_rules, by_number, now=float(number))
        assert spans(board) == {(number / 5, (number + 1) / 5)}
    assert any(pod.cause == "copy" and pod.birth is not None for pod in board.pods.values())
    assert spans(play_round(board, the_rules, by_number, now=9.0)) == set()


def test_of_the_populations_steps_it_is_what_is_spent_and_what_the_last_round_took() -> None:
    # 4 pods; reports say 100 steps, of 20,000 that a round is to take.
    the_rules = rules(4, stop=StopConfig(env_steps=200_000))
    board = first_board(the_rules, now=0.0)
    assert spans(board) == {(0.0, 0.4)}  # a first guess: 4 rounds of 20,000
    board = fold(board, [report(order_of(board, "p0001"), flat(1))], the_rules, now=1.0)
    birth = order_of(board, "p0001")
    assert isinstance(birth, Birth)
    # 100 of 200,000 are spent: that is what the round took.
    assert (birth.begins, birth.ends) == pytest.approx((0.0005, 0.001))


def test_of_minutes_it_is_what_is_spent_since_the_first_slot_began() -> None:
    the_rules = rules(2, stop=StopConfig(minutes=10))
    board = begin(first_board(the_rules, now=0.0), now=1000.0)
    assert spans(board) == {(0.0, 0.0)}
    board = play_round(board, the_rules, by_number, now=1060.0)
    assert spans(board) == {(0.1, 0.2)}
    board = play_round(board, the_rules, by_number, now=1540.0)
    assert spans(board) == {(0.9, 1.0)}  # it took eight minutes, and more than all is nothing


def test_of_minutes_a_copy_s_first_round_is_as_long_as_its_kin_s() -> None:
    the_rules = rules(8, stop=StopConfig(minutes=10))
    board = begin(first_board(the_rules, now=0.0), now=0.0)
    for minute in range(1, 6):
        board = play_round(board, the_rules, by_number, now=60.0 * minute, seconds=60.0)
        for told in spans(board):
            assert told == pytest.approx((minute / 10, (minute + 1) / 10))
    assert any(pod.cause == "copy" and pod.birth is not None for pod in board.pods.values())


@pytest.mark.parametrize("stop", [StopConfig(minutes=100), StopConfig(env_steps=10_000)])
def test_where_pods_take_turns_a_round_follows_what_is_spent_when_a_slot_takes_it_up(
    stop: StopConfig,
) -> None:
    # 4 pods, one slot, 100 steps in a round of a minute: 1 % of the budget.
    the_rules = rules(4, stop=stop)
    board = begin(first_board(the_rules, now=0.0), now=0.0)
    told = []
    for minute in range(16):
        order = orders(board)[0]
        birth = taken_up(order, board, the_rules.config, now=60.0 * minute)
        assert isinstance(birth, Birth) and birth.begins is not None and birth.ends is not None
        told.append((birth.begins, birth.ends))
        board = fold(board, [report(order, flat(1))], the_rules, now=60.0 * (minute + 1))
    assert [begins for begins, _ in told] == pytest.approx([n / 100 for n in range(16)])
    assert all(begins <= ends <= 1.0 for begins, ends in told)


def test_of_several_limits_the_one_counts_of_which_most_is_spent() -> None:
    the_rules = rules(2, stop=StopConfig(minutes=10, rounds=10))
    board = begin(first_board(the_rules, now=0.0), now=0.0)
    assert spans(board) == {(0.0, 0.1)}
    board = play_round(board, the_rules, by_number, now=300.0)
    assert spans(board) == {(0.5, 1.0)}


@pytest.mark.parametrize("stop", [StopConfig(minutes=10), StopConfig(env_steps=10_000)])
def test_a_merge_looks_at_all_pods_as_often_however_many_die(
    stop: StopConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 2,000 pods of which a third fail, a merge sorted all of them for each."""
    looks, living, found = [0], Board.living.fget, []  # type: ignore[attr-defined]

    def counted(board: Board) -> list[PodState]:
        looks[0] += 1
        return living(board)  # type: ignore[no-any-return]

    monkeypatch.setattr(Board, "living", property(counted))
    for pods in (8, 32):
        the_rules = rules(pods, stop=stop)
        board = play_round(begin(first_board(the_rules, 0.0), 0.0), the_rules, by_number, now=60.0)
        dying = orders(board)[: pods // 2]
        before = looks[0]
        board = fold(board, [failed(each, "diverged") for each in dying], the_rules, now=90.0)
        assert sum(pod.fate == "failed" for pod in board.pods.values()) == pods // 2
        found.append(looks[0] - before)
    assert found[0] == found[1]


def test_without_a_limit_there_is_none() -> None:
    the_rules = rules(2, stop=StopConfig(target=1e9))
    board = play_round(first_board(the_rules, now=0.0), the_rules, by_number)
    assert spans(board) == {(None, None)}


def test_another_attempt_keeps_what_the_first_was_told() -> None:
    the_rules = rules(2, stop=StopConfig(minutes=10), max_restarts=3)
    board = begin(first_board(the_rules, now=0.0), now=0.0)
    board = fold(board, [failed(order_of(board, "p0001"))], the_rules, now=240.0)
    again = order_of(board, "p0001")
    assert isinstance(again, Birth)
    assert (again.attempt, again.begins) == (2, 0.0)
    lost = fold(board, [], the_rules, now=480.0, lost=[order_of(board, "p0002").id])
    other = order_of(lost, "p0002")
    assert isinstance(other, Birth)
    assert (other.attempt, other.begins) == (2, 0.0)
    assert fold(board, [], the_rules, now=480.0) == board  # nothing has happened


@pytest.mark.parametrize("stop", [StopConfig(rounds=7), StopConfig(rounds=7, minutes=99)])
def test_a_birth_that_is_begun_ahead_is_the_one_that_is_ordered(stop: StopConfig) -> None:
    the_rules = rules(2, stop=stop)
    board = begin(first_board(the_rules, now=0.0), now=0.0)
    for number in range(1, 4):
        birth, done = order_of(board, "p0001"), report(order_of(board, "p0001"), flat(1))
        assert isinstance(birth, Birth) and done.checkpoint is not None
        guess = speculative(birth, done.checkpoint, the_rules.config)
        board = fold(board, [done], the_rules, now=10.0 * number)
        ordered = order_of(board, "p0001")
        assert guess is not None and isinstance(ordered, Birth)
        assert same_work(ordered, guess)
        assert guess == ordered  # of rounds alone, or while these are what is spent most of
        assert not same_work(replace(ordered, attempt=2), guess)
        assert not same_work(None, guess)


def test_a_birth_of_an_older_version_has_none() -> None:
    birth = Birth("p0001", 2, 1, "ppo", {}, 7, Checkpoint("core", 5), begins=0.1, ends=0.2)
    stored = encode(birth)
    assert decode(Birth, stored) == birth
    older = {name: value for name, value in stored.items() if name not in ("begins", "ends")}
    assert decode(Birth, older) == replace(birth, begins=None, ends=None)


def test_a_pod_that_follows_another_has_the_schedules_of_its_own_rounds() -> None:
    stop = StopConfig(rounds=2, env_steps=400_000)
    the_rules = rules(4, stop=stop, controls=0)
    population = replace(the_rules.config.population, generator="random_search")
    the_rules = Rules.of(replace(the_rules.config, population=population), the_rules.algorithms)
    board = first_board(the_rules, now=0.0)
    for number in range(2):
        board = play_round(board, the_rules, by_number, now=float(number))
    assert board.env_steps == 800 and all(pod.replaces for pod in board.living)
    assert spans(board) == {(0.0, 0.5)}
    board = play_round(board, the_rules, by_number, now=3.0)
    assert spans(board) == {(0.5, 1.0)}
