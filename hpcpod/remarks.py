"""Remarks: what follows from a configuration that is valid but seldom meant, and what to change.

Each is one sentence. ``launch`` and ``validate`` show them; nothing is refused for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeGuard

from hpcpod.config.schema import RunConfig
from hpcpod.config.shape import ranks_of
from hpcpod.config.space import AlgorithmSpace, Scalar, extremes
from hpcpod.tournament.census import quotas

if TYPE_CHECKING:
    from hpcpod.pod.probe import Look


def remarks(
    config: RunConfig, algorithms: Mapping[str, AlgorithmSpace], look: Look | None
) -> Iterator[str]:
    """All remarks on a run.

    Args:
        config: of the run, without a problem.
        algorithms: its agents.
        look: at its task; None if it was not tried.
    """
    if look is not None and look.deterministic:
        yield _deterministic(config)
    if look is not None and not look.saves_state:
        yield from _late_parts(config, look)
    yield from _no_evolution(config)
    for name, space in algorithms.items():
        if config.population.pods.max > 1:
            yield from _clones(name, space)
        yield from _no_learning(name, space, config)
        yield from _schedules(name, space, config)


def _no_evolution(config: RunConfig) -> Iterator[str]:
    """A population in which no pod may ever give way to a copy."""
    population = config.population
    if population.pods.max == 1:  # one agent is meant
        return
    if config.round.episodes < 4:
        yield (
            f"round.episodes: a panel of {config.round.episodes} episodes has none left to compare"
            " pods on, so none is ever replaced by a copy; take 4 or more, better 32"
        )
    places = quotas(population)
    spare = {name: places[name] - max(1, population.controls) for name in places}
    if all(left <= 0 for left in spare.values()):
        each = "one of its algorithm" if population.controls < 2 else "a control"
        enough = sum(max(1, population.controls) + 1 for _ in places)
        yield (
            f"population.pods.max: each of the {population.pods.max} pods is {each}, and such a pod"
            " is never replaced by a copy, so hyperparameters are never searched beyond the first"
            f" draws; take {enough} or more, or fewer population.controls"
        )


_SCHEDULES = {
    "anneal_steps": (
        0.5, "the learning rate has come to its least, and stays there",
        "the learning rate does not come to the end of its fall", " with anneal: true",
    ),
    "epsilon_steps": (
        0.01, "nearly nothing is explored at random", "epsilon does not fall to epsilon_end", ""
    ),
    "priority_beta_steps": (
        0.1, "importance weights correct all of the bias", "importance weights never correct all"
        " of the bias", "",
    ),
}  # fmt: skip
"""Of each schedule in steps the share of a pod's steps that is early for its end, what follows from
an earlier end, what from none, and what must be said beside 0 to follow the run's budget."""


def _schedules(name: str, space: AlgorithmSpace, config: RunConfig) -> Iterator[str]:
    """Schedules in steps that end long before a pod's training does, or outlast it."""
    total = _steps_of_a_pod(config)
    unlimited = total is None and config.stop.minutes is None
    if unlimited and True in extremes(space.values.get("anneal", False)):
        yield (
            f"agents.{name}.anneal: nothing but a target limits this run, so the learning rate"
            " falls to its least within 100000 steps of a pod's experience; give stop.rounds,"
            " stop.env_steps or stop.minutes, which it then follows"
        )
    for field, (early, ended, cut, beside) in _SCHEDULES.items():
        steps = [v for v in extremes(space.values.get(field, 0)) if _number(v) and v > 0]
        if total is None or not steps:
            continue
        if max(steps) < early * total:
            what = f"after that {ended}"
        elif min(steps) > total:
            what = cut
        else:
            continue
        yield (
            f"agents.{name}.{field}: {steps[0]} steps, where a pod trains {total} in this run:"
            f" {what}; write {field}: 0{beside} to follow the run's budget"
        )


SLOWEST, FASTEST = 1e-8, 0.1
"""Learning rates of Adam. CartPole-v1 was learned neither with the one (by PPO and DQN) nor with
the other (by these and A2C); PPO began to learn it with 1e-7, and reached 500 with 0.03."""


