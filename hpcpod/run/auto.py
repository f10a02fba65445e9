"""``population: auto``: measure a task, then choose all that its configuration leaves open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpcpod.config.auto.choice import NUM_ENVS, Choosing, Wishes, choose
from hpcpod.config.auto.commented import commented
from hpcpod.config.auto.task import ASSUMED, CANDIDATES, Pace, Task
from hpcpod.config.decoder import build, encode
from hpcpod.config.limits import MANY
from hpcpod.config.placement import ON_ONE_DEVICE, ranks_of, trains_on_gpu
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.errors import ConfigError
from hpcpod.launchers.factory import make_launcher
from hpcpod.pod.trial import supervisor

SECONDS = 1.5
"""Time for each of some ten measurements."""
SLOTS = 8
"""Slots that a cluster is taken to give where the configuration does not say how many."""

_NOWHERE = Path("/nowhere")
"""The runs of a launcher that is only asked for its slots."""


class Auto:
    """The choice for one configuration: called with plain data, it gives the filled-in data."""

    def __init__(
        self,
        *,
        measure: bool = True,
        source: str = "the configuration",
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Keep the arguments.

        Args:
            measure: False: look at the task's spaces alone, and assume speeds.
            source: what to call the configuration in a message.
            tell: called with what is being done, before it is.
        """
        self._measure, self._source, self._tell = measure, source, tell
        self._made: Choosing | None = None

    @property
    def because(self) -> Mapping[str, str]:
        """The reason of each field that was chosen, by path; empty if none was."""
        return {} if self._made is None else self._made.because

    @property
    def yaml(self) -> str | None:
        """The chosen configuration with its reasons; None if nothing was left to choose."""
        return None if self._made is None else self.commented({})

    def commented(self, meanings: Mapping[str, str]) -> str:
        """The configuration with its reasons, each below the meaning of its field, if that is
        given by its path; empty if nothing was chosen yet."""
        if self._made is None:
            return ""
        return commented(self._made.data, self._made.because, meanings)

    def __call__(self, data: dict[str, Any]) -> dict[str, Any]:
        """Fill in a configuration's plain data.

        Raises:
            ConfigError: what is given has problems, or no algorithm can act in the task.
        """
        given = {key: value for key, value in data.items() if key != "population"}
        population = data["population"] if isinstance(data["population"], Mapping) else {}
        own = {key: value for key, value in population.items() if key != "auto"}
        if own:
            given["population"] = own
        base = self._read(given)
        plain = _kept(encode(base), given)
        crowd = base.env.backend in ON_ONE_DEVICE and trains_on_gpu(base)
        if crowd and "num_envs" not in plain["env"]:  # it chose 16, as for cores
            said = (
                f"env.num_envs: backend {base.env.backend} steps thousands at once on a GPU, and"
                " how many is not measured here; write a number, such as 2048"
            )
            raise ConfigError(self._source, [said])
        named = list(own.get("algorithms", ())) or list(base.agents) or list(CANDIDATES)
        task, spaces = self._task(base, plain, named)
        slots, because = slots_of(base)
        try:
            self._made = choose(task, Wishes(plain, slots, because, ranks_of(base)), spaces)
        except ConfigError as error:
            raise ConfigError(self._source, error.problems) from error
        return self._made.data

    def _read(self, given: Mapping[str, Any]) -> RunConfig:
        """The given fields, with defaults for the rest, or room where that is chosen: to be
        measured and typed."""
        agents, env = given.get("agents"), given.get("env")
        population = dict(given.get("population") or {})
        pods = population.get("pods", {})
        # 12 processes, or one pod, were refused by defaults that nobody had asked for.
        if isinstance(pods, Mapping):
            population["pods"] = {"min": 1, "max": MANY, **pods}
        if isinstance(env, Mapping):
            env = {"num_envs": MANY, **env}
        if agents and isinstance(agents, Mapping):
            population.setdefault("algorithms", dict.fromkeys(agents, 1.0))
        filled = {**given, "population": population}
        config, problems = build(RunConfig, filled if env is None else {**filled, "env": env})
        if config is None:
            raise ConfigError(self._source, problems)
        return config

    def _task(
        self, base: RunConfig, plain: Mapping[str, Any], named: list[str]
    ) -> tuple[Task, Mapping[str, AlgorithmSpace]]:
        """The task with the speed of each algorithm that can act in it, and their search spaces."""
        if "num_envs" not in plain["env"]:
            processes = base.env.processes
            base = replace(base, env=replace(base.env, num_envs=max(NUM_ENVS, processes or 1)))
        algorithms = dict.fromkeys(named, 1.0)
        pods = replace(base.population.pods, max=max(len(named), base.population.pods.max))
        population = replace(base.population, algorithms=algorithms, pods=pods)
        config = replace(base, population=population)
        doing = "measuring how fast it is stepped and trained" if self._measure else "looking at it"
        self._tell(f"{config.env.id}: {doing}")
        try:
            task, spaces = supervisor.measure(config, SECONDS if self._measure else 0.0)
        except ConfigError as error:
            raise ConfigError(self._source, error.problems) from error
        if self._measure:
            return task, spaces
        unknown = Pace(500.0, 2e-3)
        paces = {name: ASSUMED.get(name, unknown) for name in task.paces}
        return replace(task, paces=paces), spaces


def _kept(typed: Any, given: Any) -> Any:
    """Of typed plain data the keys that were given."""
    if isinstance(given, Mapping) and isinstance(typed, Mapping):
        return {key: _kept(typed[key], value) for key, value in given.items() if key in typed}
    return typed


def slots_of(base: RunConfig) -> tuple[int, str]:
    """Slots at once, and why so many."""
    if base.cluster.slots is not None:
        return base.cluster.slots, f"{base.cluster.slots} slots at once (cluster.slots)"
    if base.cluster.launcher != "local":
        return SLOTS, f"{SLOTS} slots at once are assumed, since cluster.slots says nothing"
    pods = replace(base.population.pods, max=MANY)
    places = make_launcher(
        _NOWHERE, replace(base, population=replace(base.population, pods=pods))
    ).places
    return places, f"this machine has room for {places} slots at once"
