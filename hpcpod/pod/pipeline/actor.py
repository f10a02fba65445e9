"""The actor: it steps environments with an agent that the learner in another process teaches."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pickle import dumps, loads

import torch

from hpcpod.agents.base import Agent, OnPolicy, Scheduled
from hpcpod.agents.fusion import fusion_rules
from hpcpod.agents.rollout import RolloutBuffer
from hpcpod.agents.state import prefixed
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Scalar
from hpcpod.envs.vec_env import State
from hpcpod.errors import in_words
from hpcpod.pod.device import device_of
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.numerics import set_numerics
from hpcpod.pod.pipeline.channel import Channel
from hpcpod.pod.worker import Worker


def serve(channel: Channel, config: RunConfig, gpu: int | None) -> None:
    """Answer questions until the pod closes the channel; ``gpu`` is the number of the pod's own.

    A question is a method of ``Actor`` and its arguments. The answer is ``(True, what it
    returned)``, with tensors, or ``(False, (an exception, its traceback))``.
    """
    actor: Actor | None = None
    while True:
        try:
            (method, arguments), tensors = channel.receive()
        except (EOFError, OSError):
            break
        try:
            if actor is None:
                actor = Actor(config, gpu)
            said, given = getattr(actor, method)(*arguments, tensors)
            answer, given = (True, said), given
        except Exception as error:
            answer, given = (False, (_portable(error), traceback.format_exc())), {}
        try:
            channel.send(answer, given)
        except OSError:
            break
    if actor is not None:
        actor.close()


class Actor:
    """An actor in its environments: the same class, spec and hyperparameters as the learner.

    Each method takes its tensors last, and gives a value and tensors.
    """

    def __init__(self, config: RunConfig, gpu: int | None) -> None:
        """Make the environments, on that GPU if there is one; raises what they raise."""
        set_numerics(config)
        self._device = device_of(config)
        if gpu is not None:
            torch.cuda.set_device(gpu)
        self._env = EnvFactory(config.env, self._device)(config.env.num_envs)
        self._worker = Worker(self._env)
        self._agent: Agent | None = None
        self._own: list[str] = []

    def begin(
        self, agent: str, hyperparameters: Mapping[str, Scalar], tensors: State
    ) -> tuple[None, State]:
        """Make an agent by its plugin name, for a round."""
        self._agent = make_agent(agent, self._env.spec, hyperparameters, 0, self._device)
        rules = fusion_rules(self._agent, self._agent.state())
        self._own = [name for name, rule in rules.items() if rule != "mean"]
        return None, {}

    def reset(self, tensors: State) -> tuple[None, State]:
        """Begin every environment anew, on ``seeds`` int64 [N]."""
        self._worker.reset(tensors["seeds"])
        return None, {}

    def restore(self, tensors: State) -> tuple[bool, State]:
        """Go on from a worker's state; whether all is where it was."""
        return self._worker.restore(tensors), {}

    def state(self, tensors: State) -> tuple[bool, State]:
        """The worker's state, and whether it has one."""
        state = self._worker.state()
        return state is not None, state or {}

    def walk(self, steps: int, tensors: State) -> tuple[None, State]:
        """Go on with an agent's ``state()``; see ``Worker.walk``."""
        assert self._agent is not None
        self._agent.load(tensors)
        self._worker.walk(self._agent, steps)
        return None, {}

    def collect(
        self, steps: int, cut: bool, seed: int | None, progress: float | None, tensors: State
    ) -> tuple[None, State]:
        """Collect with an agent's state; see ``Worker.collect``.

        Args:
            steps: vector steps.
            cut: the round ends there.
            seed: reseed the agent first, unless None.
            progress: how far the run has come, unless None; see ``Scheduled``.
            tensors: the agent's ``state()``.

        Returns:
            ``counted``, ``mean_return`` and ``mean_length``, 0-d: environment steps, and the
            worker's means over its last episodes; ``rows/...``, a segment; ``behaviour/...``, if
            the agent tells any; ``agent/...``, what of its state is not a learner's to say.
        """
        agent = self._agent
        assert agent is not None
        agent.load(tensors)
        if seed is not None:
            agent.reseed(seed)
        if progress is not None and isinstance(agent, Scheduled):
            agent.proceed(progress)
        buffer = RolloutBuffer()
        counted = self._worker.collect(agent, buffer, steps, cut=cut)
        rows = buffer.rollout()
        behaviour = agent.behaviour(rows) if isinstance(agent, OnPolicy) else {}
        state = agent.state()
        return None, {
            "counted": torch.tensor(counted),
            "mean_return": torch.tensor(self._worker.mean_return, dtype=torch.float64),
            "mean_length": torch.tensor(self._worker.mean_length, dtype=torch.float64),
            **prefixed("rows", rows),
            **prefixed("behaviour", behaviour),
            **prefixed("agent", {name: state[name] for name in self._own}),
        }

    def close(self) -> None:
        """Close the environments."""
        self._env.close()


def _portable(error: Exception) -> Exception:
    """The exception, or one that says the same, if it can't leave this process."""
    try:
        # One with other arguments than its message is pickled, but not read back.
        loads(dumps(error))
    except Exception:
        return RuntimeError(in_words(error))
    return error
