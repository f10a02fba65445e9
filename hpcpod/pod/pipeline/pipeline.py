"""An iteration of a round: collect, then learn; or learn while the next rollout is collected.

In a pipeline a process of its own collects, with an agent and environments of its own. (A thread
gains nothing: each of torch's operations gives the interpreter's lock away and has to get it
back, and two threads that do so wait for each other most of the time.) What both may see of
each other is decided between two iterations, whatever takes how long:

- iteration k learns from rollout k, while rollout k + 1 is collected with the weights from before
  that update. The first rollout of a round is waited for.
- So a rollout was collected with weights that are exactly one iteration old when they are learned
  from; those of a round's first with the weights that learn. What was collected ahead is a part
  of a checkpoint, and a round's last iteration collects nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hpcpod import plugins
from hpcpod.agents.base import Agent, Buffer, Described, Metrics
from hpcpod.agents.fusion import Rule, fusion_rules
from hpcpod.agents.segments import cut_off, rows_of
from hpcpod.agents.state import prefixed, under
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.envs.vec_env import EnvSpec, State, VecEnv
from hpcpod.pod.budget_span import Span
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.client import Client
from hpcpod.pod.worker import Worker
from hpcpod.records.records import stable_hash


class Turns(Worker):
    """Collecting and learning take turns."""

    def iterate(
        self, agent: Agent, buffer: Buffer, learner: Learner, left: int
    ) -> tuple[int, Metrics]:
        """Collect a rollout and learn from it.

        Args:
            agent: what acts and learns.
            buffer: takes the rollout.
            learner: of this agent.
            left: environment steps until the round ends; see ``cut`` of ``Worker.collect``.

        Returns:
            Environment steps that were learned from, and the update's metrics.

        Raises:
            Diverged: a number is not finite.
        """
        last = agent.horizon * self._env.spec.num_envs >= left
        counted = self.collect(agent, buffer, agent.horizon, cut=last)
        return counted, learner.learn(buffer)


# By a thread PPO on HalfCheetah made 2,271 steps/s at Python's switch interval of 5 ms and 4,804
# at 0.01 ms, in turns 7,260; by a process 1.2 to 1.5 times as many as in turns, on two quiet cores.
class Pipeline:
    """The same, where the next rollout is collected while one is learned from."""

    def __init__(
        self, client: Client, spec: EnvSpec, agent: str, hyperparameters: Mapping[str, Scalar]
    ) -> None:
        """One round of an agent by its plugin name, in environments of ``spec``."""
        self._client, self._begun = client, False
        self._agent = agent, dict(hyperparameters)
        self.spec = spec
        """Spec of the environments."""
        self._ahead: State = {}
        self._sent: State = {}
        self._rules: Mapping[str, Rule] = {}
        self._seed: int | None = None
        self.span: Span | None = None
        """Span of the budget that the actor's schedules follow."""
        self.mean_return = float("nan")
        """Mean return of the last training episodes; NaN before the first has ended."""
        self.mean_length = float("nan")
        """Mean steps of the same episodes."""

    def reset(self, seeds: Tensor) -> None:
        """Begin every environment anew, and the actor's random numbers: int64 ``seeds`` [N]."""
        self._ahead = {}
        self.go_on(seeds)
        self._prepared.ask("reset", tensors={"seeds": seeds})

    def go_on(self, seeds: Tensor) -> None:
        """Begin a round in the episodes in progress.

        Args:
            seeds: of a ``reset``, int64 [N]: the actor's random numbers follow from them.
        """
        self._seed = stable_hash("actor", *seeds.tolist())

    def walk(self, agent: Agent, steps: int) -> None:
        """See ``Worker.walk``."""
        self._prepared.ask("walk", steps, tensors=agent.state())

    def iterate(
        self, agent: Agent, buffer: Buffer, learner: Learner, left: int
    ) -> tuple[int, Metrics]:
        """Learn from a rollout while the next one is collected; see ``Turns.iterate``.

        Raises:
            Exception: what collecting raised, caused by its traceback there.
        """
        try:
            if not self._ahead:
                self._begin_to_collect(agent, agent.state(), left)
                self._ahead = self._collected()
            ahead, self._ahead = self._ahead, {}
            counted = int(ahead["counted"])
            self.mean_return = float(ahead["mean_return"])
            self.mean_length = float(ahead.get("mean_length", float("nan")))  # a version's before
            state = self._count(agent, under("agent", ahead), under("sent", ahead))
            if left > counted:
                # Before the rows are handed over, which takes time, too.
                self._begin_to_collect(agent, state, left - counted)
            self._hand_over(buffer, ahead)
            metrics = learner.learn(buffer)
            if left > counted:
                self._ahead = self._collected()
        except BaseException:
            self._client.kill()  # it may be in the middle of something
            raise
        return counted, metrics

    def state(self) -> State | None:
        """The state for ``restore``, the rollout that was collected ahead included; see
        ``Worker.state``."""
        found, state = self._prepared.ask("state")
        return {**prefixed("worker", state), **prefixed("ahead", self._ahead)} if found else None

    def restore(self, state: State) -> bool:
        """The inverse of ``state``; see ``Worker.restore``."""
        same, _ = self._prepared.ask("restore", tensors=under("worker", state))
        self._ahead = under("ahead", state)
        if self._ahead and not same:  # what was collected last is there, and not in the buffer
            rows = cut_off(under("rows", self._ahead))
            self._ahead |= prefixed("rows", rows)
            return True
        return bool(same)

    @property
    def _prepared(self) -> Client:
        """The process, which has made the agent."""
        if not self._begun:
            self._client.ask("begin", *self._agent)
            self._begun = True
        return self._client

    def _begin_to_collect(self, agent: Agent, state: State, left: int) -> None:
        last = agent.horizon * self.spec.num_envs >= left
        progress = None if self.span is None else self.span.at(left)
        self._prepared.send("collect", agent.horizon, last, self._seed, progress, tensors=state)
        self._seed = None  # once a round
        rules = fusion_rules(agent, state)
        self._sent = {name: state[name] for name, rule in rules.items() if rule == "sum"}

    def _collected(self) -> State:
        _, ahead = self._prepared.receive()
        return {**ahead, **prefixed("sent", self._sent)}

    def _hand_over(self, buffer: Buffer, ahead: State) -> None:
        rows = {name: t.to(self.spec.device) for name, t in under("rows", ahead).items()}
        for obs, action, step in rows_of(rows):
            buffer.add(obs, action, step)
        if isinstance(buffer, Described):
            behaviour = under("behaviour", ahead)
            buffer.describe({name: t.to(self.spec.device) for name, t in behaviour.items()})

    def _count(self, agent: Agent, actor: State, sent: State) -> State:
        """Let the learner know what was counted by acting; the state that acts next."""
        state = agent.state()
        self._rules = self._rules or fusion_rules(agent, state)
        counted, kept = merged(self._rules, state, actor, sent)
        if counted:
            state |= counted
            agent.load(state)
        return state | kept


