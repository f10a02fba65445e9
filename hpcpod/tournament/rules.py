"""The rules of a tournament: the configuration, the updater and the generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcpod import plugins
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.generators import Generator
from hpcpod.tournament.updaters import Updater


@dataclass(frozen=True)
class Rules:
    """Everything that a merge needs beside the board and the reports."""

    config: RunConfig
    algorithms: Mapping[str, AlgorithmSpace]
    updater: Updater
    generator: Generator

    @classmethod
    def of(cls, config: RunConfig, algorithms: Mapping[str, AlgorithmSpace]) -> Rules:
        """The rules of a run: its updater and its generator are plugins, built with
        ``config.population``.

        Raises:
            UnusablePlugin: no such updater or generator.
        """
        population = config.population
        updater = plugins.make(Updater, "updaters", population.updater, population)
        generator = plugins.make(Generator, "generators", population.generator, population)
        return cls(config, algorithms, updater, generator)

    @classmethod
    def of_run(cls, folder: RunFolder) -> Rules:
        """The rules of a run that exists.

        Raises:
            UserError: they are code of another user's own, see ``Ownership.require_code``.
            UnusablePlugin: no such updater or generator.
        """
        resolved = folder.resolved
        folder.owner.require_code(resolved.own_rules(), "merge")
        return cls.of(resolved.config, resolved.algorithms)
