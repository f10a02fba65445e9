"""The tree of births and the schedules in it, of boards and reports that are made by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.parser import main
from hpcpod.errors import UserError
from hpcpod.records.records import (
    Board,
    Checkpoint,
    Confirmed,
    Evaluation,
    Origin,
    PodState,
)
from hpcpod.run.lineage import dot, tree_data, tree_lines
from hpcpod.run.lineage_schedule import check_line, schedule_of
from hpcpod.run.policy_folder import ancestors, facts_of
from hpcpod.run.run import open_run
from hpcpod.storage.layout import sharded
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import lineage
from hpcpod.tournament.merge import read_board
from tests.support.hand_played import answer, birth_of, fail, merged
from tests.support.lineages import bear, created

SEARCHED = {"ppo": ("lr",)}


def pod(name: str, parent: str | None = None, at: int = 0, **fields: object) -> PodState:
    values = {"lr": 0.1 if parent is None else 0.2}
    state = PodState(
        id=name, algorithm="ppo", family="ppo", hyperparameters=values, seed=1,
        cause="fresh" if parent is None else "copy", parent=parent, parent_round=at,
        mutated=() if parent is None else ("lr",),
    )  # fmt: skip
    return replace(state, **fields)  # type: ignore[arg-type]


def board(*pods: PodState, **fields: object) -> Board:
    made = Board(started=0.0, pods={each.id: each for each in pods})
    return replace(made, **fields)  # type: ignore[arg-type]


BEST = Evaluation(2, (1.0, 3.0), Checkpoint("0" * 64, 1024))
FAMILY = board(
    pod("p0001", best=BEST, control=True),
    pod("p0002", fate="replaced"),
    pod("p0003", "p0001", 1, born=2, replaces="p0002"),
    pod("p0004", "p0001", 2, born=5, fate="failed"),
    pod("p0005", "p0003", 3, born=4, mutated=()),
    winner="p0005",
)


def test_the_tree_has_a_line_for_each_pod_below_its_parent() -> None:
    assert list(tree_lines(FAMILY, {"p0001", "p0003", "p0005"}, SEARCHED)) == [
        "p0001* ppo, control: lr=0.1; best 2.0 at round 2; alive",
        "├─ p0003* at round 1: lr 0.1 -> 0.2; alive",
        "│  └─ p0005* at round 3: hyperparameters unchanged; the winner",
        "└─ p0004 at round 2: lr 0.1 -> 0.2; failed",
        "p0002 ppo, fresh draw: lr=0.1; replaced",
    ]


def test_no_pod_is_missing_from_a_tree_whose_board_is_damaged() -> None:
    damaged = board(
        pod("p0001", "p0002"), pod("p0002", "p0001"), pod("p0003", "p0099", 4), pod("p0004")
    )
    lines = list(tree_lines(damaged, (), SEARCHED))
    assert sorted(line.split()[0] for line in lines) == ["p0001", "p0002", "p0003", "p0004"]
    assert [each.id for each in lineage(damaged, "p0001")] == ["p0002", "p0001"]
    assert [each.id for each in lineage(damaged, "p0003")] == ["p0003"]
    with pytest.raises(UserError, match=r"does not begin from scratch: p0003's parent p0099"):
        check_line(lineage(damaged, "p0003"), 5, "r")
    with pytest.raises(UserError, match="changes its network"):
        check_line([pod("p0001"), pod("p0002", "p0001", 1, family="ppo-64")], 5, "r")
    with pytest.raises(UserError, match="do not rise"):
        check_line([pod("p0001"), pod("p0002", "p0001", 5)], 5, "r")


ORIGIN = Origin("demo", "/demo", "p0007", 12, "3f2a9c1b0d5e" * 5, 9000, seed=1)


def test_a_lineage_that_began_in_another_run_has_no_schedule_from_scratch() -> None:
    heir = pod("p0001", cause="inherited", origin=ORIGIN)
    with pytest.raises(UserError) as caught:
        check_line([heir, pod("p0002", "p0001", 1)], 3, "r")
    assert str(caught.value) == (
        "the lineage of p0002 in r can't be trained again from scratch: p0001 goes on from p0007 of"
        " demo at round 12 (checkpoint 3f2a9c1b0d5e); replay a pod of demo instead"
    )
    family = board(heir, pod("p0002", "p0001", 1))
    assert [each["born"] for each in ancestors(family, "p0002")] == [
        "goes on from p0007 of demo at round 12 (checkpoint 3f2a9c1b0d5e)",
        "copy of p0001 at round 1",
    ]


def test_the_schedule_of_a_run_that_delivers_an_ensemble_says_so(reported: RunFolder) -> None:
    found = read_board(reported)
    best = found.entries[0]
    report = Confirmed(
        best.pod, best.round, "report", 0, 4.5, 4.0, 5.0, 4, passed=False,
        checkpoint=best.checkpoint, rule="vote", members=("p0003", "p0001"),
    )  # fmt: skip
    delivering = replace(found, confirmed=(report,))
    schedule = schedule_of(reported, delivering)
    assert schedule.pod == "p0003"
    assert schedule.ensemble == "the ensemble (vote) of p0003, p0001"
    assert schedule_of(reported, delivering, "p0003").ensemble == ""


def test_a_lineage_of_two_thousand_generations_is_drawn() -> None:
    pods = [pod(f"p{n:04d}", f"p{n - 1:04d}" if n > 1 else None, n - 1) for n in range(1, 2001)]
    lines = list(tree_lines(board(*pods), (), SEARCHED))
    assert len(lines) == 2000 and lines[-1].lstrip().startswith("└─ p2000 at round 1999")


def test_graphviz_reads_what_is_written_for_it_whatever_names_are() -> None:
    wild = pod('p"1\\<b>\x1b[2J', control=True)
    text = dot(board(wild, pod("p0002", wild.id, 1)), 'a "run"', [wild, pod("p0002", wild.id, 1)],
               {wild.id, "p0002"})  # fmt: skip
    assert text.startswith('digraph "a \\"run\\"" {\n') and text.endswith("\n}")
    assert (
        '"p\\"1\\\\<b>\ufffd[2J" -> "p0002" [label="round 1\\nlr 0.1 -> 0.2", penwidth=3];' in text
    )
    if shutil.which("dot"):  # where Graphviz is installed, it says so itself
        subprocess.run(["dot", "-Tsvg"], input=text, text=True, check=True, capture_output=True)


def test_the_tree_as_data_names_each_parent_and_can_be_json() -> None:
    data = json.loads(json.dumps(tree_data(FAMILY, "r", {"p0001"})))
    assert (data["run"], data["winner"], len(data["pods"])) == ("r", "p0005", 5)
    first, _, third, *_ = data["pods"]
    assert first["best"] == {"round": 2, "mean": 2.0} and first["leads_to_best"] is True
    assert (third["parent"], third["parent_round"], third["best"]) == ("p0001", 1, None)


@pytest.fixture
def reported(tmp_path: Path) -> RunFolder:
    """p0001 has trained two rounds, the second at its second attempt; p0003 copied it then."""
    folder = created(tmp_path / "runs")
    answer(folder, birth_of(folder, "p0001"), (1.0, 2.0), begins=0.0, ends=0.1)
    answer(folder, birth_of(folder, "p0002"), (0.0, 1.0), begins=0.0, ends=0.1)
    merged(folder)
    fail(folder, birth_of(folder, "p0001"), "it fell over")
    merged(folder)
    answer(folder, birth_of(folder, "p0001"), (2.0, 3.0), begins=0.1, ends=0.3)
    merged(folder)
    assert bear(folder, "p0001", 2, "p0002") == "p0003"
    answer(folder, birth_of(folder, "p0003"), (4.0, 5.0), begins=0.5, ends=0.7)
    merged(folder)
    return folder


def test_a_schedule_takes_the_attempts_that_counted(reported: RunFolder) -> None:
    run = open_run(reported.path)
    schedule = run.schedule()  # of the leader
    assert schedule == run.schedule("p0003") and schedule.pod == "p0003"
    founder, copy = schedule.stretches
    assert [(r.round, r.begins, r.ends, r.mean) for r in founder.rounds] == [
        (1, 0.0, 0.1, 1.5), (2, 0.1, 0.3, 2.5)
    ]  # fmt: skip
    second = reported.reports.read("p0001-00002-2")
    assert second is not None and second.checkpoint is not None
    assert founder.rounds[1].core == second.checkpoint.core
    assert (copy.parent, copy.mutated, copy.shrink) == ("p0001", ("learning_rate",), False)
    assert [birth.id for birth in schedule.births(3, 4)] == [
        "p0001-00001-1", "p0001-00002-1", "p0003-00003-1", "p0003-00004-1"
    ]  # fmt: skip
    last = [*schedule.births(3, 4)][-1]  # behind the schedule's end all of the budget is spent
    assert (last.begins, last.ends, last.inherited) == (1.0, 1.0, False)


def test_a_run_that_lost_history_says_what_stands_in_for_it(reported: RunFolder) -> None:
    sharded(reported.path / "reports", "p0001-00002-2", ".json").unlink()
    path = sharded(reported.path / "reports", "p0001-00001-1", ".json")
    path.write_text(path.read_text().replace('"begins"', '"Begins"', 1))  # damaged
    lost, shares = open_run(reported.path).schedule().lost
    assert lost.startswith("the report of p0001's round 1 and p0001's round 2 is lost")
    assert shares.startswith("no report tells which part of the run's budget 2 rounds had")
    schedule = open_run(reported.path).schedule()
    first = schedule.stretches[0].rounds[0]
    assert (first.begins, first.ends, first.core) == (0.0, 1 / 3, None)


def test_the_card_of_a_run_s_ensemble_has_the_lineage_of_each_member(reported: RunFolder) -> None:
    alone = facts_of(reported, {"pod": "p0003"})
    assert [each["pod"] for each in alone["lineage"]] == ["p0001", "p0003"]
    members = [{"pod": "p0003"}, {"pod": "p0001"}, {"pod": ["forged"]}, {}]
    facts = facts_of(reported, {"rule": "vote", "members": members})
    assert "lineage" not in facts
    lines = {pod: [each["pod"] for each in line] for pod, line in facts["lineages"].items()}
    assert lines == {"p0003": ["p0001", "p0003"], "p0001": ["p0001"]}


def test_a_pod_without_a_round_has_no_schedule_and_none_is_named_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = created(tmp_path)
    for words, said in (
        (["lineage", "p0009"], "has no pod p0009; it has p0001 to p0002"),
        (["lineage", "p0001", "--json"], "p0001 of family has no schedule yet"),
        (["lineage", "--json", "--dot"], "leave one of them out"),
        (["replay"], "family has no policy yet: no round was reported"),
        (["replay", "p0001", "--seed", "-1"], "expected a seed"),
    ):
        verb, *rest = words
        try:
            code = main([verb, str(folder.path), *rest])
        except SystemExit as error:  # argparse's own
            code = int(error.code or 0)
        assert code == 2 and said in capsys.readouterr().err
    board = open_run(folder.path).board()
    with pytest.raises(UserError, match="no round was reported"):
        schedule_of(folder, board)


def test_the_verb_draws_the_tree_and_a_pod_s_chain_with_its_schedule(
    reported: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lineage", str(reported.path)]) == 0
    head, first, child, *rest = capsys.readouterr().out.splitlines()
    assert head == "family: 3 pods, 1 of them copies"
    assert first.startswith("p0001* dqn, ") and child.startswith("└─ p0003* at round 2: ")
    assert rest[-1].startswith("* leads to p0003, which leads so far: hpcpod lineage ")
    assert main(["lineage", str(reported.path), "p0003"]) == 0
    said = capsys.readouterr().out
    assert "  p0003 copy of p0001 at round 2, in place of p0002: learning_rate " in said
    assert "because a test says so" in said
    assert "0 to 1.02k   env steps, rounds 1 to 2: p0001 from scratch" in said
    assert f"hpcpod replay {reported.path} p0003" in said
    assert main(["lineage", str(reported.path), "p0003", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stretches"][1]["pod"] == "p0003"
    assert main(["lineage", str(reported.path), "--dot"]) == 0
    assert '"p0001" -> "p0003"' in capsys.readouterr().out
