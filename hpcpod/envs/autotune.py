"""The choices behind ``auto``: a backend, and the number of processes that step it.

The backend decides results, so it follows from the configuration alone, on every node the same. Who
steps it changes no bit, so it is measured wherever a batch is made.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections.abc import Callable
from contextlib import closing

import torch

from hpcpod.envs import gymnasium_make
from hpcpod.envs.backend import Wanted
from hpcpod.envs.gymnasium_make import Env
from hpcpod.envs.mujoco import tasks
from hpcpod.envs.processes.env import ProcessVecEnv
from hpcpod.envs.processes.pool import within
from hpcpod.envs.threads import env_cpus
from hpcpod.envs.vec_env import random_actions, random_seeds
from hpcpod.errors import UserError, in_words

STEPS = 32
"""Steps that are measured at most."""
SECONDS = 0.25
"""Time that either way of stepping is measured for, at most; one step, if that takes longer."""
FAST = 0.5e-3
"""Seconds: where a step of the batch takes less, processes lost whenever that was measured."""
SLOW = 2.0
"""Seconds: processes whose first reset and step would take longer are taken without them."""
TRIAL_SECONDS = 60.0
"""Seconds that processes may take to start, beside what making environments takes."""

_log = logging.getLogger(__name__)


def backend_of(wanted: Wanted) -> str:
    """The backend that a word stands for: itself, unless that is ``auto``.

    ``auto`` is ``mujoco`` for gymnasium's MuJoCo tasks, without wrappers and with arguments that it
    knows, else ``gymnasium``. What is installed does not count: where MuJoCo is missing, neither
    backend has these tasks.
    """
    if wanted.backend != "auto":
        return wanted.backend
    by_mujoco = isinstance(wanted.env, str) and tasks.knows(wanted.env, wanted.kwargs)
    return "mujoco" if by_mujoco and not wanted.wrappers else "gymnasium"


def in_processes(wanted: Wanted) -> ProcessVecEnv | None:
    """The batch stepped by processes, if they were measured to be faster; the log has the numbers.

    One environment is made, stepped at random and closed again. If N of them would take ``FAST`` or
    longer, processes are made, as many as ``env_cpus()`` allows, and stepped too. They are reset
    before any training counts on them, so nothing of it is seen in results.

    Args:
        env: as for ``make_env``, like the others.
        num_envs: N.
        backend: as ``backend_of`` gives it; only ``gymnasium`` is stepped one after another.
        device: where the tensors live.
        wrappers: innermost first.
        kwargs: of the environment.

    Returns:
        None if this process should step it: it is as fast, or processes can't.

    Raises:
        UserError: the environment can't be made at all.
    """
    env, num_envs = wanted.env, wanted.num_envs
    processes = min(env_cpus(), num_envs)
    if num_envs < 2 or wanted.backend != "gymnasium":
        return None
    made: ProcessVecEnv | None = None
    if not isinstance(env, str):
        why = "a function or a class can't be given to others; its path could"
    elif processes < 2:
        why = "its share of resources.cpus_per_pod is one"
    else:
        made, why = _measured(wanted, processes)
    where = "this process" if made is None else f"{processes} processes"
    _log.info("%s: %d environments in %s: %s", gymnasium_make.name_of(env), num_envs, where, why)
    return made


def _measured(wanted: Wanted, processes: int) -> tuple[ProcessVecEnv | None, str]:
    """The processes, if they win, and the reason in words."""
    began = time.perf_counter()
    try:
        (one,) = gymnasium_make.build(wanted.env, 1, wanted.wrappers, wanted.kwargs)
        with closing(one):
            one.reset(seed=0)
            begun = time.perf_counter() - began
            single = _pace_of_one(one)
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # an environment may raise whatever it likes
        return None, f"it was not measured, for it raised {in_words(error)}"
    alone = wanted.num_envs * single
    here = f"a step of all takes {_words(alone)} here"
    if alone < FAST:
        return None, here
    share = math.ceil(wanted.num_envs / processes) * (begun + single)
    made: ProcessVecEnv | None = None
    try:
        with within(TRIAL_SECONDS + 10 * share):
            made = ProcessVecEnv(wanted, processes)
            if share > SLOW:
                return made, f"{here}, too long to compare"
            together = _pace_of_all(made)
    except Exception as error:
        if made is not None:
            made.close()
        return None, f"{here}; other processes failed at it: {in_words(error)}"
    both = f"{here}, {_words(together)} in {processes} processes"
    if together < alone:
        return made, both
    made.close()
    return None, both


def _pace_of_one(env: Env) -> float:
    """Seconds of a step, resets at ends of episodes included."""
    env.action_space.seed(0)
    actions = itertools.cycle([env.action_space.sample() for _ in range(STEPS)])

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(next(actions))
        if terminated or truncated:
            env.reset(seed=0)

    return _pace(step)


def _pace_of_all(env: ProcessVecEnv) -> float:
    env.reset(random_seeds("auto", count=env.spec.num_envs))
    generator = torch.Generator().manual_seed(0)
    actions = itertools.cycle(random_actions(env.spec, STEPS, generator))
    return _pace(lambda: env.step(next(actions)))


def _pace(step: Callable[[], object]) -> float:
    """Seconds that it takes: a mean without the slowest, which had something to warm up, or met a
    neighbour; one alone, if it takes ``SECONDS``."""
    times: list[float] = []
    while len(times) < STEPS and sum(times) < SECONDS:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    kept = sorted(times)[:-1] or times
    return sum(kept) / len(kept)


def _words(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds >= 1 else f"{seconds * 1000:.2g} ms"
