"""The speed of a task: of random steps, of training and of a panel by each algorithm."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from hpcpod.agents.base import Agent
from hpcpod.agents.observations import Observations
from hpcpod.config.algorithms import resolve_algorithms, search_space
from hpcpod.config.auto.task import PANEL, Pace, Task, network_of
from hpcpod.config.decoder import encode
from hpcpod.config.placement import LENGTH
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import AlgorithmSpace, Range, Scalar
from hpcpod.envs.vec_env import (
    Box,
    Discrete,
    EnvSpec,
    VecEnv,
    random_actions,
    random_seeds,
    tensor_form,
)
from hpcpod.errors import ConfigError, UnsupportedSpace
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.learner import Learner
from hpcpod.pod.numerics import numerics
from hpcpod.pod.trial.fit import Tell
from hpcpod.pod.trial.probe import blamed, complaint, free_memory_alone
from hpcpod.pod.worker import Worker

T = TypeVar("T")

SECONDS = 1.5
"""Time for each measurement, at least; one step, or one update, may take longer."""
_ROWS = 32
"""Rows between two updates at most: the cost of a step depends little on how many there are."""
_TRANSITIONS = 20_000
"""Of a replay buffer here: a batch is drawn from it as from a larger one."""


def resolve_and_measure(
    config: RunConfig, seconds: float, tell: Tell = lambda doing, field: None
) -> dict[str, Any]:
    """Measure a task by the algorithms of its configuration; give the ``task``, and ``spaces`` to
    search for each algorithm that can act in it, as plain data.

    Raises:
        ConfigError: see ``measure``; or an algorithm's hyperparameters are wrong.
    """
    task = measure(config, resolve_algorithms(config), tell, seconds=seconds)
    continuous = task.actions == "continuous"
    spaces = {name: search_space(name, continuous=continuous) for name in task.paces}
    return {"task": encode(task), "spaces": encode(spaces)}


def measure(
    config: RunConfig,
    algorithms: Mapping[str, AlgorithmSpace],
    tell: Tell = lambda doing, field: None,
    *,
    seconds: float = SECONDS,
) -> Task:
    """Make the environment and each algorithm's agent, and train them for a moment.

    Args:
        config: of the run; its ``env``, ``pod`` and ``resources`` count.
        algorithms: that may be able to act in it.
        tell: called before each step with what is done and the field to blame if it never ends.
        seconds: for each measurement; 0: look at the spaces alone.

    Raises:
        ConfigError: the environment can't be made, or an agent raises.
    """
    # Nothing chooses processes here: where pods are trained, other CPUs may do it.
    make = EnvFactory(replace(config.env, processes=config.env.processes or 1), "cpu")
    with numerics(config), free_memory_alone() as free:
        try:
            tell(f"making {config.env.num_envs} of it", "env.id")
            with contextlib.closing(make(config.env.num_envs)) as env:
                tell("stepping it at random", "env.id")
                task = _task(env, seconds)
                agents, unfit = _agents(task, env, algorithms)
                train = _trainings(agents, env, task, tell, seconds) if seconds else {}
            if not seconds:
                return replace(task, unfit=unfit, paces=dict.fromkeys(agents, Pace(0.0, 0.0)))
            tell(f"making {PANEL} of it", "env.id")
            with contextlib.closing(make(PANEL)) as env:
                tell("playing a panel", "env.id")
                panel = _panels(agents, env, task, seconds)
        except ConfigError:
            raise
        except Exception as error:
            said = f"{blamed(error)}: {complaint(config.env.id, error, free)}"
            raise ConfigError("the configuration", [said]) from error
    return replace(
        task, unfit=unfit, paces={name: Pace(train[name], panel[name]) for name in agents}
    )


def _task(env: VecEnv, seconds: float) -> Task:
    """The facts about an environment that no agent is needed for."""
    spec = env.spec
    kinds = {Box: "continuous", Discrete: "discrete"}
    observations = Observations(spec, False, "cpu")
    image = observations.image is not None
    shape, _ = tensor_form(spec.observation)
    steps, cut = _random_episodes(env, spec, seconds) if seconds else (None, None)
    return Task(
        spec.id,
        kinds.get(type(spec.action), "multi-discrete"),  # type: ignore[arg-type]
        torch.Size(shape).numel() if image else observations.size,
        torch.Size(tensor_form(spec.action)[0]).numel(),
        image,
        spec.max_episode_steps or cut,
        steps,
        measured=bool(seconds),
    )


def _random_episodes(env: VecEnv, spec: EnvSpec, seconds: float) -> tuple[float | None, int | None]:
    """Mean steps of an episode of random actions, None if none ends in the time; and the steps
    after which the environment itself cut every one that ended, None if it did not."""
    ends, steps, lengths, terminated = 0, 0, set[int](), False
    ages = torch.zeros(spec.num_envs, dtype=torch.long)
    generator = torch.Generator().manual_seed(0)
    env.reset(random_seeds("speed", count=spec.num_envs))
    began = time.monotonic()
    while steps < LENGTH and time.monotonic() - began < seconds:
        for action in random_actions(spec, 16, generator):
            step = env.step(action)
            over = (step.terminated | step.truncated).cpu()
            terminated = terminated or bool(step.terminated.any())
            ages += 1
            lengths |= set(ages[over].tolist())
            ages[over] = 0
            ends += int(over.sum())
            steps += 1
    if not terminated and len(lengths) == 1:
        cut = lengths.pop()
        return float(cut), cut
    return steps * spec.num_envs / ends if ends else None, None


def _agents(
    task: Task, env: VecEnv, algorithms: Mapping[str, AlgorithmSpace]
) -> tuple[dict[str, Agent], dict[str, str]]:
    """An agent of each algorithm that can act there, and why the others can't."""
    agents: dict[str, Agent] = {}
    unfit: dict[str, str] = {}
    for name, space in algorithms.items():
        given = {n: v for n, v in space.values.items() if not isinstance(v, Range)}
        hyperparameters = _brief(
            {**space.defaults, **given, **network_of(task, {**space.defaults, **given})}, task
        )
        try:
            agents[name] = make_agent(space.agent, env.spec, hyperparameters, 0, "cpu")
        except UnsupportedSpace as error:
            unfit[name] = str(error)
    return agents, unfit


