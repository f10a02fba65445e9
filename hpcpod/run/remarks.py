"""Remarks: what follows from a configuration that is valid but seldom meant, and what to change.

Each is one sentence. ``launch`` and ``validate`` show them; nothing is refused for one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeGuard

from hpcpod.config.placement import LENGTH, ranks_of, walk_of
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Scalar, extremes
from hpcpod.metrics.mirrors import PACKAGES
from hpcpod.run.remarks_on_budgets import steps_of_a_pod, too_few_rounds, unlimited_axis
from hpcpod.run.remarks_on_generators import idle_fields, on_generator
from hpcpod.run.remarks_on_gpus import on_gpus
from hpcpod.run.remarks_on_trading import on_trading
from hpcpod.run.snapshot_scores import odd_times
from hpcpod.tournament.cohorts import quotas

if TYPE_CHECKING:
    from hpcpod.pod.trial.fit import Look


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
    if look is not None:
        yield from of_environment(config, look)
        yield from _late_parts(config, look)
    yield from _idle_slots(config)
    yield from on_gpus(config, look)
    yield from _missing_loggers(config)
    yield from odd_times(config)
    yield from on_trading(config, look)
    yield from unlimited_axis(config)
    yield from idle_fields(config)
    steps = steps_of_a_pod(config)
    yield from on_generator(config, None if steps is None else steps / config.round.env_steps)
    copies = config.population.generator != "random_search"
    if copies and _own_rules(config):
        yield from _no_evolution(config, look)
    spare = _spare_places(config)
    for name, space in algorithms.items():
        if copies and spare.get(name, 0) > 0 and (space.ranged or _own_rules(config)):
            yield from _clones(name, space)
        elif copies and space.ranged and _own_rules(config) and max(spare.values()) > 0:
            yield _no_search(name, config)  # beside others that evolve it went unsaid
        if config.program is not None:  # its hyperparameters mean what it likes
            continue
        if ":" not in space.agent:  # of a user's agent no more is known than a few names
            yield from _no_learning(name, space)
        yield from _no_update(name, space, config)
        yield from _schedules(name, space, config)


def _idle_slots(config: RunConfig) -> Iterator[str]:
    """More slots than there are pods for them: as many are never asked for."""
    pods, cluster = config.population.pods.max, config.cluster
    lanes = 1 if cluster.launcher == "local" else config.resources.pods_per_gpu
    most = -(-pods // lanes)
    each = "one pod" if lanes == 1 else f"{lanes} pods (resources.pods_per_gpu)"
    for field, slots in (
        ("slots", cluster.slots),
        ("schedule", max(cluster.schedule.values(), default=0)),
    ):
        if slots is not None and slots > most:
            yield (
                f"cluster.{field}: {slots} slots are wanted, but no more than {most} will be asked"
                f" for, since population.pods.max is {pods} and a slot trains {each} at a time; set"
                f" it to {most}, or raise population.pods.max"
            )


def _missing_loggers(config: RunConfig) -> Iterator[str]:
    """Loggers of hpcpod's without their package here; a compute node may have it."""
    for name in config.metrics:
        if name in PACKAGES and find_spec(name) is None:
            yield (
                f"metrics: {name} is not installed here, and a pod trains without where it is not;"
                f" install it by {sys.executable} -m pip install 'hpcpod[{name}]'"
            )


def _own_rules(config: RunConfig) -> bool:
    """True if no updater or generator of a user's decides which pod is replaced."""
    return ":" not in config.population.updater + config.population.generator


_FEW_EPISODES = 8  # measured: 11 % of 8 pods with 4 or 5 episodes, 9 % of 32 pods with 6
"""Episodes below which, of pods that succeed equally often, over 5 % of those tested are beaten."""