def merged(
    rules: Mapping[str, Rule], learner: State, actor: State, sent: State
) -> tuple[State, State]:
    """The tensors that a learner takes over from the actor that collected for it, and those that
    this one keeps.

    The rules are those by which replicas are fused, of which only one has learned: what the actor
    has added to a sum; the larger one of two counters; the statistics of the one that has seen
    more; of what is ``local`` each keeps its own. Everything else is the learner's.

    Args:
        rules: of every name; see ``hpcpod.agents.fusion``.
        learner: its ``state()``.
        actor: the tensors that have another rule than ``mean``.
        sent: what it began with, of those that have the rule ``sum``.

    Returns:
        The tensors that change for the learner, and those that stay the actor's.
    """
    counted: State = {}
    for name, rule in rules.items():
        if rule == "sum":  # DQN counts steps by acting, PPO by learning
            if not torch.equal(actor[name], sent[name].cpu()):
                counted[name] = learner[name].cpu() + actor[name] - sent[name].cpu()
        elif rule == "max":
            larger = torch.maximum(learner[name].cpu(), actor[name])
            if not torch.equal(larger, learner[name].cpu()):
                counted[name] = larger
        elif rule == "moments":
            count = name[: name.rfind("/") + 1] + "count"
            if actor[count] > learner[count].cpu():
                counted[name] = actor[name]
    return counted, {name: actor[name] for name, rule in rules.items() if rule == "local"}


class Workers:
    """Makes what iterates a pod's rounds, as its configuration says."""

    def __init__(self, config: RunConfig) -> None:
        self._worker = config.pod.worker
        self._turns: Turns | None = None
        self._client = Client(config) if config.pod.pipeline else None

    def make(
        self, env: VecEnv | EnvSpec, agent: str, hyperparameters: Mapping[str, Scalar]
    ) -> Turns | Pipeline:
        """One for a round of an agent by its plugin name, in the same environments each time.

        They are where the round before has left them: ``reset``, ``restore`` or ``go_on`` begins.
        ``Turns`` step ``env``. A ``Pipeline`` steps its own, and asks only what they are like.
        """
        if self._client is None:
            if self._turns is None:
                self._turns = plugins.make(Turns, "workers", self._worker, env)
            return self._turns
        self._client.start()
        spec = env if isinstance(env, EnvSpec) else env.spec
        return Pipeline(self._client, spec, agent, hyperparameters)

    def close(self) -> None:
        """End the actor process."""
        if self._client is not None:
            self._client.close()
