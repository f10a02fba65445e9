"""A tournament that starts from another run's best: its weights, its replay, and nothing else."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import hpcpod
from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError, UserError
from hpcpod.records.records import Board, PodState
from hpcpod.run.explain import why
from hpcpod.run.launch import create_run
from hpcpod.run.preflight import check
from hpcpod.run.run import Run
from hpcpod.run.start_from import asked_for
from hpcpod.storage.board import writer_id
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import needed_checkpoints
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.pod.rounds import births, replay, train
from tests.pod.test_shrunk_copies import IDLE, LARGE, state_of
from tests.support.command_line import refusal
from tests.support.hand_played import answer
from tests.support.small_runs import AGENTS, mapping

DQN = {**LARGE, "learning_rate": {"log_uniform": [1e-4, 1e-3]}}


def config_of(*algorithms: str, **sections: Any) -> dict[str, Any]:
    names = algorithms or ("dqn", "ppo")
    pods = {"pods": {"min": 1, "max": 2 * len(names)}, **sections.pop("population", {})}
    agents = {name: {"dqn": DQN}.get(name, AGENTS[name]) for name in names}
    agents |= sections.pop("agents", {})
    return mapping(*names, population=pods, agents=agents, **sections)


def made(home: Path, *algorithms: str, probe: bool = False, **sections: Any) -> RunFolder:
    return create_run(
        check(from_mapping(config_of(*algorithms, **sections)), probe=probe).resolved, home
    )


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """A run whose p0001, a DQN, has trained two rounds and leads; p0002, a PPO, follows."""
    folder = made(tmp_path_factory.mktemp("parent"), name="parent", seed=5, stop={"rounds": 9})
    for _ in range(2):
        folder.reports.publish(train(folder, births(folder)["p0001"]))
        merge(folder, Rules.of_run(folder))
    answer(folder, births(folder)["p0002"], (1.0, 2.0) * 4)
    merge(folder, Rules.of_run(folder))
    assert Run(folder).best().pod == "p0001"  # type: ignore[union-attr]
    yield folder


def start(parent: RunFolder, **fields: Any) -> dict[str, Any]:
    return {"start_from": {"run": str(parent.path), **fields}}


def founders(folder: RunFolder) -> dict[str, PodState]:
    return dict(read_board(folder).pods)


def test_the_first_half_of_the_parents_family_inherits_and_the_rest_is_fresh(
    parent: RunFolder, tmp_path: Path
) -> None:
    folder = made(tmp_path, name="child", population=start(parent))
    pods = founders(folder)
    assert [(p.algorithm, p.cause, p.control) for p in pods.values()] == [
        ("dqn", "inherited", False), ("ppo", "fresh", True),
        ("dqn", "fresh", True), ("ppo", "fresh", False),
    ]  # fmt: skip
    heir, theirs = pods["p0001"], read_board(parent).pods["p0001"]
    best = theirs.best
    assert heir.origin is not None and heir.birth is not None and best is not None
    assert (heir.origin.run, heir.origin.pod, heir.origin.round, heir.origin.core) == (
        "parent", "p0001", best.round, best.checkpoint.core,
    )  # fmt: skip
    assert (heir.hyperparameters, heir.mutated) == (theirs.hyperparameters, ())
    assert (heir.birth.round, heir.birth.begins) == (1, 0.0)
    assert Board.from_document(read_board(folder).document()) == read_board(folder)


def test_who_inherits_is_said_at_launch(parent: RunFolder) -> None:
    config = from_mapping(config_of(name="child", population=start(parent)))
    first, *_ = check(config, probe=False).remarks
    assert re.fullmatch(
        r"population\.start_from: 1 of 2 pods of dqn go on from p0001 of parent at round \d"
        r" \(checkpoint [0-9a-f]{12}\); ppo can't inherit, and begins afresh",
        first,
    )


def test_an_heir_with_more_environments_leaves_its_parents_replay(
    parent: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows of four environments are none of eight."""
    folder = made(
        tmp_path, "dqn", name="child", env={"num_envs": 8}, population=start(parent, pod="p0001")
    )
    best = read_board(parent).pods["p0001"].best
    report = train(folder, births(folder)["p0001"])
    assert not report.failure and report.checkpoint is not None and best is not None
    assert report.inherited_returns == best.returns
    assert "environments are no rows of 8: none is kept" in caplog.text


