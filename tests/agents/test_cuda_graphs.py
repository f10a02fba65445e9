"""Captured updates are the same updates: what can be seen of that without a GPU."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable

import pytest
import torch

from hpcpod.agents import gradient_agent
from hpcpod.agents.cuda_graphs import Captured, Outputs, Recorder, recorder_for
from hpcpod.envs.gymnasium import PreprocessVecEnv
from hpcpod.envs.vec_env import State
from tests.agents.training import iterate, small_agent


class Replaying:
    """Records as a GPU does: recording runs nothing, and outputs keep their place in memory."""

    def __init__(self) -> None:
        self.warm = self.recorded = self.replayed = 0
        self._last: dict[int, Outputs] = {}

    def warm_up(self, function: Callable[[], Outputs]) -> Outputs:
        self.warm += 1
        self._last[id(function)] = function()
        return self._last[id(function)]

    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], None], Outputs]:
        self.recorded += 1
        places = tuple(torch.empty_like(t) for t in self._last[id(function)])

        def replay() -> None:
            self.replayed += 1
            outputs = function()
            with torch.no_grad():
                for place, tensor in zip(places, outputs, strict=True):
                    place.copy_(tensor)

        return replay, places


class Unable(Replaying):
    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], None], Outputs]:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")


def double(inputs: State) -> Outputs:
    return (inputs["x"] * 2,)


def x(*values: float) -> State:
    return {"x": torch.tensor(values)}


def test_after_three_calls_one_is_recorded_and_all_later_ones_replay_it() -> None:
    recorder = Replaying()
    captured = Captured(double, recorder)
    outputs = [captured(x(float(i), 1.0))[0] for i in range(6)]
    assert [output.tolist() for output in outputs] == [[2.0 * i, 2.0] for i in range(6)]
    assert (recorder.warm, recorder.recorded, recorder.replayed) == (3, 1, 3)


def test_each_set_of_shapes_has_a_graph_and_there_are_not_more_than_eight() -> None:
    recorder = Replaying()
    captured = Captured(double, recorder)
    for _ in range(5):
        for size in range(1, 12):
            assert captured({"x": torch.ones(size)})[0].tolist() == [2.0] * size
    assert recorder.recorded == 8


def test_what_cannot_be_captured_runs_as_usual_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs: list[float] = []

    def counted(inputs: State) -> Outputs:
        runs.append(float(inputs["x"]))
        return double(inputs)

    captured = Captured(counted, Unable())
    with caplog.at_level(logging.WARNING):
        outputs = [captured({"x": torch.tensor(float(i))})[0].item() for i in range(8)]
    assert outputs == [2.0 * i for i in range(8)]
    assert runs == [float(i) for i in range(8)]  # none twice, none left out
    assert caplog.messages == [
        f"{counted.__qualname__} runs kernel by kernel:"
        " operation not permitted when stream is capturing"
    ]


def test_nothing_is_captured_on_the_cpu() -> None:
    assert recorder_for(torch.Generator()) is None
    given = x(1.0)
    seen: list[State] = []

    def same(inputs: State) -> Outputs:
        seen.append(inputs)
        return (inputs["x"],)

    assert Captured(same, None)(given)[0] is given["x"]
    assert seen == [given]


@pytest.mark.parametrize("name", ["ppo", "a2c", "dqn", "sac", "td3", "ddpg"])
def test_an_agent_that_nobody_holds_is_gone_at_once(name: str) -> None:
    env = PreprocessVecEnv("Pendulum-v1" if name in ("sac", "td3", "ddpg") else "CartPole-v1", 4)
    agent = small_agent(name, env.spec)
    buffer, obs = agent.make_buffer(), env.reset(torch.arange(4))
    for _ in range(3):
        obs, _ = iterate(agent, env, buffer, obs)
    agent.act(obs, explore=False)
    left = weakref.ref(agent)
    gc.disable()
    try:
        del agent
        assert left() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        ("ppo", "CartPole-v1"),
        ("dqn", "CartPole-v1"),
        ("sac", "Pendulum-v1"),
        ("td3", "Pendulum-v1"),
        ("ddpg", "Pendulum-v1"),
    ],
)
def test_agents_that_are_captured_train_bit_by_bit_as_others(
    name: str, env_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Replaying()

    def trained(capture: bool) -> State:
        make: Callable[[torch.Generator], Recorder | None] = (
            (lambda generator: recorder) if capture else (lambda generator: None)
        )
        monkeypatch.setattr(gradient_agent, "recorder_for", make)
        env = PreprocessVecEnv(env_id, 4)
        agent = small_agent(name, env.spec)
        buffer, obs = agent.make_buffer(), env.reset(torch.arange(4))
        for _ in range(6):
            obs, _ = iterate(agent, env, buffer, obs)
            agent.act(obs, explore=False)
        half = agent.state()
        agent.load(half)  # into the place where the graphs look for it
        for _ in range(3):
            obs, _ = iterate(agent, env, buffer, obs)
        return agent.state()

    plain, captured = trained(False), trained(True)
    for key, tensor in plain.items():
        assert torch.equal(tensor, captured[key]), key
    assert recorder.recorded >= 3 and recorder.replayed > 20
