"""The check of a batched environment's promises."""

from __future__ import annotations

import torch
from torch import Tensor

from hpcpod.envs.vec_env import (
    Step,
    VecEnv,
    random_actions,
    random_seeds,
    tensor_form,
)
from hpcpod.errors import UserError


def check_env(env: VecEnv, steps: int = 1000, restored: float = 0.0) -> None:
    """Step an environment at random and check every promise of ``VecEnv`` that can be seen.

    For authors of environments and backends. It leaves the environment in the middle of an
    episode and does not close it. Promises about the end of episodes are checked only if an
    episode ends within ``steps``.

    Args:
        env: the environment.
        steps: that are taken.
        restored: how far a number of the first step after ``restore()`` may be from what it was; 0:
            twenty steps give equal bits. For simulators that add in any order, as on a GPU.

    Raises:
        UserError: a promise is broken; the sentence names it.
    """
    _ContractCheck(env, restored).run(steps)


class _ContractCheck:
    def __init__(self, env: VecEnv, restored: float) -> None:
        self._env, self._restored = env, restored
        self._spec = env.spec
        self._generator = torch.Generator().manual_seed(0)

    def run(self, steps: int) -> None:
        seeds = random_seeds("check_env", count=self._spec.num_envs)
        self._check_seeds(seeds)
        obs = self._env.reset(seeds)
        ends = reset_as_successor = moved = 0
        before = after = None
        ended = suspicious = torch.zeros(self._spec.num_envs, dtype=torch.bool, device=obs.device)
        for i in range(steps):
            if i == steps // 2:
                self._check_state()
            (action,) = random_actions(self._spec, 1, self._generator)
            kept, kept_obs = action.clone(), obs.clone()
            step = self._env.step(action)
            self._check_step(step)
            self._require(torch.equal(kept, action), "step() changes the action it was given")
            self._require(
                torch.equal(kept_obs, obs) and (before is None or _equal(before, after)),
                "step() overwrites tensors that it gave before; the caller owns them, so give"
                " a copy of live buffers",
            )
            before, after = step, Step(*(t.clone() for t in step))
            # Where the engine only resets now, the last step's obs was not yet the next episode's.
            ends += int((ended & step.valid).sum())
            reset_as_successor += int((suspicious & step.valid).sum())
            ended = (step.terminated | step.truncated) & step.valid
            same = (step.obs == step.next_obs).unsqueeze(-1).flatten(1).all(1)
            self._require(
                bool((same | ended | ~step.valid).all()),
                "next_obs differs from obs although no episode ended",
            )
            suspicious = ended & same
            moved += int((kept_obs != step.next_obs).sum())
            obs = step.obs
        self._require(
            not (ends and moved and reset_as_successor == ends),
            "next_obs is the observation after the reset when an episode ends; give the true"
            " final observation, and mark a step that only resets as not valid",
        )

    def _require(self, kept: bool, sentence: str) -> None:
        if not kept:
            raise UserError(f"{self._spec.id} breaks the environment contract: {sentence}")

    def _check_seeds(self, seeds: Tensor) -> None:
        first = self._env.reset(seeds).clone()
        self._check_obs("reset()", first)
        if not self._spec.seeded:
            return
        self._require(
            torch.equal(first, self._env.reset(seeds)),
            "reset() on the same seeds gives other observations",
        )
        self._require(
            torch.equal(first.flip(0), self._env.reset(seeds.flip(0))),
            "an episode depends on the place in the batch, not on its seed alone",
        )

    def _check_obs(self, name: str, obs: Tensor) -> None:
        space = self._spec.observation
        shape, dtype = tensor_form(space)
        expected = (self._spec.num_envs, *shape)
        self._require(
            tuple(obs.shape) == expected and obs.dtype == dtype,
            f"{name} is {_words(obs)}, but the spec says {dtype} {list(expected)}",
        )
        self._check_device(name, obs)
        self._require(bool(torch.isfinite(obs).all()), f"{name} is not finite")

    def _check_step(self, step: Step) -> None:
        self._check_obs("step.obs", step.obs)
        self._check_obs("step.next_obs", step.next_obs)
        forms = {"reward": torch.float32}
        forms |= dict.fromkeys(("terminated", "truncated", "valid"), torch.bool)
        for name, dtype in forms.items():
            tensor: Tensor = getattr(step, name)
            self._require(
                tuple(tensor.shape) == (self._spec.num_envs,) and tensor.dtype == dtype,
                f"step.{name} is {_words(tensor)}, not {dtype} [{self._spec.num_envs}]",
            )
            self._check_device(f"step.{name}", tensor)
        self._require(bool(torch.isfinite(step.reward).all()), "step.reward is not finite")
        self._require(
            not bool((step.terminated & step.truncated).any()),
            "a step is both terminated and truncated; termination wins",
        )
        something = step.terminated | step.truncated | (step.reward != 0)
        self._require(
            not bool((something & ~step.valid).any()),
            "a step that is not valid has a reward or ends an episode",
        )
        self._require(
            step.obs.data_ptr() != step.next_obs.data_ptr(), "obs and next_obs share their memory"
        )

    def _check_device(self, name: str, tensor: Tensor) -> None:
        found, declared = tensor.device, torch.device(self._spec.device)
        self._require(
            found.type == declared.type and declared.index in (None, found.index),
            f"{name} is on {found}, but the spec says {declared}",
        )

    def _check_state(self) -> None:
        state = self._env.state()
        if state is None:
            return
        kept = {name: tensor.clone() for name, tensor in state.items()}
        actions = random_actions(self._spec, 20, self._generator)
        once = [Step(*(t.clone() for t in self._env.step(action))) for action in actions]
        self._require(
            all(torch.equal(kept[name], tensor) for name, tensor in state.items()),
            "a state() changes when the environment steps on; give copies",
        )
        self._env.restore(kept)
        again = [self._env.step(action) for action in actions]
        self._require(
            _close(once[0], again[0], self._restored)
            if self._restored
            else all(_equal(a, b) for a, b in zip(once, again, strict=True)),
            "after restore() the episode goes on differently",
        )
        self._env.restore(kept)


def _equal(a: Step | None, b: Step | None) -> bool:
    return a is b or (a is not None and b is not None and all(map(torch.equal, a, b)))


def _close(a: Step, b: Step, by: float) -> bool:
    return all(
        torch.allclose(x.double(), y.double(), rtol=0.0, atol=by) for x, y in zip(a, b, strict=True)
    )


def _words(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
