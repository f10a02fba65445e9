"""A pipeline overlaps what takes turns otherwise, and changes nothing but the weights' age."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from hpcpod.agents.base import Agent, Metrics
from hpcpod.agents.fusion import Rule
from hpcpod.agents.ppo import PPO
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import RunConfig
from hpcpod.envs.make import make_env
from hpcpod.envs.vec_env import State, random_seeds
from hpcpod.errors import Diverged, UserError, out_of_memory
from hpcpod.pod.__main__ import prepare
from hpcpod.pod.evaluator import Stopped
from hpcpod.pod.factory import make_agent
from hpcpod.pod.learner import Learner
from hpcpod.pod.pipeline.client import ActorDied, Client, Elsewhere
from hpcpod.pod.pipeline.pipeline import Pipeline, Workers, merged
from hpcpod.pod.pod import Pod
from hpcpod.pod.round import Watch
from hpcpod.records.records import Report
from hpcpod.storage.run_folder import RunFolder
from tests.agents.training import SMALL
from tests.pod.rounds import KINDS, execute, first_birth, onward, train
from tests.support.small_runs import AGENTS, FAULTS, create, wait_for

PIPELINE = {"pipeline": True}
AGEING = "tests.pod.ageing_agent:Ageing"


@pytest.fixture(scope="module")
def actor() -> Iterator[Workers]:
    """A process for the rounds of all tests in four Pendulums, as one is for all of a pod."""
    env = {"id": "Pendulum-v1", "num_envs": 4}
    workers = Workers(from_mapping({"name": "x", "env": env, "pod": PIPELINE}))
    yield workers
    workers.close()


def pipeline(
    actor: Workers, agent: str, hyperparameters: Mapping[str, Any], seed: int = 0
) -> tuple[Pipeline, Agent]:
    """A pipeline in that process, reset, and its learner."""
    spec = make_env("Pendulum-v1", 4).spec
    worker = actor.make(spec, agent, hyperparameters)
    assert isinstance(worker, Pipeline)
    worker.reset(random_seeds("test", count=4))
    return worker, make_agent(agent, spec, hyperparameters, seed, "cpu")


def process_of(pod: Pod) -> int:
    """The id of a pod's actor process."""
    client = pod._workers._client
    assert client is not None and client._process is not None
    return client._process.pid


def test_a_rollout_is_learned_from_one_iteration_after_its_weights_and_the_first_at_once(
    actor: Workers,
) -> None:
    worker, agent = pipeline(actor, AGEING, {"horizon": 8})
    buffer, learner, left, told = agent.make_buffer(), Learner(agent), 5 * 32, []
    while left > 0:
        counted, metrics = worker.iterate(agent, buffer, learner, left)
        left -= counted
        told.append((counted, metrics["least"], metrics["most"]))
    assert told == [(32, 0.0, 0.0), *[(32, 1.0, 1.0)] * 4]
    # All that was collected was learned from, and what was counted by acting is known.
    assert left == 0
    assert int(agent.state()["acted"]) == 5 * 32
    assert metrics["acted"] == 5 * 32


def test_the_actor_keeps_a_random_generator_of_its_own(actor: Workers) -> None:
    worker, agent = pipeline(actor, AGEING, {"horizon": 8}, seed=7)
    buffer, learner = agent.make_buffer(), Learner(agent)
    drawn = []
    for _ in range(3):
        worker.iterate(agent, buffer, learner, 1000)
        drawn.append(int(worker._ahead["agent/rng"]))
    assert int(agent.state()["rng"]) == 7
    assert [b - a for a, b in pairwise(drawn)] == [8, 8]


