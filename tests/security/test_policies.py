"""A policy of somebody else's: weights are read, code that it names is not imported."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hpcpod
from hpcpod.errors import Corrupt, UserError
from hpcpod.run.tables import visible
from hpcpod.storage.blobs import read_blob_file, write_blob_file


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


def test_a_run_s_policy_is_of_an_agent_that_the_run_trains(
    finished_run: Path, tmp_path: Path, policy: Path
) -> None:
    run = shutil.copytree(finished_run, tmp_path / "run")
    shutil.copyfile(rewritten(policy, agent="sac"), run / "best.h5")
    with pytest.raises(UserError, match="is of an agent that its run does not train: sac"):
        hpcpod.load_policy(run)


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
