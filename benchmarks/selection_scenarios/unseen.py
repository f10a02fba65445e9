"""Worlds by somebody who had not read the rules: do the rules also fit what they were not made for?

They were written on 2026-11-28 by somebody who had read ``budget.py`` but not the rules, fixed
before they were played, and not changed. As in ``budget``, the budget is too small for all pods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from hpcpod.config.schema import StopConfig
from hpcpod.config.space import AlgorithmSpace, LogUniform, Uniform
from hpcpod.records.records import Birth, Board
from hpcpod.tournament.rules import Rules
from selection_scenarios import budget, speeds
from selection_scenarios.budget import ENV_STEPS, SECONDS, towards
from selection_scenarios.measures import Number, Row, mean
from selection_scenarios.world import SPACE, Agents, Game, Returns, Settings, delivered

Random = np.random.Generator


class Pod(NamedTuple):
    """A policy's hyperparameters, and its random numbers."""

    x: float
    """The place in the range of ``step``, 0 to 1."""
    y: float
    """``other``, where a world has it."""
    algorithm: str
    rng: Random


class Truth(float):
    """A true mean return, and the numbers that a policy's returns need beside it."""

    risk: float = 0.0
    """The chance of an episode to lose 1000."""
    mu: float = 0.0
    """The mean return before losses, or before it is capped."""


def bell(x: float, best: float, narrow: float = 8.0) -> float:
    """1 where the hyperparameter is best, falling to both sides."""
    return math.exp(-narrow * (x - best) ** 2)


def power(pod: Pod, state: float | None) -> tuple[float, float]:
    """A power law; the fastest have no high ceiling."""
    skill = state or 0.0
    ceiling = 0.4 + 0.6 * bell(pod.x, 0.35)
    gap = ceiling - skill
    skill += (0.03 + 0.4 * pod.x) * gap**2.4 if gap > 0 else 0.05 * gap
    return skill, 100 * skill


Bloomer = tuple[float, float, float]
"""Progress, skill, and the progress at which the jump comes."""


def bloomers(pod: Pod, state: Bloomer | None) -> tuple[Bloomer, float]:
    """A plateau, then a jump, which comes later to those that then go farther."""
    progress, skill, threshold = state or (0.0, 0.0, math.exp(0.3 * pod.rng.standard_normal()))
    progress += 0.06 + 0.3 * pod.x
    if progress >= threshold:
        skill = towards(skill, 100 - 65 * pod.x, 0.35)
    return (progress, skill, threshold), 5 + 2 * min(progress, 1.0) + 0.93 * skill


def diverging(pod: Pod, state: tuple[float, bool] | None) -> tuple[tuple[float, bool], float]:
    """A collapse of the fastest for good, the sooner the farther they are."""
    skill, dead = state or (0.0, False)
    skill = towards(skill, 100.0, 0.02 + 0.25 * pod.x)
    hazard = 1.5 * max(0.0, pod.x - 0.5) * max(0.0, (skill - 30) / 70)
    dead = dead or bool(pod.rng.random() < hazard)
    return (skill, dead), -20.0 if dead else skill


def oscillating(pod: Pod, state: tuple[float, float] | None) -> tuple[tuple[float, float], float]:
    """A score that swings from round to round, more where the step is large."""
    skill, phase = state or (0.0, 2 * math.pi * pod.rng.random())
    skill = towards(skill, 100 * bell(pod.x, 0.6), 0.08)
    phase += 2 * math.pi / 6 * (1 + 0.1 * pod.rng.standard_normal())
    return (skill, phase), skill + (5 + 30 * pod.x) * math.sin(phase) * min(1.0, skill / 40)


LANDED, CRASHED = 250.0, -100.0 - 120.0 * (1 - math.exp(-400 / 120))
"""Mean returns."""


def lander(pod: Pod, state: float | None) -> tuple[float, float]:
    """A share of landings; crashes cost 100 to 500."""
    share = towards(state or 0.0, 0.98 * bell(pod.x, 0.5), 0.02 + 0.12 * pod.x)
    return share, CRASHED + share * (LANDED - CRASHED)


def catastrophe(pod: Pod, state: float | None) -> tuple[float, Truth]:
    """Episodes that lose 1000, the more often the faster a policy learns."""
    skill = towards(state or 0.0, 100.0, 0.03 + 0.15 * pod.x)
    truth = Truth(skill - 30 * pod.x)
    truth.risk, truth.mu = 0.03 * pod.x, skill
    return skill, truth


def ceiling(pod: Pod, state: float | None) -> tuple[float, Truth]:
    """A bound of 500, which no return exceeds and nearly all come near to."""
    mu = towards(state or 20.0, 440 + 90 * bell(pod.x, 0.5), 0.15 + 0.2 * pod.x)
    z = (500 - mu) / 40
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    truth = Truth(mu * ndtr(z) - 40 * density + 500 * (1 - ndtr(z)))
    truth.mu = mu
    return mu, truth


