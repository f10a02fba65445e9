"""The section ``program`` of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.loader import dump_yaml, from_mapping, load_file
from hpcpod.config.space import Choice, LogUniform
from hpcpod.errors import ConfigError
from hpcpod.run.preflight import check, read_config
from tests.program.programs import ADDS, mapping


def test_a_program_is_the_populations_one_algorithm_and_needs_no_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run.yaml").write_text(
        """
name: mine
program:
  command: [sh, train.py]
  search: {learning_rate: {log_uniform: [1.0e-5, 1.0e-2]}, width: {choice: [64, 256]}}
  structural: [width]
  defaults: {width: 256, momentum: 0.9}
stop: {rounds: 2}
"""
    )
    config = load_file(tmp_path / "run.yaml")
    assert config.program is not None and config.env.id == "program"
    [(name, space)] = check(
        from_mapping(config, {"program": {"folder": str(tmp_path)}})
    ).resolved.algorithms.items()
    assert check(config).resolved.own_code() == ["program.command: sh train.py"]
    assert name == "program" and space.structural == ("width",)
    assert space.values == {
        "learning_rate": LogUniform(1e-5, 1e-2), "width": Choice((64, 256)), "momentum": 0.9,
    }  # fmt: skip
    assert space.mutable == ("learning_rate",) and space.unmutated()["width"] == 256
    assert space.family("program", {"width": 64}) == "program(width=64)"
    (tmp_path / "again.yaml").write_text(dump_yaml(config))
    assert load_file(tmp_path / "again.yaml") == config


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no command": ({"program": {"command": []}}, "command must have a first word"),
    "an unknown structural": (
        {"program": {"structural": ["width"]}}, r"structural: width is not in search .known: rate",
    ),
    "a name": ({"program": {"search": {"a b": 1}}}, "a hyperparameter's name has letters"),
    "twins": (
        {"program": {"search": {"a.b": 1, "a_b": 1}}}, "a.b and a_b would both be .HPCPOD_P_A_B",
    ),
    "an env": ({"env": {"id": "CartPole-v1"}}, "the program makes its own environment"),
    "agents": ({"agents": {"ppo": {}}}, "agents.ppo has hyperparameters, but"),
    "algorithms": ({"population": {"algorithms": {"ppo": 1}}}, "all pods are the program's"),
    "a target": ({"stop": {"target": 1.0}}, "a target needs scores on fresh seeds"),
    "second looks": (
        {"population": {"second_looks": 0.2}}, "a second look needs scores on fresh seeds",
    ),
    "a target of a loss": (
        {"program": {"direction": "minimize", "scores": True}, "stop": {"target": 0.05}},
        "write -0.05 for a loss of 0.05",
    ),
    "snapshots": ({"snapshots": {"seconds": 5}}, "a snapshot needs scores on fresh seeds"),
    "ranks": ({"pod": {"ranks": 2}}, "the program starts its own processes"),
    "ensembles": ({"stop": {"ensembles": {"rules": ["mean"]}}}, "programs can't be joined"),
    "a list for a range": (
        {"program": {"search": {"rate": [1, 2]}}}, "program.search.rate: a list is no value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_section_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    changes, said = BAD[name]
    with pytest.raises(ConfigError, match=said):
        from_mapping(mapping(ADDS, tmp_path, **changes))


def test_auto_is_for_agents_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="auto chooses for our agents"):
        read_config({**mapping(ADDS, tmp_path), "population": "auto"}, choose=lambda data: data)


def test_what_can_not_be_started_is_refused_before_the_run(tmp_path: Path) -> None:
    whole = mapping(ADDS, tmp_path, program={"command": ["no-such-python", "train.py"]})
    with pytest.raises(ConfigError, match=r"no 'no-such-python' to start, neither on .PATH"):
        check(from_mapping(whole))
    whole["program"]["command"] = ["sh", "trian.py"]
    with pytest.raises(ConfigError, match=r"program.command: there is no .*/trian.py"):
        check(from_mapping(whole))
    whole["program"]["folder"] = str(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"program.folder: there is no folder"):
        check(from_mapping(whole))


def test_that_a_program_can_not_score_is_said(tmp_path: Path) -> None:
    whole = mapping(ADDS, tmp_path)
    assert any("program.scores:" in said for said in check(from_mapping(whole)).remarks)
    whole["program"]["scores"] = True
    assert not any("program.scores:" in said for said in check(from_mapping(whole)).remarks)
