"""Export a policy: a folder that plays where neither hpcpod nor torch is installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from hpcpod.config.schema import EnvConfig
from hpcpod.deploy import numpy_policy
from hpcpod.deploy.card import card, readme
from hpcpod.deploy.checks import (
    Exported,
    allowed_differences,
    check_bare,
    check_parity,
    onnx_policy,
)
from hpcpod.deploy.environment_terms import Portability, as_policy_takes, portable
from hpcpod.deploy.observations import drawn, extreme, packed
from hpcpod.deploy.onnx_file import onnx_model, require_onnx
from hpcpod.deploy.play import (
    ALONE,
    EPISODES,
    FEWEST,
    PATIENCE,
    SEEDS,
    Played,
    check_score,
    played,
    rows_of,
    score_of,
)
from hpcpod.envs.arrays import Array
from hpcpod.envs.make import reference
from hpcpod.envs.vec_env import random_seeds
from hpcpod.errors import UserError
from hpcpod.pod.policy import Policy
from hpcpod.records.codec import decode
from hpcpod.storage.disk import TEMPORARY, explain, unique
from hpcpod.storage.made_folders import require_replaceable

OBSERVATIONS = 256
"""Observations in ``check.json``, and as many random ones."""
_EXTREME = 64
_MARK = "card.json"
_FILES = {_MARK, "README.md", "check.json", "policy.onnx", "policy.h5", "policy.py", "__pycache__"}
"""All that an exported policy has: a folder with more, such as .git, is never overwritten."""


@dataclass(frozen=True)
class Source:
    """Facts of a policy that it does not have itself."""

    run: Mapping[str, Any] = field(default_factory=dict)
    """Its run's name, seeds, lineage and so on: JSON-able; goes into the card as it is."""
    not_played: str = ""
    """The reason why its environment is not to be made here; empty if it may be."""