def _no_evolution(config: RunConfig, look: Look | None) -> Iterator[str]:
    """A population in which no pod may ever give way to a copy, or one does for nothing."""
    population = config.population
    if population.pods.max == 1:  # one agent is meant
        return
    most = look.most_episodes if look is not None else None
    episodes, more = min(config.round.episodes, most or 2**31), "take 8 or more, better 32"
    if episodes == most:
        more = "have data for 8 or more to score on, better 32, or shorter episodes"
    if episodes < 4:  # one half of a panel ranks, the other tests
        yield (
            f"round.episodes: a panel of {episodes} episodes has none left to compare pods on, so"
            f" none is ever replaced by a copy; {more}"
        )
    elif episodes < _FEW_EPISODES and not (look is not None and look.deterministic):
        yield (
            f"round.episodes: pods are tested on half of a panel of {episodes}, and so few returns"
            " that are success or failure are often all alike, so that a pod gives way to one that"
            f" is no better more often than in 5 % of tests; {more}"
        )
    yield from too_few_rounds(config)
    spare = _spare_places(config)
    if all(left <= 0 for left in spare.values()):
        several = population.controls > 1
        each = "a control" if several else "the only one of its algorithm"
        enough = sum(max(1, population.controls) + 1 for _ in spare)
        fewer = ", or fewer population.controls" if several else ""
        proven = " before the leader was shown to be better in four rounds" if several else ""
        search = "hardly" if several else "never"
        yield (
            f"population.pods.max: each of the {population.pods.max} pods is {each}, and such a pod"
            f" is never replaced by a copy{proven}, so hyperparameters are {search} searched beyond"
            f" the first draws; take {enough} or more{fewer}"
        )


def _no_search(name: str, config: RunConfig) -> str:
    """An algorithm none of whose pods may be replaced, beside others of which some may."""
    places = quotas(config.population)[name]
    every = "the only pod" if places == 1 else f"each of the {places} pods"
    kept, search = "is the last of its algorithm and never gives way to a copy", "not"
    if config.population.controls:
        kept = "is a control and gives way to no copy before it was beaten in four rounds"
        search = "hardly"
    return (
        f"agents.{name}: {every} of {name} {kept}, so its ranges are {search} searched; give it a"
        " larger share (population.algorithms) or take more pods (population.pods.max)"
    )


def _spare_places(config: RunConfig) -> dict[str, int]:
    """Of each algorithm the pods that may be replaced by a copy."""
    kept = max(1, config.population.controls)
    return {name: places - kept for name, places in quotas(config.population).items()}


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
    total = steps_of_a_pod(config)
    unlimited = total is None and config.stop.minutes is None
    # Annealed to 0, a rate froze a pod and all its copies: it falls to a hundredth of itself now.
    if unlimited and True in extremes(space.values.get("anneal", False)):
        yield (
            f"agents.{name}.anneal: nothing but a target limits this run, so the learning rate"
            " falls to its least within 100000 steps of a pod's experience; give stop.rounds,"
            " stop.env_steps or stop.minutes, which it then follows"
        )
    trained, where = (config.round.env_steps, "a round") if total is None else (total, "this run")
    for field, (early, ended, cut, beside) in _SCHEDULES.items():
        steps = [v for v in extremes(space.values.get(field, 0)) if _number(v) and v > 0]
        if not steps or _idle(field, space):
            continue
        if max(steps) < early * trained:
            what = f"after that {ended}"
        elif total is not None and min(steps) > total:
            what = cut
        else:
            continue
        yield (
            f"agents.{name}.{field}: {steps[0]} steps, where a pod trains"
            f" {_about(config)}{trained} in {where}: {what}; write {field}: 0{beside} to follow"
            " the run's budget"
        )


SLOWEST, FASTEST = 1e-8, 0.1
"""Learning rates of Adam with which CartPole-v1 was not learned by the agents below."""
_SEEN_SLOWEST = ("ppo", "dqn")  # PPO began to learn it with 1e-7
_SEEN_FASTEST = ("ppo", "dqn", "a2c")  # PPO reached 500 with 0.03


