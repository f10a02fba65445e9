"""The lines that people watch: each event of a run once, however seldom they look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.cli.live import Live
from hpcpod.config.schema import StopConfig
from hpcpod.records.checkpoints import Checkpoint
from hpcpod.records.policy_snapshots import PolicySnapshot
from hpcpod.records.records import Board, Order, PodState, Report, Rescore
from hpcpod.run.events import events
from hpcpod.run.run import open_run
from hpcpod.run.tables import changes, headline, number
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.rules import Rules
from hpcpod.tournament.settle import HISTORY
from tests.tournament.world import (
    by_number,
    failed,
    flat,
    order_of,
    play_round,
    random_run,
    report,
    rules,
)


def said(old: Board | None, new: Board) -> list[str]:
    return list(events(old, new, "runs/mine"))


def about(pod: str, lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.startswith(f"{pod} ")]


def with_a_copy() -> tuple[Rules, Board, Board]:
    """A run of eight pods at the merge before, and of, the first copy: p0009, of the leader."""
    game = rules(8)
    before = play_round(first_board(game, 0.0), game, by_number)
    return game, before, play_round(before, game, by_number)


def child(board: Board) -> PodState:
    [found] = [pod for pod in board.pods.values() if pod.cause == "copy"]
    return found


# --- each kind of event ------------------------------------------------------------------------


def test_a_new_run_has_nothing_to_tell() -> None:
    assert said(None, first_board(rules(4), 0.0)) == []


def test_the_return_of_a_round_is_the_mean_of_its_panel() -> None:
    game = rules(4)
    first = first_board(game, 0.0)
    done = [report(order_of(first, "p0002"), (1.0, 4.0)), report(order_of(first, "p0001"), (9, 10))]
    board = fold(first, done, game, now=1.0)
    assert said(first, board) == ["p0001 ppo round 1: return 9.5", "p0002 ppo round 1: return 2.5"]


def test_a_copy_is_born_with_its_parent_its_place_its_changes_and_the_reason() -> None:
    _, before, after = with_a_copy()
    born = child(after)
    assert born.parent and born.replaces and born.mutated and born.evidence
    assert after.pods[born.replaces].fate == "replaced"
    assert about("p0009", said(before, after)) == [
        f"p0009 is born: copy of {born.parent} at round 2 in place of {born.replaces};"
        f" {changes(after, born)}; {born.evidence}"
    ]
    # The loser keeps no evaluation but its last round's mean.
    assert about(born.replaces, said(before, after)) == ["p0002 ppo round 2: return 2.0"]
    assert about(born.replaces, said(None, after)) == ["p0002 ppo round 2: return 2.0"]
    assert about(born.replaces, said(after, after)) == []


def test_a_fresh_draw_is_born_with_the_place_that_it_takes_and_the_reason() -> None:
    _, before, after = with_a_copy()
    born = child(after)
    new = replace(
        born, parent=None, parent_round=0, mutated=(), cause="fresh", evidence="none rose"
    )
    drawn = replace(after, pods={**after.pods, new.id: new})
    line = "p0009 is born: fresh draw in place of p0002; none rose"
    assert about("p0009", said(before, drawn)) == [line]
    again = replace(new, repeats="p0008", evidence="one training says little")
    drawn = replace(after, pods={**after.pods, new.id: again})
    line = (
        "p0009 is born: p0008 again with another seed in place of p0002; one training says little"
    )
    assert about("p0009", said(before, drawn)) == [line]


def test_a_change_is_the_value_of_the_parent_and_of_the_child() -> None:
    _, _, board = with_a_copy()
    born = child(board)
    assert born.parent is not None
    old = {"learning_rate": 0.001, "gamma": 0.9912345, "epochs": 4, "width": 64}
    new = {"learning_rate": 0.0013, "gamma": 0.987654, "epochs": 5, "width": 64}
    parent = replace(board.pods[born.parent], hyperparameters=old)
    born = replace(born, hyperparameters=new, mutated=("epochs", "gamma", "learning_rate"))
    board = replace(board, pods={**board.pods, parent.id: parent, born.id: born})
    assert changes(board, born) == (
        "epochs 4 -> 5, gamma 0.9912 -> 0.9877, learning_rate 0.001 -> 0.0013"
    )
    assert changes(board, replace(born, mutated=())) == "hyperparameters unchanged"
    assert changes(board, replace(born, mutated=("forged",))) == "forged None -> None"
    assert changes(board, board.pods["p0001"]) == "hyperparameters unchanged"


def test_the_changes_of_a_real_copy_name_all_that_differs_from_its_parent() -> None:
    _, _, board = with_a_copy()
    born = child(board)
    assert born.parent is not None
    parent = board.pods[born.parent]
    differ = {
        name for name in parent.hyperparameters
        if parent.hyperparameters[name] != born.hyperparameters[name]
    }  # fmt: skip
    assert {part.split()[0] for part in changes(board, born).split(", ")} == differ != set()


@pytest.mark.parametrize("exact", [True, False])
def test_a_copy_that_scored_its_parents_panel_is_compared_with_its_parent(exact: bool) -> None:
    game, _, before = with_a_copy()
    panel = child(before).parent_returns
    inherited = panel if exact else (panel[0] + 1, *panel[1:])
    done = report(order_of(before, "p0009"), (7.0, 7.0), inherited_returns=inherited)
    after = fold(before, [done], game, now=3.0)
    how = "exactly as" if exact else "NOT as"
    assert said(before, after) == [
        "p0009 ppo round 3: return 7.0",
        f"p0009 scored its parent's panel {how} its parent did before it trained",
    ]
    later = about("p0009", said(after, play_round(after, game, by_number)))
    assert later == ["p0009 ppo round 4: return 9.0"]


def test_a_failed_attempt_and_the_death_after_it_name_the_log() -> None:
    game = rules(4, max_restarts=1)
    boards = [first_board(game, 0.0)]
    for why in ("the simulator left", "it left again"):
        order = order_of(boards[-1], "p0003")
        boards.append(fold(boards[-1], [failed(order, why=why)], game, now=1.0))
    logs = "`hpcpod logs runs/mine p0003` has the traceback"
    first = f"p0003 ppo round 1, attempt 1 on s1 failed: the simulator left; {logs}"
    last = f"p0003 ppo failed: 2 failures in a row, the last one: it left again; {logs}"
    assert said(boards[0], boards[1]) == [first]
    assert about("p0003", said(boards[1], boards[2])) == [last]
    assert about("p0003", said(boards[0], boards[2])) == [last]


def test_a_divergence_is_a_death_at_once() -> None:
    game = rules(4)
    before = first_board(game, 0.0)
    why = failed(order_of(before, "p0001"), "diverged", "the loss is nan")
    after = fold(before, [why], game, now=1.0)
    [line] = about("p0001", said(before, after))
    assert line.startswith("p0001 ppo failed: diverged: the loss is nan; `hpcpod logs ")


def test_fresh_seeds_confirm_the_target_or_do_not_yet() -> None:
    game = rules(4, stop=StopConfig(target=2.6))
    before = play_round(first_board(game, 0.0), game, by_number)
    order = next(order for order in orders(before) if isinstance(order, Rescore))
    for returns, verdict in (((9.0,) * 128, ": confirmed"), ((0.0, 1.0) * 64, ": not yet")):
        fresh = report(order, returns, engine="gymnasium 1.1")
        after = fold(before, [fresh], game, now=2.0)
        [line] = said(before, after)
        start = "p0004 round 1 on 128 fresh seeds (confirm, by gymnasium 1.1): "
        assert line.startswith(f"{start}{number(sum(returns) / 128)} [")
        assert line.endswith(f"]{verdict}")


def test_a_snapshot_that_is_scored_is_a_line_with_its_policy() -> None:
    game = rules(4)
    before = play_round(first_board(game, 0.0), game, by_number)
    rows = {
        str(n): PolicySnapshot(n, 1, 100 * n, "p0004", 1, Checkpoint(core, 100))
        for n, core in ((1, "a"), (2, "a"), (3, "b"), (4, "c"))
    }
    before = replace(before, snapshots={**rows, "4": replace(rows["4"], returns=(5.0, 5.0))})
    after = {name: replace(row, returns=(1.0, 2.0)) for name, row in rows.items()}
    after["3"] = replace(rows["3"], failure="it broke")
    assert said(before, replace(before, snapshots=after)) == [
        "snapshot 1 is p0004 round 1: return 1.5", "snapshot 3 is p0004 round 1: it broke",
    ]  # fmt: skip


def test_each_phase_is_in_the_headline_and_finals_are_scores_without_a_verdict(
    finished_run: Path,
) -> None:
    game = rules(4, stop=StopConfig(rounds=1, finalists=2))
    running = first_board(game, 0.0)
    finals = play_round(running, game, by_number)
    confirm = play_round(finals, game, by_number)
    last = play_round(confirm, game, by_number)
    finished = play_round(last, game, by_number)
    assert (running.phase, last.phase, finished.phase) == ("running", "finals", "finished")
    ends = [line.partition(" [") for line in said(finals, confirm)]
    assert [line for line, _, _ in ends] == [
        "p0004 round 1 on 4 fresh seeds (final: select set): 4.0",
        "p0003 round 1 on 4 fresh seeds (final: select set): 3.0",
    ]
    assert all(end.endswith("]") for _, _, end in ends)
    assert [line.partition(" [")[0] for line in said(confirm, last)] == [
        "p0004 round 1 on 4 fresh seeds (final: confirm set): 4.0",
        "the ensemble (auto) of p0004, p0003 on 4 fresh seeds (final: confirm set): 4.0",
        "final: no ensemble is shown to be better than p0004: the best, the ensemble (auto) of"
        " p0004, p0003, has +0, at least +0 with 0.95 certainty, on 4 common episodes",
    ]
    assert [line.partition(" [")[0] for line in said(last, finished)] == [
        "p0004 round 1 on 4 fresh seeds (final: report set): 4.0",
    ]
    assert said(finished, play_round(finished, game, by_number)) == []
    status = replace(open_run(finished_run).status(), run="mine", stop_reason="rounds")
    assert headline(replace(status, state="finals")).startswith("mine: finals (rounds) | ")
    assert headline(replace(status, state="running", stop_reason=None)).startswith(
        "mine: running |"
    )


# --- nothing twice, nothing lost ---------------------------------------------------------------


def whole_run(seed: int) -> list[Board]:
    """Every generation of a random run to its end: slots come in any number, attempts fail, orders
    are lost, reports come twice, copied children score their parent's panel."""
    game = rules(6, seed=seed, stop=StopConfig(target=58.0, rounds=9, finalists=2))
    boards = [first_board(game, 0.0), *(each.after for each in random_run(game, seed, merges=30))]
    board = boards[-1]
    while board.phase != "finished":
        board = fold(board, [_scored(board, order) for order in orders(board)], game, now=99.0)
        boards.append(board)
    return boards


