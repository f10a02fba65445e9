"""The cells of a sweep: each a configuration of its own, checked by the ordinary loader."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.config.decoder import INVALID, value_at
from hpcpod.config.loader import asks_auto, from_data, load_sweep, put
from hpcpod.config.schema import PopulationConfig, RunConfig
from hpcpod.config.sweep import SweepConfig
from hpcpod.errors import ConfigError, UserError
from hpcpod.run.preflight import from_anywhere
from hpcpod.run.sweeps.design import (
    Cell,
    Factor,
    Levels,
    combinations,
    combine,
    factors_of,
    label,
    run_name,
)
from hpcpod.run.text import many

MANY = 1_000
"""Runs above which a sweep is asked to be confirmed."""
EXAMPLES = 3
"""Cells that a problem names."""


@dataclass(frozen=True)
class Plan:
    """A sweep as it is read from a file, before anything is made."""

    name: str
    source: str
    """The file, for messages."""
    sweep: SweepConfig
    factors: tuple[Factor, ...]
    cells: tuple[Cell, ...]
    configs: tuple[RunConfig, ...]
    """The configuration of each combination, with its first seed."""

    def config_of(self, cell: Cell) -> RunConfig:
        """The configuration of a cell's run, which one process runs where it is."""
        config = self.configs[cell.number - 1]
        cluster = replace(
            config.cluster, launcher="local", slots=self.sweep.slots, schedule={}, waiting=None
        )
        name = run_name(self.name, cell)
        # Not the number itself: replicates of two cells must not share their episodes.
        seed = random.Random(f"{config.seed}/{cell.name}").getrandbits(31)
        return replace(config, name=name, seed=seed, cluster=cluster)


def read_plan(
    path: str | Path,
    cluster: str | None = None,
    overrides: Sequence[str] = (),
    site: str | Path | None = None,
    *,
    yes: bool = False,
) -> Plan | None:
    """The plan of a sweep's file; None if the file has no sweep.

    Args:
        path: of the file; modules are found beside it from now on.
        cluster: the launcher, if it is not to be the file's.
        overrides: ``a.b=c`` each.
        site: a site's file that is laid under it.
        yes: make more than a thousand runs, too.

    Raises:
        ConfigError: says every problem of the sweep and of its cells.
        UserError: there are very many cells, and ``yes`` is not said.
    """
    read = load_sweep(path, overrides, site)
    if read is None:
        return None
    plugins.look_in([str(Path(path).absolute().parent)])
    sweep, base = read
    factors, problems = factors_of(sweep)
    if asks_auto(base):
        problems.append("population: auto chooses for one run; a sweep names its algorithms")
        raise ConfigError(str(path), problems)
    own = _own(base, factors, problems)
    runs = combinations(sweep, factors, own) * sweep.seeds
    if runs > MANY and not yes:
        if problems:
            raise ConfigError(str(path), problems)
        raise UserError(
            f"{path} is a sweep of {runs:,} runs; confirm so many by --yes, or take levels away, or"
            " draw some of the combinations: design random, with cells"
        )
    seed = value_at("seed", int, base.get("seed", 0), [])  # a wrong one is a problem of each cell
    dice = 0 if seed is INVALID else seed
    made = _with_data(base, factors, list(combine(sweep, factors, own, dice)))
    if sweep.design != "random":  # equal draws are replicates of one another
        made = list({json.dumps(each[0], sort_keys=True): each for each in made}.values())
    problems += _of_no_use(factors, [levels for levels, _ in made])
    configs = _configs(made, cluster, problems)
    if not problems:
        problems += _unequal(sweep, configs)
    if problems:
        raise ConfigError(str(path), problems)
    cells = _numbered([levels for levels, _ in made], sweep.seeds)
    return Plan(configs[0].name, str(path), sweep, tuple(factors), tuple(cells), tuple(configs))


def _own(base: Mapping[str, Any], factors: Sequence[Factor], problems: list[str]) -> dict[str, Any]:
    """The values that the file itself has for factors, by path, read as levels are."""
    found = {}
    for factor in factors:
        value: Any = base
        for key in factor.keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        value = value_at(factor.path, object, value, problems)
        if value not in (None, INVALID):
            found[factor.path] = value
    return found


Made = list[tuple[Levels, dict[str, Any]]]
"""Combinations, each with its configuration as plain data."""


