"""Rounds go on in the environments of the round before; where they can't, no episode is joined."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hpcpod.agents.replay import ReplayBuffer
from hpcpod.envs import recording
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import State
from hpcpod.errors import Corrupt
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.checkpoint import Checkpoints, read_segment
from hpcpod.pod.factory import make_agent
from hpcpod.records.records import Birth, Checkpoint, Report, Segment
from hpcpod.storage.run_folder import RunFolder
from tests.pod import late_envs
from tests.pod.late_envs import LENGTH
from tests.pod.rounds import (
    KINDS,
    assert_same_end,
    copy_of,
    execute,
    first_birth,
    onward,
    replay,
    train,
)
from tests.support.small_runs import AGENTS, create

LATE = "tests.pod.late_envs:"
PRIORITISED = {"dqn": {**AGENTS["dqn"], "priority_exponent": 0.6, "n_steps": 3}}
COLLECTING: dict[str, Any] = {"learning_starts": 100_000, "buffer_size": 100_000, "horizon": 29}
"""Rounds of 319 rows that are only collected."""


def rounds(folder: RunFolder, count: int, *stops: int) -> tuple[Birth, list[Report]]:
    """Rounds of the first pod, each by a new process's ``Pod``; the birth that would be next."""
    birth, reports = first_birth(folder), []
    for _ in range(count):
        reports.append(train(folder, birth, *stops))
        birth = onward(birth, reports[-1])
    return birth, reports


def rows_of(folder: RunFolder, report: Report, env_id: str, num_envs: int) -> State:
    """All rows of a report's replay."""
    assert report.checkpoint is not None
    buffer = ReplayBuffer(make_env(env_id, num_envs).spec, 100_000)
    parts = [(s.start, read_segment(folder.blobs, s)) for s in report.checkpoint.segments]
    buffer.restore(report.checkpoint.rows, parts)
    return buffer.segment(buffer.oldest, buffer.rows)


@pytest.mark.parametrize("env_id", [f"{LATE}Saveable", f"{LATE}Late", "HalfCheetah-v5"])
def test_episodes_are_trained_on_to_their_end_however_short_rounds_are(
    env_id: str, tmp_path: Path
) -> None:
    name = "td3" if env_id == "HalfCheetah-v5" else "dqn"
    folder = create(
        tmp_path, name, agents={name: COLLECTING}, env={"id": env_id, "num_envs": 2},
        round={"env_steps": 2 * 319, "episodes": 2},
    )  # fmt: skip
    _, reports = rounds(folder, 4)
    rows = rows_of(folder, reports[-1], env_id, 2)
    assert len(rows["reward"]) == 4 * 319
    ends = rows["truncated"] | rows["terminated"]
    assert ends.any(dim=1).nonzero().view(-1).tolist() == [LENGTH - 1]
    if name == "dqn":
        assert rows["reward"].sum(0).tolist() == [500.0, 500.0]
    returns = [report.metrics.get("training_return") for report in reports]
    assert returns[:3] == [None] * 3 and returns[3] is not None


UNSAVEABLE: dict[str, dict[str, Any]] = {
    "vector": {"id": f"{LATE}unsaveable", "backend": "vector"},
    "another Python": {"id": f"{LATE}Late", "python": sys.executable},
}


@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize("kind", UNSAVEABLE)
def test_where_no_episode_can_be_handed_on_rounds_begin_in_the_middle_of_others(
    kind: str, pipeline: bool, tmp_path: Path
) -> None:
    folder = create(
        tmp_path, "dqn", agents={"dqn": {**COLLECTING, "horizon": 25}},
        env={"num_envs": 2, **UNSAVEABLE[kind]}, pod={"pipeline": pipeline},
        round={"env_steps": 2 * 100, "episodes": 2},
    )  # fmt: skip
    _, reports = rounds(folder, 4)
    rows = rows_of(folder, reports[-1], f"{LATE}Late", 2)
    begins = (rows["obs"][::100, 0, 0] * LENGTH).int().tolist()
    assert begins[0] == 0 and len(set(begins)) == 4  # drawn from all of an episode
    assert max(begins) > LENGTH / 2 and rows["reward"].sum() > 0
    assert [report.trained_steps for report in reports] == [200] * 4  # the way there is not counted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agents", [{"ppo": AGENTS["ppo"]}, PRIORITISED], ids=["ppo", "dqn"])