def _scored(board: Board, order: Order) -> Report:
    inherited = board.pods[order.pod].parent_returns
    return report(order, flat(5.0 * order.round), inherited_returns=inherited)


def told(looks: Sequence[Board]) -> list[str]:
    """All lines that someone reads who looks at these boards, one after another."""
    return [
        line for old, new in zip([None, *looks], looks, strict=False) for line in said(old, new)
    ]


def is_return(line: str) -> bool:
    return ": return " in line


def is_attempt(line: str) -> bool:
    return ", attempt " in line


def returns_on(boards: Sequence[Board]) -> Counter[str]:
    """A line for each evaluation, trained once, that is on any of these boards, and for the last
    round of each pod that died with one that nobody had seen."""
    found = {
        (pod.id, evaluation.checkpoint): f"{pod.id} ppo round {evaluation.round}: return"
        f" {number(sum(evaluation.returns) / len(evaluation.returns))}"
        for board in boards
        for pod in board.pods.values()
        for evaluation in pod.history
    }
    unseen = [
        f"{pod.id} ppo round {pod.last.round}: return {number(pod.last.mean)}"
        for old, new in zip([None, *boards], boards, strict=False)
        for pod in new.pods.values()
        if pod.last is not None and not _knew(old, pod, pod.last.round)
    ]
    return Counter([*found.values(), *unseen])


