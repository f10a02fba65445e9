"""Environments of Isaac Lab, in its own process and on its own device.

It was not at hand: this keeps the contract over a fake that does what its source does, in that
order (``tests/envs/fake_isaac.py``), and nothing else was run. Isaac Gym needs a Python of its own:
see ``processes/foreign.py``.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from hpcpod import plugins
from hpcpod.envs import gymnasium_make
from hpcpod.envs.backend import Backend, Wanted
from hpcpod.envs.vec_env import EnvSpec, Step
from hpcpod.errors import Diverged


class IsaacLabVecEnv(Backend):
    """An environment of Isaac Lab 2.3 (``DirectRLEnv`` and ``ManagerBasedRLEnv``).

    It is given as the path or the function that is called as ``env(num_envs=N, device=device,
    **kwargs)`` and returns it; the simulator's app must run in this process already.

    Its ``step`` resets what has ended before it computes observations, so the true last
    observation is lost (``EnvSpec.final_obs``): for a truncated episode the observation that was
    acted on stands for its successor.
    """

    no_wrappers = "env.wrappers are of single environments, and this simulator has batches"
    no_state = "is simulated by Isaac Lab, and has no state"

    def _make(self, wanted: Wanted) -> EnvSpec:
        name = gymnasium_make.name_of(wanted.env)
        with gymnasium_make.refusals(name):
            is_path = isinstance(wanted.env, str)
            factory = plugins.load(wanted.env) if is_path else wanted.env
            made = factory(num_envs=wanted.num_envs, device=wanted.device, **wanted.kwargs)
        self._env: Any = getattr(made, "unwrapped", made)
        self._obs: Tensor | None = None
        # 2.3.2 gives a dictionary: the policy's observation, and maybe a critic's.
        observed = self._env.single_observation_space
        observed = observed["policy"] if hasattr(observed, "spaces") else observed
        acted = gym.spaces.Box(-1.0, 1.0, tuple(self._env.single_action_space.shape))
        return gymnasium_make.spec_of(
            name, observed, acted, wanted,
            max_episode_steps=int(self._env.max_episode_length),
            engine=_engine("isaaclab", "isaacsim"),
            seeded=False,  # one generator for the whole batch
            final_obs=False,  # 2.3.2 resets before it computes observations
            structure=None,
        )  # fmt: skip

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; the first seed becomes the simulator's."""
        given, _ = self._env.reset(seed=None if seeds is None else int(seeds[0]))
        self._obs = _copy(given["policy"])
        return self._obs.clone()

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        self._check_step(self._obs is not None, action)
        assert self._obs is not None
        # On a GPU the host would have to wait for the answer.
        if self.spec.device == "cpu" and not bool(torch.isfinite(action).all()):
            raise Diverged(f"{self.spec.id}: an action is not finite")
        given, reward, ended, late, _ = self._env.step(action.clamp(-1.0, 1.0))  # live buffers
        obs, terminated = _copy(given["policy"]), ended.bool().clone()
        truncated = late.bool() & ~terminated
        over = (terminated | truncated).view(-1, *[1] * (obs.dim() - 1))
        # RSL-RL, too, adds γ V of the observation acted on to a truncated step's reward.
        next_obs = torch.where(over, self._obs, obs)
        self._obs = obs
        return Step(
            obs=obs.clone(),
            reward=reward.to(torch.float32, copy=True),
            terminated=terminated,
            truncated=truncated,
            next_obs=next_obs,
            valid=torch.ones_like(terminated),
        )

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def _engine(*modules: str) -> str:
    versions = []
    for module in modules:
        try:
            versions.append(f"{module} {importlib.metadata.version(module)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(versions) or modules[0]


def _copy(live: Tensor) -> Tensor:
    """The caller's own: simulators give their buffers."""
    return live.to(torch.float32, copy=True)