# Each kind with one of them, and both where most is saved: all six take a minute of a core.
@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("saveable", "ppo"), ("saveable", "dqn"), ("unsaveable", "dqn"), ("played again", "ppo")],
)
def test_stopped_checkpointed_or_neither_a_round_ends_in_the_same_bits(
    kind: str, algorithm: str, tmp_path: Path
) -> None:
    env = KINDS[kind]
    calm = create(tmp_path / "calm", algorithm, env=env, pod=PIPELINE)
    often = {**PIPELINE, "checkpoint_seconds": 1e-3}
    torn = create(tmp_path / "torn", algorithm, env=env, pod=often)
    birth = first_birth(calm)
    one = train(calm, birth)
    with pytest.raises(Stopped):
        pod = prepare(torn)
        pod.execute(birth, "here", Watch(after(2)))
    pod.close()
    resume = torn.checkpoints.latest(birth.pod, 1)
    assert (None if resume is None else resume.env_steps) == (None if kind == "unsaveable" else 256)
    pod = prepare(torn)
    other = execute(pod, birth)
    for round_number in (1, 2):
        if round_number > 1:
            one, other = train(calm, onward(birth, one)), execute(pod, onward(birth, other))
        assert one.checkpoint is not None and other.checkpoint is not None
        assert one.checkpoint.core == other.checkpoint.core
        assert (one.returns, one.metrics) == (other.returns, other.metrics)
        assert (one.trained_steps, other.trained_steps) == (512, 512)
        rows, other_rows = replay(calm, one), replay(torn, other)
        for name, values in rows.items():  # a long segment may hold rows that no ring does
            most = min(len(values), len(other_rows[name]))
            assert np.array_equal(values[-most:], other_rows[name][-most:]), name
    pod.close()


def after(questions: int) -> Callable[[], bool]:
    """Whether to stop: True from this question on."""
    asked = count(1)
    return lambda: next(asked) >= questions


def replay(folder: RunFolder, report: Report) -> dict[str, Any]:
    """All rows of a checkpoint's replay buffer, whatever segments they lie in."""
    assert report.checkpoint is not None
    parts = [folder.blobs.get(segment.sha256)[0] for segment in report.checkpoint.segments]
    columns = set(parts[0]) - {"next_obs"} if parts else set()
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_s_last_row_is_truncated_where_nothing_can_be_saved_and_none_is_lost(
    kind: str, tmp_path: Path
) -> None:
    # In 20 steps a pole can't fall: whatever is cut here was cut by the round's end.
    agents = {"dqn": {**AGENTS["dqn"], "horizon": 4, "buffer_size": 10_000}}
    sections = {"round": {"env_steps": 4 * 8}, "pod": PIPELINE, "env": KINDS[kind]}
    folder = create(tmp_path, "dqn", agents=agents, **sections)
    pod = prepare(folder)
    report = execute(pod, first_birth(folder))
    pod.close()
    assert report.checkpoint is not None and report.checkpoint.env_steps == 4 * 8
    (segment,) = report.checkpoint.segments
    rows, _ = folder.blobs.get(segment.sha256)
    cut = kind == "unsaveable"
    assert rows["truncated"].tolist() == [[False] * 4] * 7 + [[cut] * 4]
    core, _ = folder.blobs.get(report.checkpoint.core)
    assert int(core["agent/env_steps"]) == 4 * 8  # counted by acting, in the other process


@pytest.mark.parametrize("algorithm", ["sac", "td3", "a2c"])
def test_steps_are_counted_once_whoever_counts_them(algorithm: str, actor: Workers) -> None:
    config = {k: v for k, v in SMALL[algorithm].items() if k != "buffer_size"}
    worker, agent = pipeline(actor, algorithm, config)
    each = agent.horizon * 4
    buffer, learner, left = agent.make_buffer(), Learner(agent), 8 * each
    seen: list[int] = []
    metrics: Metrics = {}
    while left > 0:
        counted, metrics = worker.iterate(agent, buffer, learner, left)
        left -= counted
        seen.append(int(agent.state()["env_steps"]))
    assert seen == [each * k for k in range(1, 9)]
    assert metrics and all(map(math.isfinite, metrics.values()))


def test_ppo_learns_by_the_probabilities_of_the_policy_that_collected(actor: Workers) -> None:
    config = {"horizon": 16, "epochs": 1, "minibatch_size": 1000, "learning_rate": 0.01}
    worker, agent = pipeline(actor, "ppo", config)
    buffer, learner, states, told = agent.make_buffer(), Learner(agent), [agent.state()], []
    for k in range(3):
        if k:  # what is learned from next, and the weights that collected it
            rows = {n.removeprefix("rows/"): t for n, t in worker._ahead.items()}
            collected, learns = (log_p(states[i], rows, config) for i in (k - 1, k))
            change = (learns - collected).exp() - 1 - (learns - collected)
            expected = float(change.mean())
            assert expected > 1e-5
            assert torch.allclose(worker._ahead["behaviour/log_p"], collected, atol=1e-5)
        _, metrics = worker.iterate(agent, buffer, learner, 10_000)
        told.append((metrics["approx_kl"], metrics["clip_fraction"]))
        if k:
            assert metrics["approx_kl"] == pytest.approx(expected, rel=1e-2, abs=1e-6)
        states.append(agent.state())
    # The first rollout was collected with the weights that learned from it: a ratio of 1.
    assert told[0][0] == pytest.approx(0.0, abs=1e-6)
    assert told[0][1] == 0.0


