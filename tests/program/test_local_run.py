"""A whole run of a program on this machine: copies, mutations, a winner, and its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.errors import UserError
from hpcpod.run.run import Run
from tests.program.programs import ADDS, mapping

# A copy of a pod with another width would start from a weight that is none of its own.
FAMILIES = ADDS.replace(
    "weight = 0.0\n",
    'weight = 0.0\nwidth = task["hyperparameters"]["width"]\n',
).replace(
    '    weight = float(Path(task["checkpoint"], "weight").read_text())\n',
    '    weight = float(Path(task["checkpoint"], "weight").read_text())\n'
    '    assert Path(task["checkpoint"], "width").read_text() == str(width), "another family"\n',
).replace(
    '    (save / "weight")', '    (save / "width").write_text(str(width))\n    (save / "weight")'
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run."""
    home = tmp_path_factory.mktemp("programs")
    whole = mapping(
        FAMILIES, home,
        program={
            "scores": True, "structural": ["width"],
            "search": {"rate": {"log_uniform": [0.001, 1.0]}, "width": {"choice": [1, 2]}},
        },
        population={"pods": {"max": 4}, "controls": 1},
        stop={"rounds": 6},
    )  # fmt: skip
    run = hpcpod.launch(whole, runs=home / "runs")
    assert run.wait(timeout=300).state == "finished"
    return run


def test_copies_stay_in_their_family_and_score_as_their_parents_did(run: Run) -> None:
    board = run.board()
    copies = [pod for pod in board.pods.values() if pod.cause == "copy"]
    assert copies, "no pod was ever copied"
    for pod in copies:
        assert pod.parent is not None
        parent = board.pods[pod.parent]
        assert parent.hyperparameters["width"] == pod.hyperparameters["width"]
        assert pod.transfer_exact is not False and "width" not in pod.mutated
    assert any(pod.transfer_exact for pod in copies)
    assert not any(pod.failure for pod in board.pods.values())


def test_the_best_is_scored_on_fresh_seeds_and_its_files_are_there(run: Run) -> None:
    best = run.best()
    assert best is not None and best.fresh and best.seeds == "report"
    assert best.checkpoint == run.path / "best"
    weight = float((run.path / "best" / "weight").read_text())
    assert best.mean == pytest.approx(weight, abs=0.01)
    assert json.loads((run.path / "best.json").read_text())["pod"] == best.pod


def test_any_pods_files_can_be_had_and_no_policy(run: Run, tmp_path: Path) -> None:
    assert main(["export", str(run.path), "-o", str(tmp_path / "one"), "--pod", "p0001"]) == 0
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["weight", "width"]
    run.export(folder=tmp_path / "two")
    assert (tmp_path / "two" / "weight").read_bytes() == (run.path / "best/weight").read_bytes()
    with pytest.raises(UserError, match="is there already"):
        run.export(folder=tmp_path / "two")
    with pytest.raises(UserError, match="its checkpoints are folders"):
        run.export(tmp_path / "x.h5")
    with pytest.raises(UserError, match=r"export .* -o FOLDER"):
        hpcpod.load_policy(run)


@pytest.mark.parametrize(
    "words",
    [
        ["status"], ["status", "--json"], ["leaderboard"], ["lineage"], ["results"], ["why"],
        ["advise"],
    ],
)  # fmt: skip
def test_verbs_that_look_show_programs_like_agents(
    words: list[str], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["p0001"] if words == ["why"] else []
    assert main([words[0], str(run.path), *more, *words[1:]]) in (0, None)
    assert "Traceback" not in capsys.readouterr().err


def test_a_report_shows_programs_like_agents(run: Run, tmp_path: Path) -> None:
    assert main(["report", str(run.path), "-o", str(tmp_path / "r.html")]) in (0, None)
    text = (tmp_path / "r.html").read_text()
    assert "p0001" in text and "program" in text and "rate" in text