def tortoise(pod: Pod, state: float | None) -> tuple[float, float]:
    """An algorithm that takes four times as long, and is better in the end."""
    best, rate = (100.0, 0.12) if pod.algorithm == "slow" else (55.0, 0.10)
    skill = towards(state or 0.0, best * bell(pod.x, 0.5, 4), rate * bell(pod.x, 0.6, 4))
    return skill, skill


def hare(pod: Pod, state: float | None) -> tuple[float, float]:
    """An algorithm that takes four times as long, is worse, and ahead by rounds at first."""
    best, rate = (55.0, 0.25) if pod.algorithm == "slow" else (100.0, 0.08)
    skill = towards(state or 0.0, best * bell(pod.x, 0.5, 4), rate * bell(pod.x, 0.6, 4))
    return skill, skill


def broken(pod: Pod, state: float | None) -> tuple[float, float]:
    """A range half of which has -1000, always, to the digit."""
    skill = state or 0.0
    if pod.x < 0.5:
        return skill, -1000.0
    skill = towards(skill, 100 * bell(pod.x, 0.75, 20), 0.05 + 0.08 * pod.x)
    return skill, skill


def matters_late(pod: Pod, state: float | None) -> tuple[float, float]:
    """An equal rise of all to 50, beyond which the hyperparameter says how far they go."""
    skill = state or 0.0
    if skill < 50:
        skill = towards(skill, 60.0, 0.2)
    else:
        skill = towards(skill, 50 + 50 * bell(pod.x, 0.3), 0.1)
    return skill, skill


def needle(pod: Pod, state: float | None) -> tuple[float, float]:
    """A fiftieth of the range that learns; the rest forgets."""
    skill = state or 0.0
    skill = towards(skill, 100.0, 0.15) if abs(pod.x - 0.73) < 0.01 else 0.95 * skill
    return skill, skill


def four(pod: Pod, state: float | None) -> tuple[float, float]:
    """A middle that goes farthest, and an upper end that is fastest."""
    skill = towards(state or 0.0, 100 * bell(pod.x, 0.4), 0.04 + 0.2 * pod.x)
    return skill, skill


def short(pod: Pod, state: float | None) -> tuple[float, float]:
    """Fast learners, and three rounds for each."""
    skill = towards(state or 0.0, 40 + 60 * bell(pod.x, 0.5), 0.1 + 0.3 * bell(pod.x, 0.65))
    return skill, skill


def sparse(pod: Pod, state: float | None) -> tuple[float, float]:
    """Nothing until a first success by luck; returns are 0 or 1."""
    skill = state or 0.0
    if skill == 0.0 and pod.rng.random() > 0.25 * bell(pod.x, 0.55):
        return 0.0, 0.002
    skill = towards(skill, 0.9 * bell(pod.x, 0.6), 0.15)
    return skill, max(skill, 0.002)


def nodes(pod: Pod, state: float | None) -> tuple[float, float]:
    """A slot of three that is four times slower."""
    skill = towards(state or 0.0, 100 * bell(pod.x, 0.45), 0.03 + 0.1 * pod.x)
    return skill, skill


def ridge(pod: Pod, state: float | None) -> tuple[float, float]:
    """Two hyperparameters that must fit each other."""
    best = 100 * math.exp(-6 * (pod.x - 0.6) ** 2 - 20 * (pod.y - pod.x) ** 2)
    skill = towards(state or 0.0, best, 0.05 + 0.1 * pod.x)
    return skill, skill


def z_of(rng: Random, shared: Returns) -> Returns:
    """Standard normal numbers, half of whose variance all pods of a round share."""
    return np.asarray(0.5**0.5 * (shared + rng.standard_normal(len(shared))))


Play = Callable[[Any, Returns, Random], Returns]
"""Returns of a policy, of its true mean, the episodes' common effects, and random numbers."""


def normal(spread: float) -> Play:
    """Returns with this standard deviation."""
    return lambda truth, shared, rng: np.asarray(truth + spread * z_of(rng, shared))


def landings(truth: float, shared: Returns, rng: Random) -> Returns:
    share = (truth - CRASHED) / (LANDED - CRASHED)
    ok = ndtr(z_of(rng, shared)) < share
    good = LANDED + 30 * rng.standard_normal(len(shared))
    bad = -100 - np.minimum(rng.exponential(120.0, len(shared)), 400)
    return np.where(ok, good, bad)


def losses(truth: Truth, shared: Returns, rng: Random) -> Returns:
    usual = truth.mu + 10 * z_of(rng, shared)
    return np.asarray(usual - 1000.0 * (rng.random(len(shared)) < truth.risk))


def capped(truth: Truth, shared: Returns, rng: Random) -> Returns:
    return np.minimum(500.0, truth.mu + 40 * z_of(rng, shared))


def halves(truth: float, shared: Returns, rng: Random) -> Returns:
    if truth == -1000.0:
        return np.full(len(shared), -1000.0)
    return np.asarray(truth + 15 * z_of(rng, shared))


