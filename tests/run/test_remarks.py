"""Remarks at launch on what is valid but seldom meant: one sentence, no refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.config.space import AlgorithmSpace, Value
from hpcpod.run.preflight import check
from hpcpod.run.remarks import remarks
from hpcpod.tournament.updaters import PairedGate
from tests.support.small_runs import mapping


class OneSeries(gym.Env[Any, Any]):
    """Back-testing on one series of prices: nothing is drawn."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._t += 1
        price = np.sin(self._t, dtype=np.float32)
        return np.array([price], np.float32), float(price * action), False, self._t == 32, {}


class ChanceLater(OneSeries):
    """The same, but for a reward that is drawn where one of two actions is taken."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, end, cut, info = super().step(action)
        return obs, reward + (self.np_random.normal() if action == 1 else 0.0), end, cut, info


class ChanceAtTheEnd(OneSeries):
    """Pays once, after 200 steps, what was drawn before."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, _, _, _, info = super().step(action)
        end = self._t == 200
        return obs, float(self.np_random.normal()) if end else 0.0, end, False, info


class Endless(ChanceLater):
    """The same without an end."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, end, _, info = super().step(action)
        return obs, reward, end, False, info


def remarks_on(*algorithms: str, **sections: Any) -> tuple[str, ...]:
    """All remarks but that nothing is searched, which most of these configurations deserve."""
    found = check(from_mapping(mapping(*algorithms, **sections))).remarks
    return tuple(remark for remark in found if "there is no range" not in remark)


def test_a_sound_configuration_has_no_remark(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "good.yaml"]) == 0
    assert "remark" not in capsys.readouterr().err


@pytest.mark.parametrize("env", [{"num_envs": 1}, {"num_envs": 3}])
def test_a_task_in_which_nothing_is_drawn_is_remarked_on(env: Mapping[str, Any]) -> None:
    (said,) = [r for r in remarks_on(env={"id": f"{__name__}:OneSeries", **env}) if "alike" in r]
    assert said.startswith(f"env.id: episodes of {__name__}:OneSeries with different seeds begin")
    assert said.endswith("or set round.episodes to 4 to save the time")


@pytest.mark.parametrize("slippery", [False, True])
def test_a_task_whose_states_are_numbers_is_looked_at_too(slippery: bool) -> None:
    lake = {"id": "FrozenLake-v1", "num_envs": 2, "kwargs": {"is_slippery": slippery}}
    assert any("alike" in remark for remark in remarks_on(env=lake)) is not slippery


def test_fewer_episodes_are_not_advised_where_a_target_asks_for_a_number_of_them() -> None:
    one = {"id": f"{__name__}:OneSeries"}
    (said,) = [r for r in remarks_on(env=one, stop={"target": 5.0}) if "alike" in r]
    assert said.endswith("set round.episodes to 4 to save the time")


def test_a_task_in_which_one_action_draws_is_not_taken_for_one_without_chance() -> None:
    assert not [r for r in remarks_on(env={"id": f"{__name__}:ChanceLater"}) if "alike" in r]


def test_nor_is_one_whose_chance_shows_at_the_end_of_a_long_episode() -> None:
    assert not [r for r in remarks_on(env={"id": f"{__name__}:ChanceAtTheEnd"}) if "alike" in r]


def test_a_small_panel_of_equal_episodes_is_not_advised_to_grow() -> None:
    four = {"round": {"env_steps": 512, "episodes": 4}, "stop": LONGER}
    several = {"pods": {"min": 1, "max": 4}}
    said = lone(env={"id": f"{__name__}:OneSeries"}, population=several, **four)
    assert "alike" in said and said.endswith("give it random starts")


LONGER = {"rounds": 3}
"""With one round of warm-up, the least in which a copy can be made and has something to train."""


@pytest.mark.parametrize(
    ("sections", "rounds", "enough"),
    [
        ({}, "2 rounds", "train for 3 rounds or more"),
        ({"stop": {"rounds": 1}}, "1 rounds", "train for 3 rounds or more"),
        ({"stop": {"rounds": None, "env_steps": 3000}}, "1.46 rounds", "train for 3 rounds"),
        ({"population": {"warmup_rounds": 4}, "stop": {"rounds": 5}}, "5 rounds", "for 6 rounds"),
    ],
)
def test_a_run_that_is_too_short_for_a_copy_is_remarked_on(
    sections: dict[str, Any], rounds: str, enough: str
) -> None:
    four = {"pods": {"min": 1, "max": 4}, **sections.get("population", {})}
    said = lone(**{**sections, "population": four})
    assert said.startswith(f"population.warmup_rounds: a pod trains {rounds} in this run, and none")
    assert enough in said
    longer = {"rounds": four.get("warmup_rounds", 1) + 2}
    assert not remarks_on(population=four, stop=longer)


def test_a_budget_that_is_smaller_than_a_round_of_each_pod_is_remarked_on() -> None:
    four = {"pods": {"min": 1, "max": 4}}
    said = lone(population=four, stop={"rounds": None, "env_steps": 2047})
    assert said.startswith(
        "stop.env_steps: 2047 steps are less than a round of 512 for each of the 4 pods"
        " (population.pods.max), so some may never be scored; give 2048 or more, "
    )
    assert lone(population=four, stop={"rounds": None, "env_steps": 2048}).startswith(
        "population.warmup_rounds: a pod trains 1 rounds"
    )


@pytest.mark.parametrize(
    ("budget", "stop", "limit"),
    [("seconds", {"rounds": 9}, "minutes"), ("env_steps", {"rounds": 9}, "env_steps"),
     ("seconds", {"env_steps": 90_000}, "minutes"), ("env_steps", {"minutes": 9}, "env_steps")],
)  # fmt: skip
def test_a_budget_that_nothing_limits_is_remarked_on(
    budget: str, stop: dict[str, Any], limit: str
) -> None:
    four = {"pods": {"min": 1, "max": 4}, "budget": budget}
    said = lone(population=four, stop={"rounds": None, **stop})
    assert said.startswith(f"population.budget: {budget} are counted, and nothing ends the run by")
    assert f"give stop.{limit}, or" in said
    assert not remarks_on(population=four, stop={"rounds": None, "env_steps": 90_000, "minutes": 9})


def test_a_population_of_controls_alone_is_remarked_on() -> None:
    (said,) = remarks_on("ppo", "dqn", stop=LONGER)
    assert said.startswith("population.pods.max: each of the 2 pods is the only one of its")
    assert said.endswith("take 4 or more")
    three = {"algorithms": {"ppo": 1}, "pods": {"min": 1, "max": 3}, "controls": 3}
    (said,) = remarks_on(population=three, stop=LONGER)
    assert said.startswith("population.pods.max: each of the 3 pods is a control")
    assert "before the leader was shown to be better in four rounds, so" in said
    assert said.endswith("or fewer population.controls")
    four = {"pods": {"min": 1, "max": 4}}
    assert not remarks_on("ppo", "dqn", population=four, stop=LONGER)


def test_an_algorithm_of_controls_alone_is_remarked_on_where_its_ranges_wait_in_vain() -> None:
    rate = {"learning_rate": {"log_uniform": [1e-4, 1e-2]}}
    agents = {**ppo(rate), "dqn": rate}
    shares = {"algorithms": {"ppo": 3, "dqn": 1}, "pods": {"min": 1, "max": 4}}
    (said,) = remarks_on("ppo", "dqn", agents=agents, population=shares, stop=LONGER)
    assert said.startswith("agents.dqn: the only pod of dqn is a control and gives way to no copy")
    two = {**shares, "algorithms": {"ppo": 1, "dqn": 1}}
    assert not remarks_on("ppo", "dqn", agents=agents, population=two, stop=LONGER)
    assert not remarks_on("ppo", "dqn", agents=ppo(rate), population=shares, stop=LONGER)


def test_one_agent_is_no_failed_population() -> None:
    assert not remarks_on("ppo")


def test_a_panel_that_can_compare_nobody_is_remarked_on() -> None:
    four = {"pods": {"min": 1, "max": 4}}
    (said,) = remarks_on(population=four, round={"episodes": 3}, stop=LONGER)
    assert said.startswith("round.episodes: a panel of 3 episodes has none left to compare")
    (said,) = remarks_on(population=four, round={"episodes": 7}, stop=LONGER)
    assert said.startswith("round.episodes: pods are tested on half of a panel of 7, and so few")
    assert not remarks_on(population=four, round={"episodes": 8}, stop=LONGER)
    assert not remarks_on(round={"episodes": 2})  # one pod is compared with nobody


def ppo(given: Mapping[str, Any]) -> dict[str, Any]:
    """The section ``agents``; a rollout by default is longer than these runs' rounds."""
    return {"ppo": {"horizon": 32, **given}}


