"""An export is a folder that plays without hpcpod, made whole or not at all."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import venv
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.card import escaped
from hpcpod.deploy.checks import Differs
from hpcpod.deploy.export import Source, check_folder, export_policy
from hpcpod.deploy.play import check_score, played
from hpcpod.errors import UserError
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.policy import Policy
from tests.deploy.policies import KINDS, Branching, Forgetful, Unwritten, own_policy, policy_of

FILES = ["README.md", "card.json", "check.json", "policy.h5", "policy.onnx", "policy.py"]
HOSTILE = "<script>alert('x')</script> | `a` **b** [c](http://d)\n# e\x1b[31m\u202e"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def cartpole() -> Policy:
    return policy_of(KINDS["ppo"])


@pytest.fixture(scope="module")
def exported(cartpole: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported folder: only look at it."""
    folder = tmp_path_factory.mktemp("exports") / "policy"
    line = [{"pod": "p1", "born": HOSTILE, "changes": ""}]
    facts = {"name": HOSTILE, "lineage": line, "lineages": {HOSTILE: line}}
    score = {"mean": 100.0, "low": 0.0, "high": 200.0, "episodes": 16, "best_of": HOSTILE}
    scored = Policy(cartpole.agent, cartpole.spec, {**cartpole.about, "score": score})
    export_policy(scored, folder, Source(facts), licence="apache-2.0")
    return folder


def test_an_export_has_its_files_and_what_was_checked(exported: Path, cartpole: Policy) -> None:
    assert names(exported) == FILES
    assert names(exported.parent) == ["policy"]
    card = json.loads((exported / "card.json").read_text())
    assert card["library_name"] == "hpcpod" and card["licence"] == "apache-2.0"
    assert card["files"]["policy.onnx"] == {"opset": 18, "ir_version": 8}
    assert card["output"] == {
        "name": "action", "dtype": "int64", "shape": ["batch"], "bounds": None
    }  # fmt: skip
    parity = card["checks"]["parity"]
    assert [parity[name]["observations"] for name in ("recorded", "random", "extreme")] == [
        256, 256, 64,
    ]  # fmt: skip
    played = card["checks"]["played"]
    assert len(played["returns"]) == len(set(played["seeds"])) == 16
    assert played["fits the run's score"] and min(played["returns"]) >= 8
    assert set(card["checks"]["opened by"]) == {"numpy", "h5py", "onnxruntime"}
    check = json.loads((exported / "check.json").read_text())
    assert check["recorded"] == "while the exported policy played"
    rows = np.asarray(check["inputs"]["observation"]["values"], np.float32)
    assert rows.shape == (256, 4)
    assert cartpole(rows).tolist() == check["action"]["values"]


def test_the_readme_has_the_metadata_that_hugging_face_reads(exported: Path) -> None:
    _, front, body = (exported / "README.md").read_text().split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert metadata["library_name"] == "hpcpod" and metadata["license"] == "apache-2.0"
    assert {"reinforcement-learning", "CartPole-v1"} <= set(metadata["tags"])
    (result,) = metadata["model-index"][0]["results"]
    assert result["task"]["type"] == "reinforcement-learning"
    assert result["dataset"] == {"name": "CartPole-v1", "type": "CartPole-v1"}
    mean, plus_minus, std = result["metrics"][0]["value"].split(maxsplit=2)[0:3]
    returns = json.loads((exported / "card.json").read_text())["checks"]["played"]["returns"]
    assert plus_minus == "+/-" and float(mean) == pytest.approx(np.mean(returns), abs=0.0051)
    assert float(std) == pytest.approx(np.std(returns, ddof=1), abs=0.0051)
    assert "<script>" not in body and "\x1b" not in body and "\u202e" not in body
    assert "\n# e" not in body and r"\*\*b\*\*" in body


def test_texts_of_others_stay_on_their_line_and_in_their_cell() -> None:
    assert escaped("a\nb|c") == r"a b\|c"
    assert escaped("<b>&`") == r"&lt;b&gt;&amp;\`"
    assert escaped("x" * 500) == "x" * 200 + "..."