def _brief(hyperparameters: Mapping[str, Scalar], task: Task) -> dict[str, Scalar]:
    """Hyperparameters of equal cost for each step that show it sooner."""
    # SAC on CarRacing-v3 was taken to hang: 256 updates for 16 rows, on batches of 256 images.
    rows = 1 if task.image and "buffer_size" in hyperparameters else _ROWS
    most = {"horizon": rows, "learning_starts": 1, "buffer_size": _TRANSITIONS}
    brief = dict(hyperparameters)
    for name, value in most.items():
        given = brief.get(name, 0)
        if isinstance(given, int) and given > value:
            brief[name] = value
    return brief


def _trainings(
    agents: Mapping[str, Agent], env: VecEnv, task: Task, tell: Tell, seconds: float
) -> dict[str, float]:
    """Environment steps per second of collecting and updating, by each agent.

    They take turns in the same episodes: with resets of half a second, a reset for each algorithm
    took minutes.
    """
    worker, seeds, paces = Worker(env), random_seeds("speed", count=env.spec.num_envs), {}
    reset, _ = _least(lambda: worker.reset(seeds), seconds)
    for name, agent in agents.items():
        tell(f"{name} trains for a moment", f"population.algorithms.{name}")
        step = _iteration(agent, worker, seconds) / agent.horizon + reset / _length(task)
        paces[name] = env.spec.num_envs / step
    return paces


def _iteration(agent: Agent, worker: Worker, seconds: float) -> float:
    """Seconds in which an agent collects a rollout and learns from it."""
    buffer, learner = agent.make_buffer(), Learner(agent)

    def iterate() -> None:
        worker.collect(agent, buffer, agent.horizon, cut=False)
        learner.learn(buffer)

    return _median(iterate, seconds)


def _panels(
    agents: Mapping[str, Agent], env: VecEnv, task: Task, seconds: float
) -> dict[str, float]:
    """Seconds for one step of a panel by each agent's best actions."""
    seeds = random_seeds("panel", count=env.spec.num_envs)
    reset, obs = _least(lambda: env.reset(seeds), seconds)

    def step(agent: Agent) -> float:
        return _median(lambda: env.step(agent.act(obs, explore=False)), seconds / 3)

    return {name: step(agent) + reset / _length(task) for name, agent in agents.items()}


def _length(task: Task) -> float:
    """Steps between two beginnings of an environment. All begin in the same call, which a median
    leaves out: a task whose reset takes half a second was said to make 1,700 steps/s, not 100."""
    return task.random_steps or task.max_episode_steps or LENGTH


def _median(call: Callable[[], object], seconds: float) -> float:
    """Median seconds of a call, of as many as fit into the time; the first is left out, unless it
    took several times as long as there is. Time that this thread waited for a core is not counted:
    on a login node other people's processes have them, in a slot they don't."""
    times: list[float] = []
    began = time.monotonic()
    while len(times) < 2 or time.monotonic() - began < seconds:
        times.append(_timed(call)[0])
        if times[0] > 4 * seconds:
            return times[0]
    return statistics.median(times[1:])


def _least(call: Callable[[], T], seconds: float) -> tuple[float, T]:
    """The least seconds of three calls, or of one that takes as long as a measurement; what the
    last one returned."""
    least, found = _timed(call)
    for _ in range(2 if least < seconds else 0):
        spent, found = _timed(call)
        least = min(least, spent)
    return least, found


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds of a call, without those in which this thread waited for a core; what it returns."""
    start = time.monotonic() - _waited()
    found = call()
    return time.monotonic() - _waited() - start, found


def _waited() -> float:
    """Seconds that this thread has been ready to run without a core; 0 if the kernel does not say
    so (Linux without CONFIG_SCHED_INFO)."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
