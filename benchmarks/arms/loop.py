"""The loop of optimisers that are asked for a training and told its score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from arms.order import Delivery, Order, best_played
from arms.tasks import Space
from arms.trainer import Played, Trainer, prepare

_trainer: list[Trainer] = []
"""Of a worker process."""


class Optimiser(Protocol):
    """Proposes trainings, of which it knows no more than their scores."""

    def ask(self, number: int) -> tuple[Any, str, Mapping[str, Any]]:
        """The next training: a handle, an algorithm, and a value for each range of it."""

    def goes_on(self, handle: Any, round_number: int, score: float) -> bool:
        """True if a training is worth its next round."""

    def tell(self, handle: Any, score: float | None) -> None:
        """The last score of a training that has come to its end; None: it was given up."""


@dataclass
class _Training:
    handle: Any
    key: str
    algorithm: str
    drawn: Mapping[str, Any]
    start: Any = None
    rounds: int = 0


def play(order: Order, optimiser: Optimiser) -> Delivery:
    """Train what the optimiser proposes, at most fully each, until the budget is spent."""
    prepare(order)
    rounds, spent, asked = order.task.rounds, 0, 0
    with _pool(order) as pool:
        running: dict[Future[Played], _Training] = {}
        going_on: list[_Training] = []
        while True:
            while len(running) < order.slots and not order.is_over(spent):
                if going_on:
                    training = going_on.pop()
                else:
                    training = _Training(*_asked(optimiser, asked))
                    asked += 1
                running[pool.submit(_round, training, rounds)] = training
                spent += order.task.round_steps
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                training, played = running.pop(future), future.result()
                training.start, training.rounds = played.checkpoint, training.rounds + 1
                if played.checkpoint is None or training.rounds == rounds:
                    optimiser.tell(training.handle, played.score)
                elif optimiser.goes_on(training.handle, training.rounds, played.score):
                    going_on.append(training)
                else:
                    optimiser.tell(training.handle, None)
    return best_played(order)


def _asked(optimiser: Optimiser, number: int) -> tuple[Any, str, str, Mapping[str, Any]]:
    handle, algorithm, drawn = optimiser.ask(number)
    return handle, f"t{number:04d}", algorithm, drawn


@contextmanager
def _pool(order: Order) -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(order.slots, get_context("spawn"), _begin, (order,)) as pool:
        yield pool
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(order: Order) -> None:
    _trainer.append(Trainer(order))


def _round(training: _Training, rounds: int) -> Played:
    trained = training.key, training.algorithm, training.drawn, training.start, rounds
    return _trainer[0].train(*trained)


def flat(spaces: Mapping[str, Space]) -> Iterator[tuple[str, str, Any]]:
    """Each range of all algorithms: ``algorithm.name``, its kind and its ends or choices."""
    for algorithm, space in spaces.items():
        for name, value in space.items():
            ((kind, ends),) = value.items()
            yield f"{algorithm}.{name}", kind, ends


def of(algorithm: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one algorithm, by its own names."""
    start = f"{algorithm}."
    return {k.removeprefix(start): v for k, v in values.items() if k.startswith(start)}
