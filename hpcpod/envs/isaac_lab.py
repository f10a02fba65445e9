"""Environments of Isaac Lab, in its own process and on its own device.

It was not at hand: this keeps the contract over a fake that does what its source does, in that
order (``tests/envs/fake_isaac.py``), and nothing else was run. Isaac Gym needs a Python of its own:
see ``processes/foreign.py``.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hpcpod import plugins
from hpcpod.envs import gymnasium_make
from hpcpod.envs.vec_env import Box, EnvSpec, State, Step, check_action_shape, check_batch
from hpcpod.errors import Diverged, UserError

Factory = Callable[..., Any]


class IsaacLabVecEnv:
    """An environment of Isaac Lab 2.3 (``DirectRLEnv`` and ``ManagerBasedRLEnv``).

    Its ``step`` resets what has ended before it computes observations, so the true last
    observation is lost (``EnvSpec.final_obs``): for a truncated episode the observation that was
    acted on stands for its successor.
    """

    def __init__(
        self,
        env: str | Factory,
        num_envs: int = 1,
        device: str = "cuda",
        wrappers: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> None:
        """Make the environment; the simulator's app must run in this process already.

        Args:
            env: the path or the function that is called as ``env(num_envs=N, device=device,
                **kwargs)`` and returns an environment of Isaac Lab's.
            num_envs: N.
            device: where it simulates, and its tensors live.
            wrappers: none.
            kwargs: of the function.

        Raises:
            UserError: it can't be made.
        """
        check_batch(num_envs, device)
        _no_wrappers(wrappers)
        made = _from_factory(env, num_envs, device, dict(kwargs or {}))
        self._env = getattr(made, "unwrapped", made)
        self._policy = "policy"
        observed = self._env.single_observation_space
        observed = observed[self._policy] if hasattr(observed, "spaces") else observed
        name = gymnasium_make.name_of(env)
        self.spec = EnvSpec(
            id=name,
            observation=gymnasium_make.observation_space(name, observed),
            action=Box(tuple(self._env.single_action_space.shape), -1.0, 1.0),
            num_envs=num_envs,
            device=device,
            max_episode_steps=int(self._env.max_episode_length),
            engine=_engine("isaaclab", "isaacsim"),
            action_bounds=(-1.0, 1.0),
            seeded=False,
            final_obs=False,
        )
        self._obs: Tensor | None = None

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; the first seed becomes the simulator's."""
        given, _ = self._env.reset(seed=None if seeds is None else int(seeds[0]))
        self._obs = _copy(given[self._policy])
        return self._obs.clone()

    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        if self._obs is None:
            raise RuntimeError("call reset() before step()")
        given, reward, ended, late, _ = self._env.step(_clipped(action, self.spec))
        obs, terminated = _copy(given[self._policy]), ended.bool().clone()
        truncated = late.bool() & ~terminated
        over = (terminated | truncated).view(-1, *[1] * (obs.dim() - 1))
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

    def state(self) -> State | None:
        """None: the simulator's state can't be saved whole."""
        return None

    def restore(self, state: State) -> None:
        """There is no ``state`` to go on from."""
        raise ValueError(f"{self.spec.id} is simulated by Isaac Lab, and has no state")

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def _from_factory(env: str | Factory, num_envs: int, device: str, words: dict[str, Any]) -> Any:
    with gymnasium_make.refusals(gymnasium_make.name_of(env)):
        factory: Any = plugins.load(env) if isinstance(env, str) else env
        return factory(num_envs=num_envs, device=device, **words)


def _no_wrappers(wrappers: Sequence[object]) -> None:
    if wrappers:
        raise UserError("env.wrappers are of single environments, and this simulator has batches")


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


def _clipped(action: Tensor, spec: EnvSpec) -> Tensor:
    check_action_shape(action, spec)
    # On a GPU the host would have to wait for the answer.
    if spec.device == "cpu" and not bool(torch.isfinite(action).all()):
        raise Diverged(f"{spec.id}: an action is not finite")
    return action.clamp(-1.0, 1.0)