def _with_data(base: dict[str, Any], factors: Sequence[Factor], drawn: Sequence[Levels]) -> Made:
    """The combinations with their data.

    A section of an agent that a cell does not train is left out there, if another cell trains it,
    and a factor in it has no level.
    """
    data = []
    for levels in drawn:
        each = copy.deepcopy(base)
        for factor in factors:
            put(each, factor.keys, copy.deepcopy(levels[factor.path]))
        data.append(each)
    agent_of = {f.path: f.keys[1] for f in factors if f.keys[0] == "agents" and f.keys[1:]}
    trained = {name for each in data for name in _algorithms(each)} | set(agent_of.values())
    found: Made = []
    for levels, each in zip(drawn, data, strict=True):
        unused = trained - set(_algorithms(each))
        agents = each.get("agents")
        if isinstance(agents, dict):
            each["agents"] = {name: a for name, a in agents.items() if name not in unused}
        here = {p: level for p, level in levels.items() if agent_of.get(p) not in unused}
        found.append((here, each))
    return found


def _algorithms(data: Mapping[str, Any]) -> list[str]:
    population = data.get("population")
    named = population.get("algorithms") if isinstance(population, Mapping) else None
    return list(named) if isinstance(named, Mapping) else list(PopulationConfig().algorithms)


def _of_no_use(factors: Sequence[Factor], combos: Sequence[Levels]) -> Iterator[str]:
    """Factors that no cell uses."""
    for factor in factors:
        if not any(factor.path in levels for levels in combos):
            yield f"sweep.over.{factor.path}: no cell trains {factor.keys[1]}: take it out"


def _configs(made: Made, cluster: str | None, problems: list[str]) -> list[RunConfig]:
    """The configuration of each combination; what is wrong with one of them goes to problems."""
    configs: list[RunConfig] = []
    wrong: dict[str, list[int]] = {}
    for number, (_, data) in enumerate(made, 1):
        try:
            config = from_anywhere(from_data(data, "a cell"))
            if cluster is not None:
                config = replace(config, cluster=replace(config.cluster, launcher=cluster))
            configs.append(config)
        except ConfigError as error:
            for problem in error.problems:
                wrong.setdefault(problem, []).append(number)
    problems += [said_of(problem, numbers, [levels for levels, _ in made])
                 for problem, numbers in wrong.items()]  # fmt: skip
    return configs


def said_of(problem: str, numbers: Sequence[int], combos: Sequence[Levels]) -> str:
    """A problem, and in which cells it is, if it is not in all."""
    if len(numbers) == len(combos):
        return problem
    shown = "; ".join(
        ", ".join(f"{path}={label(level)}" for path, level in combos[number - 1].items())
        for number in numbers[:EXAMPLES]
    )
    more = f" and {len(numbers) - EXAMPLES} more" if len(numbers) > EXAMPLES else ""
    return f"{problem} (in {many(len(numbers), 'cell')} of {len(combos)}: {shown}{more})"


def _unequal(sweep: SweepConfig, configs: Sequence[RunConfig]) -> Iterator[str]:
    """Budgets that are missing, or that differ between the cells."""
    stop = configs[0].stop
    if stop.env_steps is None and stop.minutes is None:
        yield "stop: the cells need equal budgets; set stop.env_steps, or stop.minutes"
    for field in ("env_steps", "minutes", "rounds"):
        values = {getattr(config.stop, field) for config in configs}
        if len(values) > 1:
            shown = ", ".join(sorted(map(str, values)))
            yield f"stop.{field}: the cells need equal budgets, got {shown}"
    fewest = min(config.population.pods.max for config in configs)
    if stop.minutes is not None and sweep.slots > fewest:
        yield (
            f"sweep.slots: in equal minutes all cells need as many slots, and one of them has"
            f" {many(fewest, 'pod')}, too few for {sweep.slots}"
        )
    if any((config.resources.nodes_per_pod or 1) > 1 for config in configs):
        yield "resources.nodes_per_pod: a cell of a sweep is run on one node"


def _numbered(combos: Sequence[Levels], seeds: int) -> Iterator[Cell]:
    """Every combination with its first seed, then every one with its second: so those that are done
    when a sweep is stopped early can be compared."""
    width = max(3, len(str(len(combos))))
    for replicate in range(1, seeds + 1):
        for number, levels in enumerate(combos, 1):
            mark = f"-{replicate}" if seeds > 1 else ""
            yield Cell(f"{number:0{width}}{mark}", number, replicate, levels)
