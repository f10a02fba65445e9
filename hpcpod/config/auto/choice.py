"""The choice of all that a user left open: from a task's facts to a configuration, with reasons.

Pure: equal facts and wishes give equal configurations.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hpcpod.config.auto.plan import (
    ALONE,
    NEEDS,
    OF_EACH,
    ROUNDS,
    SCORING,
    SHORTEST,
    Budget,
    Fixed,
    Plan,
    Sizing,
    panel_length,
    panel_seconds,
)
from hpcpod.config.auto.task import Task, network_of
from hpcpod.config.decoder import encode, value_at
from hpcpod.config.space import AlgorithmSpace, Choice, Range, Scalar, Value, extremes
from hpcpod.errors import ConfigError

ALLOCATOR = "halving"
"""Allocator of a run that is limited in steps or time."""
NUM_ENVS = 16
"""Environments of a pod: rl-baselines3-zoo's PPO on LunarLander and Acrobot."""
MINUTES = 30.0
"""Budget of a run that nothing limits."""
FINAL = 4
"""Minutes of training for each of the final evaluation, which may have one in any case."""
START = 5.0
"""Seconds of a slot before its first step."""
REPLAY_BYTES = 10**9
"""Memory of one pod's replay buffer at most."""
EPISODE_LIMIT = 1_000
"""Steps of an episode that would not end, at least: three times those of random actions, before
which 95 % of them end where each step is as likely to be the last."""
LIMITED = (None, "auto", "gymnasium", "envpool", "mujoco", "torch", "warp")
"""Backends that can be given a time limit; the others refuse one."""

Keys = tuple[str, ...]
"""A path by its steps, of which an agent's name may have dots."""
Spaces = Mapping[str, AlgorithmSpace]
"""Of each algorithm its defaults with the ranges that it declares."""


@dataclass(frozen=True)
class Wishes:
    """A user's part of the configuration."""

    given: Mapping[str, Any]
    """Plain data; every field in it stays as it is."""
    slots: int
    """Slots at once."""
    slots_because: str
    """The reason why there are so many."""
    ranks: int = 1
    """Processes that train a pod, each with as many environments."""


@dataclass
class Choosing:
    """A configuration in the making, and the reason of each field that was chosen."""

    data: dict[str, Any]
    because: dict[str, str] = field(default_factory=dict)
    """Reasons by path, such as ``round.env_steps``."""

    def get(self, path: str | Keys) -> Any:
        """The value at a path; None without one."""
        at: Any = self.data
        for key in _keys(path):
            at = at.get(key) if isinstance(at, Mapping) else None
        return at

    def put(self, path: str | Keys, value: Any, because: str) -> Any:
        """Set a field with its reason, unless the user has; return what it is then."""
        *sections, key = _keys(path)
        at = self.data
        for section in sections:
            at = at.setdefault(section, {})
        if key not in at:
            at[key], self.because[".".join((*sections, key))] = value, because
        return at[key]


def _keys(path: str | Keys) -> Keys:
    return tuple(path.split(".")) if isinstance(path, str) else path


def choose(task: Task, wishes: Wishes, spaces: Spaces) -> Choosing:
    """Fill in all that is open.

    Raises:
        ConfigError: no algorithm can act in the task, or those that the user names can't.
    """
    made = Choosing(copy.deepcopy(dict(wishes.given)))
    names = _candidates(task, made)
    _ends(made)
    budget = _budget(made, wishes)
    num_envs = made.put(
        "env.num_envs",
        max(NUM_ENVS, made.get("env.processes") or 1),
        "one call of a network serves them all; rl-zoo's PPO takes 8 or 16",
    )
    task = _limit_episodes(task, made)
    replay = {name: "buffer_size" in spaces[name].defaults for name in names}
    fixed = Fixed(
        bool(_named(made)),
        made.get("population.pods.max"),
        made.get("population.pods.min") or 1,
        made.get("round.episodes"),
        made.get("round.env_steps"),
    )
    width = num_envs * wishes.ranks
    rollout = max(_rollout(made, name, spaces[name]) for name in names)
    sizing = Sizing(task, replay, budget, wishes.slots, width, fixed, max(SHORTEST, rollout))
    sized = sizing.plan()
    _population(made, task, sized, wishes, sizing)
    _round(made, task, sized)
    for name in sized.algorithms:
        _agent(made, task, name, spaces, width, sized)
    return made


