"""The probe of a task before a run is launched: the task exists, and each agent fits it."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpcpod import plugins
from hpcpod.agents.base import Agent
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.decoder import encode
from hpcpod.config.placement import LENGTH, trains_on_gpu
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.config.space import AlgorithmSpace
from hpcpod.envs.backend import Wanted, closed_if_refused
from hpcpod.envs.make import reference
from hpcpod.envs.mujoco.warp_env import check_wanted
from hpcpod.envs.recording import saved_steps
from hpcpod.envs.spec_json import spec_to_plain
from hpcpod.envs.vec_env import State, VecEnv, random_actions, tensor_form
from hpcpod.errors import (
    ConfigError,
    HpcpodError,
    UnusablePlugin,
    UnusableWrapper,
    UserError,
    in_words,
    out_of_memory,
    raised_at,
)
from hpcpod.pod.evaluator import Evaluator, scored_in
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.learner import Learner
from hpcpod.pod.trial.fit import Footprint, Look, Tell
from hpcpod.pod.trial.watched_env import Watched
from hpcpod.pod.worker import Worker

_STEPS_ALIKE = 32
"""Steps in which most episodes show that they differ."""
_SECONDS_ALIKE = 2.0
"""Time for as many steps as an episode has, where they have not."""

_SECONDS_TO_AN_END = 2.0
"""Time for random steps until an episode ends, where there is no time limit."""

_FEW = 64
"""Environments at most that are tried by MuJoCo in place of MuJoCo Warp."""

_SECONDS_OF_ROWS = 5.0
"""Time for the rows that an agent collects before its first update."""


def resolve_and_probe(
    config: RunConfig,
    tell: Tell = lambda doing, field: None,
    alike: Sequence[RunConfig] = (),
) -> Iterator[dict[str, Any]]:
    """Resolve the algorithms, then probe the task with those that are right; yield
    ``algorithms``, ``look`` and ``problems`` as plain data, as soon as each is known.

    Of further configurations of the same task the algorithms are resolved alone: ``alike`` has
    those of each, and its problems.
    """
    if alike:
        yield {"alike": [_resolved(each) for each in alike]}
    algorithms: Mapping[str, AlgorithmSpace] = {}
    try:
        algorithms = resolve_algorithms(config)
        yield {"algorithms": encode(algorithms)}
    except ConfigError as error:
        yield {"problems": error.problems}
    try:
        yield {"look": encode(probe(config, algorithms, tell))}
    except ConfigError as error:
        yield {"problems": error.problems}


def _resolved(config: RunConfig) -> dict[str, Any]:
    try:
        return {"algorithms": encode(resolve_algorithms(config)), "problems": []}
    except ConfigError as error:
        return {"algorithms": {}, "problems": error.problems}


def probe(
    config: RunConfig,
    algorithms: Mapping[str, AlgorithmSpace],
    tell: Tell = lambda doing, field: None,
) -> Look:
    """Make the environment, the evaluator and each algorithm's agent once, and take a step; an
    agent that is not built in makes its first update, too.

    Meanwhile no more memory can be had than is free: what asks for more is refused, where
    otherwise the kernel would end this process, or another.

    Args:
        config: the run.
        algorithms: which agents; each is made with the hyperparameters of its control.
        tell: called before each step.

    Returns:
        What was seen.

    Raises:
        ConfigError: something can't be made, or an agent can't act in it; all problems at once.
    """
    problems, footprints = list[str](), dict[str, Footprint]()
    evaluator, tried, held = None, _tried(config), list[Any]()
    with free_memory_alone() as free, closed_if_refused(held):
        # Nothing is measured here: where pods are trained, other CPUs may do it.
        factory = EnvFactory(replace(tried, processes=tried.processes or 1), "cpu")
        tell("making the evaluator", "pod.evaluator")
        try:
            evaluator = plugins.make(Evaluator, "evaluators", config.pod.evaluator, factory)
            held.append(evaluator)
        except Exception as error:
            problems.append(f"pod.evaluator: {complaint('it', error, free)}")
        tell(f"making {tried.num_envs} of it", "env.id")
        try:
            env = factory(tried.num_envs)
            held.append(env)
            seen = _seen(env, tell)
        except Exception as error:
            said = f"{blamed(error)}: {complaint(config.env.id, error, free)}"
            raise ConfigError("the configuration", [*problems, said]) from error
        # After the pods' own: what is wrong with both is said once.
        problems = problems or _unscored(config, factory, tell, free)
        most, more = (None, list[str]()) if problems else _most(evaluator, free)
        problems += more
        for name, space in algorithms.items():
            tell(f"{name} takes its first step", f"population.algorithms.{name}")
            try:
                footprints[name] = _fitted(name, space, env, tell)
            except Exception as error:
                said = complaint(f"its first step or update in {config.env.id}", error, free)
                problems.append(f"population.algorithms.{name}: {said}")
        tell("closing it", "env.id")
        env.close()
        if evaluator is not None:
            with contextlib.suppress(Exception):  # it has evaluated nothing yet
                evaluator.close()
    if problems:
        raise ConfigError("the configuration", problems)
    return replace(seen, footprints=footprints, most_episodes=most)


def _tried(config: RunConfig) -> EnvConfig:
    """The environment that is tried: pods' own, but MuJoCo's few for a GPU's thousands by Warp.

    On the CPU, the trial of 4,096 Ants by Warp took four minutes, by kernels that no pod uses.
    """
    env = config.env
    if env.backend != "warp" or env.python or not trains_on_gpu(config):
        return env
    try:
        check_wanted(Wanted(env.id, env.num_envs, "cuda", env.wrappers, env.kwargs))
    except UserError as error:
        raise ConfigError("the configuration", [f"{blamed(error)}: {error}"]) from error
    ours = reference(env)
    assert ours is not None, "each task of Warp's is one of gymnasium's"
    return replace(ours, backend="mujoco", num_envs=min(env.num_envs, _FEW))


def _most(evaluator: Evaluator | None, free: int) -> tuple[int | None, list[str]]:
    """Episodes that an evaluator can score at most, and the problem if they are too few."""
    try:
        most = getattr(evaluator, "most_episodes", None)
    except Exception as error:
        return None, [f"pod.evaluator: {complaint('it', error, free)}"]
    if most is None or most > 1:
        return most, []
    return most, [
        f"pod.evaluator: it has data for {most} episode, and a score takes two: have shorter"
        " episodes (of trading env.kwargs.sessions), or more data to score on (a longer selection"
        " part; of ct its window)"
    ]


def _unscored(config: RunConfig, factory: EnvFactory, tell: Tell, free: int) -> list[str]:
    """The problem of the environment in which pods are scored, if that is another one."""
    try:
        if (scored := scored_in(config)) != config.env:
            tell("making the environment in which it scores", "pod.evaluator")
            replace(factory, env=replace(scored, processes=1))(1).close()
    except Exception as error:
        return [f"pod.evaluator: {complaint('it', error, free)}"]
    return []


def _seen(env: VecEnv, tell: Tell) -> Look:
    """The task itself, without an agent."""
    watched = Watched(env, lambda doing: tell(doing, "env.id"))
    _step(watched)
    deterministic, saved = _alike(watched), saved_steps(env.state())
    endless = 0 if env.spec.max_episode_steps else _endless(watched)
    return Look(
        {}, env.spec.max_episode_steps, deterministic, saved, endless, watched.strange,
        spec_to_plain(env.spec),
    )  # fmt: skip


def _alike(env: VecEnv) -> bool:
    """True if episodes of different seeds do not differ, as far as there is time to try."""
    began = time.monotonic()
    if not _same(env, _STEPS_ALIKE):
        return False
    pace = (time.monotonic() - began) / (2 * _STEPS_ALIKE)
    more = min(env.spec.max_episode_steps or LENGTH, int(_SECONDS_ALIKE / 2 / pace))
    return more <= _STEPS_ALIKE or _same(env, more)


def _same(env: VecEnv, steps: int) -> bool:
    """True if the same actions lead to the same sums of observations, and to the same rewards."""
    seen = []
    for first in (0, env.spec.num_envs):
        actions = torch.Generator().manual_seed(0)
        sums = [_sums(env.reset(torch.arange(first, first + env.spec.num_envs)))]
        for _ in range(steps):
            step = env.step(random_actions(env.spec, 1, actions)[0])
            sums += [_sums(step.obs), step.reward]
        seen.append(sums)
    return all(map(torch.equal, *seen))


def _endless(env: VecEnv) -> int:
    """Random steps in which no episode has ended; 0 if one has."""
    began, actions = time.monotonic(), torch.Generator().manual_seed(0)
    env.reset(torch.arange(env.spec.num_envs))
    for done in range(1, LENGTH + 1):
        step = env.step(random_actions(env.spec, 1, actions)[0])
        if bool((step.terminated | step.truncated).any()):
            return 0
        if time.monotonic() - began > _SECONDS_TO_AN_END:
            return done
    return LENGTH


def _sums(obs: Tensor) -> Tensor:
    """Of each environment's observation, float64 [N]."""
    return obs.reshape(len(obs), -1).double().sum(1)  # FrozenLake's [N] have no second axis