def _knew(board: Board | None, pod: PodState, round: int) -> bool:
    """True if a board has a pod's round, or its end."""
    was = None if board is None else board.pods.get(pod.id)
    return was is not None and (was.last is not None or round in [e.round for e in was.history])


@given(seed=st.integers(0, 200), data=st.data())
def test_however_seldom_somebody_looks_each_event_is_shown_once(
    seed: int, data: st.DataObject
) -> None:
    boards = whole_run(seed)
    chosen = data.draw(st.sets(st.integers(0, len(boards) - 1)), label="looks")
    looks = [boards[each] for each in sorted({*chosen, len(boards) - 1})]
    always, seldom = told(boards), told(looks)
    # What pods keep is shown once, and no evaluation is shown that no board had.
    assert Counter(filter(is_return, always)) == returns_on(boards)
    assert Counter(filter(is_return, seldom)) == returns_on(looks)
    attempts = Counter(filter(is_attempt, always))
    assert max(attempts.values(), default=0) <= 1
    assert Counter(filter(is_attempt, seldom)) <= attempts
    # All else stays on the board for good: it is shown once, and whoever looks late sees it all.
    lasting = [line for line in always if not is_return(line) and not is_attempt(line)]
    assert len(set(lasting)) == len(lasting)
    assert sorted(lasting) == sorted(
        line for line in seldom if not is_return(line) and not is_attempt(line)
    )