def _rollout(made: Choosing, name: str, space: AlgorithmSpace) -> int:
    """Steps of each environment in the longest rollout of an algorithm; where it is chosen here,
    in the shortest one."""
    own, allowed = made.get(("agents", name, "horizon")), space.values.get("horizon", 1)
    if own is not None:
        allowed = value_at("", Value, own, [])
    steps = [each for each in extremes(allowed) if isinstance(each, int)]
    free = own is None and isinstance(allowed, Choice)
    return min(steps, default=1) if free else max(steps, default=1)


def _candidates(task: Task, made: Choosing) -> list[str]:
    """Algorithms that can act in the task: those that the user names, else all."""
    named = _named(made) or [*task.paces, *task.unfit]
    able = [name for name in task.paces if name in named]
    unfit = [f"agents.{name}: {why}" for name, why in task.unfit.items() if name in _named(made)]
    if not able and not unfit:
        why = "; ".join(dict.fromkeys(task.unfit.values()))
        unfit = [f"env.id: none of {', '.join(task.unfit)} can act in {task.id}: {why}"]
    if unfit:
        raise ConfigError("the configuration", unfit)
    return able


def _named(made: Choosing) -> list[str]:
    """Algorithms that the user names."""
    return list(made.get("population.algorithms") or made.get("agents") or ())


def _ends(made: Choosing) -> None:
    """A limit, if there is none that a budget follows from, and one of the final evaluation."""
    if all(made.get(f"stop.{end}") is None for end in ("minutes", "env_steps", "rounds")):
        target = made.get("stop.target")
        given = "a target alone may never be reached" if target else "nothing ends it"
        because = f"{given}: give --minutes or --env-steps for another budget"
        made.put("stop.minutes", MINUTES, because)
    if (minutes := made.get("stop.minutes")) is not None:
        made.put(
            "stop.final_minutes",
            max(1.0, round(minutes / FINAL, 2)),
            "then episodes on fresh seeds decide which of the leaders is delivered, for a quarter"
            " of stop.minutes or one",
        )


def _budget(made: Choosing, wishes: Wishes) -> Budget:
    minutes, steps = made.get("stop.minutes"), made.get("stop.env_steps")
    if minutes is None and steps is None:  # rounds alone: their length is what is asked for
        minutes = MINUTES
    seconds = None
    if minutes is not None:
        seconds = max(1.0, 60 * minutes - START) * wishes.slots * ALONE
    return Budget(seconds, steps)


def _limit_episodes(task: Task, made: Choosing) -> Task:
    """The task, with a time limit if it has none and a policy may never end an episode."""
    seen, backend = task.random_steps, made.get("env.backend")
    free = task.max_episode_steps is None and task.measured
    if not free or (seen is not None and backend not in LIMITED):
        return task
    ends = "a policy may never end an episode that random actions end"
    limit: int = made.put(
        "env.max_episode_steps",
        max(EPISODE_LIMIT, math.ceil(3 * (seen or 0))),
        "it has no time limit, and "
        + ("no episode of random actions ended" if seen is None else ends),
    )
    return replace(task, max_episode_steps=limit) if panel_length(task) > limit else task


def _population(made: Choosing, task: Task, sized: Plan, wishes: Wishes, sizing: Sizing) -> None:
    """The tournament."""
    because = _pods_because(sized, sizing.budget, task, wishes)
    made.put("population.pods.max", sized.pods, because)
    made.put("population.pods.min", min(2, sized.pods), "fewer could not be compared")
    made.put(
        "population.algorithms",
        dict.fromkeys(sized.algorithms, 1.0),
        _algorithms_because(task, sized, sizing),
    )
    if made.get("stop.minutes"):  # in steps alone slots of pods that rest may idle: auto knows
        made.put(
            "population.allocator",
            ALLOCATOR,
            "there is a budget: each stage of it trains half as many pods as the one before",
        )