def successes(truth: float, shared: Returns, rng: Random) -> Returns:
    return np.asarray(ndtr(z_of(rng, shared)) < truth, dtype=float)


@dataclass(frozen=True)
class World:
    """A task, and the budget that there is for it."""

    learn: Callable[[Pod, Any], tuple[Any, float]]
    """State and true mean return after a round, of the state before; a founder's is None."""
    good: float
    """The range: the best policy's score less an untrained one's."""
    returns: Play
    pods: int = 16
    slots: int = 2
    rounds: int = 160
    """The budget: of all pods together."""
    seconds: Mapping[str, float] = field(default_factory=lambda: {"toy": SECONDS})
    """Of a round, by algorithm."""
    minutes: float = 0.0
    """The budget instead of rounds, unless 0."""
    slot_speeds: tuple[float, ...] = ()
    """Relative, where slots differ: ``speeds.play`` plays them, with ``minutes``."""
    space: AlgorithmSpace = SPACE


BOTH = {"slow": 240.0, "fast": 60.0}
PLANE = AlgorithmSpace(
    "toy", {"step": LogUniform(0.01, 1.0), "other": Uniform(0.0, 1.0)}, {"step": 0.1, "other": 0.5}
)
WORLDS = {
    "power": World(power, 100, normal(20), pods=8, rounds=320),
    "bloomers": World(bloomers, 95, normal(15)),
    "diverging": World(diverging, 100, normal(15)),
    "oscillating": World(oscillating, 100, normal(15)),
    "lander": World(lander, LANDED - CRASHED, landings),
    "catastrophe": World(catastrophe, 100, losses),
    "ceiling": World(ceiling, 480, capped),
    "tortoise": World(tortoise, 100, normal(15), 12, 3, seconds=BOTH, minutes=120),
    "hare": World(hare, 100, normal(15), 12, 3, seconds=BOTH, minutes=120),
    "broken": World(broken, 100, halves),
    "matters late": World(matters_late, 100, normal(15)),
    "needle": World(needle, 100, normal(15), 20, 4, 300),
    "four": World(four, 100, normal(30), 4, 1, 40),
    "short": World(short, 100, normal(20), 24, 4, 72),
    "sparse": World(sparse, 0.9, successes),
    "nodes": World(nodes, 100, normal(15), 12, minutes=92, slot_speeds=(1.0, 1.0, 0.25)),
    "ridge": World(ridge, 100, normal(15), space=PLANE),
}
ALLOCATORS = ("auto", "fair", "ocba", "thompson", "curves")


class Pupils(Agents):
    """Policies that learn and play as a world says."""

    def __init__(self, rules: Rules, replicate: int, world: World) -> None:
        super().__init__(rules, replicate)
        self._world = world

    def trained(self, birth: Birth, skill: Any) -> tuple[Any, float]:
        other = birth.hyperparameters.get("other", 0.5)
        assert isinstance(other, float)
        pod = Pod(budget.place(birth), other, birth.algorithm, self.rng)
        return self._world.learn(pod, None if birth.checkpoint is None else skill)

    def returns(self, truth: float, shared: Returns) -> Returns:
        return self._world.returns(truth, shared, self.rng)

    def seconds(self, birth: Birth) -> float:
        return self._world.seconds[birth.algorithm]


def rows(settings: Settings) -> Iterator[Row]:
    for name in settings.worlds or WORLDS:
        if name in WORLDS:  # the others are of budget
            for allocator in settings.allocators or ALLOCATORS:
                numbers = outcome(WORLDS[name], allocator, settings)
                yield Row("unseen", f"{name}, {allocator}", numbers)


def outcome(world: World, allocator: str, settings: Settings) -> dict[str, Number]:
    """The policies that are delivered: their score by the world's range, in percent."""
    scores = (score(world, allocator, settings, each) for each in range(settings.replicates))
    return {"score delivered, % of the range": mean(100 * each / world.good for each in scores)}


def score(world: World, allocator: str, settings: Settings, replicate: int) -> float:
    """The true mean return of the policy that one run delivers."""
    stop = StopConfig(env_steps=world.rounds * ENV_STEPS)
    game = Game(
        world.pods,
        dict.fromkeys(world.seconds, 1.0),
        stop=StopConfig(minutes=world.minutes) if world.minutes else stop,
        env_steps=speeds.ENV_STEPS if world.slot_speeds else ENV_STEPS,
        allocator=allocator,
        space=world.space,
    )
    rules = game.rules(settings, replicate)
    agents = Pupils(rules, replicate, world)
    return float(agents.truth[delivered(played(world, rules, agents)).checkpoint.core])


def played(world: World, rules: Rules, agents: Pupils) -> Board:
    """The end of a run."""
    if world.slot_speeds:
        of_each = world.slot_speeds
        site = speeds.Site("", {"toy": 500.0}, "toy", of_each, world.pods, world.minutes)
        return speeds.play(rules, agents, site, speeds.Ledger())
    play = budget.by_the_clock if world.minutes else budget.in_turns
    return play(rules, agents, world.slots)