def test_an_export_plays_in_a_bare_environment(exported: Path, tmp_path: Path) -> None:
    """A virtual environment with numpy, h5py and ONNX Runtime and nothing else."""
    venv.create(tmp_path / "bare", symlinks=True)
    (site,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    for name in ("numpy", "h5py", "onnxruntime"):
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        home = Path(spec.origin).parent
        for path in (home, home.with_name(f"{name}.libs")):
            if path.exists():
                (site / path.name).symlink_to(path)
    code = (
        "import numpy as np, onnxruntime, importlib.util; from policy import Policy\n"
        "assert not any(map(importlib.util.find_spec, ['hpcpod', 'torch', 'gymnasium']))\n"
        "rows = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4)\n"
        "(given,) = onnxruntime.InferenceSession('policy.onnx').run(None, {'observation': rows})\n"
        "print(given.tolist() == [int(Policy('policy.h5')(row)) for row in rows])"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for arguments, said in (
        (["-c", code], "True\n"),
        (["policy.py"], "256 observations: the largest difference of an action is 0\n"),
    ):
        done = subprocess.run(
            [tmp_path / "bare" / "bin" / "python", "-B", *arguments], cwd=exported, env=clean,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == (said, "")


def test_an_export_that_acts_in_another_way_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(Differs, match=r"policy.onnx is refused: its 'action' at [a-z]+ obs"):
        export_policy(own_policy(Forgetful), tmp_path / "policy")
    assert names(tmp_path) == []


def test_an_agent_that_writes_no_operations_is_exported_as_onnx_alone_and_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = own_policy(Unwritten)
    card = export_policy(policy, tmp_path / "policy")
    assert card["files"]["policy.h5"] is None
    assert card["not for numpy"] == "a module of its own"
    without = [name for name in FILES if name not in ("policy.h5", "policy.py")]
    assert names(tmp_path / "policy") == without
    assert (
        "the NumPy reader has not (a module of its own)"
        in (tmp_path / "policy" / "README.md").read_text()
    )
    assert main(["play", str(tmp_path / "policy"), "--episodes", "1", "--seed", "4"]) == 0
    with gym.make("CartPole-v1") as env:
        obs, _ = env.reset(seed=4)
        steps, over = 0, False
        while not over:
            obs, _, terminated, truncated, _ = env.step(policy(obs))
            steps, over = steps + 1, terminated or truncated
    assert f"seed 4: return {steps:.1f}, {steps} steps, " in capsys.readouterr().out
    with pytest.raises(UserError, match="Branching can't be exported: it has no write_operations"):
        export_policy(own_policy(Branching), tmp_path / "other")
    assert names(tmp_path) == ["policy"]


def test_where_its_environment_cannot_be_made_observations_are_drawn(tmp_path: Path) -> None:
    card = export_policy(policy_of(KINDS["dqn that duels by one layer"]), tmp_path / "policy")
    assert "tests.deploy.policies:unknown" in card["checks"]["not played"]
    assert card["mean_reward"] is None
    check = json.loads((tmp_path / "policy" / "check.json").read_text())
    assert check["recorded"] == "drawn from the space"
    assert set(check["inputs"]["observation"]["values"]) == {5, 6, 7}
    assert "model-index" not in (tmp_path / "policy" / "README.md").read_text()


def test_an_environment_with_other_bounds_here_is_not_played_as_the_same_one() -> None:
    env = EnvConfig("Pendulum-v1")
    with closing(EnvFactory(env, "cpu")(1)) as one:
        spec = one.spec
    stronger = replace(spec, action_bounds=(-9.0, 9.0))
    assert played(unasked, stronger, env, 2, 8) == "Pendulum-v1 has other spaces here"


def unasked(inputs: object) -> Any:
    raise AssertionError("it was asked to act")


def test_only_an_exported_policy_is_overwritten_and_only_if_asked(
    cartpole: Policy, tmp_path: Path
) -> None:
    folder = tmp_path / "policy"
    (folder / "inside").mkdir(parents=True)
    for overwrite, said in ((False, "is there already; take another name"),
                            (True, "it is no exported policy")):  # fmt: skip
        with pytest.raises(UserError, match=said):
            export_policy(cartpole, folder, overwrite=overwrite)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="it is there already, and is no folder"):
        check_folder(tmp_path / "file", overwrite=True)
    with pytest.raises(UserError, match="there is no folder"):
        check_folder(tmp_path / "no" / "policy", overwrite=True)
    (folder / "card.json").write_text("{}")
    with pytest.raises(UserError, match="it has inside, which no export wrote; take it away"):
        export_policy(cartpole, folder, overwrite=True)
    (folder / "inside").rmdir()
    export_policy(cartpole, folder, overwrite=True)
    assert names(folder) == FILES
    assert names(tmp_path) == ["file", "policy"]


def test_a_score_that_does_not_fit_the_runs_is_refused() -> None:
    # 16 returns of 100 +/- 4: half of their 99.9 % interval is 4.073 * 4 / 4 = 4.07, by hand.
    score = {"mean": 100.0, "low": 98.0, "high": 102.0, "episodes": 16}
    returns = np.array([-1.0, 1.0] * 8) * 4 * (15 / 16) ** 0.5
    for mean in (94.0, 106.0):
        check_score(tuple(mean + returns), score)
    for mean in (93.8, 106.2):
        with pytest.raises(Differs, match=f"it scores {mean} in 16 episodes, and the run says 100"):
            check_score(tuple(mean + returns), score)
    # Equal returns have no spread of their own: the run's is theirs, 2 / 2.131 * 4 = 3.75.
    check_score((105.8,) * 16, score)
    with pytest.raises(Differs):
        check_score((105.9,) * 16, score)


def test_a_missing_package_is_named_with_the_extra(
    cartpole: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match=r"here, onnx: pip install 'hpcpod\[export\]'"):
        export_policy(cartpole, tmp_path / "policy")


@pytest.mark.parametrize("name", ["policy.pt2", "policy.h5"])
def test_an_archive_of_torchs_is_never_opened(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PK\x03\x04" + bytes(99))
    with pytest.raises(UserError, match=r"is a zip archive, as torch.export and torch.save write"):
        hpcpod.load_policy(tmp_path / name)


def test_a_run_is_exported_by_the_verb_and_in_python(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "policy"
    assert main(["export", str(finished_run), "-o", str(folder), "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert card == json.loads((folder / "card.json").read_text())
    best = hpcpod.open_run(finished_run).best()
    assert best is not None
    assert card["run"]["lineage"][-1]["pod"] == card["policy"]["pod"] == best.pod
    assert card["score"]["mean"] == best.mean
    assert card["policy"]["hyperparameters"] == best.hyperparameters
    assert main(["export", str(finished_run), "x.h5", "-o", str(folder)]) == 2
    assert "name one of them" in capsys.readouterr().err
    assert main(["export", str(finished_run), "--license", "mit"]) == 2
    capsys.readouterr()
    run = hpcpod.open_run(finished_run)
    assert run.export(folder=folder, overwrite=True) == folder
    file = finished_run / "best.h5"
    assert main(["export", str(file), "-o", str(folder), "--overwrite"]) == 0
    said = capsys.readouterr().out
    assert hpcpod.export_policy(file, tmp_path / "other")["run"] == {}
    assert "policy.onnx and policy.h5 act as the agent at" in said and "played: " in said
