"""The Python door."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import hpcpod
from hpcpod.errors import ConfigError, HpcpodError, RunExists, RunNotFound, UserError
from hpcpod.orchestrator import snapshot
from hpcpod.run import launch
from hpcpod.run.best_policy import kept
from hpcpod.storage.blobs import read_blob_file, write_blob_file
from hpcpod.storage.policy_blobs import joined
from tests.support.small_runs import wait_for

TINY = {
    "name": "tiny",
    "env": {"id": "CartPole-v1", "num_envs": 2},
    "population": {"pods": {"min": 1, "max": 2}, "algorithms": {"ppo": 1}},
    "round": {"env_steps": 64, "episodes": 2},
    "agents": {"ppo": {"horizon": 8, "minibatch_size": 16, "epochs": 1}},
    "stop": {"rounds": 2, "finalists": 1, "confirm_episodes": 2},
}


def test_launch_trains_in_the_background_and_wait_sees_the_end(tmp_path: Path) -> None:
    run = hpcpod.launch(TINY, runs=tmp_path, name="overridden", stop={"rounds": 1})
    assert run.name == "overridden"
    status = run.wait(timeout=600)
    assert (status.state, status.stop_reason) == ("finished", "rounds")
    assert status.rounds == 2  # one for each of two pods; the finalist's score is none
    assert len(run.leaderboard()) == 2
    best = run.best()
    assert best is not None
    assert best.fresh
    policy = hpcpod.load_policy(run)
    assert policy(np.zeros(4)) in (0, 1)
    assert hpcpod.open_run(run.path).lineage()[-1].id == best.pod
    with pytest.raises(RunExists):
        hpcpod.launch(TINY, runs=tmp_path, name="overridden")


def test_stop_ends_a_run_from_outside(tmp_path: Path) -> None:
    run = hpcpod.launch(TINY, runs=tmp_path, stop={"rounds": 100_000})
    wait_for("a report", lambda: run.board().reports > 0)
    board = run.board()
    alive = run.rounds(board)
    counted = alive[alive["counted"]]
    assert len(counted) == board.reports and counted["trained_steps"].sum() == board.env_steps
    assert run.usage()["slot_seconds"].sum() > 0
    run.stop()
    status = run.wait(timeout=600)
    assert (status.state, status.stop_reason) == ("finished", "user")
    assert hpcpod.load_policy(run.path).about["pod"] == status.best.pod  # type: ignore[union-attr]


def test_wait_ends_when_the_coordinator_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = hpcpod.launch(TINY, runs=tmp_path, stop={"rounds": 100_000})
    wait_for("a report", lambda: run.board().reports > 0)
    monkeypatch.setattr(snapshot, "STARTING_SECONDS", 0.0)
    assert run.status().state in ("running", "waiting")
    [*launch._BACKGROUND][-1].kill()
    with pytest.raises(HpcpodError, match="no process runs tiny"):
        run.wait(timeout=600)
    assert run.status().state == "interrupted"


def test_wait_gives_up_after_its_timeout(tmp_path: Path) -> None:
    run = hpcpod.launch(TINY, runs=tmp_path, stop={"rounds": 100_000})
    with pytest.raises(TimeoutError, match="tiny is still"):
        run.wait(timeout=0.1)
    run.stop()
    run.wait(timeout=600)


def test_train_returns_a_policy_and_a_curve(tmp_path: Path) -> None:
    training = hpcpod.train(
        "ppo", "Pendulum-v1", env_steps=512, seed=3, horizon=16, minibatch_size=32,
        save_to=tmp_path / "pendulum.h5",
    )  # fmt: skip
    assert training.curve[-1].env_steps >= 512
    obs = np.array([1.0, 0.0, 0.0], np.float32)
    action = training.policy(obs)
    assert action.shape == (1,)
    assert -2.0 <= float(action[0]) <= 2.0
    again = hpcpod.load_policy(tmp_path / "pendulum.h5")
    np.testing.assert_array_equal(again(obs), action)
    np.testing.assert_array_equal(again(np.stack([obs, obs]))[1], action)


def test_train_is_deterministic_and_leaves_the_thread_count_alone() -> None:
    threads = torch.get_num_threads()
    runs = [
        hpcpod.train("dqn", env_steps=600, seed=seed, learning_starts=100, horizon=16)
        for seed in (0, 0, 1)
    ]
    assert torch.get_num_threads() == threads
    curves = [[point.mean_return for point in run.curve] for run in runs]
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]
    obs = np.random.default_rng(0).normal(size=(64, 4))
    np.testing.assert_array_equal(runs[0].policy(obs), runs[1].policy(obs))


def test_train_refuses_what_cannot_be() -> None:
    with pytest.raises(ConfigError, match="did you mean 'learning_rate'"):
        hpcpod.train("ppo", env_steps=10, learning_rat=0.1)
    with pytest.raises(UserError, match="unknown agent 'poo'"):
        hpcpod.train("poo", env_steps=10)
    with pytest.raises(UserError, match="continuous action"):
        hpcpod.train("dqn", "Pendulum-v1", env_steps=10)
    with pytest.raises(ConfigError, match="env_steps: must be at least 1, got 0"):
        hpcpod.train("ppo", env_steps=0)
    with pytest.raises(ConfigError, match="env_steps: expected int, got 'many'"):
        hpcpod.train("ppo", env_steps="many")  # type: ignore[arg-type]


def test_train_scores_about_ten_times() -> None:
    training = hpcpod.train("ppo", env_steps=2560, horizon=16, minibatch_size=32, epochs=1)
    assert len(training.curve) == 10


def test_the_task_may_have_wrappers_and_arguments(tmp_path: Path) -> None:
    flat = "gymnasium.wrappers:FlattenObservation"
    task = "tests.envs.small_envs:Structured"
    env = hpcpod.make_env(task, 2, wrappers=[flat], kwargs={"size": 3})
    assert env.reset().shape == (2, 5)
    hpcpod.train(
        "ppo", task, env_steps=64, horizon=4, minibatch_size=8,
        save_to=tmp_path / "policy.h5", wrappers=[flat], env_kwargs={"size": 3},
    )  # fmt: skip
    policy = hpcpod.load_policy(tmp_path / "policy.h5")
    assert policy.about["env"]["kwargs"] == {"size": 3}
    assert policy(np.zeros(5)) in (0, 1)


def test_make_env_gives_a_batch_of_tensors() -> None:
    env = hpcpod.make_env("CartPole-v1", num_envs=3)
    obs = env.reset(torch.tensor([1, 2, 3]))
    assert obs.shape == (3, 4)
    step = env.step(torch.zeros(3, dtype=torch.int64))
    assert step.reward.tolist() == [1.0, 1.0, 1.0]
    env.close()


def test_make_env_takes_what_a_configuration_takes() -> None:
    env = hpcpod.make_env("CartPole-v1", 2, processes=None)
    other = hpcpod.make_env("CartPole-v1", 2, kwargs={"sutton_barto_reward": True})
    there = hpcpod.make_env("CartPole-v1", 2, processes=2, python=sys.executable)
    first = [each.reset(torch.tensor([1, 2])).tolist() for each in (env, other, there)]
    assert first[0] == first[1] == first[2]
    for each in (env, other, there):
        each.close()
    with pytest.raises(ConfigError, match="make_env has 1 problem\n  backend torch steps in this"):
        hpcpod.make_env("CartPole-v1", backend="torch", python=sys.executable)
    with pytest.raises(UserError, match=r"env\.python: there is no program /no/python"):
        hpcpod.make_env("CartPole-v1", python="/no/python")


@pytest.mark.parametrize("call", ["load_policy(sys.argv[1])", "make_env('CartPole-v1', 2)"])
def test_a_torch_that_cannot_be_imported_is_told_in_a_sentence(call: str, tmp_path: Path) -> None:
    """As on a login node with a CUDA build whose libraries are on compute nodes alone."""
    broken = "libcudart.so.13: cannot open shared object file"
    (tmp_path / "torch.py").write_text(f"raise OSError({broken!r})\n")
    archive = Path(__file__).parent / "data" / "run-0.1.0.tar.gz"
    shutil.unpack_archive(archive, tmp_path)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import hpcpod\nfrom hpcpod.errors import UserError\n"
        f"try: hpcpod.{call}\nexcept UserError as error: print(error)"
    )
    run = tmp_path / "run-0.1.0"
    told = subprocess.run(
        [sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True
    ).stdout
    assert told.startswith(f"torch can't be imported by {sys.executable}: {broken}; install")


def test_load_policy_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(RunNotFound, match="no run at"):
        hpcpod.load_policy(tmp_path / "nothing")
    with pytest.raises(UserError, match=r"expected a Run, .* got 42"):
        hpcpod.load_policy(42)  # type: ignore[arg-type]
    run = hpcpod.launch(TINY, runs=tmp_path, stop={"rounds": 1})
    run.wait(timeout=600)
    policy = hpcpod.load_policy(run)
    with pytest.raises(UserError, match=r"observes shape \(4,\)"):
        policy(np.zeros(3))
    with pytest.raises(UserError, match="this batch is empty"):
        policy(np.zeros((0, 4)))


def test_a_training_in_which_nothing_is_learned_is_remarked_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hpcpod.train("dqn", env_steps=100)
    assert "the first update would come after 1000 steps, but a pod trains 100" in caplog.text
    caplog.clear()
    hpcpod.train("dqn", env_steps=100, learning_starts=10, batch_size=8)
    assert caplog.text == ""


def test_an_ensemble_is_of_runs_of_pods_and_of_files(finished_run: Path, tmp_path: Path) -> None:
    run = hpcpod.open_run(finished_run)
    rows = run.leaderboard()
    members = [hpcpod.load_policy(run, pod=row.pod) for row in rows[:2]]
    obs = np.random.default_rng(0).normal(size=(50, 4))
    votes = hpcpod.ensemble(members)
    assert votes.about["rule"] == "vote"
    named = [(member["pod"], member["round"]) for member in votes.about["members"]]
    assert named == [(row.pod, row.round) for row in rows[:2]]
    assert votes.about["members"][0]["score"] == kept(run.folder, rows[0].pod).about["score"] != {}
    assert votes(obs).tolist() == members[0](obs).tolist()  # of two, all ties are the first one's
    votes.save(tmp_path / "votes.h5")
    members[1].save(tmp_path / "second.h5")
    second = tmp_path / "second.h5"
    sources: list[hpcpod.Run | str | Path] = [run, second, str(second)]
    again = hpcpod.ensemble(each for each in sources)
    assert again(obs).tolist() == members[1](obs).tolist()
    cores = [read_blob_file(kept(run.folder, row.pod).checkpoint) for row in rows[:2]]
    write_blob_file(tmp_path / "cores.h5", *joined(cores, "vote"))
    assert hpcpod.load_policy(tmp_path / "cores.h5")(obs).tolist() == votes(obs).tolist()


@pytest.mark.parametrize("members", ["looked-at", Path("a.h5"), 3, None])
def test_an_ensemble_of_what_is_no_list_is_one_sentence(members: object) -> None:
    with pytest.raises(UserError, match=r"expected a list of policies, got .*: an ensemble has 2"):
        hpcpod.ensemble(members)  # type: ignore[arg-type]


def test_an_ensemble_by_a_rule_that_is_none_names_them() -> None:
    with pytest.raises(ConfigError, match="rule: expected one of 'mean', 'vote', 'product'"):
        hpcpod.ensemble([], rule="median")  # type: ignore[arg-type]
