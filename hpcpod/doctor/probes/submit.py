"""A job that tries to submit: ``python -m hpcpod.doctor.probes.submit FOLDER``.

It is run as a coordinator is, in a process of its own: what trains may be in a container, where
there is no sbatch; what submits is not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpcpod.config.loader import from_mapping
from hpcpod.doctor.commands import ask
from hpcpod.doctor.probes.peers import leave
from hpcpod.launchers.slurm.launcher import environment
from hpcpod.launchers.slurm.squeue import own_words

SLOTS = "slots.sbatch"
"""A script that a coordinator would submit."""
CONFIG = "config.json"
"""The configuration: it says what a Slurm command may see of the environment."""

_SECONDS = 60.0


@dataclass(frozen=True)
class SubmitFacts:
    """The answer of sbatch."""

    refused: str
    """Refusal of a slot's script, in sbatch's own words; empty if it takes it."""


def main(folder: Path) -> None:
    """Try it, and leave the answer in the folder."""
    config: Mapping[str, Any] = json.loads((folder / CONFIG).read_text())
    facts = SubmitFacts(refusal(folder / SLOTS, environment(os.environ, from_mapping(config))))
    leave(folder, "submit", facts)


def refusal(script: Path, env: Mapping[str, str]) -> str:
    """The reason for which sbatch refuses a script, in its own words; empty if it takes it."""
    # exits with 1 for what Slurm refuses
    answer = ask(["sbatch", "--test-only", str(script)], _SECONDS, env)
    return "" if answer.ok else own_words(answer.err) or "it gives no reason"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