def test_more_heirs_than_one_have_mutated_hyperparameters(
    parent: RunFolder, tmp_path: Path
) -> None:
    folder = made(tmp_path, "dqn", name="child", population=start(parent, share=1.0))
    first, second = founders(folder).values()
    assert (first.mutated, second.mutated) == ((), ("learning_rate",))
    assert second.birth is not None and first.birth is not None
    assert second.birth.checkpoint == first.birth.checkpoint
    assert second.seed != first.seed


def test_an_heir_scores_its_parents_panel_as_its_parent_did_and_goes_on_from_its_replay(
    parent: RunFolder, tmp_path: Path
) -> None:
    idle = {"dqn": {**DQN, **IDLE}}  # keeps the weights of its start for a round
    folder = made(
        tmp_path, "dqn", name="child", seed=77, agents=idle, population=start(parent, pod="p0001")
    )
    elsewhere = tmp_path / "gone"
    shutil.copytree(parent.path, elsewhere)
    shutil.move(parent.path, tmp_path / "hidden")  # as if deleted: the blobs are the run's own
    try:
        birth, best = (
            births(folder)["p0001"],
            read_board(RunFolder.open(elsewhere)).pods["p0001"].best,
        )
        assert best is not None
        report = train(folder, birth)
    finally:
        shutil.move(tmp_path / "hidden", parent.path)
    assert report.inherited_returns == best.returns  # to the bit, on seeds of the parent's run
    assert report.trained_steps == 512 and report.checkpoint is not None
    assert report.checkpoint.env_steps == 512  # of this run
    weights, theirs = state_of(folder, report.checkpoint), state_of(parent, best.checkpoint)
    assert int(weights["env_steps"]) == 512, "schedules by steps begin with this run, too"
    networks = [name for name in weights if name.startswith("network/")]
    assert networks and all(torch.equal(weights[name], theirs[name]) for name in networks)
    old, new = replay(parent, best.checkpoint), replay(folder, report.checkpoint)
    kept = len(old["reward"])
    assert len(new["reward"]) == kept + 128  # 512 steps of 4 environments
    assert torch.equal(new["reward"][:kept], old["reward"])
    folder.reports.publish(report)
    pod = merge(folder, Rules.of_run(folder)).pods["p0001"]
    assert pod.transfer_exact is True and pod.birth is not None
    assert (pod.birth.round, pod.birth.inherited, pod.birth.origin) == (2, False, None)


def test_every_blob_is_copied_and_kept_and_verified(parent: RunFolder, tmp_path: Path) -> None:
    folder = made(tmp_path, name="child", population=start(parent))
    birth = births(folder)["p0001"]
    assert birth.checkpoint is not None and birth.checkpoint.segments
    for sha256 in birth.checkpoint.blobs():
        assert folder.blobs.path(sha256).read_bytes() == parent.blobs.path(sha256).read_bytes()
    assert set(birth.checkpoint.blobs()) <= needed_checkpoints(read_board(folder))
    torn = tmp_path / "torn"
    shutil.copytree(parent.path, torn)
    path = RunFolder.open(torn).blobs.path(birth.checkpoint.segments[0].sha256)
    path.write_bytes(b"x" + path.read_bytes()[1:])
    with pytest.raises(
        UserError, match=r"p0001 of parent can't be copied: .*does not match its checksum"
    ):
        made(tmp_path, name="other", population={"start_from": {"run": str(torn)}})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["child", "torn"]


def test_a_changed_environment_is_not_held_to_the_parents_panel(
    parent: RunFolder, tmp_path: Path
) -> None:
    limit = {"max_episode_steps": 100}
    folder = made(tmp_path, name="child", env=limit, population=start(parent))
    heir = founders(folder)["p0001"]
    assert (heir.cause, heir.parent_returns) == ("inherited", ())


def test_where_a_run_comes_from_is_told(
    parent: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, name="child", population=start(parent))
    said = "goes on from p0001 of parent at round"
    assert said in why(folder, "p0001")[0]
    answer(folder, births(folder)["p0001"], (9.0, 9.0) * 4)
    merge(folder, Rules.of_run(folder))
    assert main(["leaderboard", str(folder.path)]) == 0
    assert said in capsys.readouterr().out
    pods = Run(folder).table("pods")
    assert list(pods["cause"])[:2] == ["inherited", "fresh"]


