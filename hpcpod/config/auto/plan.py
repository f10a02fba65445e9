"""The size of a tournament: pods, episodes and round length that a budget can pay. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpcpod.config.auto.task import BESIDE, PANEL, Pace, Task
from hpcpod.config.placement import LENGTH

ALONE = 0.8
"""Speed of a slot beside others, as a share of what one process measured alone."""
SCORING = 0.2
"""Share of a round that its panel may take."""
ROUNDS = 6
"""Rounds of each pod if all trained equally; an allocator gives those that go on several times as
many, such as halving of 8 pods 3.8 times."""
MOST_PODS = 16
"""Pods at most, unless there are more slots."""
OF_EACH = 2
"""Pods of each algorithm at least: a control and one that is searched."""
EPISODES = (32, 16, 8)
"""Panels to choose from, the last for one algorithm alone; with fewer than 8 a test too often finds
differences that are none."""
ROUND = 8_192
"""Steps of a round that nothing else asks for: two rollouts of PPO's defaults."""
SHORTEST = 32
"""Steps of each environment in the shortest rollout that PPO searches."""
NEEDS = {True: 20_000, False: 100_000}
"""Environment steps of a training that may come to something, by whether it has a replay buffer:
the shortest of rl-baselines3-zoo's for SAC (Pendulum) and PPO (CartPole)."""


@dataclass(frozen=True)
class Budget:
    """The budget of a run, on one or both axes."""

    seconds: float | None
    """Slot-seconds of all slots; None: unlimited."""
    env_steps: int | None
    """Of the whole population; None: unlimited."""

    def buys(self, pace: Pace) -> float:
        """Environment steps that it buys of one algorithm alone."""
        by_time = math.inf if self.seconds is None else self.seconds * pace.train
        return min(by_time, math.inf if self.env_steps is None else self.env_steps)


@dataclass(frozen=True)
class Fixed:
    """Sizes that the user has set; None: free."""

    algorithms: bool = False
    """The user names the algorithms: all of them stay."""
    pods: int | None = None
    least: int = 1
    """Pods in training at least: there are no fewer."""
    episodes: int | None = None
    env_steps: int | None = None


@dataclass(frozen=True)
class Plan:
    """A tournament's size."""

    algorithms: tuple[str, ...]
    pods: int
    episodes: int
    env_steps: int
    """Of a round."""
    length: int
    """Steps that a panel's longest episode is taken to last."""
    scoring: float
    """Share of a round that its panel takes, of the algorithm where that is largest."""
    rounds: float
    """Rounds of each pod if all trained equally, of the slowest algorithm."""
    fits: bool
    """Both are as they should be."""


def panel_length(task: Task) -> int:
    """Steps that the longest episode of a panel is taken to last.

    The time limit, where it is at most 1,000 or the episodes of random actions come near it: one of
    32 mostly gets there. Else ten times those episodes, and 1,000 steps where they are unknown; of
    a longer limit, and of episodes of over 100 steps, at least 1,000.
    """
    limit, seen = task.max_episode_steps, task.random_steps
    guess = max(LENGTH, math.ceil(10 * seen)) if seen is not None else LENGTH
    if limit is None:
        return guess if seen is None or seen > LENGTH / 10 else math.ceil(10 * seen)
    return limit if limit <= LENGTH else min(limit, guess)


def panel_seconds(task: Task, pace: Pace, episodes: int) -> float:
    """Seconds of a panel of that many episodes, stepped side by side."""
    share = (episodes + BESIDE) / (PANEL + BESIDE)
    return panel_length(task) * pace.panel_step * share


