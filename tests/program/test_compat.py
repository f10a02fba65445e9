"""Scripts of Optuna's and Ray Tune's: their search space, and their rounds in a run.

Both learn as x += rate (1 - x) from 0: at a rate of 0.5 that is 0.5, 0.75, 0.875, 0.9375.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
import yaml

import hpcpod.compat.optuna as ours
from hpcpod.compat import rounds
from hpcpod.config.loader import from_mapping
from hpcpod.program.session import SessionError
from tests.program.given import play

OPTUNA = """
from hpcpod.compat import optuna

def objective(trial):
    rate = trial.suggest_float("rate", 0.01, 1.0, log=True)
    trial.suggest_int("depth", 1, 9)
    trial.suggest_categorical("kind", ["a", "b"])
    x = 0.0
    for step in range(3):
        x += rate * (1 - x)
        with open("trained.txt", "a") as file:
            file.write(f"{trial.number}:{x} ")
        trial.report(x, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return x

if __name__ == "__main__":
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.NopPruner())
    study.optimize(objective, n_trials=2)
    print(study.best_params["rate"], study.best_value)
"""
RAY = """
import os, tempfile
from hpcpod.compat.ray import tune
from hpcpod.compat.ray.tune.schedulers import PopulationBasedTraining

def train(config):
    x, checkpoint = 0.0, tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            x = float(open(os.path.join(folder, "x")).read())
    while True:
        x += config["rate"] * (1 - x)
        with open("trained.txt", "a") as file:
            file.write(f"{tune.get_context().get_trial_name()}:{x} ")
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "x"), "w") as file:
                file.write(str(x))
            tune.report({"x": x, "name": "x"}, checkpoint=tune.Checkpoint.from_directory(folder))

