"""gymnasium's MuJoCo tasks as a ``VecEnv`` on a GPU, by MuJoCo Warp: thousands in one batch."""

from __future__ import annotations

import logging
from importlib.metadata import version
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from hpcpod.envs.arrays import check_finite
from hpcpod.envs.backend import Backend, Wanted
from hpcpod.envs.mujoco.initial_states import SeededDraws
from hpcpod.envs.mujoco.tasks import WARP_ROOM, WRAPPERS_REFUSED, Choice, choose
from hpcpod.envs.vec_env import (
    EnvSpec,
    State,
    Step,
    check_state_size,
    episode_seeds,
    given_seeds,
)
from hpcpod.errors import UnusableWrapper, UserError

if TYPE_CHECKING:
    from hpcpod.envs.mujoco.warp_simulations import WarpSimulations

_log = logging.getLogger(__name__)

_SAY_EVERY = 1000
"""Steps of the batch between two looks at the faults: each look waits for the device."""


class Faults(NamedTuple):
    """Faults of single environments, counted since the batch was made."""

    not_finite: int
    """Steps whose observation or reward was not finite: the episode was ended there."""
    overflowed: int
    """Steps that lost a contact or a constraint for want of room."""


class WarpVecEnv(Backend):
    """N environments of one of gymnasium's v5 tasks, simulated in float32 on the agent's device.

    The tasks and their arguments are those of ``MujocoVecEnv``, and how much room an environment
    has: ``nconmax`` contacts, on average over the batch, and ``njmax`` rows of constraints. The
    first time on a node the kernels are compiled, in minutes.

    A step from the same state is gymnasium's to the tolerances that
    ``tests/envs/mujoco/test_warp.py`` states, but two things differ. A capsule that meets the floor
    at more than 60 degrees has another direction of friction in MuJoCo Warp: an Ant on steep legs
    is another one within a few steps. And Humanoid, which MuJoCo solves by PGS, is solved by
    Newton. Episodes begin as gymnasium's do in distribution, by numbers of their own.

    Shapes are static and no step waits for a GPU. So a row that is not finite is no error there:
    it becomes terminated with reward 0 and an observation of zeros, begins anew and is counted
    (``faults``, and a line in the log every 1000 steps that had any). On the CPU it raises
    ``Diverged``. On the CPU equal seeds and actions, and a restored state, give equal bits; a GPU
    adds contacts in any order.

    Warp's CPU device is for tests: ``MujocoVecEnv`` is two to five times as fast there. On an H100
    it took 357,000 steps/s of 4,096 Ants (``benchmarks/gpu.py --tables warp``).
    """

    no_wrappers = WRAPPERS_REFUSED.replace("{backend}", "warp")

    def _make(self, wanted: Wanted) -> EnvSpec:
        num_envs, device = wanted.num_envs, wanted.device
        chosen = choose("warp", wanted, tuple(WARP_ROOM))
        self._simulations = _simulations(chosen, num_envs, device)
        model = on_device(chosen.model, device)
        self._task = chosen.kind(model=model, xp=torch, **chosen.options)
        self._low, self._high = torch.tensor(chosen.model.actuator_ctrlrange.T).float().to(device)
        self._same = (self._low == -1.0) & (self._high == 1.0)
        """Numbers of an action that go to the simulator as they are: see ``arrays.rescaled``."""
        self._looks = torch.device(device).type == "cpu"
        """True if a step may ask the device what it has computed."""
        self._seeds: Tensor | None = None
        self._episodes, self._elapsed = torch.zeros((2, num_envs), dtype=torch.int64, device=device)
        self._places = torch.zeros(num_envs, device=device)
        self._faults = torch.zeros(2, dtype=torch.int64, device=device)
        self._steps, self._said = 0, Faults(0, 0)
        observation = self._task.observation(self._simulations.fields)
        engine = _engine(chosen, self._simulations)
        return chosen.spec(tuple(observation.shape[1:]), wanted, engine)

    @property
    def faults(self) -> Faults:
        """The number of faults so far; waits for the device."""
        return Faults(*self._faults.tolist())

    @torch.no_grad()
    def reset(self, seeds: Tensor | None = None) -> Tensor:
        """Begin an episode everywhere; see ``VecEnv.reset``."""
        seeds = given_seeds(seeds, self.spec.num_envs)
        self._seeds = seeds.to(self.spec.device, torch.int64, copy=True)
        self._episodes.fill_(-1)
        return self._begin(self._episodes < 0)

    @torch.no_grad()
    def step(self, action: Tensor) -> Step:
        """Step every environment; see ``VecEnv.step``."""
        self._check_step(self._seeds is not None, action)
        if self._looks:
            check_finite(self.spec.id, "action", action.detach().numpy())
        task = self._task
        action = action.clamp(-1.0, 1.0)
        moved = self._low + (action + 1.0) / 2.0 * (self._high - self._low)
        ctrl = torch.where(self._same, action, moved)
        fields = self._simulations.step(ctrl)
        places = task.place(fields).clone()  # _begin computes rows that live anew, too
        reward, terminated = task.outcome(fields, ctrl, (places - self._places) / task.dt)
        next_obs = task.observation(fields)
        self._places, self._elapsed = places, self._elapsed + 1
        sound = self._sound(next_obs, reward)
        terminated = terminated | ~sound
        truncated = (self._elapsed >= self.spec.max_episode_steps) & ~terminated
        reward, next_obs = reward.where(sound, 0.0), next_obs.where(sound[:, None], 0.0)
        ended = terminated | truncated
        obs = self._begin(ended).where(ended[:, None], next_obs)
        return Step(obs, reward, terminated, truncated, next_obs, torch.ones_like(ended))

    def state(self) -> State | None:
        """Physics and counters of every environment; None before the first reset."""
        if self._seeds is None:
            return None
        return {
            "seeds": self._seeds.clone(),
            "episodes": self._episodes.clone(),
            "elapsed": self._elapsed.clone(),
            "places": self._places.clone(),
            **self._simulations.save(),
        }

    def restore(self, state: State) -> None:
        """Go on from a ``state()`` of an environment made with the same arguments."""
        check_state_size(state, self.spec)
        self._seeds, self._episodes, self._elapsed, self._places = (
            state[name].to(self.spec.device, copy=True)
            for name in ("seeds", "episodes", "elapsed", "places")
        )
        self._simulations.load(state)

    def _begin(self, rows: Tensor) -> Tensor:
        """Begin the next episode of some rows, bool [N]; observations, of which theirs count."""
        assert self._seeds is not None
        self._episodes = self._episodes + rows
        self._elapsed = self._elapsed.where(~rows, 0)
        draws = SeededDraws(episode_seeds(self._seeds, self._episodes))
        fields = self._simulations.begin(rows, *self._task.first_state(draws))
        self._places = self._task.place(fields).where(rows, self._places)
        first: Tensor = self._task.observation(fields)
        return first

    def _sound(self, obs: Tensor, reward: Tensor) -> Tensor:
        """Rows that are finite, bool [N]; counts the others, and those that lost contacts."""
        if self._looks:
            check_finite(self.spec.id, "observation", obs.numpy())
            check_finite(self.spec.id, "reward", reward.numpy())
        sound = obs.isfinite().all(1) & reward.isfinite()
        self._faults += torch.stack(((~sound).sum(), self._simulations.overflowed().sum()))
        self._steps += 1
        if self._steps % _SAY_EVERY == 0:
            self._say_faults()
        return sound

    def _say_faults(self) -> None:
        now, before = self.faults, self._said
        self._said = now
        words = (
            "%s: %d of the last %d steps were not finite; their episodes ended there",
            "%s: %d of the last %d steps lost contacts for want of room; raise env.kwargs.nconmax"
            " and env.kwargs.njmax",
        )
        for said, count, earlier in zip(words, now, before, strict=True):
            if count > earlier:
                steps = _SAY_EVERY * self.spec.num_envs
                _log.warning(said, self.spec.id, count - earlier, steps)