def _step(env: VecEnv) -> None:
    """What fails here is the environment's fault: its first step, without an agent."""
    env.reset()
    shape, dtype = tensor_form(env.spec.action)
    env.step(torch.zeros((env.spec.num_envs, *shape), dtype=dtype))


def _fitted(name: str, space: AlgorithmSpace, env: VecEnv, tell: Tell) -> Footprint:
    """The needs of an algorithm's agent; one that is not built in makes its first update, too."""
    agent = make_agent(space.agent, env.spec, space.unmutated(), 0, "cpu")
    found = _footprint(agent, env)
    if ":" in space.agent:
        # One that raised each time was born again until stop.minutes.
        tell(f"{name} makes its first update", f"population.algorithms.{name}")
        _update(agent, env)
    return found


def _footprint(agent: Agent, env: VecEnv) -> Footprint:
    """What an agent needs, seen at its first step."""
    buffer = agent.make_buffer()
    obs = env.reset()
    action = agent.act(obs, explore=True)
    buffer.add(obs, action, env.step(action))
    replay = _bytes(buffer.segment(0, 1)) * buffer.capacity
    return Footprint(_bytes(agent.state()), replay, agent.horizon)


def blamed(error: Exception) -> str:
    """The field that an environment which can't be had is due to."""
    if out_of_memory(error):
        return "env.num_envs"
    if isinstance(error, UnusableWrapper):
        return "env.wrappers"
    return "env.backend" if isinstance(error, UnusablePlugin) else "env.id"