space = {"rate": tune.loguniform(0.01, 1.0), "depth": tune.randint(1, 10), "cores": 2}
scheduler = PopulationBasedTraining(
    "training_iteration", metric="x", mode="max", hyperparam_mutations={"rate": space["rate"]}
)
tuner = tune.Tuner(
    train, param_space=space, tune_config=tune.TuneConfig(num_samples=4, scheduler=scheduler),
    run_config=tune.RunConfig(stop={"training_iteration": 4}),
)
print(tuner.fit().get_best_result("x", "max").metrics["x"])
"""
HALF: dict[str, Any] = {"rate": 0.5, "depth": 2, "kind": "a"}


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "train.py"


def trained() -> list[str]:
    """Pod and value of each step that was trained since the last look."""
    path = Path("trained.txt")
    steps = path.read_text(encoding="utf-8").split()
    path.unlink()
    return steps


def section(script: Path) -> dict[str, Any]:
    """The section of a configuration that ``python -m hpcpod.compat`` prints of a script."""
    printed = subprocess.run(
        [sys.executable, "-m", "hpcpod.compat", script.name], check=True, text=True,
        capture_output=True,
    ).stdout  # fmt: skip
    whole = yaml.safe_load(printed)
    from_mapping({"name": "x", "stop": {"rounds": 1}, **whole})
    found: dict[str, Any] = whole["program"]
    return found


def test_an_objective_of_optuna_shows_its_search_space(script: Path) -> None:
    script.write_text(OPTUNA, encoding="utf-8")
    assert section(script) == {
        "command": ["python", "train.py"],
        "direction": "maximize",
        "search": {
            "rate": {"log_uniform": [0.01, 1.0]},
            "depth": {"int": [1, 9]},
            "kind": {"choice": ["a", "b"]},
        },
    }
    assert trained() == ["0:0.1"]  # at the geometric middle, up to the first report


def test_an_objective_of_optuna_goes_on_round_by_round(script: Path, tmp_path: Path) -> None:
    script.write_text(OPTUNA, encoding="utf-8")
    given: dict[str, Any] = {"hyperparameters": HALF, "steps": 2}
    play(
        [sys.executable, str(script)], tmp_path / "session",
        {**given},
        {**given, "steps": 1, "checkpoint": 0},
        {**given, "pod": "p0002", "hyperparameters": {**HALF, "rate": 0.25}},
        {**given, "steps": 1, "checkpoint": 0},
        {**given, "steps": 1, "checkpoint": 3},
    )  # fmt: skip
    assert trained() == [
        "1:0.5", "1:0.75", "1:0.875",      # the second round in place
        "2:0.25", "2:0.4375",              # another pod
        "1:0.5", "1:0.75", "1:0.875",      # the first again: from its start, up to where it was
    ]  # fmt: skip


def test_an_objective_of_optuna_reports_the_value_of_each_round(
    script: Path, tmp_path: Path
) -> None:
    script.write_text(OPTUNA, encoding="utf-8")
    given: dict[str, Any] = {"hyperparameters": HALF, "steps": 2}
    reports = play(
        [sys.executable, str(script)], tmp_path / "session",
        {**given}, {**given, "checkpoint": 0}, {**given, "checkpoint": 1},
    )  # fmt: skip
    # The third report of the objective is its last: after it, it returns the same value.
    assert [(each["score"], each["steps"]) for each in reports] == [
        (0.75, 2), (0.875, 1), (0.875, 0),
    ]  # fmt: skip
    assert trained() == ["1:0.5", "1:0.75", "1:0.875"]

    names: dict[str, Any] = {}
    exec(compile(OPTUNA, "train.py", "exec"), names)
    fixed = optuna.trial.FixedTrial(HALF)
    assert names["objective"](fixed) == reports[-1]["score"]  # under Optuna itself


def test_outside_of_a_run_a_script_of_optuna_is_optunas(script: Path) -> None:
    script.write_text(OPTUNA, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], check=True, text=True, capture_output=True)
    rate, value = map(float, done.stdout.split())
    assert value == pytest.approx(1 - (1 - rate) ** 3)
    assert "Trial 1 finished" in done.stderr and len(trained()) == 6
    assert isinstance(ours.create_study(), optuna.Study) and ours.TrialPruned is optuna.TrialPruned


def test_an_objective_with_checkpoints_of_its_own_is_not_trained_again(
    script: Path, tmp_path: Path
) -> None:
    text = OPTUNA.replace("x = 0.0", (
        "folder = trial.checkpoint; x = float((folder / 'x').read_text()) if folder else 0.0"
    )).replace("range(3)", "range(trial.reports, 3)").replace(
        "        trial.report(", "        (trial.save_to / 'x').write_text(str(x)); trial.report("
    )  # fmt: skip
    script.write_text(text, encoding="utf-8")
    given: dict[str, Any] = {"hyperparameters": HALF, "steps": 2}
    _, report = play(
        [sys.executable, str(script)], tmp_path / "session",
        given,
        {**given, "steps": 1, "pod": "p0002", "checkpoint": 0},
    )  # fmt: skip
    assert trained() == ["1:0.5", "1:0.75", "2:0.875"] and report["score"] == 0.875


def test_a_function_of_ray_tune_shows_its_search_space(script: Path) -> None:
    script.write_text(RAY, encoding="utf-8")
    assert section(script) == {
        "command": ["python", "train.py"],
        "direction": "maximize",
        "search": {"rate": {"log_uniform": [0.01, 1.0]}, "depth": {"int": [1, 9]}, "cores": 2},
    }


def test_a_function_of_ray_tune_goes_on_from_its_checkpoint_or_its_parents(
    script: Path, tmp_path: Path
) -> None:
    script.write_text(RAY, encoding="utf-8")
    given: dict[str, Any] = {"hyperparameters": {"rate": 0.5, "depth": 2, "cores": 2}, "steps": 2}
    copy = {"hyperparameters": {"rate": 0.25, "depth": 2, "cores": 2}, "pod": "p0002", "steps": 1}
    reports = play(
        [sys.executable, str(script)], tmp_path / "session",
        {**given}, {**given, "checkpoint": 0}, {**copy, "checkpoint": 0},
    )  # fmt: skip
    assert trained() == [
        "p0001:0.5", "p0001:0.75", "p0001:0.875", "p0001:0.9375", "p0002:0.8125",
    ]  # fmt: skip
    assert [(each["score"], each["steps"]) for each in reports] == [
        (0.75, 2), (0.9375, 2), (0.8125, 1),
    ]  # fmt: skip


SPARSE = RAY.replace(
    "with tempfile",
    """told = len(open("trained.txt").read().split())
        if told % 2:
            tune.report({"x": x})
            continue
        with tempfile""",
)
"""Saves at every second step that is trained."""


def test_what_a_function_of_ray_tune_has_saved_outlives_a_round_without_a_save(
    script: Path, tmp_path: Path
) -> None:
    script.write_text(SPARSE, encoding="utf-8")
    half: dict[str, Any] = {"hyperparameters": {"rate": 0.5, "depth": 2, "cores": 2}, "steps": 1}
    play(
        [sys.executable, str(script)], tmp_path / "session",
        half, {**half, "checkpoint": 0}, {**half, "checkpoint": 1},
    )  # fmt: skip
    assert trained() == ["p0001:0.5", "p0001:0.75", "p0001:0.875"]
    assert (tmp_path / "session" / "save-2" / "x").read_text(encoding="utf-8") == "0.75"
    # Another process goes on from the save, and trains what was reported after it once more.
    (tmp_path / "trained.txt").write_text("- ", encoding="utf-8")
    [report] = play(
        [sys.executable, str(script)], tmp_path / "session",
        {**half, "number": 3, "save_to": str(tmp_path / "session" / "save-3"), "checkpoint": 2},
    )  # fmt: skip
    assert trained() == ["-", "p0001:0.875", "p0001:0.9375"] and report["score"] == 0.9375


def test_a_function_of_ray_tune_that_never_saves_is_trained_again_up_to_where_it_was(
    script: Path, tmp_path: Path
) -> None:
    script.write_text(RAY.replace(", checkpoint=tune.Ch", ") or (tune.Ch"), encoding="utf-8")
    half: dict[str, Any] = {"hyperparameters": {"rate": 0.5, "depth": 2, "cores": 2}, "steps": 2}
    other = {**half, "pod": "p0002"}
    *_, report = play(
        [sys.executable, str(script)], tmp_path / "session",
        half, other, {**half, "checkpoint": 0, "steps": 1},
    )  # fmt: skip
    assert trained()[4:] == ["p0001:0.5", "p0001:0.75", "p0001:0.875"]
    assert (report["score"], report["steps"]) == (0.875, 1)


@pytest.mark.parametrize("library", ["Optuna", "Ray Tune"])
def test_a_copy_of_a_function_that_has_returned_is_trained_with_its_own_hyperparameters(
    script: Path, tmp_path: Path, library: str
) -> None:
    never_saves = RAY.replace("while True", "for _ in range(3)").replace(
        ", checkpoint=tune.Ch", ") or (tune.Ch"
    )
    script.write_text(OPTUNA if library == "Optuna" else never_saves, encoding="utf-8")
    given: dict[str, Any] = {"hyperparameters": {**HALF, "cores": 2}, "steps": 4}
    slower = {"hyperparameters": {**HALF, "cores": 2, "rate": 0.25}, "pod": "p0002"}
    first, again, copy = play(
        [sys.executable, str(script)], tmp_path / "session",
        given, {**given, "checkpoint": 0}, {**given, **slower, "checkpoint": 1},
    )  # fmt: skip
    assert (first["score"], first["steps"]) == (0.875, 3)
    assert (again["score"], again["steps"]) == (0.875, 0)
    assert (copy["score"], copy["steps"]) == (1 - 0.75**3, 1)
    assert len(trained()) == 6


def test_outside_of_a_run_a_script_of_ray_tune_needs_ray(script: Path) -> None:
    script.write_text(RAY, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], check=False, text=True, capture_output=True
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: outside of a run hpcpod.compat.ray is Ray itself: No module named 'ray'"
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"rate"', '"rat"', "the run does not search rat (it has: rate, depth, kind); `python -m"),
        ("0.01, 1.0", "0.6, 1.0", "rate is 0.5 in the run, and in [0.6, 1.0] here"),
        ('["a", "b"]', '["b", "c"]', "kind is 'a' in the run, and one of ['b', 'c'] here"),
        ('direction="maximize"', 'directions=["maximize", "minimize"]', "a run ranks by one value"),
        ("x += rate", "x += float('nan')", "progress: score is nan"),
    ],
)
def test_what_does_not_fit_the_run_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    from tests.program.given import give

    give(tmp_path / "session", hyperparameters=HALF)
    monkeypatch.setenv("HPCPOD_SESSION", str(tmp_path / "session"))
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert old in OPTUNA
    with pytest.raises(SessionError, match="^" + re.escape(words)):
        exec(compile(OPTUNA.replace(old, new), "x", "exec"), {"__name__": "__main__"})


def test_ranges_with_steps_become_choices() -> None:
    assert rounds.stepped(0.0, 1.0, 0.25) == {"choice": [0, 0.25, 0.5, 0.75, 1.0]}
    assert max(rounds.stepped(0.1, 0.3, 0.1)["choice"]) == 0.3  # 0.1 + 2 * 0.1 is above
    assert rounds.doubling(8, 100) == {"choice": [8, 16, 32, 64, 100]}
    with pytest.raises(SessionError, match=r"1001 values from 0 to 1 by 0\.001: 2 to 100"):
        rounds.stepped(0, 1, 0.001)


def test_numbers_of_numpy_and_torch_are_metrics_and_words_are_not() -> None:
    given = {
        "f32": np.float32(0.5), "int": np.int64(3), "zero_d": torch.tensor(2.0),
        "nan": float("nan"), "word": "3", "many": torch.ones(2), "none": None, "steps": 7,
    }  # fmt: skip
    assert rounds.finite(given) == {"f32": 0.5, "int": 3.0, "zero_d": 2.0}


def test_the_verb_refuses_what_searches_nothing(script: Path) -> None:
    script.write_text("print(1)", encoding="utf-8")
    env = {**os.environ, "PYTHONWARNINGS": "ignore"}
    words = [sys.executable, "-m", "hpcpod.compat"]
    done = subprocess.run(
        [*words, script.name], check=False, text=True, capture_output=True, env=env
    )
    assert done.returncode == 2 and "came to its end without study.optimize or" in done.stderr
    done = subprocess.run([*words, "no.py"], check=False, text=True, capture_output=True, env=env)
    assert done.returncode == 2 and "no script no.py; usage: python -m hpcpod.compat" in done.stderr
