"""Export of a run's policy as a folder: what the run knows of it, for ``hpcpod.deploy``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpcpod import plugins
from hpcpod.errors import StorageError, UserError
from hpcpod.run.best_policy import kept
from hpcpod.run.tables import changes
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import lineage
from hpcpod.tournament.merge import read_board


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
    config = folder.resolved.config
    found = kept(folder)
    with plugins.needing_torch():
        from hpcpod.deploy.export import Source, check_folder, export_policy
        from hpcpod.pod.policy import load_policy_file
    check_folder(to.absolute(), overwrite=overwrite)
    agents = {space.agent for space in folder.resolved.algorithms.values()}
    policy = load_policy_file(found.checkpoint, agents=agents, about=found.about)
    env, owner = config.env, folder.owner
    named = [*(word for word in (env.id, env.python) if word and (":" in word or "/" in word))]
    foreign = (named or env.wrappers) and not owner.trusted
    source = Source(
        _facts(folder, policy.about.get("pod")),
        found.about.get("score") or {},
        f"its environment is code that {owner.name} or others may have written" if foreign else "",
    )
    return export_policy(policy, to, source, licence=licence, overwrite=overwrite)


def exported(
    run: RunFolder, to: object, folder: str | Path, *, overwrite: bool, licence: str
) -> Path:
    """``Run.export`` of a folder.

    Raises:
        UserError: a file was named, too; or what ``export_folder`` raises.
    """
    if to is not None:
        raise UserError(f"an export is one file ({to}) or one folder ({folder}): name one of them")
    export_folder(run, Path(folder), overwrite=overwrite, licence=licence)
    return Path(folder)


def _facts(folder: RunFolder, pod: Any) -> dict[str, Any]:
    """What goes into the card beside the policy's own."""
    config = folder.resolved.config
    facts: dict[str, Any] = {"name": config.name, "seed": config.seed}
    try:
        board = read_board(folder)
    except StorageError:  # best.h5 outlives the board
        return facts
    facts |= {"pods": len(board.pods), "rounds": board.rounds, "phase": board.phase}
    if pod not in board.pods:
        return facts
    facts["lineage"] = [
        {
            "pod": each.id,
            "algorithm": each.algorithm,
            "seed": each.seed,
            "parent": each.parent,
            "parent_round": each.parent_round,
            "hyperparameters": dict(each.hyperparameters),
            "born": f"copy of {each.parent} at round {each.parent_round}"
            if each.parent
            else "control"
            if each.control
            else "fresh draw",
            "changes": changes(board, each) if each.parent else "",
        }
        for each in lineage(board, pod)
    ]
    return facts
