"""A restarted copy's first round: scored as its parent was, then shrunk, once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import State
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.factory import make_agent
from hpcpod.pod.ipc.messages import Progress
from hpcpod.pod.policy import agent_state
from hpcpod.pod.round import Watch
from hpcpod.records.records import Birth, Checkpoint, Report, decode, encode
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import fold
from hpcpod.tournament.merge import read_board
from hpcpod.tournament.offspring import Offspring
from hpcpod.tournament.proposals import Copy
from hpcpod.tournament.rules import Rules
from tests.pod.rounds import (
    KINDS,
    assert_same_end,
    copy_of,
    countdown,
    first_birth,
    onward,
    train,
)
from tests.support.small_runs import AGENTS, create

both_algorithms = pytest.mark.parametrize("algorithm", ["ppo", "dqn"])

LARGE = {**AGENTS["dqn"], "horizon": 16, "buffer_size": 10_000, "normalize_obs": True}
AGEING = "tests.pod.ageing_agent:Ageing"
IDLE = {"learning_starts": 10_000}
"""Settings by which a copy keeps the weights of its start for a round."""


class Stop:
    """A wish to stop in the second iteration of a process, when its panel is behind it."""

    def __init__(self) -> None:
        self.wished = False

    def watch(self) -> Watch:
        def begun(progress: Progress) -> None:
            self.wished = True

        return Watch(lambda: self.wished, begun)


def torn(folder: RunFolder, birth: Birth, stops: int) -> Report:
    """Execute a round that is stopped so many times while it is trained."""
    for _ in range(stops):
        pod = prepare(folder)
        with pytest.raises(Stopped):
            pod.execute(birth, "here", Stop().watch())
        pod.close()
    return train(folder, birth)


def shrunk_copy(parent: Birth, report: Report, **hyperparameters: float) -> Birth:
    return replace(copy_of(parent, report, **hyperparameters), shrink=True)


def state_of(folder: RunFolder, checkpoint: Checkpoint | None) -> State:
    assert checkpoint is not None
    arrays, _ = folder.blobs.get(checkpoint.core)
    return agent_state(arrays)


def once(parent: State, birth: Birth) -> State:
    """The weights of a parent's networks, shrunk and perturbed once."""
    spec = make_env("CartPole-v1", 4).spec
    fresh = make_agent(birth.algorithm, spec, birth.hyperparameters, birth.seed, "cpu").state()
    names = [name for name in parent if name.startswith("network/")]
    return {name: 0.2 * parent[name] + 0.1 * fresh[name] for name in names}


def assert_shrunk_once(child: State, parent: State, birth: Birth) -> None:
    for name, tensor in once(parent, birth).items():
        torch.testing.assert_close(child[name], tensor)
        torch.testing.assert_close(child[name.replace("network", "target", 1)], tensor)
    assert any(tensor.any() for name, tensor in parent.items() if name.startswith("optimizer"))
    assert not any(tensor.any() for name, tensor in child.items() if name.startswith("optimizer"))


