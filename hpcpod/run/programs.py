"""Checks of a user's training program before its run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hpcpod.config.schema import RunConfig

_SCRIPTS = (".py", ".sh", ".jl", ".R", ".lua")


def unusable_program(config: RunConfig) -> Iterator[str]:
    """Problems of the program that can be seen without starting it."""
    program = config.program
    if program is None:
        return
    folder = Path(program.folder or ".").absolute()
    if not folder.is_dir():
        yield f"program.folder: there is no folder {folder}"
        return
    first = program.command[0]
    # Where slots run elsewhere, modules and containers may bring it.
    here = config.cluster.launcher == "local"
    if here and not _found(first, folder):
        yield (
            f"program.command: there is no {first!r} to start, neither on $PATH nor in {folder};"
            " name it by its whole path"
        )
    for word in program.command:
        path = folder / word
        if word.endswith(_SCRIPTS) and not word.startswith("-") and not path.exists():
            yield f"program.command: there is no {path}"
            return


def round_of_program(config: RunConfig) -> str:
    """What a program trains in a round, in words; empty of a run without one."""
    if config.program is None:
        return ""
    if config.program.seconds is not None:
        return f"{config.program.seconds:g} s of the program"
    return f"{config.round.env_steps:,} steps of the program"


def remarks_on_program(config: RunConfig) -> Iterator[str]:
    """What follows from a program that can't score."""
    if config.program is not None and not config.program.scores:
        yield (
            "program.scores: the program does not say that it can score without training, so copies"
            " are not checked against their parents, and the best is chosen, and told, by the panel"
            " of its last round, not by fresh seeds"
        )


def _found(word: str, folder: Path) -> bool:
    if "/" in word:
        return os.access(folder / word, os.X_OK)
    return shutil.which(word) is not None
