"""A round is a function of its birth: stopped, killed, resumed or repeated, it ends the same."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hpcpod.agents.base import Agent
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import random_seeds
from hpcpod.errors import Corrupt, Diverged, StorageError
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.checkpoint import Checkpoints
from hpcpod.pod.evaluator import PanelEvaluator, Stopped
from hpcpod.pod.factory import make_agent
from hpcpod.pod.ipc.messages import Progress
from hpcpod.pod.policy import agent_state
from hpcpod.pod.round import Watch
from hpcpod.pod.worker import Worker
from hpcpod.records.records import Birth, encode
from hpcpod.storage.blobs import Blobs
from hpcpod.storage.run_folder import RunFolder
from tests.pod.rounds import (
    KINDS,
    assert_same_end,
    copy_of,
    damage,
    execute,
    first_birth,
    onward,
    replay,
    stateless,
    train,
)
from tests.support.small_runs import AGENTS, FAULTS, create, wait_for

both_algorithms = pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
all_kinds = pytest.mark.parametrize("kind", KINDS)
SHORT = {"env_steps": 192, "episodes": 2}


@both_algorithms
@all_kinds
def test_a_round_that_was_stopped_ends_as_one_that_was_not(
    algorithm: str, kind: str, tmp_path: Path
) -> None:
    calm = create(tmp_path / "calm", algorithm, env=KINDS[kind])
    torn = create(tmp_path / "torn", algorithm, env=KINDS[kind])
    birth, torn_birth = first_birth(calm), first_birth(torn)
    assert birth == torn_birth
    for stops in ((1, 2), (3,)):  # rounds 1 and 2; in the first, twice
        one, other = train(calm, birth), train(torn, torn_birth, *stops)
        resumed = torn.checkpoints.latest(birth.pod, birth.round)
        assert (resumed is not None) == (kind != "unsaveable")
        assert_same_end(one, other, calm, torn)
        birth, torn_birth = onward(birth, one), onward(torn_birth, other)


@pytest.mark.parametrize("algorithm", ["sac", "td3", "ddpg"])
def test_a_round_that_was_stopped_before_its_first_update_ends_as_one_that_was_not(
    algorithm: str, tmp_path: Path
) -> None:
    late = {algorithm: {"horizon": 16, "learning_starts": 128, "updates_per_step": 0.1}}
    calm, torn = (
        create(tmp_path / name, algorithm, agents=late, env={"id": "Pendulum-v1"}, round=SHORT)
        for name in ("calm", "torn")
    )
    one, other = train(calm, first_birth(calm)), train(torn, first_birth(torn), 1)
    assert one.metrics and one.metrics == other.metrics
    assert one.checkpoint is not None and other.checkpoint is not None
    assert (one.checkpoint.core, one.returns) == (other.checkpoint.core, other.returns)


@both_algorithms
@all_kinds
def test_a_round_that_was_stopped_while_it_was_scored_is_not_trained_again(
    algorithm: str, kind: str, tmp_path: Path
) -> None:
    calm = create(tmp_path / "calm", algorithm, env=KINDS[kind])
    torn = create(tmp_path / "torn", algorithm, env=KINDS[kind])
    birth = first_birth(calm)
    iterations = 512 // (32 * 4)
    scored = train(torn, birth, iterations + 3)  # it is asked again at each step of the panel
    trained = torn.checkpoints.trained(birth.pod, birth.round)
    assert trained is not None and trained.checkpoint == scored.checkpoint
    assert_same_end(train(calm, birth), scored, calm, torn)
    told: list[Progress] = []
    prepare(torn).execute(birth, "here", Watch(on_progress=told.append))
    assert told == []


SERVE = """
import sys
from pathlib import Path
from hpcpod.pod.__main__ import Server
from hpcpod._process import StopFlag
from hpcpod.storage.blobs import Blobs
from hpcpod.storage.run_folder import RunFolder
Server(RunFolder.open(sys.argv[1]), "there", StopFlag(), sys.stdout).serve()
"""


@both_algorithms
def test_a_round_whose_process_was_killed_ends_as_one_that_was_not(
    algorithm: str, tmp_path: Path
) -> None:
    long = {"env_steps": 6144, "episodes": 8}
    calm = create(tmp_path / "calm", algorithm, round=long)
    torn = create(tmp_path / "torn", algorithm, round=long, pod={"checkpoint_seconds": 0.05})
    birth = first_birth(torn)
    order = json.dumps({"kind": "birth", "order": encode(birth)}) + "\n"
    process = subprocess.Popen([sys.executable, "-c", SERVE, torn.path], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(order.encode())
    process.stdin.flush()
    wait_for("a checkpoint", lambda: torn.checkpoints.latest(birth.pod, 1) is not None)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    resumed = torn.checkpoints.latest(birth.pod, 1)
    assert resumed is not None and 0 < resumed.env_steps < 6144
    assert_same_end(train(calm, birth), train(torn, birth), calm, torn)


@both_algorithms
def test_a_damaged_resume_checkpoint_costs_the_round_and_nothing_else(
    algorithm: str, tmp_path: Path
) -> None:
    folder = create(tmp_path, algorithm)
    birth = onward(first_birth(folder), train(folder, first_birth(folder)))
    with pytest.raises(Stopped):
        prepare(folder).execute(birth, "here", Watch(lambda: True))
    resume = folder.checkpoints.latest(birth.pod, birth.round)
    assert resume is not None
    damage(folder, resume.core)
    again = train(folder, birth)
    assert [found.name.split("+")[0] for found in folder.quarantine.list()] == ["blobs"]
    undisturbed = create(tmp_path / "calm", algorithm)
    train(undisturbed, first_birth(folder))
    assert_same_end(train(undisturbed, birth), again, undisturbed, folder)


@both_algorithms
def test_a_damaged_or_missing_checkpoint_is_said_to_be_corrupt(
    algorithm: str, tmp_path: Path
) -> None:
    folder = create(tmp_path, algorithm)
    birth = onward(first_birth(folder), train(folder, first_birth(folder)))
    assert birth.checkpoint is not None
    damage(folder, birth.checkpoint.blobs()[-1])
    pod = prepare(folder)
    for _ in ("damaged: it goes into quarantine", "missing"):
        with pytest.raises(Corrupt):
            execute(pod, birth)


@both_algorithms
def test_a_mutated_copy_scores_what_its_parent_scored_and_then_goes_its_own_way(
    algorithm: str, tmp_path: Path
) -> None:
    folder = create(tmp_path, algorithm)
    birth = first_birth(folder)
    pod = prepare(folder)
    parent = execute(pod, birth)
    child = execute(pod, copy_of(birth, parent, learning_rate=7e-4))
    assert child.inherited_returns == parent.returns
    twin = execute(pod, onward(birth, parent))
    assert twin.inherited_returns == ()
    assert child.checkpoint is not None and twin.checkpoint is not None
    assert child.checkpoint.env_steps == twin.checkpoint.env_steps
    weights, _ = folder.blobs.get(child.checkpoint.core)
    others, _ = folder.blobs.get(twin.checkpoint.core)
    name = "agent/network/policy.weight" if algorithm == "ppo" else "agent/network/0.weight"
    assert not np.array_equal(weights[name], others[name])


def test_a_copy_refers_to_its_parents_replay_and_writes_only_what_is_new(tmp_path: Path) -> None:
    folder = create(tmp_path, "dqn", agents={"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}})
    birth = first_birth(folder)
    parent = train(folder, birth)
    child = train(folder, copy_of(birth, parent))
    assert parent.checkpoint is not None and child.checkpoint is not None
    *whole, last = child.checkpoint.segments[: len(parent.checkpoint.segments)]
    # Its environments begin anew: no episode of its parent's goes on behind the last row.
    assert (*whole, replace(last, cut=False)) == parent.checkpoint.segments and last.cut
    new = child.checkpoint.segments[len(parent.checkpoint.segments) :]
    assert sum(s.stop - s.start for s in new) == 512 // 4
    assert (child.checkpoint.segments[0].start, child.checkpoint.rows) == (0, 2 * 512 // 4)


def test_the_next_round_inherits_the_replay_up_to_its_capacity(tmp_path: Path) -> None:
    folder = create(tmp_path, "dqn")
    birth = first_birth(folder)
    reports = []
    for _ in range(3):
        reports.append(train(folder, birth))
        birth = onward(birth, reports[-1])
    ends = [report.checkpoint for report in reports]
    # 128 rows a round; the ring holds 800 / 4 = 200 of them.
    assert [(c.rows, c.segments[0].start) for c in ends if c] == [(128, 0), (256, 0), (384, 128)]


PRIORITISED = {"dqn": {**AGENTS["dqn"], "priority_exponent": 0.6, "n_steps": 3}}


@pytest.mark.parametrize("agents", [{}, PRIORITISED], ids=["uniform", "prioritised"])
def test_the_next_round_of_the_same_pod_reads_no_replay_and_ends_the_same(
    agents: dict[str, Any], tmp_path: Path
) -> None:
    folder, other = (create(tmp_path / name, "dqn", agents=agents) for name in ("one", "other"))
    birth, pod = first_birth(folder), prepare(folder)
    for _ in range(2):
        birth = onward(birth, execute(pod, birth))
    assert birth.checkpoint is not None
    for segment in birth.checkpoint.segments:
        folder.blobs.path(segment.sha256).unlink()
    report = execute(pod, birth)
    with pytest.raises(Corrupt, match="is missing"):
        execute(prepare(folder), birth)  # who has not trained the round before needs them
    anew = first_birth(other)
    for _ in range(3):
        last = train(other, anew)
        anew = onward(anew, last)
    assert report.checkpoint is not None and last.checkpoint is not None
    assert (report.checkpoint.core, report.returns) == (last.checkpoint.core, last.returns)


def test_a_prioritised_round_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    calm, torn = (create(tmp_path / n, "dqn", agents=PRIORITISED) for n in ("calm", "torn"))
    birth, torn_birth = first_birth(calm), first_birth(torn)
    for _ in range(2):
        one, other = train(calm, birth), train(torn, torn_birth, 2)
        assert_same_end(one, other, calm, torn)
        birth, torn_birth = onward(birth, one), onward(torn_birth, other)


@pytest.mark.parametrize(
    ("most", "rows"), [(0, 0), (3, 0), (511, 127), (512, 128), (600, 150), (1100, 256), (None, 256)]
)
def test_a_copy_inherits_no_more_transitions_than_the_configuration_allows(
    most: int | None, rows: int, tmp_path: Path
) -> None:
    agents = {"dqn": {**AGENTS["dqn"], "buffer_size": 10_000}}
    folder = create(tmp_path, "dqn", agents=agents, pod={"inherit_transitions": most})
    birth, pod = first_birth(folder), prepare(folder)
    first = execute(pod, birth)
    second = execute(pod, onward(birth, first))
    child = execute(pod, copy_of(birth, second))
    assert child.checkpoint is not None
    # 128 rows of 4 environments a round: those of rounds 1 and 2, and its own of round 3.
    assert child.checkpoint.rows == 3 * 128
    assert child.checkpoint.segments[0].start == 2 * 128 - rows
    assert child.inherited_returns == second.returns
    third = execute(pod, onward(birth, second))  # the parent keeps all of it
    assert third.checkpoint is not None and third.checkpoint.segments[0].start == 0


@both_algorithms
def test_rounds_end_at_multiples_of_their_steps_and_never_drift(
    algorithm: str, tmp_path: Path
) -> None:
    # An iteration is 32 * 4 = 128 steps: 500 is reached at 512, 1000 at 1024, 1500 at 1536.
    folder = create(tmp_path, algorithm, round={"env_steps": 500})
    birth, pod, ends = first_birth(folder), prepare(folder), []
    for _ in range(5):
        report = execute(pod, birth)
        assert report.checkpoint is not None
        ends.append(report.checkpoint.env_steps)
        birth = onward(birth, report)
    assert ends == [512, 1024, 1536, 2048, 2560]


def test_where_nothing_can_be_saved_a_round_s_last_step_is_truncated_and_no_other(
    tmp_path: Path,
) -> None:
    # In 20 steps a pole can't fall: whatever is cut here was cut by the round's end.
    agents = {"dqn": {**AGENTS["dqn"], "horizon": 4, "buffer_size": 10_000}}
    env, steps = KINDS["unsaveable"], {"env_steps": 4 * 8}
    folder = create(tmp_path, "dqn", agents=agents, round=steps, env=env)
    report = train(folder, first_birth(folder))
    assert report.checkpoint is not None
    rows = replay(folder, report.checkpoint)
    assert rows["truncated"].tolist() == [[False] * 4] * 7 + [[True] * 4]
    assert not rows["terminated"].any()
    assert rows["final_obs"].shape == (4, 4)


def test_an_episode_that_the_round_s_end_cuts_is_none_of_its_returns(tmp_path: Path) -> None:
    folder = create(tmp_path, round={"env_steps": 4 * 32})
    env = make_env(stateless, 4, "vector")
    agent = make_agent("ppo", env.spec, first_birth(folder).hyperparameters, 0, "cpu")
    worker, buffer = Worker(env), agent.make_buffer()
    worker.reset(torch.arange(4))
    assert worker.collect(agent, buffer, 5, cut=True) == 20
    assert np.isnan(worker.mean_return)
    assert buffer.segment(0, 5)["truncated"][-1].all()


def test_what_was_saved_before_a_disk_refused_is_saved_anew(tmp_path: Path) -> None:
    folder = create(tmp_path, "dqn")
    env = make_env("CartPole-v1", 4)
    agent = make_agent("dqn", env.spec, first_birth(folder).hyperparameters, 0, "cpu")
    worker, buffer = Worker(env), agent.make_buffer()
    worker.reset(torch.arange(4))
    worker.collect(agent, buffer, 32, cut=False)

    class Full(Blobs):
        """Takes the replay and no core."""

        def put(self, arrays: Any, meta: Any) -> str:
            if "kind" not in meta:
                raise StorageError("the disk is full")
            return super().put(arrays, meta)

    saved = Checkpoints(folder.blobs, {})
    saved._blobs = Full(folder.disk, folder.path / "blobs", folder.quarantine)
    with pytest.raises(StorageError, match="is full"):
        saved.save(agent, buffer, 128)
    (segment,) = (folder.path / "blobs").glob("*/*.h5")
    segment.unlink()  # it waited for so long that it was swept
    saved._blobs = folder.blobs
    assert all(map(folder.blobs.has, saved.save(agent, buffer, 128).blobs()))


def test_a_reward_that_is_no_number_is_a_divergence(tmp_path: Path) -> None:
    folder = create(tmp_path, wrappers=[{FAULTS: {"fault": "nan"}}])
    with pytest.raises(Diverged, match=r"reward of environment 0 is not finite"):
        train(folder, first_birth(folder))


def trained(algorithm: str, tmp_path: Path) -> tuple[Agent, PanelEvaluator, RunFolder, Birth]:
    folder = create(tmp_path, algorithm)
    birth = first_birth(folder)
    report = train(folder, birth)
    assert report.checkpoint is not None
    env = make_env("CartPole-v1", 4)
    agent = make_agent(algorithm, env.spec, birth.hyperparameters, 0, "cpu")
    arrays, _ = folder.blobs.get(report.checkpoint.core)
    agent.load(agent_state(arrays))
    return agent, PanelEvaluator(lambda n: make_env("CartPole-v1", n)), folder, birth


@both_algorithms
def test_equal_weights_score_equal_returns_and_scoring_changes_nothing(
    algorithm: str, tmp_path: Path
) -> None:
    agent, evaluator, _, birth = trained(algorithm, tmp_path)
    before = agent.state()
    first = evaluator.evaluate(agent, "a panel", episodes=16)
    evaluator.evaluate(agent, "another panel", episodes=16)
    assert evaluator.evaluate(agent, "a panel", episodes=16) == first
    after = agent.state()
    assert all(torch.equal(before[name], after[name]) for name in before)
    twin = make_agent(algorithm, make_env("CartPole-v1", 4).spec, birth.hyperparameters, 5, "cpu")
    twin.load(before)
    other = PanelEvaluator(lambda n: make_env("CartPole-v1", n))
    assert other.evaluate(twin, "a panel", episodes=16) == first


def test_each_seed_of_a_panel_is_one_episode(tmp_path: Path) -> None:
    agent, evaluator, _, _ = trained("ppo", tmp_path)
    returns = evaluator.evaluate(agent, "a panel", episodes=16)
    assert len(returns) == 16
    # CartPole gives 1 for each step of an episode of at most 500; one more episode would show.
    assert max(returns) <= 500.0
    env = make_env("CartPole-v1", 16)
    obs = env.reset(random_seeds("a panel", count=16))
    lengths, alive = torch.zeros(16), torch.ones(16, dtype=torch.bool)
    while alive.any():
        step = env.step(agent.act(obs, explore=False))
        lengths += alive
        alive &= ~(step.terminated | step.truncated)
        obs = step.obs
    assert list(returns) == lengths.tolist()


def test_a_gymnasium_id_may_name_the_module_that_registers_it(tmp_path: Path) -> None:
    named = {"id": "gymnasium.envs.classic_control:CartPole-v1"}
    folder = create(tmp_path, env=named)
    assert train(folder, first_birth(folder)).trained_steps == 512