def check_wanted(wanted: Wanted) -> None:
    """See that a GPU could have this batch, without one: no kernel is compiled.

    Raises:
        UserError: there is no such task, it has no such argument, or MuJoCo Warp is not installed.
        UnusableWrapper: it has wrappers.
    """
    if wanted.wrappers:
        raise UnusableWrapper(WarpVecEnv.no_wrappers.format(env=wanted.env))
    _engine_for(choose("warp", wanted, tuple(WARP_ROOM)))


def _engine_for(chosen: Choice) -> type[WarpSimulations]:
    try:
        from hpcpod.envs.mujoco.warp_simulations import WarpSimulations
    except ImportError as error:
        raise UserError(
            f"{chosen.kind.id()} on the backend warp needs MuJoCo Warp, which can't be imported"
            f' ({error}); pip install "hpcpod[warp]", by Python 3.11 or newer'
        ) from error
    return WarpSimulations


def _simulations(chosen: Choice, num_envs: int, device: str) -> WarpSimulations:
    made_by, kind = _engine_for(chosen), chosen.kind
    frame_skip = chosen.options.get("frame_skip", kind.frame_skip)
    room = {ours: chosen.own.get(name) for name, ours in WARP_ROOM.items()}
    return made_by(chosen.model, num_envs, frame_skip, kind.reads, device, **room)


def on_device(model: Any, device: str) -> Any:
    """The parts of an MjModel that tasks read, its arrays as float32 tensors there."""
    arrays = {
        name: torch.tensor(getattr(model, name), dtype=torch.float32, device=device)
        for name in ("qpos0", "body_mass")
    }
    return SimpleNamespace(opt=model.opt, body=model.body, nq=model.nq, nv=model.nv, **arrays)


def _engine(chosen: Choice, simulations: WarpSimulations) -> str:
    """What simulates, in words; says it in the log, too, where it is another solver."""
    packages = ("mujoco", "mujoco-warp", "warp-lang", "gymnasium")
    words = ", ".join(f"{name} {version(name)}" for name in packages) + ", float32"
    if not simulations.solver_changed:
        return words
    _log.info("%s: MuJoCo Warp has no PGS solver, so Newton solves it", chosen.kind.id())
    return f"{words}, Newton for PGS"