def log_p(state: State, rollout: State, config: Mapping[str, Any]) -> torch.Tensor:
    """Σ log N(a; μ(s), σ) of a PPO agent with this state, [T, N]."""
    agent = make_agent("ppo", make_env("Pendulum-v1", 4).spec, config, 3, "cpu")
    assert isinstance(agent, PPO)
    agent.load(state)
    with torch.no_grad():
        mean = agent._outputs(rollout["obs"].flatten(0, 1))
        log_std = state["network/head.log_std"]
        z = (rollout["action"].flatten(0, 1) - mean) / log_std.exp()
        found = -0.5 * z.square() - log_std - 0.5 * math.log(2 * math.pi)
    return found.sum(-1).view(rollout["reward"].shape)


def test_what_collecting_raises_arrives_with_its_traceback(tmp_path: Path) -> None:
    """And the process is gone; the next order starts another."""
    tally = {"tally": str(tmp_path / "tally"), "times": 1, "at": 40}
    fault = [{FAULTS: {"fault": "raise", **tally}}]
    folder = create(tmp_path / "run", wrappers=fault, pod=PIPELINE)
    pod, birth, others = prepare(folder), first_birth(folder), actor_processes()
    with pytest.raises(RuntimeError, match="the simulator lost its mind") as failure:
        execute(pod, birth)
    assert isinstance(failure.value.__cause__, Elsewhere)
    assert "faulty_envs.py" in str(failure.value.__cause__)
    assert actor_processes() <= others
    assert execute(pod, birth).trained_steps == 512
    (process,) = actor_processes() - others
    pod.close()
    assert not process.is_running()