def test_the_pod_s_next_rounds_end_the_same_here_elsewhere_stopped_or_in_a_pipeline(
    agents: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    (name,) = agents
    here, there, torn = (
        create(tmp_path / place, name, agents=agents, env=KINDS[kind])
        for place in ("here", "there", "torn")
    )
    birth, pod = first_birth(here), prepare(here)
    for _ in range(3):
        last = execute(pod, birth)
        birth = onward(birth, last)
    pod.close()
    for folder, stops in ((there, ()), (torn, (2,))):
        _, reports = rounds(folder, 3, *stops)
        assert_same_end(last, reports[-1], here, folder)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_continuous_over_rounds_where_environments_go_on(
    kind: str, tmp_path: Path
) -> None:
    agents = {"dqn": {**AGENTS["dqn"], "horizon": 4, "buffer_size": 10_000}}
    folder = create(tmp_path, "dqn", agents=agents, round={"env_steps": 16}, env=KINDS[kind])
    _, reports = rounds(folder, 2)
    assert reports[0].checkpoint is not None and reports[1].checkpoint is not None
    rows, cut = replay(folder, reports[1].checkpoint), kind == "unsaveable"
    # In 8 steps a pole can't fall.
    assert rows["truncated"].any(dim=1).tolist() == [False] * 3 + [cut] + [False] * 3 + [cut]
    goes_on = torch.equal(rows["obs"][4], replay(folder, reports[0].checkpoint)["next_obs"])
    assert goes_on != cut


def child_s_rows(folder: RunFolder, parent: Birth, report: Report, *stops: int) -> State:
    child = train(folder, copy_of(parent, report), *stops)
    assert child.checkpoint is not None
    return replay(folder, child.checkpoint)


@pytest.mark.parametrize("most", [None, 200])
def test_a_copy_plays_episodes_of_its_own_and_its_parent_s_last_are_cut(
    most: int | None, tmp_path: Path
) -> None:
    agents = {"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}}
    folder = create(tmp_path, "dqn", agents=agents, pod={"inherit_transitions": most})
    birth = first_birth(folder)
    report = train(folder, birth)
    assert report.checkpoint is not None
    before = replay(folder, report.checkpoint)
    last, inherited = before["truncated"][-1], 128 if most is None else 50
    assert not last.all()  # some episode goes on with the parent
    for stops in ((), (2,)):
        rows = child_s_rows(folder, birth, report, *stops)
        assert len(rows["reward"]) == inherited + 128
        seam = rows["truncated"][inherited - 1] | rows["terminated"][inherited - 1]
        assert bool(seam.all())
        assert torch.equal(rows["obs"][:inherited], before["obs"][-inherited:])
        fresh = rows["obs"][inherited]
        assert bool((fresh.abs() <= 0.05).all())  # the first observations of episodes
    assert not replay(folder, report.checkpoint)["truncated"][-1].all()


def test_a_copy_inherits_the_same_rows_however_often_its_parent_was_checkpointed(
    tmp_path: Path,
) -> None:
    agents = {"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}}
    ends = []
    for name, seconds in (("seldom", 1000.0), ("often", 1e-3)):
        pod = {"inherit_transitions": 300, "checkpoint_seconds": seconds}
        folder = create(tmp_path / name, "dqn", agents=agents, pod=pod)
        birth = first_birth(folder)
        report = train(folder, birth)
        assert report.checkpoint is not None
        assert (len(report.checkpoint.segments) > 1) == (name == "often")
        ends.append((train(folder, copy_of(birth, report)), folder))
    (one, calm), (other, torn) = ends
    assert_same_end(one, other, calm, torn)
    assert one.checkpoint is not None and one.checkpoint.segments[0].start == 128 - 75


def segments(checkpoint: Checkpoint | None) -> tuple[Segment, ...]:
    assert checkpoint is not None
    return checkpoint.segments


def test_a_task_that_its_seed_does_not_decide_goes_on_elsewhere_and_nothing_is_joined(
    tmp_path: Path,
) -> None:
    env_id = f"{LATE}Drifting"
    folder = create(
        tmp_path, "dqn", agents={"dqn": COLLECTING}, env={"id": env_id, "num_envs": 2},
        round={"env_steps": 2 * 319, "episodes": 2},
    )  # fmt: skip
    late_envs.Drifting.made = 0
    birth = first_birth(folder)
    first, second = prepare(folder), prepare(folder)
    report = execute(first, birth)
    again = execute(second, onward(birth, report))
    assert [s.cut for s in segments(again.checkpoint)] == [True, False]
    rows = rows_of(folder, again, env_id, 2)
    assert rows["truncated"].all(dim=1).nonzero().view(-1).tolist() == [318]
    assert torch.equal(
        rows["final_obs"][:, 0], rows_of(folder, report, env_id, 2)["next_obs"][:, 0]
    )
    assert float((rows["obs"][319] - rows["final_obs"]).abs().max()) > 0.05
    assert rows["reward"].sum(0).tolist() == [138.0, 138.0]  # steps 501 to 638


def test_an_episode_too_long_to_be_played_again_ends_with_its_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_STEPS", 400)
    env_id = f"{LATE}Late"
    folder = create(
        tmp_path, "dqn", agents={"dqn": COLLECTING}, env={"id": env_id, "num_envs": 2},
        round={"env_steps": 2 * 319, "episodes": 2},
    )  # fmt: skip
    _, reports = rounds(folder, 4)
    rows = rows_of(folder, reports[-1], env_id, 2)
    assert rows["truncated"].any(dim=1).nonzero().view(-1).tolist() == [637, 1275]
    birth, pod = first_birth(folder), prepare(folder)
    for report in reports:
        kept = execute(pod, birth)
        assert kept.checkpoint == report.checkpoint
        birth = onward(birth, report)


def test_a_round_s_end_may_be_of_another_engine_and_the_inside_may_not(tmp_path: Path) -> None:
    folder = create(tmp_path)
    report = train(folder, first_birth(folder))
    assert report.checkpoint is not None
    agent = make_agent(
        "ppo", make_env("CartPole-v1", 4).spec, first_birth(folder).hyperparameters, 0, "cpu"
    )
    reader = Checkpoints(folder.blobs, {"spec": {"engine": "another"}})
    assert "worker" not in reader.load(report.checkpoint, agent)
    with pytest.raises(Corrupt, match="states of environments of"):
        reader.load(report.checkpoint, agent, inside=True)


def test_a_checkpoint_of_old_without_environments_begins_them_anew(tmp_path: Path) -> None:
    agents = {"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}}
    folder = create(tmp_path, "dqn", agents=agents)
    birth = first_birth(folder)
    report = train(folder, birth)
    assert report.checkpoint is not None
    arrays, meta = folder.blobs.get(report.checkpoint.core)
    old = {name: array for name, array in arrays.items() if not name.startswith("worker/")}
    assert len(old) < len(arrays)
    checkpoint = replace(report.checkpoint, core=folder.blobs.put(old, meta))
    following = replace(onward(birth, report), checkpoint=checkpoint)
    once, again = train(folder, following), train(folder, following, 2)
    assert_same_end(once, again, folder, folder)
    assert [s.cut for s in segments(again.checkpoint)] == [True, False, False]
