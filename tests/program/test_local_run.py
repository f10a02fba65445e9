"""A whole run of a program on this machine: copies, mutations, a winner, and its files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.errors import UserError
from hpcpod.run.run import Run
from hpcpod.run.saved_folder import MARK
from tests.program.programs import ADDS, mapping
from tests.support.small_runs import wait_for

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
    wait_for("the last slots to go", lambda: not run.status().slots)  # a copy missed their files
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
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == [MARK, "weight", "width"]
    run.export(folder=tmp_path / "two")
    assert (tmp_path / "two" / "weight").read_bytes() == (run.path / "best/weight").read_bytes()
    with pytest.raises(UserError, match="is there already"):
        run.export(folder=tmp_path / "two")
    with pytest.raises(UserError, match="its checkpoints are folders"):
        run.export(tmp_path / "x.h5")
    with pytest.raises(UserError, match=r"export .* -o FOLDER"):
        hpcpod.load_policy(run)


def test_an_export_replaces_only_what_an_export_has_made_and_only_once_it_is_whole(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, made = tmp_path / "mine", tmp_path / "made"
    mine.mkdir()
    (mine / "thesis").write_text("years")
    assert main(["export", str(run.path), "-o", str(mine), "--overwrite"]) == 2
    assert "no export has made it" in capsys.readouterr().err
    assert [path.name for path in mine.iterdir()] == ["thesis"]
    run.export(folder=made)
    run.export(folder=made, overwrite=True)
    damaged = tmp_path / "damaged"
    shutil.copytree(run.path, damaged)
    for blob in (damaged / "blobs").rglob("*.h5"):
        blob.write_bytes(b"damage")
    assert main(["export", str(damaged), "-o", str(made), "--overwrite"]) != 0
    assert (made / "weight").read_bytes() == (run.path / "best/weight").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged", "made", "mine"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("status", r"best: p\d+ program round \d+: .* of fresh seeds"),
        ("status --json", r'"algorithm": "program"'),
        ("leaderboard", r"p\d+ +program .* winner"),
        ("lineage", r"program, fresh draw: rate=[\d.]+, width=[12]"),
        ("results", r"births +\d+ rows"),
        ("why", r"p0001 program is a control"),
        ("advise", r"too short to tell"),
    ],
)  # fmt: skip
def test_verbs_that_look_show_programs_like_agents(
    words: str, said: str, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *more = words.split()
    assert main([verb, str(run.path), *(["p0001"] if verb == "why" else []), *more]) in (0, None)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert re.search(said, shown.out)


def test_a_report_shows_programs_like_agents(run: Run, tmp_path: Path) -> None:
    assert main(["report", str(run.path), "-o", str(tmp_path / "r.html")]) in (0, None)
    text = (tmp_path / "r.html").read_text()
    assert "p0001" in text and "program" in text and "rate" in text