def export_policy(
    policy: Policy,
    folder: Path,
    source: Source | None = None,
    *,
    licence: str = "unknown",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write an exported policy, and check it before its folder gets its name.

    Args:
        policy: of one agent, or an ensemble.
        folder: to make.
        source: what is known of it beside.
        licence: for the card, by its name on Hugging Face: ``apache-2.0``.
        overwrite: replace a folder that is an exported policy.

    Returns:
        The card.

    Raises:
        UserError: the folder is there, or a package is missing, or the agent can't be exported.
        Differs: what was exported acts or scores in another way than the agent.
    """
    require_onnx()
    source = source or Source()
    with _made_whole(folder, overwrite) as temporary:
        done = portable(policy)
        data = onnx_model(done, rows_of(policy.spec, 2))
        (temporary / "policy.onnx").write_bytes(data)
        exported = {"policy.onnx": onnx_policy(data)}
        if not done.obstacle:
            exported["policy.h5"] = write_numpy(done, temporary)
        checks = _check(policy, exported, source, temporary)
        checks["opened by"] = check_bare(temporary)
        made = card(policy, done, source.run, checks, licence)
        (temporary / _MARK).write_text(json.dumps(made, indent=2) + "\n")
        (temporary / "README.md").write_text(readme(made))
    return made


@contextmanager
def one_thread() -> Iterator[None]:
    """Have torch compute in this thread alone: several, which wait for each other beside a busy
    neighbour, took ten times as long to make a network of 2 x 256 units."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """See that a folder can be made, or be replaced.

    Raises:
        UserError: it can't; or it is there and is not to be, or is no exported policy, or has more
            in it.
    """
    try:
        if not folder.parent.is_dir():
            raise UserError(f"can't write {folder}: there is no folder {folder.parent}")
    except OSError as error:
        raise UserError(f"can't write {folder}: {explain(error)}") from error
    inside = require_replaceable(folder, _MARK, "it is no exported policy", overwrite=overwrite)
    if own := sorted(inside - _FILES):
        raise UserError(
            f"can't overwrite {folder}: it has {', '.join(own[:3])}, which no export wrote; take it"
            " away, or take another name"
        )


@contextmanager
def _made_whole(folder: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder that gets its name at the end; nothing is left of it if that fails."""
    folder = folder.absolute()
    try:
        check_folder(folder, overwrite=overwrite)
        temporary, old = (folder.parent / f"{TEMPORARY}{unique()}" for _ in range(2))
        temporary.mkdir()
        try:
            yield temporary
            check_folder(folder, overwrite=overwrite)  # minutes may have passed
            if folder.is_dir():
                folder.rename(old)
            try:
                temporary.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UserError(f"can't write {folder}: {explain(error)}") from error


def write_numpy(done: Portability, folder: Path) -> Exported:
    """Write ``policy.h5`` and ``policy.py``; the policy that they are."""
    steps: list[dict[str, Any]] = []
    arrays: dict[tuple[Any, ...], tuple[str, Array]] = {}  # each once, whoever needs it
    for each in done.program.operations:
        names = {}
        for name, array in each.arrays.items():
            key = array.dtype.str, array.shape, array.tobytes()
            names[name], _ = arrays.setdefault(key, (str(len(arrays)), array))
        own = {"kind": each.kind, "inputs": list(each.inputs), "output": each.output}
        steps.append({**own, "settings": dict(each.settings), "arrays": names})
    program = {
        "format": 1,
        "inputs": [
            {"name": part.name, "path": part.path, "dtype": part.dtype, "shape": part.shape}
            for part in done.parts
        ],
        "operations": steps,
        "output": done.output,
    }
    with h5py.File(folder / "policy.h5", "w") as file:
        file["program"] = json.dumps(program)
        group = file.create_group("arrays")
        for name, array in arrays.values():
            group[name] = array
    shutil.copyfile(numpy_policy.__file__, folder / "policy.py")
    reader = numpy_policy.Policy(folder / "policy.h5")
    return lambda inputs: reader(reader.nested(inputs))


def _check(
    policy: Policy, exported: Mapping[str, Exported], source: Source, folder: Path
) -> dict[str, Any]:
    """Compare, play, and write ``check.json``.

    Returns:
        For the card: what was compared, and what was scored.

    Raises:
        Differs: the export does.
    """
    rng, spec = np.random.default_rng(0), policy.spec
    game = _play(policy, exported["policy.onnx"], source)
    met = game.met if isinstance(game, Played) else None
    recorded = met or drawn(spec, OBSERVATIONS, rng, None)
    parity = {}
    for name, inputs in {
        "recorded": recorded,
        "random": drawn(spec, OBSERVATIONS, rng, met),
        "extreme": extreme(spec, _EXTREME, rng, met),
    }.items():
        parity[name] = asdict(check_parity(policy, exported, name, inputs))
    checks: dict[str, Any] = {"parity": parity}
    if isinstance(game, Played) and not game.returns:
        checks["not played"] = f"its episodes take more than {PATIENCE:.0f} s"
    elif isinstance(game, Played):
        seeds = random_seeds(SEEDS, 0, count=len(game.returns)).tolist()
        checks["played"] = {"returns": list(game.returns), "seeds": seeds, "engine": game.engine}
        score = score_of(policy)
        if score and score["episodes"] >= FEWEST:
            check_score(game.returns, score)
            checks["played"]["fits the run's score"] = True
    else:
        checks["not played"] = game
    action = policy(as_policy_takes(spec, recorded))
    check = {
        "format": 1,
        "recorded": "while the exported policy played" if met else "drawn from the space",
        "inputs": {name: packed(array) for name, array in recorded.items()},
        "action": packed(action),
        "allowed": allowed_differences(policy, action).max(axis=0).tolist(),
        "within_rounding": list(parity["recorded"]["within_rounding"]),
    }
    (folder / "check.json").write_text(json.dumps(check) + "\n")
    return checks


def _play(policy: Policy, exported: Exported, source: Source) -> Played | str:
    """Episodes of the exported policy in its environment, or why there are none."""
    if source.not_played:
        return source.not_played
    env = policy.about.get("scored_in", policy.about.get("env"))
    if env is None:
        return "it is not known in which environment it was trained"
    try:
        config = decode(EnvConfig, env)
    except TypeError as error:
        return f"its environment was described by another version of hpcpod: {error}"
    score = score_of(policy)
    if score.get("fresh_seeds"):  # such scores are of gymnasium's own environment
        found = reference(config)
        # MuJoCo's tasks are then played on this process's threads, as gymnasium has them bit by bit
        config = config if found is None else replace(found, backend="auto")
    episodes = min(EPISODES, max(2, score.get("episodes", EPISODES)))
    game = partial(played, exported, policy.spec, episodes=episodes, observations=OBSERVATIONS)
    if config.processes is None:
        alone = game(env=replace(config, processes=1), alone=ALONE)
        if isinstance(alone, str) or alone.returns:
            return alone
    return game(env=config)
