"""A trained agent as a function: from numpy observations to actions for the environment."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hpcpod import plugins
from hpcpod._version import __version__
from hpcpod.agents.base import Agent
from hpcpod.config.arguments import door
from hpcpod.config.schema import EnvConfig
from hpcpod.config.space import Scalar
from hpcpod.envs.arrays import box_map
from hpcpod.envs.spec_json import spec_from_plain, spec_to_plain
from hpcpod.envs.vec_env import Box, EnvSpec, State
from hpcpod.errors import Corrupt, UserError
from hpcpod.pod.policy_input import Reader
from hpcpod.records.records import encode
from hpcpod.storage.blobs import read_blob_file, write_blob_file
from hpcpod.storage.disk import check_writable
from hpcpod.storage.ownership import user_name

FORMAT = 2

_UNFIT = (TypeError, ValueError, LookupError, AttributeError, RuntimeError, AssertionError)
"""Errors that a description by another user may raise."""


class Policy:
    """A trained policy, as ``load_policy`` gives it: call it with one observation or with a batch
    of them.

    It needs no environment and no run folder: the checkpoint says all that is needed.
    """

    def __init__(self, agent: Agent, spec: EnvSpec, about: Mapping[str, Any]) -> None:
        self._agent = agent
        self.spec = spec
        """The environment that it was trained in."""
        self.about = {k: v for k, v in about.items() if k not in ("format", "spec")}
        """Its origin: agent, hyperparameters, pod, round, steps of experience; of a run's,
        its ``score``, too."""
        self._read = Reader(spec)

    @property
    def agent(self) -> Agent:
        """The agent that acts, on observations as a ``VecEnv`` gives them."""
        return self._agent

    def __call__(self, obs: Any) -> npt.NDArray[Any]:
        """The deterministic action.

        Args:
            obs: one observation as the environment gives it: an array, a number, a dictionary or a
                tuple; or a batch, in which each array has one axis more, in front, as gymnasium's
                vector environments give it; or a list of observations.

        Returns:
            One action or a batch of them, as the environment's ``step`` takes them: int64, or
            floats of the environment's own dtype inside its bounds.

        Raises:
            UserError: it is no observation of the environment's (a part is missing, has another
                shape or type, or a number that can't be), or the batch is empty.
        """
        rows, single = self._read(obs)
        batch = torch.from_numpy(rows).to(self.spec.device)
        action = self._agent.act(batch, explore=False).cpu().numpy()
        translated = self._translated(action)
        result: npt.NDArray[Any] = translated[0] if single else translated
        return result

    @door(to=str, overwrite=bool)
    def save(self, to: str | Path, *, overwrite: bool = False) -> None:
        """Write it to a file that ``load_policy`` reads.

        Args:
            to: the file.
            overwrite: write it even where there is one.

        Raises:
            UserError: the file can't be written, or is there.
        """
        check_writable(Path(to), overwrite=overwrite)
        arrays = {f"agent/{k}": v.detach().cpu().numpy() for k, v in self._agent.state().items()}
        meta = {"format": FORMAT, "spec": spec_to_plain(self.spec), **self.about}
        write_blob_file(Path(to), arrays, meta)

    def _translated(self, action: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The policy's actions as the environment itself takes them."""
        if not isinstance(self.spec.action, Box):  # choices: the agent's begin at 0
            shifted: npt.NDArray[Any] = action + np.asarray(self.spec.action.start)
            return shifted
        if self.spec.action_bounds is None:
            return action
        # The task's own dtype: float64 bounds were rounded to float32 here, and not in training.
        shape, dtype = action.shape[1:], np.dtype(self.spec.action_dtype)
        low, high = (
            np.broadcast_to(np.asarray(bound, dtype), (int(np.prod(shape)),)).reshape(shape)
            for bound in self.spec.action_bounds
        )
        # Exact for bounds of -1 and 1: a last bit moves HalfCheetah by 15 within 200 steps.
        return box_map(low, high)(action)


def load_policy_file(
    path: Path,
    *,
    agents: Collection[str] | None = None,
    trust: bool = False,
    about: Mapping[str, Any] | None = None,
) -> Policy:
    """The policy in a checkpoint's core blob.

    Args:
        path: of the file.
        agents: those that it may be of; None: any.
        trust: import the class that it names, though another user has written it.
        about: what else is known of it.

    Raises:
        UserError: there is no such file, or it is not a policy of this version, or it is another
            user's and names code of theirs.
        Corrupt: it is one, but its agent can't be made of it.
    """
    if not path.is_file():
        raise UserError(f"there is no checkpoint at {path}")
    try:
        arrays, meta = read_blob_file(path)
    except Corrupt as error:
        raise UserError(f"{path} is damaged, or is no policy: give a run or its .h5") from error
    if meta.get("format") != FORMAT:
        raise UserError(f"{path} is no policy that hpcpod {__version__} can read")
    name = meta.get("agent")
    if not isinstance(name, str) or (agents is not None and name not in agents):
        raise UserError(f"{path} is of an agent that its run does not train: {name}")
    uid = path.stat().st_uid
    if ":" in name and not trust and uid not in (os.geteuid(), 0):
        raise UserError(
            f"{path} is of {user_name(uid)}, and of an agent that is not built in: loading it"
            f" imports {name}; if you trust that, say load_policy(..., trust=True)"
        )
    cls = plugins.resolve("agents", name)
    try:
        spec = spec_from_plain(meta["spec"])
        agent: Agent = cls(spec, cls.Config(**meta["hyperparameters"]), 0, "cpu")
        agent.load(agent_state(arrays))
        return Policy(agent, spec, {**meta, **(about or {})})
    except _UNFIT as error:
        raise Corrupt(f"{path} does not fit its own description: {error}") from error


def agent_state(arrays: Mapping[str, Any]) -> State:
    """The agent's part of a core blob."""
    return {
        name.removeprefix("agent/"): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith("agent/")
    }


def policy_meta(
    spec: EnvSpec, env: EnvConfig, agent: str, hyperparameters: Mapping[str, Scalar]
) -> dict[str, Any]:
    """The metadata of a core blob, which make it a policy wherever it is copied to."""
    return {
        "format": FORMAT,
        "hpcpod": __version__,
        "agent": agent,
        "hyperparameters": dict(hyperparameters),
        "env": encode(env),
        "spec": spec_to_plain(spec),
    }
