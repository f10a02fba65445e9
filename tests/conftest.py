"""What every test shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from tests.slurm_cluster import Options, SlurmCluster, SlurmUnavailable

# Tests share their cores with real Slurm daemons and training runs: no example has a deadline.
settings.register_profile("hpcpod", deadline=None)
settings.load_profile("hpcpod")


@pytest.fixture(scope="session")
def start_slurm() -> Iterator[Callable[[Options], SlurmCluster]]:
    """Start a real Slurm, or give the one that runs with these options already."""
    clusters: dict[Options, SlurmCluster] = {}
    with ExitStack() as stack:

        def start(options: Options) -> SlurmCluster:
            if options not in clusters:
                try:
                    clusters[options] = stack.enter_context(SlurmCluster.started(options))
                except SlurmUnavailable as missing:
                    required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
                    (pytest.fail if required else pytest.skip)(str(missing))
            return clusters[options]

        yield start


@pytest.fixture(scope="session")
def slurm_cluster(start_slurm: Callable[[Options], SlurmCluster]) -> SlurmCluster:
    """A real Slurm of four nodes, shared by all tests: leave no job behind."""
    return start_slurm(Options())