def _no_learning(name: str, space: AlgorithmSpace) -> Iterator[str]:
    """Ranges with no value by which a pod would learn, so that there is nothing to select."""
    # An agent of a user's may have a word for a rate: max() of no numbers raised at launch.
    rates = [v for v in extremes(space.values.get("learning_rate", 1e-3)) if _number(v)]
    few, many = max(rates, default=1.0) <= SLOWEST, min(rates, default=0.0) >= FASTEST
    if few or many:
        every = "is" if len(rates) == 1 else "are all"
        what = "so small that weights hardly move" if few else "so large that weights diverge"
        seen = space.agent in (_SEEN_SLOWEST if few else _SEEN_FASTEST)
        so = (
            "no pod learns, as it was on CartPole-v1" if seen else "no pod can be expected to learn"
        )
        rated = ", ".join(f"{rate:g}" for rate in rates)
        yield (
            f"agents.{name}.learning_rate: {rated} {every} {what}, and {so}; give it a range around"
            f" the default, {space.defaults.get('learning_rate', 1e-3):g}"
        )


def _no_update(name: str, space: AlgorithmSpace, config: RunConfig) -> Iterator[str]:
    """A first update that comes after the run."""
    total, ranks = steps_of_a_pod(config), ranks_of(config)
    starts, room = (
        [v for v in extremes(space.values.get(field, 0)) if _number(v)]
        for field in ("learning_starts", "buffer_size")
    )
    if total is None or not starts:
        return
    first = min([min(starts), *room])  # a full buffer does not wait for learning_starts
    if first > total / ranks:
        who = "a pod" if ranks == 1 else "each rank of a pod"
        yield (
            f"agents.{name}.learning_starts: the first update would come after {first} steps, but"
            f" {who} trains {_about(config)}{total // ranks} in this run, so nothing is ever"
            " learned; set it to a tenth of that or less, or train longer"
        )


def _about(config: RunConfig) -> str:
    """The word before a number of steps that depends on which algorithm is faster."""
    shared = config.stop.env_steps is not None and len(config.population.algorithms) > 1
    return "about " if shared else ""


def _number(value: Scalar) -> TypeGuard[int | float]:
    return isinstance(value, (int, float))


_SWITCHES = {
    "anneal_to": ("anneal", "anneal_steps"),
    "h_steps": ("h_term",),
    "priority_beta": ("priority_exponent",),
    "priority_beta_steps": ("priority_exponent",),
    "target_noise_clip": ("target_noise",),
}
"""Hyperparameters that count only where one of others is not 0 or false."""
_OVERRIDDEN = {
    "epsilon_fraction": "epsilon_steps",
    "updates_per_step": "updates_per_iteration",
    "target_entropy": "temperature",
}
"""Hyperparameters that count only where another is 0."""


def _idle(field: str, space: AlgorithmSpace) -> str:
    """The reason why a hyperparameter has no effect, such as ``anneal is off``; else ""."""
    switches, over = _SWITCHES.get(field, ()), _OVERRIDDEN.get(field)
    if switches and not any(any(extremes(space.values.get(each, True))) for each in switches):
        return f"{' and '.join(switches)} {'is' if len(switches) == 1 else 'are'} off"
    if over is not None and all(extremes(space.values.get(over, 0))):
        return f"{over} is on"
    return ""


def _clones(name: str, space: AlgorithmSpace) -> Iterator[str]:
    """Ranges that no mutation moves, or that have no effect, and none at all."""
    idle = {field: why for field in space.mutable if (why := _idle(field, space))}
    if len(idle) < len(space.mutable):
        for field, why in idle.items():
            yield f"agents.{name}.{field}: its range has no effect while {why}; leave it out"
        return
    if not space.ranged:
        lack = "there is no range"
    elif idle:
        has = "has" if len(idle) == 1 else "have"
        because = f"which {has} no effect while {next(iter(idle.values()))}"
        lack = f"the only ranges are of {', '.join(idle)}, {because}"
    else:
        because = "which copies keep (they shape the network, or count from scratch alone)"
        lack = f"the only ranges are of {', '.join(space.ranged)}, {because}"
    example, rate = space.defaults.get("learning_rate", ""), ""
    if _number(example):
        rate = f": {{log_uniform: [{example / 3:.1g}, {example * 3:.1g}]}}"
    yield (
        f"agents.{name}: {lack}, so every copy will be a clone of its parent; give a range to"
        f" {'another' if space.ranged else 'a'} hyperparameter, such as learning_rate{rate}"
    )


