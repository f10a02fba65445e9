"""A run as a study, read by Optuna itself, and by a reader as strict as its page's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from hpcpod.cli.parser import main
from hpcpod.records.records import Board, Confirmed
from hpcpod.run.data import Look
from hpcpod.run.data_files import write_optuna
from hpcpod.run.optuna_journal import journal
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.hand_played import START, answer, birth_of, end, fail, merged
from tests.support.small_runs import AGENTS, create

SEARCH: dict[str, Any] = {
    "ppo": {
        **AGENTS["ppo"], "learning_rate": {"log_uniform": [1e-4, 1e-2]},
        "gamma": {"uniform": [0.9, 0.999]}, "epochs": {"int": [1, 4]},
        "normalize_obs": {"choice": [True, False]}, "hidden": {"choice": [16, 32]},
        "activation": {"choice": ["tanh", "relu"]},
    },
    "dqn": {**AGENTS["dqn"], "learning_rate": {"log_uniform": [1e-5, 1e-3]}},
}  # fmt: skip
DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "learning_rate": FloatDistribution(1e-4, 1e-2, log=True),
    "gamma": FloatDistribution(0.9, 0.999),
    "epochs": IntDistribution(1, 4),
    "normalize_obs": CategoricalDistribution([True, False]),
    "hidden": CategoricalDistribution([16, 32]),
    "activation": CategoricalDistribution(["tanh", "relu"]),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    one = {"ppo": SEARCH["ppo"]}
    places = {"pods": {"min": 3, "max": 3}, "controls": 1}
    return create(tmp_path, population=places, stop={"rounds": 9}, agents=one)


def study_of(path: Path) -> optuna.Study:
    return optuna.load_study(study_name=None, storage=JournalStorage(JournalFileBackend(str(path))))


def study(folder: RunFolder, board: Board | None = None) -> optuna.Study:
    path = folder.path.parent / "study.log"
    write_optuna(Look(folder, board), path, overwrite=True)
    return study_of(path)


def play(folder: RunFolder) -> Board:
    """Two rounds of p0001, one of p0002, and p0003 fails to its end."""
    answer(folder, birth_of(folder, "p0001"), (1.0, 3.0), 10.0)
    answer(folder, birth_of(folder, "p0002"), (0.0, 1.0), 20.0)
    fail(folder, birth_of(folder, "p0003"), "nan", 25.0, failure_kind="diverged")
    merged(folder)
    answer(folder, birth_of(folder, "p0001"), (5.0, 9.0), 40.0)
    return merged(folder)


def test_pods_are_trials_with_their_parameters_in_every_kind_of_range(folder: RunFolder) -> None:
    board = read_board(folder)
    trials = study(folder).trials
    assert [trial.user_attrs["pod"] for trial in trials] == ["p0001", "p0002", "p0003"]
    for trial, pod in zip(trials, board.pods.values(), strict=True):
        assert trial.distributions == DISTRIBUTIONS
        assert trial.params == {name: pod.hyperparameters[name] for name in DISTRIBUTIONS}
        assert [type(value) for value in trial.params.values()] == [
            float, float, int, bool, int, str,
        ]  # fmt: skip


def test_the_study_is_maximised_and_has_what_no_pod_varies(folder: RunFolder) -> None:
    found = study(folder)
    assert found.direction == optuna.study.StudyDirection.MAXIMIZE
    assert found.study_name == "small" and found.metric_names == ["mean return"]
    attributes = found.user_attrs
    assert attributes["env"] == "CartPole-v1" and attributes["winner"] is None
    assert attributes["horizon"] == 32 and "learning_rate" not in attributes


def test_panels_are_intermediate_values_by_round(folder: RunFolder) -> None:
    play(folder)
    first, second, third = study(folder).trials[:3]
    assert first.intermediate_values == {1: 2.0, 2: 7.0}
    assert second.intermediate_values == {1: 0.5}
    assert third.intermediate_values == {}


def test_while_the_run_goes_on_the_living_are_running_and_the_failed_have_failed(
    folder: RunFolder,
) -> None:
    play(folder)
    trials = study(folder).trials
    states = [trial.state for trial in trials]
    assert states[:3] == [TrialState.RUNNING, TrialState.RUNNING, TrialState.FAIL]
    assert set(states[3:]) == {TrialState.RUNNING}, "born in the place of the failed one"
    assert trials[0].value is None
    attributes = trials[2].user_attrs
    assert attributes["fate"] == "failed" and "diverged" in attributes["fate_reason"]


def test_after_its_end_the_best_trial_is_the_winner(folder: RunFolder) -> None:
    play(folder)
    board = end(folder)
    found = study(folder)
    assert found.best_trial.user_attrs["pod"] == board.winner == "p0001"
    assert found.best_trial.user_attrs["winner"] is True
    assert found.best_value == 101.0, "on fresh seeds"
    second = found.trials[1]
    assert (second.state, second.value) == (TrialState.PRUNED, 0.5), "it was no finalist"


def test_a_lucky_panel_does_not_beat_scores_on_fresh_seeds(folder: RunFolder) -> None:
    play(folder)
    board = end(folder)
    lucky = replace(board.pods["p0002"], fate="replaced")
    entry = replace(board.entries[0], pod="p0002", mean=1e6, estimate=1e6)
    pods = {**board.pods, "p0002": lucky}
    found = study(folder, replace(board, pods=pods, entries=(entry, *board.entries)))
    assert found.best_trial.user_attrs["pod"] == "p0001"


def test_a_run_that_ended_without_fresh_seeds_has_its_leaderboard(folder: RunFolder) -> None:
    play(folder)
    board = merge(folder, Rules.of_run(folder), stop="user")
    assert (board.phase, board.confirmed) == ("finished", ())
    found = study(folder)
    best = found.best_trial
    assert best.user_attrs["pod"] == board.winner
    assert best.value == board.entries[0].estimate


def test_a_winner_has_the_score_by_which_it_won(folder: RunFolder) -> None:
    play(folder)
    board = end(folder)
    [final] = board.confirmed
    later = Confirmed("p0001", 1, "confirm", 9, 1.0, 0.0, 2.0, 4, False, final.checkpoint)
    assert study(folder, replace(board, confirmed=(final, later))).best_value == 101.0


def test_trials_have_their_times(folder: RunFolder) -> None:
    play(folder)
    board = replace(end(folder), started=START)
    trial = study(folder, board).trials[0]
    assert trial.datetime_start is not None and trial.datetime_complete is not None
    assert trial.datetime_start.timestamp() == START
    assert trial.datetime_complete.timestamp() == START + 40


def test_a_copy_has_its_parent_its_family_and_the_reason(folder: RunFolder) -> None:
    board = play(folder)
    child = replace(
        board.pods["p0002"], id="p0099", cause="copy", parent="p0001", parent_round=2,
        replaces="p0002", mutated=("gamma", "epochs"), evidence="beaten by 6.5",
    )  # fmt: skip
    found = study(folder, replace(board, pods={**board.pods, "p0099": child}))
    attributes = found.trials[-1].user_attrs
    assert attributes["parent"] == "p0001" and attributes["parent_round"] == 2
    assert attributes["mutated"] == ["gamma", "epochs"] and attributes["cause"] == "copy"
    assert attributes["evidence"] == "beaten by 6.5" and attributes["replaces"] == "p0002"
    assert attributes["family"] == board.pods["p0002"].family


def test_algorithms_are_a_choice_and_their_parameters_apart(tmp_path: Path) -> None:
    folder = create(tmp_path, "ppo", "dqn", agents=SEARCH)
    found = study(folder)
    by_name = {trial.params["algorithm"]: trial for trial in found.trials}
    assert by_name.keys() == {"ppo", "dqn"}
    assert by_name["dqn"].distributions == {
        "algorithm": CategoricalDistribution(["ppo", "dqn"]),
        "dqn.learning_rate": FloatDistribution(1e-5, 1e-3, log=True),
    }
    assert "ppo.gamma" in by_name["ppo"].params and found.user_attrs["dqn.buffer_size"] == 800


def test_a_value_outside_its_range_is_an_attribute(folder: RunFolder) -> None:
    board = read_board(folder)
    odd = {**board.pods["p0002"].hyperparameters, "gamma": 0.5, "hidden": 99, "own": "x"}
    pods = {**board.pods, "p0002": replace(board.pods["p0002"], hyperparameters=odd)}
    trial = study(folder, replace(board, pods=pods)).trials[1]
    assert not {"gamma", "hidden"} & trial.params.keys() and "epochs" in trial.params
    assert [trial.user_attrs[name] for name in ("gamma", "hidden", "own")] == [0.5, 99, "x"]


def test_nothing_in_it_is_refused_by_a_strict_reader_of_json(folder: RunFolder) -> None:
    board = play(folder)
    hostile = replace(
        board.pods["p0001"], evidence="<script>\u2028\x1b[31m\n{", fate_reason="\ud800",
        hyperparameters={**board.pods["p0001"].hyperparameters, "own": math.nan},
    )  # fmt: skip
    board = replace(board, pods={**board.pods, "p0001": hostile}, started=math.inf)
    lines = journal(Look(folder, board)).decode("ascii").splitlines()
    read = [json.loads(line, parse_constant=lambda word: pytest.fail(word)) for line in lines]
    assert read[0]["op_code"] == 0 and len(read) == len(lines)
    assert not any("\\ud800" in line or "\\u001b" in line for line in lines)
    trial = study(folder, board).trials[0]
    assert trial.user_attrs["evidence"].startswith("<script>") and trial.user_attrs["own"] == "nan"


@pytest.mark.long
def test_two_thousand_pods_are_read(folder: RunFolder) -> None:
    board = play(folder)
    first = board.pods["p0001"]
    many = {f"p{n:04d}": replace(first, id=f"p{n:04d}", birth=None) for n in range(1, 2001)}
    trials = study(folder, replace(board, pods=many)).trials
    assert len(trials) == 2000
    assert [trial.number for trial in trials] == list(range(2000))


def test_the_verb_writes_it_and_overwrites_nothing_unasked(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play(folder)
    to = tmp_path / "run.log"
    words = ["results", str(folder.path), "--optuna", str(to)]
    assert main(words) == 0
    assert capsys.readouterr().out == f"{to}\n"
    assert len(study_of(to).trials) == len(read_board(folder).pods)
    assert main(words) == 2
    assert "it is there already" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
