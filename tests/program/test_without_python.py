"""Programs without Python: a shell script and one in C speak the files of a session."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.program.given import lines, play

PROGRAMS = ROOT / "configs" / "programs"


def compiled(folder: Path) -> list[str]:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here: Debian's gcc has one")
    source = PROGRAMS / "plain.c"
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-o", str(folder / "plain"), str(source)]
    subprocess.run(command, check=True)
    return [str(folder / "plain")]


@pytest.mark.parametrize("language", ["sh", "c"])
def test_it_trains_saves_goes_on_and_scores(language: str, tmp_path: Path) -> None:
    command = [str(PROGRAMS / "plain.sh")] if language == "sh" else compiled(tmp_path)
    given = {"hyperparameters": {"learning_rate": 0.5}}
    first, more, scored = play(
        command, tmp_path / "session",
        {"steps": 2, **given},
        {"steps": 54, "steps_done": 4, "checkpoint": 0, **given},
        {"mode": "score", "steps": None, "save_to": None, "checkpoint": 0, **given},
    )  # fmt: skip
    assert [each["steps"] for each in (first, more, scored)] == [2, 50, 0]
    assert scored["returns"] == first["returns"]
    assert all(abs(each - 0.75) <= 0.05 for each in first["returns"])  # after 0.5 and 0.75
    assert len(set(first["returns"])) == 4 and all(0.95 <= each <= 1.05 for each in more["returns"])
    told = lines(tmp_path / "session" / "progress.jsonl")
    assert told[:2] == [{"steps": 1, "x": 0.5}, {"steps": 2, "x": 0.75}]
