"""Runs of a generator, on boards whose scores are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hpcpod import plugins
from hpcpod.records.records import Board, Order, PodState
from hpcpod.tournament.leaderboard import first_board, fold, orders
from hpcpod.tournament.proposals import Generator
from hpcpod.tournament.rules import Rules
from tests.tournament.world import flat, report, rules

EPISODES = 16


def game(generator: str, pods: int = 8, **fields: object) -> Rules:
    """The rules of a run by a generator; fields as of ``world.rules``."""
    plain = rules(pods, **fields)  # type: ignore[arg-type]
    named = replace(plain.config.population, generator=generator)
    made = plugins.make(Generator, "generators", generator, named)
    return replace(plain, config=replace(plain.config, population=named), generator=made)


def played(
    the_rules: Rules,
    rounds: int,
    score: Callable[[Board, Order], float],
    board: Board | None = None,
) -> Board:
    """The board after all pods have reported so many times, all at once."""
    board = board or first_board(the_rules, 0.0)
    for _ in range(rounds):
        reports = [report(o, flat(score(board, o), EPISODES)) for o in orders(board)]
        board = fold(board, reports, the_rules, now=1.0)
    return board


def founder_of(board: Board, order: Order) -> int:
    """The number of the founder in whose place a pod is."""
    pod = board.pods[order.pod]
    while pod.replaces is not None:
        pod = board.pods[pod.replaces]
    return int(pod.id[1:])


def by_place(board: Board, order: Order) -> float:
    """A score that tells places apart for good: those of later founders are better."""
    return float(founder_of(board, order))


def born(board: Board) -> list[PodState]:
    """Pods that are no founders, in the order of their births."""
    return [pod for _, pod in sorted(board.pods.items()) if pod.replaces is not None]


def births(board: Board) -> dict[str | None, tuple[str | None, int]]:
    """Parent and its round of each pod that is no founder, by the pod that it replaced."""
    return {pod.replaces: (pod.parent, pod.parent_round) for pod in born(board)}
