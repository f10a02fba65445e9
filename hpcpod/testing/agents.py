"""The contract of agents as tests."""

from __future__ import annotations

import dataclasses
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from hpcpod.agents.base import Agent, Metrics, Scheduled
from hpcpod.agents.fusion import fusion_rules
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.config.manual import field_docs
from hpcpod.config.space import Scalar
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import Box, Discrete, EnvSpec, State, VecEnv, random_seeds, tensor_form
from hpcpod.errors import Diverged
from hpcpod.plugins import resolve
from hpcpod.pod.checkpoint import Checkpoints
from hpcpod.pod.factory import make_agent
from hpcpod.pod.learner import Learner
from hpcpod.pod.numerics import set_deterministic
from hpcpod.pod.worker import Worker
from hpcpod.records.records import Checkpoint
from hpcpod.storage.blobs import Blobs
from hpcpod.storage.disk import Disk
from hpcpod.storage.quarantine import Quarantine

WARM_UP = 7
"""Iterations (collect, update) after which an agent must have begun to learn."""


class AgentContract:
    """The promises of ``hpcpod.agents.base.Agent``, a test for each.

    A subclass whose name begins with ``Test`` is one agent in one environment with one
    configuration; another of those is a further small subclass. The agent trains as in a pod
    (``Worker``, ``Learner``, ``Checkpoints``), for some hundred iterations in all.
    """

    agent: ClassVar[str | type[Any]]
    """The agent's class, or its name as in ``population.algorithms``: ``"my_pkg.mod:MyAgent"``."""
    env: ClassVar[str | Callable[..., Any]]
    """A gymnasium id, the path of an environment's class, or what returns a gymnasium.Env."""
    config: ClassVar[Mapping[str, Scalar]] = {}
    """Hyperparameters that make it small: an iteration takes milliseconds, learning begins
    within seven of them, and a replay buffer is full in fewer than twelve."""
    num_envs: ClassVar[int] = 4
    """Environments in the batch."""
    device: ClassVar[str] = "cpu"
    """Device of agent and environments."""
    bounded: ClassVar[bool] = False
    """True if the agent promises continuous actions in [-1, 1] while it explores, too."""

    def make_env(self, num_envs: int) -> VecEnv:
        """The environment as a batch of N; a subclass may make it in a way of its own."""
        return make_env(type(self).env, num_envs, device=self.device)

    @pytest.fixture(autouse=True)
    def _environments(self) -> Iterator[None]:
        self._open: list[VecEnv] = []
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in a pod: several spin beside busy neighbours
        set_deterministic(self.device != "cpu")  # as a run with ``pod.deterministic``
        yield
        set_deterministic(False)
        torch.set_num_threads(threads)
        for env in self._open:
            env.close()

    @property
    def _name(self) -> str:
        """What a configuration calls the agent."""
        agent = type(self).agent
        return agent if isinstance(agent, str) else f"{agent.__module__}:{agent.__qualname__}"

    def _env(self, num_envs: int | None = None) -> VecEnv:
        env = self.make_env(num_envs or self.num_envs)
        self._open.append(env)
        return env

    def _agent(self, env: VecEnv, seed: int = 0) -> Agent:
        return make_agent(self._name, env.spec, self.config, seed, self.device)

    def _run(self, seed: int = 0, folder: Path | None = None) -> _Run:
        env = self._env()
        return _Run(self._agent(env, seed), env, folder)

    def test_a_configuration_can_name_it(self) -> None:
        """``population.algorithms`` and ``agents`` take its name and its hyperparameters."""
        population = {"algorithms": {self._name: 1}, "pods": {"min": 1}}
        agents = {self._name: dict(self.config)}
        whole = {"name": "x", "env": {"id": "x"}, "population": population, "agents": agents}
        [space] = resolve_algorithms(from_mapping(whole)).values()
        assert dict(space.values) == {**space.defaults, **self.config}

    def test_its_config_is_frozen_and_says_what_each_hyperparameter_is(self) -> None:
        """Each has a default, a docstring, and no marks but those that ``Agent.Config`` names."""
        config = resolve("agents", self._name).Config
        assert isinstance(config, type) and dataclasses.is_dataclass(config), "it is no dataclass"
        assert config() == config(), "two configurations of defaults are not equal"
        fields = {field.name: field for field in dataclasses.fields(config)}
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config(), next(iter(fields), "any"), 0)
        documented = {
            name
            for cls in config.__mro__
            if dataclasses.is_dataclass(cls)
            for name, text in field_docs(cls).items()
            if text
        }
        _none(fields.keys() - documented, "hyperparameters without a docstring below them")
        marks = {mark for field in fields.values() for mark in field.metadata}
        known = {"structural", "near_one", "initial", "absent", "search", "actions"}
        _none(marks - known, "marks of hyperparameters that mean nothing")

    def test_actions_have_the_form_that_the_space_demands(self) -> None:
        """Shape, dtype, device and bounds, exploring or not, for any number of observations."""
        run = self._run()
        for _ in range(2):  # fresh, then trained
            for explore in (True, False):
                for obs in (run.obs, run.obs[:1]):
                    action = run.agent.act(obs, explore=explore)
                    self._check_action(action, run.env.spec, obs, explore)
            run.train(WARM_UP)

    def _check_action(self, action: Tensor, spec: EnvSpec, obs: Tensor, explore: bool) -> None:
        shape, dtype = tensor_form(spec.action)
        where = f"act(explore={explore})"
        given = f"{action.dtype} {list(action.shape)} on {action.device}"
        wanted = f"{dtype} {[len(obs), *shape]} on {obs.device}"
        assert given == wanted, f"{where} gives {given}, but the space demands {wanted}"
        assert bool(torch.isfinite(action).all()), f"{where} gives an action that is not finite"
        if isinstance(spec.action, Box):
            inside = action.abs() <= 1 if self.bounded else torch.tensor(True)
        else:
            choices = spec.action.n if isinstance(spec.action, Discrete) else spec.action.nvec
            inside = (action >= 0) & (action < torch.tensor(choices, device=action.device))
        assert bool(inside.all()), f"{where} gives actions out of bounds: {action.tolist()}"

    def test_acting_without_exploring_is_deterministic_and_changes_nothing(self) -> None:
        """The evaluator may call it as often as it likes."""
        run = self._run().train(WARM_UP)
        before = run.agent.state()
        first = run.agent.act(run.obs, explore=False)
        again = [run.agent.act(run.obs, explore=False) for _ in range(5)]
        assert all(torch.equal(first, each) for each in again), "act(explore=False) varies"
        _none(_differing(before, run.agent.state()), "changed by act(explore=False)")

    def test_how_far_the_run_has_come_is_no_part_of_its_state(self) -> None:
        """A copy hears it from the run that it is in. Agents that follow nothing lack it."""
        run = self._run().train(WARM_UP)
        if isinstance(run.agent, Scheduled):
            before = run.agent.state()
            for progress in (0.0, 0.5, 1.0):
                run.agent.proceed(progress)
                _none(_differing(before, run.agent.state()), "changed by proceed()")
                run.train(1)
                before = run.agent.state()

    def test_a_state_is_a_copy_of_named_plain_tensors(self) -> None:
        """And of nothing that is a hyperparameter: a child keeps its own."""
        run = self._run().train(WARM_UP)
        state = run.agent.state()
        odd = [name for name, tensor in state.items() if type(tensor) is not Tensor]
        _none(odd, "not plain tensors, but parameters or something else")
        _none([name for name, tensor in state.items() if tensor.requires_grad], "not detached")
        kept = _copy(state)
        run.train(3)
        _none(_differing(kept, state), "changed by training on, though state() had given them")
        fields = {field.name for field in dataclasses.fields(type(run.agent).Config)}
        _none(fields & {name.split("/")[-1] for name in state}, "hyperparameters in a state()")

    def test_a_state_that_was_loaded_is_left_alone(self) -> None:
        """Load the same state again: by a twin, or after a failure."""
        state = self._run().train(WARM_UP).agent.state()
        kept, run = _copy(state), self._run(seed=1)
        run.agent.load(state)
        _none(_differing(kept, run.agent.state()), "not taken over by load()")
        run.train(3)
        _none(_differing(kept, state), "changed by training on, though they were only loaded")

    @pytest.mark.parametrize("inside", [True, False], ids=["in_a_round", "between_rounds"])
    def test_a_run_that_was_stopped_and_resumed_is_the_run_that_was_not(
        self, inside: bool, tmp_path: Path
    ) -> None:
        """Bit by bit, buffer and environments too, by checkpoints on the disk.

        Where the environments' state can't be saved, the last step of a round is marked as
        truncated, and they begin anew.
        """
        run = self._run(folder=tmp_path)
        if inside and run.worker.state() is None:
            pytest.skip("this environment can't save its state")
        run.train(WARM_UP - 1).train(1, cut=not inside)
        saved, goes_on = run.save(), run.worker.state() is not None
        other = self._run(seed=99, folder=tmp_path)
        other.load(saved)
        for each in (run, other):
            if not goes_on:
                each.begin("the next round")
            each.train(5)
        wrong = _differing(run.agent.state(), other.agent.state())
        _none(wrong, "different after five more iterations from the run that was not stopped")
        assert torch.equal(run.obs, other.obs), "the environments are somewhere else"
        assert run.metrics == other.metrics, "the last update tells something else"
        assert run.save() == other.save(), "the buffers are not the same"

    def test_equal_arguments_give_equal_runs_and_another_seed_another(self) -> None:
        """Nothing but its arguments decides what becomes of an agent."""
        once, again = (self._run().train(WARM_UP).agent.state() for _ in range(2))
        _none(_differing(once, again), "different in two runs of one seed")
        other = self._run(seed=1).train(WARM_UP)
        assert _shared(other.agent, once, other.agent.state()), "another seed gives the same run"

    def test_global_random_generators_are_left_alone(self) -> None:
        """An agent draws from generators of its own, whose state it saves."""
        before = _global_randomness()
        self._run().train(WARM_UP)
        after = _global_randomness()
        used = [name for name in before if before[name] != after[name]]
        _none(used, "global generators that the agent, or its environment, draws from")

    def test_reseeding_restarts_the_random_numbers_and_leaves_the_rest(self) -> None:
        """A round is a function of its birth: what was drawn before must not matter."""
        states = [self._run(seed).train(WARM_UP).agent.state() for seed in (0, 1)]
        # uint8: torch's generators give their states so
        drawn = {name: tensor for name, tensor in states[1].items() if tensor.dtype == torch.uint8}
        states[1] = {**states[0], **drawn}  # the same agent, but for what it draws next

        def trained(state: State, seed: int) -> State:
            run = self._run()
            run.agent.load(state)
            run.agent.reseed(seed)
            _none(_shared(run.agent, state, run.agent.state()), "changed by reseed()")
            return run.train(WARM_UP).agent.state()

        first, again, other = trained(states[0], 5), trained(states[1], 5), trained(states[0], 6)
        _none(_differing(first, again), "different although reseed() was given the same seed")
        assert _shared(resolve("agents", self._name), first, other), "another seed changes nothing"

    def test_a_state_that_does_not_fit_is_refused_by_name(self) -> None:
        """With a ValueError, before an agent trains on with half of a state."""
        agent = self._run().train(WARM_UP).agent
        state, rules = agent.state(), fusion_rules(agent, agent.state())
        name = next(name for name, rule in rules.items() if rule == "mean")
        for wrong, states in {
            name: [
                {key: tensor for key, tensor in state.items() if key != name},
                {**state, name: torch.zeros(*state[name].shape, 2)},
            ],
            "no_such_name": [{**state, "no_such_name": torch.zeros(1)}],
        }.items():
            for unfit in states:
                with pytest.raises(ValueError, match=re.escape(wrong)):
                    agent.load(unfit)

    def test_a_loss_that_is_not_finite_means_diverged(self) -> None:
        """Its pod reports itself dead and is born anew; it never reaches the leaderboard."""
        env = self._env()
        agent = self._agent(env)
        buffer, obs = agent.make_buffer(), env.reset(random_seeds("nan", count=self.num_envs))
        with pytest.raises(Diverged) as death:
            for _ in range(WARM_UP):
                for _ in range(agent.horizon):
                    action = agent.act(obs, explore=True)
                    step = env.step(action)
                    reward = step.reward.clone()
                    reward[0] = math.nan
                    buffer.add(obs, action, step._replace(reward=reward))
                    obs = step.obs
                agent.update(buffer)
        assert str(death.value), "the error says nothing"

    def test_it_learns_and_stays_finite(self) -> None:
        """Its weights move, every number of its state is finite, and so is what it tells."""
        run = self._run()
        assert run.agent.horizon >= 1
        fresh = run.agent.state()
        for _ in range(WARM_UP):
            for name, value in run.train(1).metrics.items():
                assert math.isfinite(value), f"the metric {name} is {value}"
        trained, rules = run.agent.state(), fusion_rules(run.agent, fresh)
        wrong = [name for name, tensor in trained.items() if not bool(tensor.isfinite().all())]
        _none(wrong, "not finite after a few updates")
        moved = [
            name
            for name in _differing(fresh, trained)
            if rules[name] == "mean" and not name.startswith(("optimizer", "target"))
        ]
        assert moved, f"nothing is learned in {WARM_UP} iterations; make `config` begin sooner"

    def test_fresh_weights_do_not_depend_on_the_batch(self) -> None:
        """A seed is one agent, however many environments it trains in."""
        one, many = (self._agent(self._env(n), 3) for n in (1, 8))
        _none(_shared(one, one.state(), many.state()), "different with another num_envs")

    def test_every_tensor_says_how_it_is_fused(self) -> None:
        """See ``hpcpod.agents.fusion``."""
        agent = self._run().train(WARM_UP).agent
        assert fusion_rules(agent, agent.state()).keys() == agent.state().keys()


