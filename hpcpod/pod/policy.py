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
from hpcpod.agents.base import Acting, Agent
from hpcpod.config.arguments import door
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.config.space import Scalar
from hpcpod.envs.arrays import box_map
from hpcpod.envs.spec_json import spec_from_plain, spec_to_plain
from hpcpod.envs.vec_env import Box, EnvSpec, State
from hpcpod.errors import Corrupt, UserError
from hpcpod.pod.ensemble_rules import Ensemble
from hpcpod.pod.evaluator import scored_in
from hpcpod.pod.policy_input import Reader
from hpcpod.records.records import encode
from hpcpod.storage.blobs import Arrays, read_blob_file, write_blob_file
from hpcpod.storage.disk import check_writable, explain
from hpcpod.storage.ownership import user_name
from hpcpod.storage.policy_blobs import ENSEMBLE_FORMAT, FORMAT, joined, singles

_UNFIT = (TypeError, ValueError, LookupError, AttributeError, RuntimeError, AssertionError)
"""Errors that a description by another user may raise."""


class Policy:
    """A trained policy, as ``load_policy`` gives it: call it with one observation or with a batch
    of them.

    It needs no environment and no run folder: the checkpoint says all that is needed.
    """

    def __init__(self, agent: Acting, spec: EnvSpec, about: Mapping[str, Any]) -> None:
        self.agent = agent
        """Acts on tensors: the agent, or an ``Ensemble`` with ``members`` and ``rule``."""
        self.spec = spec
        """The environment that it was trained in."""
        self.about = {k: v for k, v in about.items() if k not in ("format", "spec")}
        """Its origin: agent, hyperparameters, pod, round, steps of experience; of a run's,
        its ``score``, too. Of an ensemble its ``rule``, and the same of each of ``members``."""
        self._read = Reader(spec)

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
        action = self.agent.act(batch, explore=False).cpu().numpy()
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
        write_blob_file(Path(to), *self.stored())

    def stored(self) -> tuple[Arrays, dict[str, Any]]:
        """Its arrays and meta, as ``save`` writes them."""
        if isinstance(self.agent, Ensemble):
            members = [member.stored() for member in self.agent.members]
            arrays, meta = joined(members, self.agent.rule)
            return arrays, {**self.about, **meta}
        agent: Any = self.agent
        arrays = {f"agent/{k}": v.detach().cpu().numpy() for k, v in agent.state().items()}
        return arrays, {"format": FORMAT, "spec": spec_to_plain(self.spec), **self.about}

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
    _refuse_archives(path)
    try:
        arrays, meta = read_blob_file(path)
    except Corrupt as error:
        said = "is damaged, or is no policy: give a run or its .h5"
        if (path.parent / "policy.py").is_file():
            said = "is an exported policy, which the policy.py beside it reads, or is damaged"
        raise UserError(f"{path} {said}") from error
    _check_format(path, meta)
    try:
        blobs = singles(arrays, meta)
        names = [blob["agent"] for _, blob in blobs]
    except (*_UNFIT, UserError) as error:
        raise Corrupt(f"{path} does not fit its own description: {error}") from error
    for name in names:
        _check_agent(path, name, agents, trust)
    classes = [plugins.resolve("agents", name) for name in names]
    try:
        made = [_single(cls, *blob) for cls, blob in zip(classes, blobs, strict=True)]
        if meta["format"] == FORMAT:
            return Policy(made[0].agent, made[0].spec, {**meta, **(about or {})})
        joint = Ensemble(made, meta["rule"])
        return Policy(joint, joint.spec, {**meta, **ensemble_about(joint), **(about or {})})
    except (*_UNFIT, UserError) as error:
        raise Corrupt(f"{path} does not fit its own description: {error}") from error


def ensemble_about(ensemble: Ensemble) -> dict[str, Any]:
    """Facts of an ensemble for ``Policy.about``."""
    members = [dict(member.about) for member in ensemble.members]
    env = members[0].get("env")
    return {"hpcpod": __version__, "rule": ensemble.rule, "env": env, "members": members}


def _check_format(path: Path, meta: Mapping[str, Any]) -> None:
    found = meta.get("format")
    if isinstance(found, int) and found > ENSEMBLE_FORMAT:
        raise UserError(
            f"{path} is a policy of format {found}, and hpcpod {__version__} reads up to"
            f" {ENSEMBLE_FORMAT}: a newer hpcpod wrote it, install that"
        )
    if found not in (FORMAT, ENSEMBLE_FORMAT):
        raise UserError(f"{path} is no policy that hpcpod {__version__} can read")


def _check_agent(path: Path, name: Any, agents: Collection[str] | None, trust: bool) -> None:
    """See that an agent's class may be imported.

    Raises:
        UserError: the file is of an agent of another run, or of another user's code.
    """
    if not isinstance(name, str) or (agents is not None and name not in agents):
        raise UserError(f"{path} is of an agent that its run does not train: {name}")
    uid = path.stat().st_uid
    if ":" in name and not trust and uid not in (os.geteuid(), 0):
        raise UserError(
            f"{path} is of {user_name(uid)}, and of an agent that is not built in: loading it"
            f" imports {name}; if you trust that, say load_policy(..., trust=True)"
        )


def _single(cls: Any, arrays: Arrays, meta: Mapping[str, Any]) -> Policy:
    """The policy of one agent, of its class and its blob."""
    spec = spec_from_plain(meta["spec"])
    agent: Agent = cls(spec, cls.Config(**meta["hyperparameters"]), 0, "cpu")
    agent.load(agent_state(arrays))
    return Policy(agent, spec, meta)


def _refuse_archives(path: Path) -> None:
    """Refuse what torch itself writes, whatever it is called.

    ``torch.export.load`` unpickles, and so runs code, where its safe reading fails (torch 2.13).

    Raises:
        UserError: it is a zip archive.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise UserError(f"can't read {path}: {explain(error)}") from error
    if head == b"PK\x03\x04":
        raise UserError(
            f"{path} is a zip archive, as torch.export and torch.save write: hpcpod opens none, for"
            " that may run code; give a run or its .h5"
        )


def agent_state(arrays: Mapping[str, Any]) -> State:
    """The agent's part of a core blob."""
    return {
        name.removeprefix("agent/"): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith("agent/")
    }


def policy_meta(
    spec: EnvSpec, task: EnvConfig | RunConfig, agent: str, hyperparameters: Mapping[str, Scalar]
) -> dict[str, Any]:
    """The metadata of a core blob, which make it a policy wherever it is copied to.

    Of a run they have ``scored_in``, too, if its evaluator scores in another environment.
    """
    env, more = task, {}
    if isinstance(task, RunConfig):
        env, scored = task.env, scored_in(task)
        more = {} if scored == env else {"scored_in": encode(scored)}
    return {
        **more,
        "format": FORMAT,
        "hpcpod": __version__,
        "agent": agent,
        "hyperparameters": dict(hyperparameters),
        "env": encode(env),
        "spec": spec_to_plain(spec),
    }
