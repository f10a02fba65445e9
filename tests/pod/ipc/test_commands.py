"""The environment of the processes that train pods."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.pod.ipc.commands import KEPT, environment

STEPS = """
import resource
import numpy as np
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():
    return [np.ones(250_000, np.float32) for _ in range(4)]
for _ in range(20):
    step()
before = faults()
for _ in range(100):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps memory when told")
def test_what_a_step_leaves_is_there_for_the_next_one() -> None:
    env = environment(RunConfig("x", EnvConfig("x")))
    assert KEPT.items() <= env.items() or KEPT.keys() & os.environ.keys()
    done = subprocess.run(
        [sys.executable, "-c", STEPS], env=env, check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 1000  # of 97,700 pages that the steps write
