"""``VecEnv``: the protocol of every batched environment."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from hpcpod.envs import seeding
from hpcpod.errors import UserError
from hpcpod.records.records import seed_of

State = dict[str, Tensor]
"""Everything that must be saved has this one type: named tensors.

Whole numbers are 0-d int64, other numbers 0-d floats, states of random generators uint8.
"""

Bound = float | tuple[float, ...]


@dataclass(frozen=True)
class Box:
    """Arrays of real numbers (``float32``), or images (``uint8``).

    ``low`` and ``high`` are one number, or one per element in C order. As an *action* space it
    is always [-1, 1]: adapters rescale to the bounds of the environment.
    """

    shape: tuple[int, ...]
    low: Bound
    high: Bound
    dtype: str = "float32"


@dataclass(frozen=True)
class Discrete:
    """One of ``n`` choices, 0 to n - 1, int64."""

    n: int
    start: int = 0
    """Number of choice 0 in the environment itself: adapters add it to actions and subtract it
    from observations."""


@dataclass(frozen=True)
class MultiDiscrete:
    """Several choices at once; the i-th is one of ``nvec[i]``, int64."""

    nvec: tuple[int, ...]
    start: int | tuple[int, ...] = 0
    """As for ``Discrete``: of all choices, or of each."""


Space = Box | Discrete | MultiDiscrete


@dataclass(frozen=True)
class EnvSpec:
    """The facts of an environment that an agent may know before the first step."""

    id: str
    """A gymnasium id, or the path of the environment's class."""
    observation: Space
    """Space of one environment's observation."""
    action: Space
    """Space of one environment's action, as the policy sees it."""
    num_envs: int
    """Environments in the batch: N."""
    device: str
    """Device of the batch's tensors, such as ``cpu`` or ``cuda:0``."""
    max_episode_steps: int | None
    """Steps after which an episode is truncated, if the environment says so."""
    engine: str
    """Simulators with versions: ``gymnasium 1.2.0, mujoco 3.3.0``."""
    action_bounds: tuple[Bound, Bound] | None = None
    """Low and high that [-1, 1] stands for in the environment itself; None if not a ``Box``."""
    seeded: bool = True
    """True if the seeds of ``reset`` decide the episodes. Simulators that draw from one generator
    for the whole batch, or are seeded once, can't say so: their panels differ from time to time."""
    final_obs: bool = True
    """True if ``next_obs`` is the true successor where an episode ends. A simulator that resets
    before it can be asked loses it: there ``next_obs`` is what was acted on last, which stands for
    its successor (as RSL-RL bootstraps truncated episodes)."""
    action_dtype: str = "float32"
    """The dtype of a ``Box``'s actions in the environment itself; a policy's own are float32."""
    structure: Mapping[str, Any] | None = field(default=None, hash=False)
    """Parts of the environment's own observations, by ``spec_json.structure_of``; None: none."""


class Step(NamedTuple):
    """The result of one step of N environments. The caller owns the tensors."""

    obs: Tensor
    """Observation to act on next, [N, *observation]: a reset observation after an episode."""
    reward: Tensor
    """float32 [N]."""
    terminated: Tensor
    """bool [N]: the task ended, the future is worth nothing."""
    truncated: Tensor
    """bool [N]: the episode was cut, the future is worth V(next_obs); never with terminated."""
    next_obs: Tensor
    """The true successor, [N, *observation]: never a reset observation."""
    valid: Tensor
    """bool [N]: False where the engine only reset; such a row is neither stored nor counted."""


class VecEnv(Protocol):
    """N environments that step as one batch of tensors on one device; they reset themselves."""

    @property
    def spec(self) -> EnvSpec:
        """The spaces and the size of the batch."""
        ...

    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; returns the observations, [N, *observation].

        Args:
            seeds: int64 [N]. Environment i's first episode runs on exactly ``seeds[i]``, its
                k-th later one on ``episode_seed(seeds[i], k)``, whatever N is. None: seeds
                from the operating system.
        """
        ...

    def step(self, action: Tensor) -> Step:
        """Step every environment: int64 [N] or [N, k], or float32 [N, *action], clipped.

        Raises:
            Diverged: an action, an observation or a reward is not finite.
        """
        ...

    def state(self) -> State | None:
        """Everything needed to go on bit by bit from here; None if that can't be saved."""
        ...

    def restore(self, state: State) -> Tensor | None:
        """Go on from a ``state()`` of an environment made with the same arguments.

        Returns:
            None: it is where it was. Otherwise what the policy acts on next, [N, *observation],
            from an environment that played its episodes again: one whose seed and actions do not
            decide them may have come out elsewhere, even in an episode of its own.
        """
        ...

    def close(self) -> None:
        """Free what the environments hold."""
        ...