def lone(**sections: Any) -> str:
    """The only remark on a run of 2 rounds of 512 steps, if nothing else is said."""
    (said,) = remarks_on(**sections)
    return said


def test_a_schedule_in_steps_that_outlasts_the_run_is_remarked_on() -> None:
    assert lone(agents=ppo({"anneal_steps": 5000})) == (
        "agents.ppo.anneal_steps: 5000 steps, where a pod trains 1024 in this run: the learning"
        " rate does not come to the end of its fall; write anneal_steps: 0 with anneal: true to"
        " follow the run's budget"
    )


def test_a_schedule_in_steps_that_ends_long_before_the_run_is_remarked_on() -> None:
    assert "after that the learning rate has come to its least, and stays there; write" in lone(
        agents=ppo({"anneal_steps": 500})
    )
    assert not remarks_on(agents=ppo({"anneal_steps": 1000}))
    # 4 pods, of which each trains a quarter of the run's steps
    crowd = {"pods": {"min": 1, "max": 4}}
    stop = {"rounds": None, "env_steps": 40_000}
    assert "where a pod trains 10000 in this run" in lone(
        agents=ppo({"anneal_steps": 4000}), population=crowd, stop=stop
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon_steps": 5}, "after that nearly nothing is explored at random"),
        (
            {"epsilon_steps": 5000},
            "epsilon does not fall to epsilon_end; write epsilon_steps: 0",
        ),
        ({"priority_beta_steps": 50}, "after that importance weights correct all of the bias"),
        ({"priority_beta_steps": 1025}, "importance weights never correct all of the bias"),
    ],
)
def test_schedules_of_dqn_are_remarked_on(given: Mapping[str, int], said: str) -> None:
    (remark,) = remarks_on("dqn", agents={"dqn": {"priority_exponent": 0.6, **given}})
    assert said in remark
    assert not remarks_on("dqn")