def round_in_words(config: RunConfig, look: Look | None) -> str:
    """The share of an episode that a round sees, in words.

    Args:
        config: of the run, without a problem.
        look: at its task; None if it was not tried, so that the length of an episode is unknown.
    """
    steps = _steps(config)
    said = f"{steps:,.6g} step{'' if steps == 1 else 's'} of each environment"
    if look is None:
        return said
    length = look.max_episode_steps
    if length is None:
        said += ", of episodes whose length is not known"
    else:
        share, of = steps / length, f"of {length:,} steps"
        many = f"{share:,.3g} episodes {of}" if share > 1 else f"{share:.3g} of an episode {of}"
        said = f"{said}, {many}"
    then = "goes on in the same episodes" if look.saved_steps else "begins other ones"
    if 0 < look.saved_steps < (LENGTH if length is None else length):
        then += f", of which at most {look.saved_steps:,.0f} steps can be saved"
    return f"{said}; the next one {then}"


def _steps(config: RunConfig) -> float:
    """Steps of each environment in a round."""
    return config.round.env_steps / (config.env.num_envs * ranks_of(config))


def _late_parts(config: RunConfig, look: Look) -> Iterator[str]:
    """Episodes that rounds can't hand on to each other, and what that costs."""
    length, steps, saved = look.max_episode_steps, _steps(config), look.saved_steps
    if saved and (length is None or steps >= length or saved >= length):
        return
    walk = 0 if saved else walk_of(config, length)
    if not saved and not walk:
        return
    # 64 environments, 20,000 steps a round: no step after the 319th of 1,000 was ever trained on.
    longest, ranks = length or LENGTH, ranks_of(config)
    fewer = config.round.env_steps // (longest * ranks)
    lesser = f"env.num_envs to at most {fewer} or " if fewer else ""
    kept = f"that is longer than {saved:,.0f} steps " if saved else ""
    what = f"nothing after its first {min(longest, saved + walk + steps):,.6g} steps"
    ever = f"{what} is ever trained on" if saved + walk + steps < longest or saved else ""
    led = f"each round goes on for up to {walk:,} steps without learning, to begin in the middle"
    unknown = "" if length is not None else ", whose length is not known,"
    yield (
        f"round.env_steps: an episode of {config.env.id}{unknown} {kept}can't be saved for the next"
        f" round, so with {steps:,.6g} steps per environment"
        f" {', and '.join(filter(None, (led if walk else '', ever)))};"
        f" set {lesser}round.env_steps to at least {longest * ranks * config.env.num_envs}"
    )


def of_environment(config: RunConfig, look: Look) -> Iterator[str]:
    """An environment whose episodes need not end, and numbers of it that are hardly meant."""
    yield from (f"env.id: {said}" for said in look.strange)
    if look.endless:
        yield (
            f"env.max_episode_steps: {config.env.id} has no time limit, and no episode of it ended"
            f" in {look.endless:,} random steps; a panel fails if an episode goes on for"
            f" {config.env.longest_episode:,} steps (env.longest_episode), so give it a limit, such"
            " as env: {max_episode_steps: 1000}"
        )


def _deterministic(config: RunConfig) -> str:
    fewer = ", or set round.episodes to 4 to save the time"
    return (
        f"env.id: episodes of {config.env.id} with different seeds begin and go on alike under the"
        " same actions, as far as they were tried, so the returns of a panel are equal, the"
        " smallest difference between two pods decides, and no score says how the policy does"
        f" elsewhere; give it random starts{fewer if config.round.episodes > 4 else ''}"
    )
