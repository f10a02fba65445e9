"""gymnasium's MuJoCo tasks as a ``VecEnv`` at the speed of the simulator and its threads."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
import torch
from gymnasium.utils import seeding
from torch import Tensor

from hpcpod.envs.arrays import Array, action_map, as_step, check_finite, tensor
from hpcpod.envs.backend import Backend, Wanted
from hpcpod.envs.mujoco.initial_states import GeneratorDraws
from hpcpod.envs.mujoco.tasks import WRAPPERS_REFUSED, choose
from hpcpod.envs.threads import env_threads
from hpcpod.envs.vec_env import (
    EnvSpec,
    State,
    Step,
    check_state_size,
    episode_seed,
    given_seeds,
)


class MujocoVecEnv(Backend):
    """N environments of one of gymnasium's v5 tasks, each episode the one that gymnasium plays.

    The environment is one of ``TASKS``; its arguments are the weights and ranges of gymnasium's
    environment, by their names there, and ``max_episode_steps``. ``env_threads()`` threads step it.

    Observations are those of gymnasium's environment on the same seed and actions, bit by bit
    once they are float32, and rewards are equal to 1e-6, as long as both use the same version
    of MuJoCo; so are the actions' rescaling and the time limit those of ``PreprocessVecEnv``.
    """

    no_wrappers = WRAPPERS_REFUSED.replace("{backend}", "mujoco")

    def _make(self, wanted: Wanted) -> EnvSpec:
        num_envs, chosen = wanted.num_envs, choose("mujoco", wanted)
        self._limit = chosen.time_limit
        task = self._task = chosen.kind(model=chosen.model, **chosen.options)
        # MuJoCo is imported here, once ``choose`` has found it installed.
        from hpcpod.envs.mujoco.simulations import Simulations

        self._simulations = Simulations(
            task.model, num_envs, task.frame_skip, task.reads, task.contact_forces, env_threads()
        )
        observations = task.observation(self._simulations.fields([0]))
        self._to_env = action_map(chosen.actions)
        self._seeds: list[int] = []
        self._episodes = np.zeros(num_envs, np.int64)
        self._elapsed = np.zeros(num_envs, np.int64)
        self._places = np.zeros(num_envs)
        # Of MuJoCo 3.6.0 and 4.0.0, Ant is 3.5e-7 apart at step 1, and of order 1 at step 50.
        engine = f"mujoco {version('mujoco')}, gymnasium {version('gymnasium')}"
        return chosen.spec(observations.shape[1:], wanted, engine)

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        n = self.spec.num_envs
        self._seeds = given_seeds(seeds, n).tolist()
        self._episodes[:] = -1
        return tensor(self._begin(range(n)), self.spec.device)

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        self._check_step(self._seeds, action)
        task = self._task
        scaled = self._to_env(action.detach().cpu().numpy())
        fields = self._simulations.step(scaled)
        places = task.place(fields)
        rewards, terminated = task.outcome(fields, scaled, (places - self._places) / task.dt)
        self._places[:] = places
        self._elapsed += 1
        truncated = (self._elapsed >= self._limit) & ~terminated
        next_obs = task.observation(fields).astype(np.float32)
        # gymnasium squares float32 actions: its rewards differed by 2.3e-7 at most.
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
        self._seeds = state["seeds"].tolist()
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
