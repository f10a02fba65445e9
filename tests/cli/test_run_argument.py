"""Names of runs: one that is taken, and one that no run has."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcpod.run.run import open_run
from tests.support.command_line import refusal


def test_a_run_that_exists_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str], finished_run: Path
) -> None:
    before = open_run(finished_run).board()
    said = refusal(
        capsys, "launch", "good.yaml", "--runs", str(finished_run.parent),
        "--set", f"name={finished_run.name}",
    )  # fmt: skip
    assert said.startswith(
        f"hpcpod: there is a run at {finished_run} already: `hpcpod resume {finished_run}` goes on"
    )
    assert "`--set name=...`" in said and said.count("\n") == 1
    assert open_run(finished_run).board() == before
    (home / "runs" / "small").mkdir(parents=True)
    (home / "runs" / "small" / "thesis.tex").write_text("")
    said = refusal(capsys, "launch", "good.yaml", "--no-probe")
    assert f"there is something else at {home}/runs/small already" in said and "resume" not in said


def test_a_run_that_is_not_there_is_refused_with_the_folder_and_the_nearest_names(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = home / "runs"
    none = f"hpcpod: there is no run at cartpol, and none named so in {runs}"
    said = refusal(capsys, "status", "cartpol")
    assert said.startswith(f"{none}; nor is any other: ") and "$HPCPOD_RUNS" in said
    for name in ("ant", "cartpole", "cartpole-2", ".tmp-doctor-1"):
        (runs / name).mkdir(parents=True)
        (runs / name / "config.json").write_text("{}")
    assert refusal(capsys, "status", "cartpol") == f"{none}; did you mean cartpole or cartpole-2?\n"
    said = refusal(capsys, "status", "pendulum")
    assert said.endswith(f"none named so in {runs}; there are ant, cartpole, cartpole-2\n")
    said = refusal(capsys, "status", f"{runs}/atn")
    assert said.endswith(f"; did you mean {runs}/ant?\n")
    (home / "policy").mkdir()
    said = refusal(capsys, "status", f"{home}/policy/cartpol")  # no run there, but under runs/
    assert said.endswith("; did you mean cartpole or cartpole-2?\n")
    (home / "policy" / "card.json").write_text("{}")
    said = refusal(capsys, "evaluate", f"{home}/policy")
    assert f"{home}/policy is an exported policy: `hpcpod play` plays it; for all else" in said
    (runs / "walker.ct").mkdir()
    (runs / "walker.ct" / "ct.json").write_text("{}")
    said = refusal(capsys, "leaderboard", "walker")
    assert "walker.ct is a registry of `hpcpod ct`: its runs are in runs/ there" in said
    monkeypatch.setenv("HPCPOD_RUNS", "elsewhere")
    assert f"none named so in {home / 'elsewhere'}; nor is" in refusal(capsys, "logs", "ant")
