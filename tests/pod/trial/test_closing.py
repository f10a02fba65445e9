"""The trial closes whatever it has made, an environment that is refused, too."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.pod.evaluator import PanelEvaluator
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.trial.probe import probe
from tests.envs.small_envs import Counting
from tests.support.small_runs import mapping

HELD = f"{__name__}:Held"


class Held(Counting):
    """Counts those that are open; the third can't be made, if that is asked for."""

    open: ClassVar[int] = 0

    def __init__(self, wrong: str = "") -> None:
        super().__init__(end=10)
        self._wrong = wrong
        if wrong == "make" and Held.open == 2:
            raise ValueError("only two licences")
        if wrong == "space":
            self.action_space = gym.spaces.Text(3)  # type: ignore[assignment]
        Held.open += 1

    def reset(self, **given: Any) -> Any:
        if self._wrong == "reset":
            raise ValueError("no first state")
        return super().reset(**given)

    def close(self) -> None:
        Held.open -= 1
        if self._wrong == "reset" and not Held.open:  # of the refusal it hides nothing
            raise ValueError("not closed well")


@pytest.mark.parametrize(
    ("wrong", "wrappers", "said"),
    [
        ("make", [], "only two licences"),
        ("space", [], "acts in Text"),
        ("reset", [], "no first state"),
        ("", ["gymnasium.wrappers:TimeLimit"], "can't be made: TypeError"),
    ],
)
def test_an_environment_that_is_refused_is_closed(
    wrong: str, wrappers: list[str], said: str
) -> None:
    env = {"id": HELD, "processes": 1, "kwargs": {"wrong": wrong}}
    config = from_mapping(mapping(env=env, wrappers=wrappers))
    with pytest.raises(ConfigError, match=said):
        probe(config, resolve_algorithms(config))
    assert Held.open == 0


class Holding(PanelEvaluator):
    """Has an environment from the first; it is not closed twice, or before it has evaluated."""

    def __init__(self, make: EnvFactory) -> None:
        super().__init__(make)
        self._env = make(1)

    def close(self) -> None:
        self._env.close()
        raise AttributeError("nothing was evaluated")


@pytest.mark.parametrize("evaluator", ["panel", f"{__name__}:Holding"])
def test_so_are_one_that_is_taken_and_the_evaluator_s(evaluator: str) -> None:
    given = mapping(env={"id": HELD, "processes": 1}, pod={"evaluator": evaluator})
    config = from_mapping(given)
    assert probe(config, resolve_algorithms(config)).footprints
    assert Held.open == 0


def test_the_evaluator_s_is_closed_where_the_pods_own_is_refused() -> None:
    env = {"id": HELD, "processes": 1, "num_envs": 4, "kwargs": {"wrong": "make"}}
    config = from_mapping(mapping(env=env, pod={"evaluator": f"{__name__}:Holding"}))
    with pytest.raises(ConfigError, match="only two licences"):
        probe(config, resolve_algorithms(config))
    assert Held.open == 0