def complaint(what: str, error: Exception, free: int) -> str:
    """The words of an error; one that was not raised on purpose is ``what``'s."""
    if out_of_memory(error):
        return (
            f"more memory is needed than the {free / 1e9:.3g} GB that are free here; make it"
            " smaller, or go without the probe (--no-probe) if slots have more"
        )
    return (
        str(error)
        if isinstance(error, HpcpodError)
        else f"{what} raised {in_words(error)}{raised_at(error)}"
    )


def _update(agent: Agent, env: VecEnv) -> None:
    """Let an agent of a user's make its first update, unless it takes too long to get there."""
    began, buffer, worker = time.monotonic(), agent.make_buffer(), Worker(env)
    worker.reset(torch.arange(env.spec.num_envs))
    for _ in range(agent.horizon):
        if time.monotonic() - began > _SECONDS_OF_ROWS:
            return
        worker.collect(agent, buffer, 1, cut=False)
    Learner(agent).learn(buffer)


def _bytes(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


@contextlib.contextmanager
def free_memory_alone() -> Iterator[int]:
    """Let this process have what memory is free now, in bytes, and refuse it any more."""
    free = _kilobytes("/proc/meminfo", "MemAvailable") * 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _kilobytes("/proc/self/status", "VmData") * 1024 + free
    limits = [limit for limit in (soft, most) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))  # since Linux 4.7 mmap counts
    try:
        yield free
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _kilobytes(path: str, field: str) -> int:
    """A line of Linux's own report, such as ``MemAvailable:  1024 kB``."""
    lines = dict(line.split(":", 1) for line in Path(path).read_text().splitlines())
    return int(lines[field].split()[0])
