"""The trial of an environment for a GPU, made where there is none."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import pytest

from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping
from hpcpod.errors import ConfigError
from hpcpod.pod.trial.fit import Look
from hpcpod.pod.trial.probe import probe

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mujoco_warp") is None,
    reason="pip install 'hpcpod[warp]' (Python 3.11 or newer)",
)


def tried(said: list[str], **env: Any) -> Look:
    config = from_mapping(
        {
            "name": "x",
            "env": {"id": "Hopper-v5", "num_envs": 4096, "backend": "warp", **env},
            "population": {"algorithms": {"ppo": 1}},
            "resources": {"gpus_per_pod": 1},
        }
    )
    return probe(config, resolve_algorithms(config), lambda doing, field: said.append(doing))


def test_mujoco_stands_in_for_warp_whose_kernels_no_pod_would_use() -> None:
    said: list[str] = []
    look = tried(said, kwargs={"nconmax": 20, "healthy_reward": 2.0}, max_episode_steps=500)
    assert "making 64 of it" in said  # 4,096 by Warp took minutes on a CPU
    assert "mujoco" in look.spec["engine"] and "warp" not in look.spec["engine"]
    assert (look.spec["max_episode_steps"], look.spec["id"]) == (500, "Hopper-v5")


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"kwargs": {"nconmax": 0}}, "env.id: Hopper-v5: env.kwargs.nconmax must be a whole"),
        ({"kwargs": {"nconmx": 9}}, "nconmx"),
        ({"id": "CartPole-v1"}, "env.id: the backend warp has no CartPole-v1"),
        ({"wrappers": ["a:b"]}, "env.wrappers: Hopper-v5 can't have wrappers"),
    ],
)  # fmt: skip
def test_what_warp_would_refuse_is_refused(env: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tried([], **env)
    [said] = caught.value.problems
    assert problem in said and "mujoco;" not in said


def test_a_machine_without_warp_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hpcpod.envs.mujoco.warp_simulations", None)
    with pytest.raises(ConfigError, match=r"pip install \"hpcpod\[warp\]\""):
        tried([])