@dataclass(frozen=True)
class Sizing:
    """A search for a tournament's size."""

    task: Task
    """With the pace of each algorithm."""
    replay: Mapping[str, bool]
    """Of each algorithm in question, whether it learns from a replay buffer; in any order."""
    budget: Budget
    """Of the run."""
    slots: int
    """At once."""
    num_envs: int
    """Environments of a pod, over all its ranks."""
    fixed: Fixed = Fixed()
    """Sizes that the user has set."""
    rollout: int = SHORTEST
    """Steps of each environment in the shortest round."""

    @property
    def crowded(self) -> list[str]:
        """Algorithms for which the number of pods that the user has set is too small, a control and
        one that is searched of each. Those stay of which the budget buys most trainings."""
        if self.fixed.pods is None or self.fixed.algorithms:
            return []
        most_first = sorted(self.replay, key=self._trainings, reverse=True)
        return most_first[max(1, self.fixed.pods // OF_EACH) :]

    def plan(self) -> Plan:
        """The preferred size; the slowest algorithms are left out until one fits, unless the user
        named them, and those that are ``crowded`` from the start. Where none fits, the one that
        misses its aims least."""
        left = list(self.replay) if self.fixed.algorithms else self._affordable()
        while True:
            found = list(self._plans(left))
            fitting = [each for each in found if each.fits]
            if fitting or len(left) == 1 or self.fixed.algorithms:
                return fitting[0] if fitting else min(found, key=_strain)
            left.remove(min(left, key=lambda name: self.task.paces[name].train))

    def _affordable(self) -> list[str]:
        """The algorithms of which an equal share of the budget buys at least one training; if of
        none, the one that gets closest."""
        names = [name for name in self.replay if name not in self.crowded]
        bought = {name: self._trainings(name) for name in names}
        kept = [name for name, number in bought.items() if number >= len(bought)]
        return kept or [max(bought, key=lambda name: bought[name])]

    def _trainings(self, name: str) -> float:
        """Trainings of one algorithm that the whole budget buys."""
        return self.budget.buys(self.task.paces[name]) / NEEDS[self.replay[name]]

    def _plans(self, names: Sequence[str]) -> Iterator[Plan]:
        """Plans for these algorithms, the preferred ones first: long panels, many pods."""
        trainings = min(MOST_PODS, sum(map(self._trainings, names)) / len(names))
        # no more slots than pods of which each has its rounds, however short
        paid = (self.budget.env_steps or math.inf) // (ROUNDS * self.rollout * self.num_envs)
        least = max(int(min(self.slots, paid)), OF_EACH * len(names), self.fixed.least)
        sizes = range(max(least, int(trainings)), least - 1, -1)
        # On Humanoid-v5, for an hour, TD3 came in beside PPO at the price of a panel of 8 for both.
        free = EPISODES if len(names) == 1 or self.fixed.algorithms else EPISODES[:-1]
        panels = free if self.fixed.episodes is None else [self.fixed.episodes]
        for episodes in panels:
            for pods in sizes if self.fixed.pods is None else [self.fixed.pods]:
                for steps in self._lengths(names, pods, episodes):
                    yield self._judged(names, pods, episodes, steps)

    def _lengths(self, names: Sequence[str], pods: int, episodes: int) -> Iterator[int]:
        """Lengths of a round: long enough for the panel of the fastest algorithm, short enough for
        the slowest; and what lies between the two where that can't be."""
        if self.fixed.env_steps is not None:
            yield self.fixed.env_steps
            return
        unit = self.rollout * self.num_envs
        budget, low, high = self.budget, 0.0, math.inf
        if budget.env_steps is not None:
            high = budget.env_steps / (pods * ROUNDS)
        for pace in (self.task.paces[name] for name in names):
            panel = panel_seconds(self.task, pace, episodes)
            low = max(low, pace.train * panel * (1 / SCORING - 1))
            if budget.seconds is not None:
                high = min(high, pace.train * (budget.seconds / (pods * ROUNDS) - panel))
        wanted = max(low, min(ROUND, high))
        between = math.sqrt(low * max(high, unit))
        for steps in (wanted, between) if high < low else (wanted,):
            yield max(unit, math.ceil(steps / unit) * unit)

    def _judged(self, names: Sequence[str], pods: int, episodes: int, steps: int) -> Plan:
        """A plan with the shares that follow from it."""
        budget, scoring, rounds = self.budget, 0.0, math.inf
        if budget.env_steps is not None:
            rounds = budget.env_steps / pods / steps
        for pace in (self.task.paces[name] for name in names):
            panel = panel_seconds(self.task, pace, episodes)
            whole = panel + steps / pace.train
            scoring = max(scoring, panel / whole)
            if budget.seconds is not None:
                rounds = min(rounds, budget.seconds / pods / whole)
        # Rounded up to a whole rollout, a round may make a few less than it should.
        fits = scoring <= 1.01 * SCORING and rounds >= 0.8 * ROUNDS
        return Plan(
            tuple(names), pods, episodes, steps, panel_length(self.task), scoring, rounds, fits
        )


def _strain(each: Plan) -> float:
    """The larger of the two ratios by which a plan misses its aims."""
    return max(each.scoring / SCORING, ROUNDS / max(each.rounds, 1e-9))