def test_random_runs_have_events_of_every_kind() -> None:
    lines = [line for seed in range(10) for line in told(whole_run(seed))]
    for kind in (
        " is born: copy of ", ": return ", " on s1 failed: ", " ppo failed: diverged",
        " failures in a row", "(confirm)", "(final: select set)",
        "(final: confirm set)", "(final: report set)", "final: no ensemble is shown",
        "exactly as its parent did",
    ):  # fmt: skip
        assert any(kind in line for line in lines), kind


def test_as_many_rounds_as_a_pod_remembers_may_pass_between_two_looks() -> None:
    game = rules(1, controls=1)
    boards = [first_board(game, 0.0)]
    for _ in range(HISTORY + 2):
        boards.append(play_round(boards[-1], game, lambda order: float(order.round)))
    assert said(boards[1], boards[1 + HISTORY]) == [
        f"p0001 ppo round {n}: return {n}.0" for n in range(2, 2 + HISTORY)
    ]
    assert len(said(boards[0], boards[-1])) == HISTORY


def test_a_round_that_is_trained_again_is_shown_again() -> None:
    game = rules(1, controls=1)
    board = first_board(game, 0.0)
    for _ in range(2):
        board = play_round(board, game, lambda order: float(order.round))
    seen = board
    board = fold(board, [failed(order_of(board, "p0001"), "corrupt", "damaged")], game, now=2.0)
    assert order_of(board, "p0001").round == 2
    board = play_round(board, game, lambda order: 7.0)
    assert said(seen, board) == ["p0001 ppo round 2: return 7.0"]


def test_a_live_view_shows_a_board_once(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = open_run(finished_run)
    board = run.board()
    with Live(run) as live:
        live.update(board)
        shown = capsys.readouterr().out.splitlines()
        live.update(board)
    expected = list(events(None, board, run.word))
    assert shown[: len(expected)] == expected != []
    assert shown[len(expected)] == headline(run.status(board))
    assert capsys.readouterr().out == ""
