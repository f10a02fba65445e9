"""The choice of what a user leaves open, by tasks that are made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpcpod.config.auto.choice import ALLOCATOR, LIMITED, MINUTES, Choosing, Wishes, choose
from hpcpod.config.auto.commented import commented
from hpcpod.config.auto.task import Pace, Task
from hpcpod.config.loader import from_mapping
from hpcpod.config.schema import PopulationConfig, RunConfig
from hpcpod.config.space import AlgorithmSpace, Choice, extremes
from hpcpod.config.yaml_file import parse
from hpcpod.envs.time_limit import _OWN
from hpcpod.errors import ConfigError
from tests.config.auto.tasks import ALONE, CONTINUOUS, DISCRETE, SPACES


def chosen(task: Task, **given: Any) -> Choosing:
    given = {"name": "auto", "env": {"id": task.id}, **given}
    return choose(task, Wishes(given, 2, "two slots"), SPACES)


def config(made: Choosing) -> RunConfig:
    return from_mapping(made.data)


def test_all_is_chosen_and_each_choice_has_its_reason() -> None:
    made = chosen(ALONE, stop={"minutes": 1})
    run = config(made)
    # (60 - 5) s x 2 slots x 0.8 are the 88 s of test_plan.
    assert (run.population.pods.max, run.population.algorithms) == (8, {"ppo": 1.0})
    assert (run.round.env_steps, run.round.episodes, run.env.num_envs) == (10_240, 32, 16)
    assert run.population.allocator == ALLOCATOR
    # 640 steps of each environment in a round: no rollout of 1,024.
    assert made.get("agents.ppo.horizon") == {"choice": [32, 128, 512]}
    assert made.get("agents.ppo.learning_rate") == {"log_uniform": [1e-4, 1e-3]}
    for path in ("population.pods.max", "population.algorithms", "round.env_steps", "agents.ppo"):
        assert made.because[path]
    assert (
        "a panel of 32 episodes of up to 500 steps takes 0.25 s" in made.because["round.env_steps"]
    )
    assert "ppo 10,000" in made.because["population.algorithms"]


def test_who_rests_in_a_budget_of_steps_is_left_to_the_default_which_knows_the_slots() -> None:
    by_steps = config(chosen(ALONE, stop={"env_steps": 2_000_000})).population
    assert by_steps.allocator == PopulationConfig().allocator == "auto"


def test_equal_facts_give_equal_choices() -> None:
    assert chosen(CONTINUOUS).data == chosen(CONTINUOUS).data


def test_a_run_that_nothing_limits_gets_a_limit() -> None:
    assert config(chosen(ALONE)).stop.minutes == MINUTES
    assert config(chosen(ALONE, stop={"target": 450.0})).stop.minutes == MINUTES
    by_rounds = config(chosen(ALONE, stop={"rounds": 9}))
    assert (by_rounds.stop.minutes, by_rounds.population.allocator) == (None, "auto")
    assert by_rounds.stop.final_minutes is None


@pytest.mark.parametrize(("minutes", "final"), [(0.4, 1.0), (4.0, 1.0), (20.0, 5.0)])
def test_a_final_evaluation_takes_a_quarter_of_the_minutes_or_one(
    minutes: float, final: float
) -> None:
    assert config(chosen(ALONE, stop={"minutes": minutes})).stop.final_minutes == final
    given = chosen(ALONE, stop={"minutes": minutes, "final_minutes": 0.5})
    assert config(given).stop.final_minutes == 0.5


def test_what_is_given_stays() -> None:
    made = chosen(
        DISCRETE,
        stop={"minutes": 20.0},
        env={"id": "Game-v0", "num_envs": 4},
        population={"pods": {"max": 6}, "allocator": "fair"},
        round={"env_steps": 4_096},
        agents={"ppo": {"learning_rate": 1e-3, "horizon": 64}},
    )
    run = config(made)
    assert (run.env.num_envs, run.population.pods.max, run.round.env_steps) == (4, 6, 4_096)
    assert run.population.allocator == "fair"
    assert dict(run.population.algorithms) == {"ppo": 1.0}, "agents name the algorithms"
    assert dict(run.agents["ppo"]) == {"learning_rate": 1e-3, "horizon": 64}
    assert "round.env_steps" not in made.because


def longest(run: RunConfig) -> int:
    """Environment steps of the longest rollout of one rank that a pod may be born with."""
    horizons = [extremes(values["horizon"])[-1] for values in run.agents.values()]
    return max(map(int, horizons)) * run.env.num_envs


def test_a_round_holds_a_rollout_of_every_rank() -> None:
    given = {"name": "auto", "env": {"id": "Game-v0"}, "stop": {"minutes": 1.0}}
    four = config(choose(ALONE, Wishes(given, 2, "two slots", ranks=4), SPACES))
    assert four.round.env_steps >= 4 * longest(four)
    assert four.agents["ppo"]["horizon"] == Choice((32, 128))


@pytest.mark.parametrize("horizon", [2048, {"choice": [64, 2048]}])
def test_a_round_holds_the_rollout_that_the_user_has_set(horizon: Any) -> None:
    run = config(chosen(ALONE, stop={"minutes": 1}, agents={"ppo": {"horizon": horizon}}))
    assert longest(run) == 2048 * 16 and run.round.env_steps % longest(run) == 0


def test_a_round_holds_the_rollout_of_an_agent_that_does_not_search_it() -> None:
    space = AlgorithmSpace("ppo", {"horizon": 1_000}, {"horizon": 1_000})
    wishes = Wishes({"name": "auto", "env": {"id": "Game-v0"}}, 2, "two slots")
    assert config(choose(ALONE, wishes, {"ppo": space})).round.env_steps >= 16_000


def test_there_are_as_many_environments_as_the_user_has_processes_for_them() -> None:
    made = chosen(ALONE, env={"id": "Game-v0", "processes": 20})
    assert config(made).env.num_envs == 20


def test_an_agent_s_path_may_have_dots() -> None:
    mine = "my.agents:Mine"
    task = replace(ALONE, paces={mine: ALONE.paces["ppo"]})
    given = {"name": "auto", "env": {"id": "Game-v0"}, "agents": {mine: {"horizon": 64}}}
    made = choose(task, Wishes(given, 2, "two slots"), {mine: SPACES["ppo"]})
    rate = {"log_uniform": [1e-4, 1e-3]}
    assert made.data["agents"] == {mine: {"horizon": 64, "learning_rate": rate}}
    assert f"agents.{mine}.learning_rate" in made.because
    assert parse(commented(made.data, made.because)) == (made.data, [])


def test_no_fewer_pods_are_chosen_than_the_user_wants_at_least() -> None:
    made = chosen(DISCRETE, stop={"minutes": 0.1}, population={"pods": {"min": 20}})
    assert config(made).population.pods.max == 20


@pytest.mark.parametrize(
    ("pods", "kept", "without"),
    [(1, "ppo", "td3, sac"), (3, "ppo", "td3, sac"), (4, "ppo td3", "sac")],
)
def test_few_pods_have_room_for_few_algorithms(pods: int, kept: str, without: str) -> None:
    # of a training the budget buys most of PPO: 0.1 a second; of TD3 0.0625, of SAC 0.05
    made = chosen(CONTINUOUS, stop={"minutes": 60.0}, population={"pods": {"max": pods}})
    assert list(config(made).population.algorithms) == kept.split()
    said = made.because["population.algorithms"]
    assert said.endswith(
        f"left out, since population.pods.max is {pods}, and each takes 2: {without}"
    )
    assert "too little" not in said


def test_a_fast_algorithm_is_not_said_to_be_slow_where_the_budget_is_too_small_for_it() -> None:
    slower = replace(DISCRETE, paces={**DISCRETE.paces, "dqn": Pace(4_000.0, 5e-4)})
    made = chosen(slower, stop={"minutes": 0.2})
    assert list(config(made).population.algorithms) == ["dqn"], "PPO takes more steps to learn"
    said = made.because["population.algorithms"]
    assert said.endswith("; left out, since the budget trains them too little: ppo")


def test_an_algorithm_that_the_user_names_is_never_left_out() -> None:
    few = chosen(DISCRETE, stop={"minutes": 0.1}, agents={"ppo": {}, "dqn": {}})
    assert dict(config(few).population.algorithms) == {"ppo": 1.0, "dqn": 1.0}


def test_one_that_can_t_act_there_is_refused_in_its_own_words() -> None:
    with pytest.raises(ConfigError, match=r"agents\.sac: sac acts in continuous spaces only"):
        chosen(DISCRETE, agents={"sac": {}})


def test_a_task_in_which_none_can_act_is_one_sentence() -> None:
    none = replace(DISCRETE, paces={}, unfit={"ppo": "too odd", "dqn": "too odd"})
    with pytest.raises(ConfigError, match=r"none of ppo, dqn can act in Game-v0: too odd$"):
        chosen(none)


def test_small_tasks_get_small_networks_where_wide_ones_take_the_time() -> None:
    small = config(chosen(CONTINUOUS, stop={"minutes": 60.0}))
    assert small.agents["sac"]["hidden"] == 64 and "hidden" not in small.agents["ppo"]
    wide = replace(CONTINUOUS, observation_size=17)
    assert "hidden" not in config(chosen(wide, stop={"minutes": 60.0})).agents["sac"]


def test_a_replay_of_images_stays_within_a_gigabyte() -> None:
    # 84 x 84 x 4 bytes are 28,224: 35,430 of them make a gigabyte.
    images = replace(DISCRETE, image=True, observation_size=28_224)
    run = config(chosen(images, stop={"minutes": 60.0}))
    assert run.agents["dqn"]["buffer_size"] == 35_000


def test_an_episode_without_an_end_gets_one() -> None:
    endless = replace(ALONE, max_episode_steps=None, random_steps=None)
    assert config(chosen(endless)).env.max_episode_steps == 1_000
    assert config(chosen(replace(endless, measured=False))).env.max_episode_steps is None


@pytest.mark.parametrize(("seen", "limit"), [(22.0, 1_000), (5_376.0, 16_128)])
def test_an_episode_that_a_policy_may_never_end_gets_a_limit(seen: float, limit: int) -> None:
    """A panel of CliffWalking, in whose walls a policy may stay, would fail after 100,000 steps."""
    free = replace(ALONE, max_episode_steps=None, random_steps=seen)
    made = chosen(free, stop={"minutes": 1.0})
    assert config(made).env.max_episode_steps == limit
    assert f"up to {min(limit, 10 * int(seen)):,} steps" in made.because["round.env_steps"]
    given = {"env": {"id": "pkg.mod:Fleet", "backend": "vector"}, "stop": {"minutes": 1.0}}
    assert config(chosen(free, **given)).env.max_episode_steps is None


def test_limits_are_given_to_the_backends_that_take_one() -> None:
    assert set(LIMITED) == {None, "auto", "gymnasium", *_OWN}


def test_the_printed_yaml_is_the_configuration() -> None:
    made = chosen(
        CONTINUOUS, stop={"minutes": 60.0},
        env={"id": "pkg.mod:Arm", "kwargs": {"on": True, "parts": [1, [2]]}, "wrappers": ["a:B"]},
    )  # fmt: skip
    text = commented(made.data, made.because)
    assert parse(text) == (made.data, [])
    assert text.count("# because ") == sum(map(bool, made.because.values()))
    assert max(map(len, text.splitlines())) <= 100
