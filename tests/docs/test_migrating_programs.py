"""The page on scripts of Ray Tune's and Optuna's: its changes make programs of those scripts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import block, fences, files_of, page
from tests.program.given import play

PAGE = page("migrating-programs.md")
SMALL = {
    "5_000": "64", "n_eval_episodes=32": "n_eval_episodes=2",
    '"CartPole-v1", ': '"CartPole-v1", n_steps=64, ',
}  # fmt: skip
"""Makes rounds of a second of the scripts."""


def changed(library: str) -> str:
    """A script of the other page, small, with the changes of this one."""
    first = {"ray": "tune.Tuner(", "optuna": "optuna.create_study("}[library]
    theirs = [text for _, name, text in fences(page("coming-from.md")) if name == "theirs"]
    [script] = [text for text in theirs if first in text]
    for line in block(PAGE, "diff", library).splitlines():
        if line[0] == "-":
            assert f"{line[1:]}\n" in script
            script = script.replace(f"{line[1:]}\n", "", 1)
    added = [line[1:] for line in block(PAGE, "diff", library).splitlines() if line[0] == "+"]
    for old, new in SMALL.items():
        assert old in script
        script = script.replace(old, new)
    return "\n".join([*added, script])


@pytest.mark.long
def test_the_scripts_of_the_other_page_are_programs_by_their_import_lines(tmp_path: Path) -> None:
    (tmp_path / "ray_train.py").write_text(changed("ray"), encoding="utf-8")
    (tmp_path / "optuna_train.py").write_text(changed("optuna"), encoding="utf-8")
    given = {"learning_rate": 0.001}
    for script, more in (("ray_train.py", {"gamma": 0.99}), ("optuna_train.py", {})):
        task = {"hyperparameters": given | more, "steps": 1}
        first, second = play(
            [sys.executable, str(tmp_path / script)], tmp_path / script.removesuffix(".py"),
            task, {**task, "checkpoint": 0},
        )  # fmt: skip
        # no episode of CartPole is shorter than 8 steps
        assert first["score"] >= 8 and second["steps"] == 1 and second["score"] >= 8
    saved = tmp_path / "ray_train" / "save-1"
    assert {path.name for path in saved.iterdir()} == {"model.zip", "hpcpod-rounds.json"}


def test_the_verb_prints_the_section_that_the_page_has(tmp_path: Path) -> None:
    text = re.sub(r"^(import gymnasium|from stable_baselines3.*)\n", "", changed("ray"), flags=re.M)
    (tmp_path / "ray_train.py").write_text(text, encoding="utf-8")  # its search is known unplayed
    printed = subprocess.run(
        [sys.executable, "-m", "hpcpod.compat", "ray_train.py"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert (
        yaml.safe_load(printed)["program"] == yaml.safe_load(files_of(PAGE)["ray.yaml"])["program"]
    )