def test_a_schedule_that_ends_within_a_round_is_remarked_on_where_time_ends_the_run() -> None:
    hours = {"rounds": None, "minutes": 60}
    said = lone(agents=ppo({"anneal_steps": 100}), stop=hours)
    assert "100 steps, where a pod trains 512 in a round: after that the learning rate" in said
    assert not remarks_on(agents=ppo({"anneal_steps": 5000}), stop=hours)


def test_a_rate_that_follows_a_run_which_nothing_limits_is_remarked_on() -> None:
    endless = {"rounds": None, "target": 475.0}
    said = lone(agents=ppo({"anneal": True}), stop=endless)
    assert said.startswith("agents.ppo.anneal: nothing but a target limits this run, so")
    assert not remarks_on(agents=ppo({"anneal": True}), stop={**endless, "minutes": 5})
    assert not remarks_on(agents=ppo({"anneal": True}))


def test_an_agent_whose_rate_is_a_word_has_no_remark_on_it() -> None:
    words: dict[str, Value] = {"learning_rate": "linear", "learning_starts": "soon"}
    several: dict[str, Value] = {"learning_starts": 1, "buffer_size": "plenty"}
    for values in (words, several):
        space = AlgorithmSpace("mine:Mine", values, {})
        assert not list(remarks(from_mapping(mapping()), {"mine": space}, None))


def test_what_was_measured_with_hpcpod_s_agents_and_rules_is_not_said_of_a_user_s() -> None:
    space = AlgorithmSpace("mine:Tabular", {"learning_rate": 0.5}, {})
    assert not list(remarks(from_mapping(mapping()), {"mine": space}, None))
    two = {"pods": {"min": 1, "max": 2}, "algorithms": {"ppo": 1}, "warmup_rounds": 0}
    short = {"round": {"env_steps": 512, "episodes": 2}, "population": two}
    assert "round.episodes: a panel of 2" in " ".join(remarks_on(**short))
    two["updater"] = "tests.run.test_remarks:NeverBeaten"
    assert not [said for said in remarks_on(**short) if "round.episodes" in said]


class NeverBeaten(PairedGate):
    """An updater of a user's, with rules of its own."""


def test_updates_that_begin_after_the_run_are_remarked_on() -> None:
    (said,) = remarks_on("dqn", agents={"dqn": {"learning_starts": 1025}})
    assert said.startswith("agents.dqn.learning_starts: the first update would come after 1025")
    assert "but a pod trains 1024 in this run, so nothing is ever learned" in said
    some = {"learning_starts": {"int": [1000, 9000]}}
    assert not remarks_on("dqn", agents={"dqn": some})
    assert not remarks_on("dqn", agents={"dqn": {"learning_starts": 1024}})
    # A buffer that is full does not wait for more.
    assert not remarks_on("dqn", agents={"dqn": {"learning_starts": 9000, "buffer_size": 1000}})


STATELESS = {"id": "tests.pod.rounds:stateless", "backend": "vector"}


