"""A policy of somebody else's: weights are read, code that it names is not imported."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.deploy.environment_terms import portable
from hpcpod.deploy.export import write_numpy
from hpcpod.errors import Corrupt, UserError
from hpcpod.run.evaluation.policies import candidates
from hpcpod.run.tables import visible
from hpcpod.storage.blobs import read_blob_file, write_blob_file
from hpcpod.storage.checksummed import pack, unpack
from hpcpod.storage.policy_blobs import joined
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.merge import export_best, read_board


@pytest.fixture
def policy(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a policy, under a name of its own."""
    arrays, meta = read_blob_file(finished_run / "best.h5")
    path = tmp_path / "policy.h5"
    write_blob_file(path, arrays, meta)
    return path


def rewritten(path: Path, **changes: Any) -> Path:
    arrays, meta = read_blob_file(path)
    write_blob_file(path, arrays, {**meta, **changes})
    return path


def test_another_users_policy_imports_nothing_that_is_not_built_in(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    caught = tmp_path / "caught"
    (tmp_path / "planted.py").write_text(f"open({str(caught)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    os.chown(policy, 65521, 65500)
    assert hpcpod.load_policy(policy)([0.0] * 4).shape == ()
    rewritten(policy, agent="planted:Agent")
    os.chown(policy, 65521, 65500)
    with pytest.raises(
        UserError, match=r"is of user 65521, .* imports planted:Agent; if you trust"
    ):
        hpcpod.load_policy(policy)
    assert not caught.exists()
    with pytest.raises(UserError, match="module planted has no 'Agent'"):
        hpcpod.load_policy(policy, trust=True)
    assert caught.exists()


def test_an_export_of_another_users_policy_makes_no_environment_that_it_names(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    caught = tmp_path / "caught"
    (tmp_path / "transplanted.py").write_text(f"open({str(caught)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    env = {**read_blob_file(policy)[1]["env"], "id": "transplanted:Env"}
    rewritten(policy, env=env)
    os.chown(policy, 65521, 65500)
    card = hpcpod.export_policy(policy, tmp_path / "folder")
    assert card["checks"]["not played"].startswith("another user has written it")
    assert not caught.exists()
    card = hpcpod.export_policy(policy, tmp_path / "folder", overwrite=True, trust=True)
    assert "transplanted" in card["checks"]["not played"] and caught.exists()


def joined_with(path: Path, agent: str) -> None:
    """Make a policy an ensemble of itself and of one that says that it is of this agent."""
    arrays, meta = read_blob_file(path)
    both, about = joined([(arrays, meta), (arrays, {**meta, "agent": agent})], "vote")
    write_blob_file(path, both, about)


def test_an_ensemble_is_trusted_no_more_than_any_member_of_it(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    caught = tmp_path / "caught"
    (tmp_path / "implanted.py").write_text(f"open({str(caught)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    joined_with(policy, "implanted:Agent")
    os.chown(policy, 65521, 65500)
    with pytest.raises(UserError, match=r"is of user 65521, .* imports implanted:Agent; if you"):
        hpcpod.load_policy(policy)
    with pytest.raises(UserError, match="imports implanted:Agent"):
        hpcpod.ensemble([policy, policy])
    assert not caught.exists()
    with pytest.raises(UserError, match="module implanted has no 'Agent'"):
        hpcpod.ensemble([policy, policy], trust=True)
    assert caught.exists()


def test_each_member_of_a_run_s_ensemble_is_of_an_agent_that_the_run_trains(
    finished_run: Path, tmp_path: Path, policy: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    own = hpcpod.load_policy(policy).about["agent"]
    joined_with(policy, own)
    shutil.copyfile(policy, run / "best.h5")
    loaded = hpcpod.load_policy(run)
    assert [member["agent"] for member in loaded.about["members"]] == [own, own]
    shutil.copyfile(finished_run / "best.h5", policy)
    joined_with(policy, "sac")
    shutil.copyfile(policy, run / "best.h5")
    with pytest.raises(UserError, match="is of an agent that its run does not train: sac"):
        hpcpod.load_policy(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"members": 3}, {"members": []}, {"members": [1, 2]}, {"members": [{}, {}]},
        {"rule": "median"}, {"rule": None}, {"rule": ["vote"]}, {"rule": "mean"},
        {"format": 2}, {"spec": 3, "members": None},
    ],
)  # fmt: skip
def test_an_ensemble_that_lies_about_itself_is_refused(
    policy: Path, changes: dict[str, Any]
) -> None:
    joined_with(policy, hpcpod.load_policy(policy).about["agent"])
    with pytest.raises((UserError, Corrupt), match=r"policy\.h5"):
        hpcpod.load_policy(rewritten(policy, **changes))


@pytest.mark.parametrize(
    "change", ["agent/0/rng", "agent/1/rng", "stray", "agent/7/rng", "agent/x/y"]
)
def test_an_ensemble_whose_arrays_are_not_its_members_is_refused(policy: Path, change: str) -> None:
    joined_with(policy, hpcpod.load_policy(policy).about["agent"])
    arrays, meta = read_blob_file(policy)
    if change in arrays:
        del arrays[change]
    else:
        arrays[change] = np.zeros(3)
    write_blob_file(policy, arrays, meta)
    with pytest.raises(Corrupt, match="does not fit its own description"):
        hpcpod.load_policy(policy)


@pytest.mark.parametrize(("found", "said"), [
    (4, r"is a policy of format 4, and hpcpod \S+ reads up to 3: a newer hpcpod wrote it, install"),
    (1, "is no policy that hpcpod"),
    (True, "is no policy that hpcpod"),
    (2.5, "is no policy that hpcpod"),
    ([], "is no policy that hpcpod"),
])  # fmt: skip
def test_a_policy_of_another_format_is_one_sentence(policy: Path, found: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        hpcpod.load_policy(rewritten(policy, format=found))
    assert "\n" not in str(caught.value)


def test_a_run_s_policy_is_of_an_agent_that_the_run_trains(
    finished_run: Path, tmp_path: Path, policy: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    shutil.copyfile(rewritten(policy, agent="sac"), run / "best.h5")
    with pytest.raises(UserError, match="is of an agent that its run does not train: sac"):
        hpcpod.load_policy(run)


def test_a_run_s_policy_is_scored_in_the_environment_of_the_run_s_configuration(
    finished_run: Path, tmp_path: Path, policy: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    configured = hpcpod.open_run(run).folder.resolved.config.env
    env = read_blob_file(policy)[1]["env"]
    planted = {**env, "id": "planted:Env", "python": "/planted", "backend": "planted:Backend"}
    shutil.copyfile(rewritten(policy, env=planted), run / "best.h5")
    [found] = candidates([run])
    assert found.data == policy.read_bytes() and found.env == configured
    assert configured.id == "CartPole-v1" and configured.python is None


def test_an_evaluation_s_policies_are_of_agents_that_the_run_trains(
    finished_run: Path, tmp_path: Path, policy: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    joined_with(policy, "planted:Agent")
    for trust in (False, True):
        shutil.copyfile(policy, run / "best.h5")
        with pytest.raises(UserError, match="agent that its run does not train: planted:Agent"):
            candidates([run], trust=trust)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"agent": "planted:Agent"}, "agent: planted:Agent"),
        ({"env": {"id": "CartPole-v1", "python": "/planted"}}, "env.python: /planted"),
        ({"members": [{"agent": "planted:Agent"}]}, "agent: planted:Agent"),
        ({"env": {"wrappers": ["planted:A", "planted:B"]}}, "env.wrappers: planted:A, env.w"),
    ],
)  # fmt: skip
def test_a_policy_that_names_code_of_somebody_s_becomes_no_file_of_the_owner_s(
    finished_run: Path, tmp_path: Path, policy: Path, changes: dict[str, Any], code: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    folder = RunFolder.open(shutil.copytree(finished_run, tmp_path / "run"))
    arrays, meta = read_blob_file(policy)
    planted = folder.blobs.put(arrays, {**meta, **changes})
    board = read_board(folder)
    forged = replace(board, confirmed=tuple(
        replace(row, checkpoint=replace(row.checkpoint, core=planted)) for row in board.confirmed
    ))  # fmt: skip
    assert export_best(folder, board, tmp_path / "own.h5")
    assert not caplog.text
    assert export_best(folder, forged, tmp_path / "best.h5")
    assert read_blob_file(tmp_path / "best.h5")[1]["env"] == meta["env"]
    assert f"and is passed over: {code}" in caplog.text


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments with which a run's policy is exported; nothing is."""
    found: list[Any] = []
    monkeypatch.setattr(
        "hpcpod.deploy.export.export_policy", lambda *all, **more: found.extend(all)
    )
    return found


def test_a_run_s_policy_is_exported_in_the_environment_of_the_run_s_configuration(
    finished_run: Path, tmp_path: Path, policy: Path, given: list[Any]
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    env = read_blob_file(policy)[1]["env"]
    shutil.copyfile(rewritten(policy, env={**env, "python": "/planted"}), run / "best.h5")
    hpcpod.open_run(run).export(folder=tmp_path / "folder")
    exported, _, source = given
    assert exported.about["env"] == env and env["python"] is None
    assert source.not_played == "" and exported.about["score"]


@pytest.mark.parametrize(
    "changes", [{"backend": "planted:Backend"}, {"kwargs": {"make": "planted:make"}}]
)
def test_no_environment_that_another_user_s_configuration_names_is_made_for_an_export(
    finished_run: Path, tmp_path: Path, given: list[Any], changes: dict[str, Any]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    run = shutil.copytree(finished_run, tmp_path / "run")
    document: Any = unpack((run / "config.json").read_bytes(), "config.json")
    document["config"]["env"].update(changes)
    (run / "config.json").write_bytes(pack(document))
    for path in (run, run / "config.json"):
        os.chown(path, 65521, 65500)
    hpcpod.open_run(run).export(folder=tmp_path / "folder")
    assert given[2].not_played.startswith("its environment is code that user 65521")


def test_no_feature_that_another_user_s_run_names_is_computed_for_its_holdout(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    run = shutil.copytree(finished_run, tmp_path / "run")
    document: Any = unpack((run / "config.json").read_bytes(), "config.json")
    kwargs = {"features": ["planted:feature"]}
    document["config"]["env"].update(id="trading", backend="trading", kwargs=kwargs)
    (run / "config.json").write_bytes(pack(document))
    for path in (run, run / "config.json"):
        os.chown(path, 65521, 65500)
    assert main(["evaluate", str(run), "--holdout"]) == 2
    said = capsys.readouterr().err
    assert "code of user 65521's own (env.kwargs.features" in said
    assert "to open its holdout you would run it as you" in said
    assert not (tmp_path / "holdouts").exists()


def exported(policy: Path, folder: Path, **env: Any) -> Path:
    """What ``play`` reads of an exported folder, of an environment with these changes."""
    loaded = hpcpod.load_policy(policy)
    folder.mkdir()
    write_numpy(portable(loaded), folder)
    config = {**loaded.about["env"], **env}
    card = {"files": {"policy.h5": {}}, "environment": {"config": config}}
    (folder / "card.json").write_text(json.dumps(card))
    return folder


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({"id": "planted:Env"}, "env.id: planted:Env"),
        ({"wrappers": ["gymnasium.planted:Wrapper"]}, "env.wrappers: gymnasium.planted:Wrapper"),
        ({"kwargs": {"make": "planted:make"}}, "env.kwargs.make: planted:make"),
        ({"python": "/planted"}, "env.python: /planted"),
    ],
)  # fmt: skip
def test_a_card_of_another_user_s_in_a_folder_of_one_s_own_names_no_code(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    env: dict[str, Any], place: str,
) -> None:  # fmt: skip
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    folder = exported(policy, tmp_path / "folder", **env)
    os.chown(folder / "card.json", 65521, 65500)
    before = list(sys.path)
    assert main(["play", str(folder)]) == 2
    said = f"{folder} is another user's, and playing it imports {place}: copy it if you trust that"
    assert said in capsys.readouterr().err and sys.path == before


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {}}, {"spec": 3}, {"hyperparameters": {"nonsense": 1}}, {"hyperparameters": [1]},
        {"agent": None}, {"agent": ["ppo"]}, {"format": "2"}, {"hyperparameters": {"hidden": "x"}},
    ],
)  # fmt: skip
def test_a_policy_that_lies_about_itself_is_refused(policy: Path, changes: dict[str, Any]) -> None:
    with pytest.raises((UserError, Corrupt)):
        hpcpod.load_policy(rewritten(policy, **changes))


def test_weights_of_other_shapes_are_refused(policy: Path) -> None:
    arrays, meta = read_blob_file(policy)
    write_blob_file(policy, {name: np.zeros(3) for name in arrays}, meta)
    with pytest.raises(Corrupt, match="does not fit its own description"):
        hpcpod.load_policy(policy)


def test_what_others_write_steers_no_terminal() -> None:
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("größe 模型") == "größe 模型"
    shown = visible("\x1b[2J\x1b]52;c;eA==\x07\r\x9b\x7f")
    assert shown.isprintable()
    assert "\x1b" not in shown