def _no_learning(name: str, space: AlgorithmSpace, config: RunConfig) -> Iterator[str]:
    """Ranges with no value by which a pod would learn, so that there is nothing to select."""
    rates = [v for v in extremes(space.values.get("learning_rate", 1e-3)) if _number(v)]
    few, many = max(rates, default=1.0) <= SLOWEST, min(rates, default=0.0) >= FASTEST
    if few or many:
        every = "is" if len(rates) == 1 else "are all"
        what = "so small that weights hardly move" if few else "so large that weights diverge"
        told = ", ".join(f"{rate:g}" for rate in rates)
        yield (
            f"agents.{name}.learning_rate: {told} {every} {what}, and no pod learns, whichever"
            " survives; most tasks are learned between 1e-5 and 3e-3"
        )
    total = _steps_of_a_pod(config)
    starts = [v for v in extremes(space.values.get("learning_starts", 0)) if _number(v)]
    if total is not None and starts and min(starts) >= total / ranks_of(config):
        yield (
            f"agents.{name}.learning_starts: the first update would come after {min(starts)}"
            f" steps, but a pod trains {total // ranks_of(config)} in this run, so nothing is ever"
            " learned; set it to a tenth of that or less, or train longer"
        )


def _steps_of_a_pod(config: RunConfig) -> int | None:
    """Steps that a pod trains from the first round to the last, its ancestors' included; None where
    no number of steps limits the run."""
    stop, limits = config.stop, []
    if stop.rounds is not None:
        limits.append(stop.rounds * config.round.env_steps)
    if stop.env_steps is not None:
        limits.append(stop.env_steps // config.population.pods.max)
    return min(limits, default=None)


def _number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, (int, float))


def _clones(name: str, space: AlgorithmSpace) -> Iterator[str]:
    """Ranges of which none is moved by a mutation."""
    if space.ranged and not space.mutable:
        yield (
            f"agents.{name}: the only ranges are of {', '.join(space.ranged)}, which copies keep"
            " (they shape the network, or count from scratch alone), so every copy will be a clone"
            " of its parent; give a range to another hyperparameter, such as learning_rate"
        )


def round_in_words(config: RunConfig, look: Look | None) -> str:
    """What share of an episode a round sees.

    Args:
        config: of the run, without a problem.
        look: at its task; None if it was not tried, so that the length of an episode is unknown.
    """
    steps = _steps(config)
    said = f"{steps:,.6g} step{'' if steps == 1 else 's'} of each environment"
    if look is None or look.max_episode_steps is None:
        return said
    of = f"of {look.max_episode_steps:,} steps"
    share = steps / look.max_episode_steps
    many = f"{share:,.3g} episodes {of}" if share > 1 else f"{share:.3g} of an episode {of}"
    then = "goes on in the same episodes" if look.saves_state else "begins other ones"
    return f"{said}, {many}; the next one {then}"


def _steps(config: RunConfig) -> float:
    """Steps of each environment in a round."""
    return config.round.env_steps / (config.env.num_envs * ranks_of(config))


def _late_parts(config: RunConfig, look: Look) -> Iterator[str]:
    length, steps = look.max_episode_steps, _steps(config)
    if length is None or steps >= length:
        return
    ranks = ranks_of(config)
    fewer = config.round.env_steps // (length * ranks)
    lesser = f"env.num_envs to at most {fewer} or " if fewer else ""
    yield (
        f"round.env_steps: a round of {steps:,.6g} steps per environment sees only the first"
        f" {100 * steps / length:.3g} % of an episode of {length:,} steps, and the state of"
        f" {config.env.id} can't be saved for the next one, so nothing later is ever trained on;"
        f" set {lesser}round.env_steps to at least {length * ranks * config.env.num_envs}"
    )


def _deterministic(config: RunConfig) -> str:
    return (
        f"env.id: every episode of {config.env.id} begins and goes on alike, whatever its seed, so"
        " the returns of a panel are equal, the smallest difference between two pods decides, and"
        " no score says how the policy does elsewhere; give it random starts, or set"
        " round.episodes to 4 and stop.confirm_episodes to 2 to save the time"
    )
