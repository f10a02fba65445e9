"""The notebooks run in a real kernel, where a user would open them, on small runs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from hpcpod.cli.parser import main
from hpcpod.run.run import open_run
from tests.support.command_line import GOOD

NOTEBOOKS = sorted((Path(__file__).parents[2] / "analysis").glob("*.ipynb"))
BY_NAME = {path.stem: path for path in NOTEBOOKS}
TRADES = """
name: trades
env:
  id: trading
  backend: trading
  num_envs: 8
  kwargs:
    market: {source: synthetic, stocks: 3, days: 60, minutes: 13}
    features: [signal, return_1]
    stride: 4
    sessions: 2
    embargo: 2
population: {pods: {min: 1, max: 1}, algorithms: {ppo: 1}}
pod: {evaluator: trading}
round: {env_steps: 256, episodes: 4}
agents: {ppo: {horizon: 16}}
stop: {rounds: 1, confirm_episodes: 4}
cluster: {slots: 1}
"""


class Executed:
    """A notebook after its cells were run in a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        read: Any = nbformat.read
        notebook = read(BY_NAME[name], as_version=4)
        where = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=300, resources=where).execute()
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        self.said = ["".join(o.get("text", "") for o in cell.outputs) for cell in cells]
        """The output of each code cell."""
        kinds = [{kind for o in cell.outputs for kind in o.get("data", ())} for cell in cells]
        self.pictures = ["image/png" in kind for kind in kinds]
        """The cells that show a picture."""
        self.tables = [
            "".join(
                o["data"]["text/html"] for o in cell.outputs if "text/html" in o.get("data", ())
            )
            for cell in cells
        ]
        """The table that each shows."""
        names = [o.get("name") for cell in cells for o in cell.outputs]
        assert "stderr" not in names, self.said


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, finished_run: Path) -> Path:
    """A folder with ``runs/``: one of a single pod, and the latest one, which has evolved."""
    home = tmp_path_factory.mktemp("analysis")
    (home / "good.yaml").write_text(GOOD)
    words = ("--set", "stop.rounds=2", "--runs", str(home / "runs"))
    assert main(["launch", str(home / "good.yaml"), *words]) == 0
    os.utime(home / "runs" / "small" / "config.json", (0, 0))
    (home / "runs" / "latest").symlink_to(finished_run)
    (home / "analysis").mkdir()
    return home


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is named, but where a test does."""
    for name in ("HPCPOD_RUNS", "HPCPOD_RUN", "HPCPOD_BASELINE", "HPCPOD_COMPARE"):
        monkeypatch.delenv(name, raising=False)


def test_a_look_shows_the_latest_run(runs: Path, finished_run: Path) -> None:
    run, done = open_run(finished_run), Executed("look_at_a_run", runs)
    assert done.said[0].startswith("looked-at: finished (rounds) | ")
    assert run.ranking() in done.said[1]
    assert done.pictures == [False, True, True, False, True]
    assert all(f"<th>{pod.id}</th>" in done.tables[3] for pod in run.lineage())


def test_what_evolution_did_has_a_line_of_each_copy(runs: Path, finished_run: Path) -> None:
    pods = open_run(finished_run).board().pods.values()
    copies = [pod.id for pod in pods if pod.cause == "copy"]
    done = Executed("what_evolution_did", runs / "analysis")
    assert f"looked-at: {len(pods)} pods were born, {len(copies)} of them copies;" in done.said[0]
    assert done.pictures == [False, True, True, True, True]
    assert [done.tables[4].count(f"<td>{pod}</td>") > 0 for pod in copies] == [True] * len(copies)


def test_runs_of_one_task_are_compared_and_their_differences_named(runs: Path) -> None:
    done = Executed("compare_runs", runs)
    assert done.pictures == [False, True, True, False]
    assert "<td>latest</td>" in done.tables[0] and "<td>small</td>" in done.tables[0]
    assert "<th>population.warmup_rounds</th>" in done.tables[3]
    assert "<th>env.id</th>" not in done.tables[3]


@pytest.mark.parametrize("baseline", ["", "runs/small"])
def test_curves_are_drawn_against_controls_or_another_run(
    baseline: str, runs: Path, finished_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if baseline:
        monkeypatch.setenv("HPCPOD_BASELINE", baseline)
    done = Executed("learning_curves_against_a_baseline", runs)
    assert done.pictures == [False, True, True, True]
    line = " > ".join(pod.id for pod in open_run(finished_run).lineage())
    called = "1 pods of small" if baseline else "2 controls of looked-at"
    assert done.said[0] == f"looked-at: {line}; baseline: {called}\n"


def test_a_trading_run_is_shown_on_selection_with_its_holdout_closed(tmp_path: Path) -> None:
    (tmp_path / "trades.yaml").write_text(TRADES, encoding="utf-8")
    assert main(["launch", str(tmp_path / "trades.yaml"), "--runs", str(tmp_path / "runs")]) == 0
    done = Executed("a_trading_run", tmp_path)
    assert done.said[0].startswith("trades: finished (rounds) | ")
    assert done.pictures == [False, True, True, True, False]
    for name in ("policy", "cash", "hold", "equal weight", "momentum", "random"):
        assert f"<th>{name}</th>" in done.tables[2]
    assert done.said[4] == "holdouts opened for trades in this folder of runs: 0\n"
    assert "<th>ppo</th>" in done.tables[4]
    assert not (tmp_path / "runs" / "holdouts").exists()


def test_it_says_in_a_sentence_that_there_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCPOD_RUNS", str(tmp_path / "none"))
    with pytest.raises(CellExecutionError) as raised:
        Executed("look_at_a_run", tmp_path)
    assert f"RunNotFound: there is no run in {tmp_path}/none: launch one" in str(raised.value)
    assert "Traceback" not in str(raised.value).split("------------------")[-1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_kept_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert len(cells) <= 12