@pytest.mark.parametrize("stops", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_shrunk_once_however_often_its_round_is_stopped(
    kind: str, stops: int, tmp_path: Path
) -> None:
    folder = create(tmp_path, "dqn", agents={"dqn": LARGE}, env=KINDS[kind])
    birth = first_birth(folder)
    report = train(folder, birth)
    copy = shrunk_copy(birth, report, **IDLE)
    child = torn(folder, copy, stops)
    resumed = folder.checkpoints.latest(copy.pod, copy.round)
    assert (resumed is not None) == (stops > 0 and kind != "unsaveable")
    assert child.inherited_returns == report.returns
    parent, end = (state_of(folder, each.checkpoint) for each in (report, child))
    assert_shrunk_once(end, parent, copy)
    assert int(end["env_steps"]) == 2 * int(parent["env_steps"]) == 1024
    assert child.checkpoint is not None and report.checkpoint is not None
    segments = report.checkpoint.segments
    assert child.checkpoint.segments[: len(segments) - 1] == segments[:-1]
    assert child.checkpoint.rows == 2 * report.checkpoint.rows


def test_a_pipeline_begins_with_the_shrunk_agent_too(tmp_path: Path) -> None:
    folder = create(tmp_path, "dqn", agents={"dqn": LARGE}, pod={"pipeline": True})
    birth = first_birth(folder)
    report = train(folder, birth)
    copy = shrunk_copy(birth, report, **IDLE)
    child = torn(folder, copy, 1)
    assert child.inherited_returns == report.returns
    parent = state_of(folder, report.checkpoint)
    assert_shrunk_once(state_of(folder, child.checkpoint), parent, copy)


def test_its_resume_checkpoint_is_of_the_shrunk_agent(tmp_path: Path) -> None:
    folder = create(tmp_path, "dqn", agents={"dqn": LARGE})
    birth = first_birth(folder)
    report = train(folder, birth)
    copy = shrunk_copy(birth, report, **IDLE)
    with pytest.raises(Stopped):
        prepare(folder).execute(copy, "here", Stop().watch())
    resume = folder.checkpoints.latest(copy.pod, copy.round)
    assert resume is not None and 512 < resume.env_steps < 1024
    parent = state_of(folder, report.checkpoint)
    assert_shrunk_once(state_of(folder, resume), parent, copy)


@both_algorithms
def test_a_shrunk_round_that_was_stopped_ends_as_one_that_was_not(
    algorithm: str, tmp_path: Path
) -> None:
    calm, broken = (create(tmp_path / name, algorithm) for name in ("calm", "broken"))
    birth = first_birth(calm)
    copy, same = (shrunk_copy(birth, train(folder, birth)) for folder in (calm, broken))
    assert copy == same
    # the first stop comes in the panel of the parent, of which nothing is saved
    with pytest.raises(Stopped):
        prepare(broken).execute(copy, "here", Watch(countdown(3)))
    assert broken.checkpoints.latest(copy.pod, copy.round) is None
    one, other = train(calm, copy), torn(broken, copy, 1)
    assert_same_end(one, other, calm, broken)
    one, other = train(calm, onward(copy, one)), torn(broken, onward(copy, other), 1)
    assert_same_end(one, other, calm, broken)


@both_algorithms
def test_other_copies_keep_their_parents_weights(algorithm: str, tmp_path: Path) -> None:
    folder = create(tmp_path, algorithm, agents={"dqn": LARGE} if algorithm == "dqn" else {})
    birth = first_birth(folder)
    report = train(folder, birth)
    plain = train(folder, copy_of(birth, report))
    shrunk = train(folder, shrunk_copy(birth, report))
    assert plain.inherited_returns == shrunk.inherited_returns == report.returns
    weights = [
        sum(float(t.square().sum()) for n, t in state_of(folder, c).items() if "network/" in n)
        for c in (report.checkpoint, plain.checkpoint, shrunk.checkpoint)
    ]
    assert weights[1] > 0.5 * weights[0] and weights[2] < 0.5 * weights[0]
    if algorithm == "dqn":
        still = train(folder, copy_of(birth, report, **IDLE))
        before, after = (state_of(folder, each.checkpoint) for each in (report, still))
        for name in before:
            if name.split("/")[0] in ("network", "target", "optimizer"):
                assert torch.equal(before[name], after[name]), name


@pytest.mark.parametrize("restart", [False, True])
def test_a_restarted_copy_of_the_board_is_trained_shrunk_and_goes_on_as_it_is(
    restart: bool, tmp_path: Path
) -> None:
    folder = create(tmp_path, "dqn", agents={"dqn": LARGE}, stop={"rounds": 4})
    rules, birth = Rules.of_run(folder), first_birth(folder)
    report = train(folder, birth)
    board = fold(read_board(folder), [report], rules, now=1.0)
    given = {**birth.hyperparameters, **IDLE}
    offspring = Offspring(board, rules)
    child = offspring.add(
        Copy(birth.pod, 1, given, (), "for a test", restart=restart), board.pods[birth.pod]
    )
    assert child.birth is not None and child.birth.shrink is restart
    assert decode(Birth, encode(child.birth)) == child.birth
    answer = train(folder, child.birth)
    parent, end = (state_of(folder, each.checkpoint) for each in (report, answer))
    if restart:
        assert_shrunk_once(end, parent, child.birth)
    else:
        assert all(torch.equal(end[n], t) for n, t in parent.items() if n.startswith("network/"))
    after = fold(offspring.board(board), [answer], rules, now=2.0).pods[child.id]
    assert after.transfer_exact is True
    assert after.birth is not None and (after.birth.round, after.birth.shrink) == (3, False)


def test_an_order_of_an_older_version_shrinks_nothing(tmp_path: Path) -> None:
    folder = create(tmp_path)
    stored = encode(first_birth(folder))
    del stored["shrink"]
    assert decode(Birth, stored).shrink is False


def test_an_agent_of_a_user_s_own_trains_on_unchanged(tmp_path: Path) -> None:
    sections = {"env": {"id": "Pendulum-v1"}, "round": {"episodes": 2}}
    one, other = (create(tmp_path / name, AGEING, **sections) for name in ("one", "other"))
    birth = first_birth(one)
    reports = [train(folder, birth) for folder in (one, other)]
    plain = train(one, copy_of(birth, reports[0]))
    shrunk = train(other, shrunk_copy(birth, reports[1]))
    assert plain.checkpoint is not None and shrunk.checkpoint is not None
    assert plain.checkpoint.core == shrunk.checkpoint.core