def random_seeds(*parts: int | str, count: int) -> Tensor:
    """``count`` seeds, int64 in [0, 2**31), hashed from the parts; the first ones don't depend
    on ``count``."""
    seeds = [seed_of(*parts, i) for i in range(count)]
    return torch.tensor(seeds, dtype=torch.int64)


def given_seeds(seeds: Tensor | None, num_envs: int) -> Tensor:
    """The seeds that a ``reset`` was given, one for each environment, or fresh ones: int64 [N].

    Raises:
        ValueError: they are not N.
    """
    if seeds is None:
        words = bytearray(secrets.token_bytes(8 * num_envs))
        return torch.frombuffer(words, dtype=torch.int64) & (2**31 - 1)
    if seeds.shape != (num_envs,):
        raise ValueError(f"expected {num_envs} seeds, got shape {tuple(seeds.shape)}")
    return seeds


def check_action_shape(action: Tensor, spec: EnvSpec) -> None:
    """See that there is one action for each environment.

    Raises:
        ValueError: the shape is another than [N, *action].
    """
    wanted = (spec.num_envs, *tensor_form(spec.action)[0])
    if action.shape != wanted:
        raise ValueError(f"expected actions of shape {wanted}, got {tuple(action.shape)}")


def check_state_size(state: State, spec: EnvSpec) -> None:
    """See that a ``state()`` with ``seeds``, one for each environment, is of as many.

    Raises:
        ValueError: it is of more, or of fewer.
    """
    if state["seeds"].shape != (spec.num_envs,):
        raise ValueError(f"the state is of {len(state['seeds'])} environments, not {spec.num_envs}")


def episode_seed(seed: int, k: int) -> int:
    """The seed of an environment's k-th episode after a reset on ``seed``; k = 0 is ``seed``.

    A backend that resets whole batches on a device has the same from ``episode_seeds``.
    """
    return seed if k == 0 else seeding.successor(seed, k)


def episode_seeds(seeds: Tensor, k: Tensor) -> Tensor:
    """``episode_seed`` of each row, int64 [N]."""
    return torch.where(k == 0, seeds, seeding.successor(seeds, k))


def check_batch(num_envs: int, device: str) -> None:
    """See that there is an environment at all, and that its tensors can live on the device.

    Raises:
        UserError: there is none, or they can't.
    """
    if num_envs < 1:
        raise UserError(f"num_envs must be at least 1, got {num_envs}")
    check_device(device)


def check_device(device: str) -> None:
    """See that tensors can live on a device.

    Raises:
        UserError: they can't.
    """
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # a torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise UserError(f"device '{device}' can't be used here: {reason}") from error


def random_actions(spec: EnvSpec, count: int, generator: torch.Generator) -> list[Tensor]:
    """Uniform ones for ``count`` steps of the batch, on its device."""
    space = spec.action
    draws = torch.rand((count, spec.num_envs, *tensor_form(space)[0]), generator=generator)
    if isinstance(space, Box):
        made = draws * 2 - 1
    else:
        n = space.n if isinstance(space, Discrete) else torch.tensor(space.nvec)
        made = (draws * n).long()
    return list(made.to(spec.device))


def tensor_form(space: Space) -> tuple[tuple[int, ...], torch.dtype]:
    """Shape and dtype of one element of a space as a tensor."""
    if isinstance(space, Box):
        return space.shape, torch.uint8 if space.dtype == "uint8" else torch.float32
    return (() if isinstance(space, Discrete) else (len(space.nvec),)), torch.int64