OTHER = {"hidden": 32}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"algorithms": ("ppo",)}, "p0001 of parent is of agent dqn, and no algorithm"),
        ({"agents": {"dqn": {**DQN, **OTHER}}, "algorithms": ("dqn",)},
         "p0001 of parent is of agent dqn with hidden 16, and no algorithm"),
        ({"pod": "p0002"}, "p0002 of parent is a policy of format None"),
        ({"pod": "p0009"}, "parent has no pod p0009"),
        ({"run": "nowhere"}, "there is no run at"),
    ],
)  # fmt: skip
def test_what_can_not_be_started_from_is_a_sentence(
    parent: RunFolder, tmp_path: Path, sections: dict[str, Any], said: str
) -> None:
    given = {key: sections[key] for key in ("pod", "run") if key in sections}
    fields = {key: sections[key] for key in ("agents",) if key in sections}
    with pytest.raises(ConfigError) as refused:
        made(tmp_path, *sections.get("algorithms", ()), **fields,
             population={"start_from": {"run": str(parent.path), **given}})  # fmt: skip
    (problem,) = refused.value.problems
    assert problem.startswith("population.start_from: ") and said in problem


def test_an_environment_of_other_spaces_is_refused_by_the_first_difference(
    parent: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        made(
            tmp_path, "dqn", probe=True, env={"id": "Acrobot-v1"}, round={"env_steps": 512},
            population=start(parent),
        )  # fmt: skip
    (problem,) = refused.value.problems
    assert problem == (
        "population.start_from: p0001 of parent can't act in Acrobot-v1: observations are"
        " {kind: Box, shape: [4], dtype: float32} there and"
        " {kind: Box, shape: [6], dtype: float32} here"
    )


def test_a_run_without_a_policy_and_one_of_a_newer_format_are_refused(
    parent: RunFolder, tmp_path: Path
) -> None:
    empty = made(tmp_path, name="empty")
    with pytest.raises(ConfigError, match="empty has no policy yet: no round was reported"):
        made(tmp_path, name="child", population=start(empty))
    newer = rewritten(parent, tmp_path / "newer", format=99)
    with pytest.raises(ConfigError, match="is a policy of format 99, and this hpcpod reads 2"):
        made(tmp_path, name="child", population=start(newer))
    hostile = rewritten(parent, tmp_path / "hostile", spec={"observation": [], "action": 3})
    with pytest.raises(ConfigError, match="the spec of p0001 of parent is none"):
        made(tmp_path, "dqn", name="child", probe=True, population=start(hostile))


def rewritten(parent: RunFolder, path: Path, **meta: Any) -> RunFolder:
    """A copy of a run whose leader's blob says other things of itself."""
    shutil.copytree(parent.path, path)
    folder = RunFolder.open(path)
    generation, document = folder.board.read()  # type: ignore[misc]
    board = Board.from_document(document)
    entry = board.entries[0]
    arrays, about = folder.blobs.get(entry.checkpoint.core)
    made_of = replace(entry.checkpoint, core=folder.blobs.put(arrays, {**about, **meta}))
    pod = board.pods[entry.pod]
    history = tuple(replace(each, checkpoint=made_of) for each in pod.history)
    assert pod.best is not None
    pod = replace(pod, history=history, best=replace(pod.best, checkpoint=made_of))
    entries = (replace(entry, checkpoint=made_of), *board.entries[1:])
    board = replace(board, entries=entries, pods={**board.pods, pod.id: pod})
    folder.board.publish(generation, document, board.document(), writer_id())
    return folder


def test_the_command_line_and_python_name_the_run(
    parent: RunFolder, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked_for("a:b/demo:p0003") == {
        "population": {"start_from": {"run": "a:b/demo", "pod": "p0003"}}
    }
    assert asked_for("demo", {"population": "auto", "seed": 3}) == {
        "seed": 3, "population": {"auto": True, "start_from": {"run": "demo"}},
    }  # fmt: skip
    shutil.copytree(parent.path, home / "runs" / "demo")
    said = refusal(capsys, "launch", "good.yaml", "--no-probe", "--from", "demo:p0001")
    assert "population.start_from: p0001 of parent is of agent dqn, and no algorithm" in said
    with pytest.raises(ConfigError, match="p0001 of parent is of agent dqn, and no algorithm"):
        hpcpod.launch("good.yaml", start_from=hpcpod.open_run("demo"))