class _Run:
    """An agent in training as in a pod, with its own buffer, environments and checkpoints."""

    def __init__(self, agent: Agent, env: VecEnv, folder: Path | None) -> None:
        self.agent, self.env = agent, env
        self.buffer = agent.make_buffer()
        self.worker = Worker(env)
        self.metrics: Metrics = {}
        self._env_steps = 0
        if folder is not None:
            self._checkpoints = Checkpoints(Blobs(Disk(), folder, Quarantine(Disk(), folder)), {})
        self.begin("the first round")

    def begin(self, round_name: str) -> None:
        """Begin every environment anew."""
        self.worker.reset(random_seeds(round_name, count=self.env.spec.num_envs))

    @property
    def obs(self) -> Tensor:
        """What the agent acts on next."""
        return self.worker.obs

    def train(self, iterations: int, *, cut: bool = False) -> _Run:
        """Collect and update; ``cut``: the last step ends a round."""
        for index in range(iterations):
            last = cut and index == iterations - 1
            self._env_steps += self.worker.collect(
                self.agent, self.buffer, self.agent.horizon, cut=last
            )
            self.metrics = Learner(self.agent).learn(self.buffer)
        return self

    def save(self) -> Checkpoint:
        """Write everything to the disk."""
        worker = self.worker.state()
        extra = {} if worker is None else {"worker": worker}
        return self._checkpoints.save(self.agent, self.buffer, self._env_steps, extra)

    def load(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint."""
        parts = self._checkpoints.load(checkpoint, self.agent)
        whole = "worker" in parts and self.worker.restore(parts["worker"])
        self._checkpoints.fill(
            self.buffer, self.worker.spec.num_envs, cut="worker" in parts and not whole
        )
        self._env_steps = checkpoint.env_steps


def _copy(state: State) -> State:
    return {name: tensor.clone() for name, tensor in state.items()}


def _differing(one: State, other: State) -> list[str]:
    """Names that are not in both with the same tensor."""
    return [
        name
        for name in sorted({*one, *other})
        if name not in one
        or name not in other
        or one[name].dtype != other[name].dtype
        or not torch.equal(one[name], other[name])
    ]


def _shared(agent: object, one: State, other: State) -> list[str]:
    """The same without what every replica has for itself: random generators and the like."""
    rules = fusion_rules(agent, one)
    return [name for name in _differing(one, other) if rules.get(name) != "local"]


def _none(names: Iterable[str], what: str) -> None:
    """Fail if there are any such names. pytest shows no operands of a library's assertions."""
    found = sorted(names)
    assert not found, f"{what}: {', '.join(found[:4])}{', ...' if len(found) > 4 else ''}"


def _global_randomness() -> dict[str, Any]:
    keys: Any = np.random.get_state(legacy=False)
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": (keys["state"]["key"].tolist(), keys["state"]["pos"]),
        "random": random.getstate(),
    }