@pytest.mark.parametrize(
    ("round_steps", "remedy"),
    [
        (400, "set round.env_steps to at least 2000"),
        (700, "set env.num_envs to at most 1 or round.env_steps to at least 2000"),
    ],
)
def test_a_round_that_never_sees_the_end_of_an_episode_is_remarked_on(
    round_steps: int, remedy: str
) -> None:
    short = {"round": {"env_steps": round_steps}}
    (said,) = remarks_on(env=STATELESS, **short)
    steps = round_steps / 4
    assert said.startswith(f"round.env_steps: an episode of {STATELESS['id']} can't be saved for")
    assert f"with {steps:g} steps per environment each round goes on for up to 500 steps" in said
    assert "ever trained on" not in said and said.endswith(remedy)
    assert not remarks_on(env=STATELESS, round={"env_steps": 2000})
    assert not remarks_on(**short)  # CartPole goes on in the next round
    assert not remarks_on(env={"wrappers": ["gymnasium.wrappers:FlattenObservation"]}, **short)


def test_what_is_too_far_from_an_episode_s_begin_for_any_round_is_remarked_on() -> None:
    far = {**STATELESS, "num_envs": 10}
    said = lone(env=far, round={"env_steps": 400})  # 40 steps of each, after at most 400
    assert "for up to 400 steps without learning, to begin in the middle, and nothing" in said
    assert "nothing after its first 440 steps is ever trained on" in said


def test_an_episode_that_is_too_long_to_be_played_again_is_remarked_on() -> None:
    long = {"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 27_000}}
    task = {"id": f"{__name__}:Endless", "wrappers": [long]}
    said = lone(env=task, round={"env_steps": 8_000})
    assert "that is longer than 10,000 steps can't be saved for the next round" in said
    assert "nothing after its first 12,000 steps is ever trained on" in said
    assert "set round.env_steps to at least 108000" in said
    words = check(from_mapping(mapping(env=task))).round
    assert words.endswith("in the same episodes, of which at most 10,000 steps can be saved")


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({}, "128 steps of each environment, 0.256 of an episode of 500 steps; the next one goes"),
        ({"round": {"env_steps": 6000}}, "1,500 steps of each environment, 3 episodes of 500 step"),
        ({"env": STATELESS}, "0.256 of an episode of 500 steps; the next one begins other ones"),
        ({"pod": {"ranks": 2}}, "64 steps of each environment, 0.128 of an episode of 500 steps;"),
    ],
)
def test_validate_says_what_share_of_an_episode_a_round_sees(
    sections: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(mapping(**sections)))
    assert main(["validate", str(path)]) == 0
    said = capsys.readouterr().out
    assert words in next(line for line in said.splitlines() if line.startswith("# a round: "))


def test_without_a_look_at_the_task_the_length_of_its_episodes_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(mapping(env={"num_envs": 3})))
    assert main(["validate", str(path), "--no-probe"]) == 0
    assert "\n# a round: 170.667 steps of each environment\n" in capsys.readouterr().out


def test_more_slots_than_pods_are_remarked_on() -> None:
    def slots(pods: int, resources: Any = None, **cluster: Any) -> list[str]:
        population = {"pods": {"min": 1, "max": pods}}
        config = from_mapping(
            mapping(population=population, cluster=cluster, resources=resources or {})
        )
        return [r for r in remarks(config, {}, None) if r.startswith("cluster.")]

    (said,) = slots(2, launcher="slurm", slots=9)
    assert said == (
        "cluster.slots: 9 slots are wanted, but no more than 2 will be asked for, since"
        " population.pods.max is 2 and a slot trains one pod at a time; set it to 2, or raise"
        " population.pods.max"
    )
    shared = {"gpus_per_pod": 1, "pods_per_gpu": 3}
    (said,) = slots(6, shared, launcher="slurm", slots=6, schedule={"sat,sun": 2})
    assert "no more than 2 will be asked for" in said
    assert "a slot trains 3 pods (resources.pods_per_gpu) at a time" in said
    (said,) = slots(4, slots=4, schedule={"mon-fri 08:00-18:00": 2, "sat,sun": 16})
    assert said.startswith("cluster.schedule: 16 slots are wanted, but no more than 4")
    assert slots(9, slots=9) == slots(2) == []


def test_launch_says_how_many_slots_there_will_be_where_they_are_fewer_than_asked(
    home: Path,
) -> None:
    words = [sys.executable, "-m", "hpcpod", "launch", "good.yaml", "--set", "cluster.slots=9"]
    done = subprocess.run(words, cwd=home, capture_output=True, text=True, check=True)
    assert "remark: cluster.slots: 9 slots are wanted, but no more than 1 will be" in done.stderr
    assert "slots: 1 at once, as many as population.pods.max has work for\n" in done.stdout
