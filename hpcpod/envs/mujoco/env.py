"""gymnasium's MuJoCo tasks as a ``VecEnv`` at the speed of the simulator and its threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium.utils import seeding
from torch import Tensor

from hpcpod.envs.arrays import Array, action_map, as_step, check_finite, tensor
from hpcpod.envs.mujoco.initial_states import GeneratorDraws
from hpcpod.envs.mujoco.task import Task
from hpcpod.envs.mujoco.tasks import choose
from hpcpod.envs.threads import env_threads
from hpcpod.envs.vec_env import (
    State,
    Step,
    check_action_shape,
    check_batch,
    check_state_size,
    episode_seed,
    given_seeds,
)

if TYPE_CHECKING:
    from hpcpod.envs.mujoco.simulations import Simulations


class MujocoVecEnv:
    """N environments of one of gymnasium's v5 tasks, each episode the one that gymnasium plays.

    Observations are those of gymnasium's environment on the same seed and actions, bit by bit
    once they are float32, and rewards are equal to 1e-6, as long as both use the same version
    of MuJoCo; so are the actions' rescaling and the time limit those of ``PreprocessVecEnv``.
    """

    def __init__(
        self,
        env: str | Callable[..., object],
        num_envs: int = 1,
        device: str = "cpu",
        wrappers: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        threads: int | None = None,
    ) -> None:
        """Make the simulations and their threads.

        Args:
            env: one of ``TASKS``.
            num_envs: N.
            device: where the tensors that it gives live; the simulation is on the CPU.
            wrappers: none: there is no gymnasium environment to put them around.
            kwargs: the weights and ranges of gymnasium's environment, by their names there, and
                ``max_episode_steps``.
            threads: that simulate, at most N of them. None: ``env_threads()`` when this is made,
                which a pod sets to ``resources.cpus_per_pod``.

        Raises:
            UserError: there is no such task, it has no such argument, MuJoCo is not installed,
                or nothing can live on the device.
            UnusableWrapper: there are wrappers.
        """
        check_batch(num_envs, device)
        chosen = choose("mujoco", env, wrappers, kwargs or {})
        self._limit = chosen.time_limit
        self._task = chosen.kind(model=chosen.model, **chosen.options)
        self._simulations = _simulations(self._task, num_envs, threads or env_threads())
        observations = self._task.observation(self._simulations.fields([0]))
        engine = f"mujoco {version('mujoco')}, gymnasium {version('gymnasium')}"
        self.spec = chosen.spec(observations.shape[1:], num_envs, device, engine)
        self._to_env = action_map(chosen.actions)
        self._seeds: list[int] = []
        self._episodes = np.zeros(num_envs, np.int64)
        self._elapsed = np.zeros(num_envs, np.int64)
        self._places = np.zeros(num_envs)

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        n = self.spec.num_envs
        self._seeds = [int(seed) for seed in given_seeds(seeds, n).tolist()]
        self._episodes[:] = -1
        return tensor(self._begin(range(n)), self.spec.device)

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        if not self._seeds:
            raise RuntimeError("call reset() before step()")
        check_action_shape(action, self.spec)
        task = self._task
        scaled = self._to_env(action.detach().cpu().numpy())
        fields = self._simulations.step(scaled)
        places = task.place(fields)
        rewards, terminated = task.outcome(fields, scaled, (places - self._places) / task.dt)
        self._places[:] = places
        self._elapsed += 1
        truncated = (self._elapsed >= self._limit) & ~terminated
        next_obs = task.observation(fields).astype(np.float32)
        reward = rewards.astype(np.float32)
        check_finite(self.spec.id, "observation", next_obs)
        check_finite(self.spec.id, "reward", reward)
        obs = next_obs.copy()
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            obs[ended] = self._begin(ended.tolist())
        return as_step(self.spec.device, obs, reward, terminated, truncated, next_obs)

    def state(self) -> State | None:
        """Physics and counters of every environment; None before the first reset."""
        if not self._seeds:
            return None
        return {
            "seeds": torch.tensor(self._seeds),
            "episodes": torch.tensor(self._episodes),
            "elapsed": torch.tensor(self._elapsed),
            "places": torch.tensor(self._places),
            "physics": torch.from_numpy(self._simulations.save()),
        }

    def restore(self, state: State) -> None:
        """Go on from a ``state()`` of an environment made with the same arguments."""
        check_state_size(state, self.spec)
        self._seeds = [int(seed) for seed in state["seeds"].tolist()]
        self._episodes[:] = state["episodes"].cpu().numpy()
        self._elapsed[:] = state["elapsed"].cpu().numpy()
        self._places[:] = state["places"].cpu().numpy()
        self._simulations.load(state["physics"].cpu().numpy())

    def close(self) -> None:
        """End the threads."""
        self._simulations.close()

    def _begin(self, rows: Sequence[int]) -> Array:
        """Begin the next episode of some environments; their observations."""
        for i in rows:
            self._episodes[i] += 1
            rng, _ = seeding.np_random(episode_seed(self._seeds[i], int(self._episodes[i])))
            self._simulations.start(i, *self._task.first_state(GeneratorDraws(rng)))
        fields = self._simulations.fields(rows)
        self._elapsed[rows] = 0
        self._places[rows] = self._task.place(fields)
        first: Array = self._task.observation(fields).astype(np.float32)
        check_finite(self.spec.id, "observation", first)
        return first


def _simulations(task: Task, count: int, threads: int) -> Simulations:
    from hpcpod.envs.mujoco.simulations import Simulations

    return Simulations(task.model, count, task.frame_skip, task.reads, task.contact_forces, threads)
