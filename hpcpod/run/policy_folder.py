"""Export of a run's policy as a folder: what the run knows of it, for ``hpcpod.deploy``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcpod import plugins
from hpcpod.config.arguments import door
from hpcpod.config.resolved import code_in
from hpcpod.errors import StorageError, UserError
from hpcpod.records.codec import encode
from hpcpod.records.records import Board, PodState
from hpcpod.run.best_policy import kept
from hpcpod.run.saved_folder import write_saved
from hpcpod.run.tables import changes
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import lineage
from hpcpod.tournament.merge import read_board

if TYPE_CHECKING:
    from hpcpod.pod.policy import Policy


def export_folder(
    folder: RunFolder, to: Path, *, overwrite: bool = False, licence: str = "unknown"
) -> dict[str, Any]:
    """Write the run's best policy as a folder that plays without hpcpod.

    Args:
        folder: the run.
        to: the folder to make.
        overwrite: replace one that is an exported policy.
        licence: for its card, by its name on Hugging Face.

    Returns:
        The card.

    Raises:
        UserError: there is no policy yet, or the folder is there, or a package is missing, or the
            export acts in another way than the agent.
    """
    found = kept(folder)
    with plugins.needing_torch():
        from hpcpod.deploy.export import Source, check_folder, export_policy, one_thread
        from hpcpod.pod.evaluator import scored_in
        from hpcpod.pod.policy import load_policy_file
    check_folder(to.absolute(), overwrite=overwrite)
    agents = {space.agent for space in folder.resolved.algorithms.values()}
    # The blob says its environment too, but whoever shares the disk may have written that.
    config, owner = folder.resolved.config, folder.owner
    env = encode(config.env)
    code = not owner.trusted and code_in({"env": env, "evaluator": config.pod.evaluator})
    about = {**found.about, "env": env, "scored_in": env if code else encode(scored_in(config))}
    with one_thread():
        policy = load_policy_file(found.checkpoint, agents=agents, about=about)
        source = Source(
            facts_of(folder, policy.about),
            f"its environment is code that {owner.name} or others have named" if code else "",
        )
        return export_policy(policy, to, source, licence=licence, overwrite=overwrite)


@door(policy=Any, folder=str, overwrite=bool, licence=str, trust=bool)
def export_policy(
    policy: Policy | str | Path,
    folder: str | Path,
    *,
    overwrite: bool = False,
    licence: str = "unknown",
    trust: bool = False,
) -> dict[str, Any]:
    """Write a policy as a folder that plays without hpcpod: ONNX, NumPy, a card.

    Args:
        policy: a policy, such as an ensemble, or a ``.h5`` file that ``load_policy`` reads.
        folder: to make; it is there only if the export acts as the agent does.
        overwrite: replace a folder that is an exported policy.
        licence: for the card, by its name on Hugging Face: ``apache-2.0``.
        trust: of another user's file import the agent and the environment that it names.

    Returns:
        The card, as in ``card.json``.

    Raises:
        UserError: the folder is there, or a package is missing, or the export acts in another way
            than the agent.
    """
    with plugins.needing_torch():
        from hpcpod.deploy import export
        from hpcpod.pod.policy import Policy, load_policy_file
    why = ""
    with export.one_thread():
        if not isinstance(policy, Policy):
            path = Path(policy)
            policy = load_policy_file(path, trust=trust)
            if not trust and path.stat().st_uid not in (os.geteuid(), 0):
                why = "another user has written it, and it names the environment: say trust=True"
        source = export.Source(not_played=why)
        to = Path(folder)
        return export.export_policy(policy, to, source, licence=licence, overwrite=overwrite)


def exported(
    run: RunFolder, to: object, folder: str | Path, *, overwrite: bool, licence: str
) -> Path:
    """``Run.export`` of a folder.

    Raises:
        UserError: a file was named, too; or what ``export_folder`` raises.
    """
    if to is not None:
        raise UserError(f"an export is one file ({to}) or one folder ({folder}): name one of them")
    if run.resolved.config.program is not None:
        return write_saved(run, folder, overwrite=overwrite)
    export_folder(run, Path(folder), overwrite=overwrite, licence=licence)
    return Path(folder)


def facts_of(folder: RunFolder, about: Mapping[str, Any]) -> dict[str, Any]:
    """The run's facts for the card of a policy: of an ensemble the lineage of each member.

    Args:
        folder: the run.
        about: as ``Policy.about``.
    """
    config = folder.resolved.config
    facts: dict[str, Any] = {"name": config.name, "seed": config.seed}
    try:
        board = read_board(folder)
    except StorageError:  # best.h5 outlives the board
        return facts
    facts |= {"pods": len(board.pods), "rounds": board.rounds, "phase": board.phase}
    members = [each.get("pod") for each in about.get("members", [about])]
    # another user may have written it
    pods = [pod for pod in members if isinstance(pod, str) and pod in board.pods]
    if "members" in about:
        facts["lineages"] = {pod: ancestors(board, pod) for pod in pods}
    elif pods:
        facts["lineage"] = ancestors(board, pods[0])
    return facts


def ancestors(board: Board, pod: str) -> list[dict[str, Any]]:
    """A pod's ancestors and itself as a card has them, the founder first."""
    return [
        {
            "pod": each.id,
            "algorithm": each.algorithm,
            "seed": each.seed,
            "parent": each.parent,
            "parent_round": each.parent_round,
            "hyperparameters": dict(each.hyperparameters),
            "born": _born(each),
            "changes": changes(board, each) if each.parent else "",
        }
        for each in lineage(board, pod)
    ]


def _born(pod: PodState) -> str:
    if pod.parent:
        return f"copy of {pod.parent} at round {pod.parent_round}"
    if pod.origin is not None:
        return pod.origin.begun
    return "control" if pod.control else "fresh draw"
