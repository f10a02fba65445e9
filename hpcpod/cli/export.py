"""``hpcpod export``: the best policy as a file, or as a folder that plays without hpcpod."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from hpcpod.cli.output import say, say_json
from hpcpod.errors import UserError
from hpcpod.run.policy_folder import export_folder, export_policy
from hpcpod.run.run import open_run
from hpcpod.run.saved_folder import write_saved

EXPORT_ARGUMENTS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("run",), {"metavar": "RUN", "help":
     "a run's folder, or its name under runs/; with -o also a policy's .h5"}),
    (("to",), {"metavar": "FILE", "nargs": "?", "type": Path, "help": "default: RUN/best.h5"}),
    (("-o", "--output"), {"metavar": "FOLDER", "type": Path, "help":
     "write a folder instead, which plays without hpcpod: ONNX, NumPy, a card; of a run whose pods"
     " are a program's, what the best one has saved"}),
    (("--pod",), {"metavar": "POD", "help": "with -o, of a program's run: this pod's checkpoint"}),
    (("--license",), {"metavar": "NAME", "default": "unknown", "help":
     "for the folder's card, as Hugging Face calls it: apache-2.0"}),
    (("--overwrite",), {"action": "store_true", "help": "write it even if it is there"}),
)  # fmt: skip
"""Of the verb, beside those that others have, too."""


def export(options: Namespace) -> int:
    """``hpcpod export``."""
    folder = options.output
    if folder is None:
        whole = open_run(options.run)
        if options.json or options.license != "unknown":
            raise UserError("--json and --license are of a folder: say -o FOLDER, too")
        if options.pod is not None:
            raise UserError("--pod is with -o, of a run whose pods are a program's: leave it out")
        say(str(whole.export(options.to, overwrite=options.overwrite)))
        return 0
    if options.to is not None:
        raise UserError(
            f"an export is one file ({options.to}) or one folder ({folder}): name one of them"
        )
    how = {"overwrite": options.overwrite, "licence": options.license}
    run = None if Path(options.run).is_file() else open_run(options.run)
    if run is not None and run.folder.resolved.config.program is not None:
        if options.json or options.license != "unknown":
            raise UserError("--json and --license are of a policy of hpcpod's, not of a program's")
        say(str(write_saved(run.folder, folder, options.pod, overwrite=options.overwrite)))
        return 0
    if options.pod is not None:
        raise UserError("--pod is of a run whose pods are a program's: leave it out")
    if run is None:
        card = export_policy(options.run, folder, **how)
    else:
        card = export_folder(run.folder, folder, **how)
    if options.json:
        say_json(card)
        return 0
    for line in _lines(folder, card):
        say(line)
    return 0


def _lines(folder: Path, card: dict[str, Any]) -> list[str]:
    """The lines on what was written and how it was checked."""
    files = ["policy.onnx", *(["policy.h5"] if card["files"]["policy.h5"] else [])]
    checks = card["checks"]
    count = sum(found["observations"] for found in checks["parity"].values())
    largest = max(found["largest"] for found in checks["parity"].values())
    lines = [f"{folder}: {' and '.join(files)} act as the agent at {count} observations"
             f" (largest difference {largest:.1g}), and open without hpcpod"]  # fmt: skip
    if not card["files"]["policy.h5"]:
        lines.append(f"no policy.h5: the NumPy reader has not {card['not for numpy']}")
    if "played" in checks:
        reward = card["mean_reward"]
        lines.append(f"played: {reward['mean']:.1f} +/- {reward['std']:.1f} in"
                     f" {reward['episodes']} episodes")  # fmt: skip
    else:
        lines.append(f"not played: {checks['not played']}")
    return lines