def actor_processes() -> set[psutil.Process]:
    """Those that this process has started and that live."""
    children = psutil.Process().children()
    alive = [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
    return {child for child in alive if "hpcpod.pod.pipeline" in child.cmdline()}


def test_a_number_that_is_not_finite_is_a_divergence_in_the_other_process_too(
    tmp_path: Path,
) -> None:
    folder = create(tmp_path, wrappers=[{FAULTS: {"fault": "nan", "at": 40}}], pod=PIPELINE)
    with pytest.raises(Diverged, match=r"reward of environment 0 is not finite"):
        train(folder, first_birth(folder))


@pytest.mark.parametrize(
    ("fault", "memory", "said"), [("kill", True, "SIGKILL"), ("segfault", False, "SIGSEGV")]
)
def test_a_simulator_that_crashes_ends_the_order_alone(
    fault: str, memory: bool, said: str, tmp_path: Path
) -> None:
    folder = create(tmp_path, wrappers=[{FAULTS: {"fault": fault, "at": 40}}], pod=PIPELINE)
    with pytest.raises(ActorDied, match=said) as death:
        train(folder, first_birth(folder))
    assert out_of_memory(death.value) == memory


def test_an_environment_that_can_not_be_made_there_says_why() -> None:
    config = from_mapping({"name": "x", "env": {"id": "Nonsense-v0"}, "pod": PIPELINE})
    client = Client(config)
    with pytest.raises(UserError, match="Nonsense"):
        client.ask("begin", "ppo", {})
    client.close()


def test_an_iteration_ends_although_the_scheduler_signals_every_process(tmp_path: Path) -> None:
    calm, torn = (create(tmp_path / name, pod=PIPELINE) for name in ("calm", "torn"))
    birth, pod, told = first_birth(calm), prepare(torn), []

    def interrupt(progress: object) -> None:
        told.append(progress)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            os.kill(process_of(pod), number)

    report = pod.execute(first_birth(torn), "here", Watch(on_progress=interrupt))
    pod.close()
    assert told
    other = train(calm, birth)
    assert report.checkpoint is not None and other.checkpoint is not None
    assert report.checkpoint.core == other.checkpoint.core


ORPHAN = """
import json, sys, time
from hpcpod.config.loader import from_mapping
from hpcpod.pod.pipeline.client import Client
client = Client(from_mapping(json.loads(sys.argv[1])))
client.ask("begin", "ppo", {})
print(client._process.pid, flush=True)
time.sleep(300)
"""


def test_the_actor_process_ends_with_its_pod_s() -> None:
    config = '{"name": "x", "env": {"id": "CartPole-v1"}, "pod": {"pipeline": true}}'
    command = [sys.executable, "-c", ORPHAN, config]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    wait_for("the end of the child", lambda: not child.is_running())


def test_a_pipeline_that_is_not_asked_for_starts_no_process(tmp_path: Path) -> None:
    folder = create(tmp_path)
    pod, others = prepare(folder), actor_processes()
    execute(pod, first_birth(folder))
    assert actor_processes() <= others
    pod.close()


def test_environments_are_only_made_where_they_are_stepped(tmp_path: Path) -> None:
    folder = create(tmp_path, pod=PIPELINE, env={"processes": 2})
    pod, birth, others = prepare(folder), first_birth(folder), actor_processes()
    report = pod.train(birth, "here", Watch())
    assert not pools(psutil.Process())
    (actor,) = actor_processes() - others
    assert pools(actor) == 2
    pod.close()

    assert report.checkpoint is not None
    scorer = prepare(folder)
    scorer.score(birth, report.checkpoint, "here", Watch())
    assert scorer.spec.num_envs == 4
    assert pools(psutil.Process()) == 2, "the evaluator's alone"
    scorer.close()


def pools(process: psutil.Process) -> int:
    """Processes in which it steps environments."""
    return sum(steps_environments(child) for child in process.children())


def steps_environments(child: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it ended meanwhile; a zombie has no command line
        return "hpcpod.envs.processes" in child.cmdline()
    return False


def test_what_the_actor_counted_goes_to_the_learner_whose_weights_stay() -> None:
    rules: dict[str, Rule] = {
        "network/w": "mean", "env_steps": "sum", "updates": "max", "rng": "local",
        "normalizer/mean": "moments", "normalizer/var": "moments", "normalizer/count": "moments",
    }  # fmt: skip

    def one(env_steps: int, updates: int, count: float) -> State:
        at = {"mean": count, "var": 2 * count, "count": count}
        return {
            "env_steps": torch.tensor(env_steps), "updates": torch.tensor(updates),
            "rng": torch.tensor([env_steps], dtype=torch.uint8),
            **{f"normalizer/{name}": torch.tensor(value) for name, value in at.items()},
        }  # fmt: skip

    learner, actor = {"network/w": torch.ones(2), **one(3, 9, 7.0)}, one(5, 8, 6.0)
    counted, kept = merged(rules, learner, actor, {"env_steps": torch.tensor(2)})
    assert {name: int(tensor) for name, tensor in counted.items()} == {"env_steps": 6}
    assert kept == {"rng": actor["rng"]}
    counted, _ = merged(rules, learner, one(3, 9, 8.0), {"env_steps": torch.tensor(3)})
    assert {name: float(tensor) for name, tensor in counted.items()} == {
        "normalizer/mean": 8.0, "normalizer/var": 16.0, "normalizer/count": 8.0,
    }  # fmt: skip


def gate(algorithm: str, env: Mapping[str, Any], env_steps: int, **hyperparameters: Any) -> float:
    """Mean return of the last evaluation of a training in a pipeline."""
    from hpcpod.api import train_config

    config: RunConfig = from_mapping(
        {
            "name": "gate", "seed": 1, "env": env, "pod": PIPELINE,
            "population": {"algorithms": {algorithm: 1}, "pods": {"min": 1, "max": 1}},
            "agents": {algorithm: hyperparameters},
            "round": {"env_steps": env_steps, "episodes": 16},
        }
    )  # fmt: skip
    return train_config(config, env_steps=env_steps, keep="last").curve[-1].mean_return


@pytest.mark.slow
def test_ppo_balances_cartpole_in_a_pipeline() -> None:
    assert gate("ppo", {"id": "CartPole-v1"}, 65_536) >= 475


@pytest.mark.slow
def test_sac_swings_the_pendulum_up_in_a_pipeline() -> None:
    env = {"id": "Pendulum-v1", "num_envs": 1}
    assert gate("sac", env, 6000, learning_rate=1e-3, hidden=64) >= -200
