"""The rules of a tournament: the configuration, the updater, the generator, the allocator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcpod import plugins
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.allocation import Allocator
from hpcpod.tournament.judgement import Updater
from hpcpod.tournament.proposals import Generator


@dataclass(frozen=True)
class Rules:
    """Everything that a merge needs beside the board and the reports."""

    config: RunConfig
    algorithms: Mapping[str, AlgorithmSpace]
    updater: Updater
    generator: Generator
    allocator: Allocator
    silent: set[str] = field(default_factory=set, compare=False)
    """Parts that took too long in this process, and are not asked any more."""

    @classmethod
    def of(cls, config: RunConfig, algorithms: Mapping[str, AlgorithmSpace]) -> Rules:
        """The rules of a run: its updater, generator and allocator are plugins, built with
        ``config.population``.

        Raises:
            UnusablePlugin: no such updater, generator or allocator.
        """
        population = config.population
        updater = plugins.make(Updater, "updaters", population.updater, population)
        generator = plugins.make(Generator, "generators", population.generator, population)
        allocator = plugins.make(Allocator, "allocators", population.allocator, population)
        return cls(config, algorithms, updater, generator, allocator)

    @classmethod
    def of_run(cls, folder: RunFolder) -> Rules:
        """The rules of a run that exists.

        Raises:
            UserError: they are code of another user's own, see ``Ownership.require_code``.
            UnusablePlugin: no such updater, generator or allocator.
        """
        folder.extensions.look()
        resolved = folder.resolved
        folder.owner.require_code(resolved.own_rules(), "merge")
        return cls.of(resolved.config, resolved.algorithms)