def _algorithms_because(task: Task, sized: Plan, sizing: Sizing) -> str:
    kind = task.actions if task.actions != "continuous" else f"continuous ({task.action_size})"
    word = "measured" if task.measured else "assumed, not measured"
    speeds = ", ".join(f"{name} {_about(task.paces[name].train)}" for name in sizing.replay)
    said = f"actions are {kind}; env steps per second of one slot, {word}: {speeds}"
    crowded = sizing.crowded
    dear = [name for name in sizing.replay if name not in (*sized.algorithms, *crowded)]
    if dear:
        said += f"; left out, since the budget trains them too little: {', '.join(dear)}"
    if crowded:
        few = f"population.pods.max is {sized.pods}, and each takes {OF_EACH}"
        said += f"; left out, since {few}: {', '.join(crowded)}"
    return said


def _pods_because(sized: Plan, budget: Budget, task: Task, wishes: Wishes) -> str:
    steps = sum(budget.buys(task.paces[name]) for name in sized.algorithms) / len(sized.algorithms)
    return (
        f"{wishes.slots_because}; they train about {_about(steps)} env steps in all, where a"
        f" training takes {NEEDS[False]:,} or more, and {NEEDS[True]:,} with a replay buffer"
    )


def _round(made: Choosing, task: Task, sized: Plan) -> None:
    longest = max(panel_seconds(task, task.paces[n], sized.episodes) for n in sized.algorithms)
    panel = f"a panel of {sized.episodes} episodes of up to {sized.length:,} steps takes"
    share = f"about {100 * sized.scoring:.0f} % of a round"
    fits = "" if sized.fits else f"; aims are {100 * SCORING:.0f} % and {ROUNDS}, which don't fit"
    made.put(
        "round.env_steps",
        sized.env_steps,
        f"{panel} {longest:.2g} s, {share}; {_about(sized.rounds)} rounds for each pod if all"
        f" trained alike{fits}",
    )
    made.put(
        "round.episodes",
        sized.episodes,
        "one half ranks, the other tests"
        + ("" if sized.episodes >= 32 else "; more would take too much of so short a round"),
    )


def _agent(made: Choosing, task: Task, name: str, spaces: Spaces, width: int, sized: Plan) -> None:
    """An algorithm's hyperparameters: its own search space, as far as it fits the round."""
    defaults, values = spaces[name].defaults, spaces[name].values
    ranges = spaces[name].ranged
    for key in ranges:
        allowed = values[key]
        value: Range | Scalar = allowed
        because = ""
        if key == "horizon" and isinstance(allowed, Choice):
            value = _at_most(allowed, sized.env_steps // width)
            if value != allowed:
                because = f"a rollout of {width} environments is no longer than a round"
        made.put(("agents", name, key), encode(value), because)
    for key, units in network_of(task, defaults).items():
        made.put(
            ("agents", name, key),
            units,
            "observations and actions are small; wide layers are slow",
        )
    size = defaults.get("buffer_size")
    if isinstance(size, int) and size * task.observation_bytes > REPLAY_BYTES:
        fits = max(1_000, REPLAY_BYTES // task.observation_bytes // 1_000 * 1_000)
        made.put(("agents", name, "buffer_size"), fits, "a pod's replay is to stay within 1 GB")
    if ranges:
        made.because.setdefault(
            f"agents.{name}", f"the ranges that {name} declares itself, with their sources"
        )


def _at_most(allowed: Choice, most: int) -> Range | Scalar:
    """The choices up to a number, the smallest in any case; a single one is a value."""
    kept = tuple(v for v in allowed.values if isinstance(v, int) and v <= most)
    if len(kept) > 1:
        return Choice(kept)
    return kept[0] if kept else min(v for v in allowed.values if isinstance(v, int))


def _about(number: float) -> str:
    """A number by two digits: ``5,200``, ``12M``, ``8.3``."""
    if math.isinf(number):
        return "any number of"
    if number >= 1e6:
        return f"{float(f'{number:.2g}') / 1e6:,g}M"
    return f"{float(f'{number:.2g}'):,g}"
