"""A trial of an environment, apart from any run: its spec, its contract, its speed."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpcpod.config.schema import RunConfig
from hpcpod.envs.checking import check_env
from hpcpod.envs.make import backend_of, processes_of
from hpcpod.envs.spec_json import spec_to_plain
from hpcpod.envs.threads import env_threads
from hpcpod.envs.vec_env import (
    EnvSpec,
    VecEnv,
    random_actions,
    random_seeds,
)
from hpcpod.errors import Diverged, EnvFailed, UserError, in_words, out_of_memory
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.numerics import numerics
from hpcpod.pod.trial.watched_env import OFTEN, Watched

STEPS = 1000
"""Steps of the batch in which the contract is checked, by default."""
LONGEST = 5000
"""Steps that it is checked for at most by default, in order to see an episode end."""
PATIENCE = 15.0
"""Seconds: a batch that would take longer to make and reset is left out of the measurement."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class About:
    """An environment that could be made."""

    spec: Mapping[str, Any]
    """Its ``EnvSpec`` as plain data; each space says its ``kind``."""
    backend: str
    """Backend that steps it: never ``auto``, but what that came to."""
    saves_state: bool
    """True if its whole state can be saved, and a round go on in the middle."""
    threads: int
    """Threads that a simulator may use in one process."""
    processes: int
    """Processes that step it."""
    python: str | None
    """Another Python that runs these processes."""


@dataclass(frozen=True)
class Contract:
    """The result of the contract: every promise of ``VecEnv`` that could be seen was kept."""

    steps: int
    """Steps of the batch."""
    num_envs: int
    """Environments in it."""
    ends: int
    """Ends of episodes that were seen; without one, what is promised of them was not checked."""
    strange: tuple[str, ...] = ()
    """Numbers that it gave and that are hardly meant, a sentence each."""


@dataclass(frozen=True)
class Speed:
    """The speed of stepping under random actions."""

    num_envs: int
    """Environments in the batch."""
    steps_per_second: float | None
    """Environment steps, over the batch; None: not measured, it would have taken too long."""
    processes: int
    """Processes that stepped it."""
    make_seconds: float
    """Time to make and reset the batch; of one not measured, an estimate."""


def try_env(
    config: RunConfig,
    device: str,
    sizes: Sequence[int],
    *,
    steps: int | None = None,
    seconds: float = 1.0,
    tell: Tell = lambda text: None,
) -> Iterator[About | Contract | Speed]:
    """Make the environment of a configuration, check its contract and measure its speed.

    Args:
        config: its ``env``, ``pod`` and ``resources`` count.
        device: where the tensors live.
        sizes: environments in the batches whose speed is measured, ascending.
        steps: of the contract's batch of ``env.num_envs``. None: ``STEPS``, or as many as the
            time limit needs to be seen, up to ``LONGEST``.
        seconds: to measure each size for, at least.
        tell: called with what is being done, at least as often as a step of the batch takes.

    Yields:
        What was found out, at once: an ``About``, a ``Contract``, and a ``Speed`` for each size.

    Raises:
        UserError: the environment can't be made, or breaks a promise, or raises.
    """
    make = EnvFactory(config.env, device)
    num_envs = config.env.num_envs
    with numerics(config), _blamed_on(config.env.id):
        tell(f"making N = {num_envs}")
        with contextlib.closing(make(num_envs)) as env:
            tell(f"resetting N = {num_envs} for the first time")
            env.reset(random_seeds("trial", count=num_envs))
            saves = env.state() is not None
            spec, backend = spec_to_plain(env.spec), backend_of(config.env)
            yield About(spec, backend, saves, env_threads(), processes_of(env), config.env.python)
            count = steps or _steps(env.spec)
            tell(f"checking the contract in {count} steps")
            watched = Watched(env, tell, count)
            check_env(watched, count)
            yield Contract(count, num_envs, watched.ends, watched.strange)
        measured: list[Speed] = []
        for size in sizes:
            measured.append(_speed(make, size, seconds, measured, tell))
            yield measured[-1]


def _steps(spec: EnvSpec) -> int:
    limit = (spec.max_episode_steps or 0) + 50  # check_env goes back a few in the middle
    return max(STEPS, limit if limit <= LONGEST else 0)


def _speed(
    make: Callable[[int], VecEnv], size: int, seconds: float, before: Sequence[Speed], tell: Tell
) -> Speed:
    if before:
        # The least: to start processes, and to find out whether they pay, takes what it takes once.
        estimate = size * min(each.make_seconds / each.num_envs for each in before)
        if estimate > PATIENCE:  # with what choosing who steps takes once, 256 were left out
            return Speed(size, None, before[-1].processes, estimate)
    tell(f"measuring the speed with N = {size}")
    began = time.monotonic()
    with contextlib.closing(make(size)) as env:
        env.reset(random_seeds("speed", count=size))
        made = time.monotonic() - began
        rate = _steps_per_second(env, seconds, tell)
        return Speed(size, rate, processes_of(env), made)


def _steps_per_second(env: VecEnv, seconds: float, tell: Tell) -> float:
    actions = random_actions(env.spec, 16, torch.Generator().manual_seed(0))
    env.step(actions[0])  # the first one may compile, or allocate
    valid: list[Tensor] = []
    began = now = heard = time.monotonic()
    for action in itertools.cycle(actions):
        valid.append(env.step(action).valid)
        now = time.monotonic()
        if now - heard >= OFTEN:
            heard = now
            tell(f"measuring the speed with N = {env.spec.num_envs}")
        if now - began >= seconds:
            break
    valid[-1].cpu()  # a GPU may still be at work
    elapsed = time.monotonic() - began
    return int(torch.stack(valid).sum()) / elapsed


@contextlib.contextmanager
def _blamed_on(name: str) -> Iterator[None]:
    """Have whatever the environment raises be its author's mistake, in one sentence."""
    try:
        yield
    except UserError:
        raise
    except (Diverged, EnvFailed) as error:
        raise UserError(str(error)) from error
    except (Exception, SystemExit) as error:  # an environment may raise whatever it likes
        if out_of_memory(error):
            said = f"{name} needs more memory than there is; ask for fewer environments"
            raise UserError(f"{said} (--num-envs)") from error
        raise UserError(f"{name} raised {in_words(error)}") from error
