"""Cells of a sweep, read from files: their configurations, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import NO_SWEEP
from hpcpod.errors import ConfigError, UserError
from hpcpod.run.sweeps.cells import Plan, read_plan
from hpcpod.run.sweeps.launch import check, element_of

HEAD = """\
name: swept
env: {id: CartPole-v1, num_envs: 4}
population: {pods: {min: 1, max: 2}}
round: {env_steps: 512, episodes: 4}
agents: {ppo: {horizon: 16}}
stop: {env_steps: 1024}
"""
Read = Callable[..., Plan]


@pytest.fixture
def read(home: Path) -> Read:
    def read(over: str, head: str = HEAD, sweep: str = "", **options: Any) -> Plan:
        path = home / "swept.yaml"
        path.write_text(f"{head}sweep:\n  over: {over}\n{sweep}")
        plan = read_plan(path, **options)
        assert plan is not None
        return plan

    return read


def problems(read: Read, over: str, head: str = HEAD, sweep: str = "") -> list[str]:
    with pytest.raises(ConfigError) as refused:
        check(read(over, head, sweep), probe=False)
    return refused.value.problems


def test_what_the_command_line_gives_is_read_as_what_is_expected_there(read: Read) -> None:
    over, drawn = "{agents.ppo.gamma: {uniform: [0.5, 0.9]}}", "  design: random\n  cells: 3\n"
    words = ["seed=7", "name=2024"]
    plan = read(over, sweep=drawn, overrides=words)
    written = read(over, HEAD + "seed: 7\n", drawn)
    assert [cell.levels for cell in plan.cells] == [cell.levels for cell in written.cells]
    assert plan.cells[0].levels != read(over, sweep=drawn).cells[0].levels
    assert (plan.name, plan.config_of(plan.cells[0]).name) == ("2024", "2024-001")


def test_a_baseline_from_the_command_line_has_its_cell(read: Read) -> None:
    over, one = "{agents.ppo.gamma: [0.9, 0.97]}", "  design: one_at_a_time\n"
    for gamma, levels in (("0.970", [0.97, 0.9]), ("0.5", [0.5, 0.9, 0.97])):
        plan = read(over, sweep=one, overrides=[f"agents.ppo.gamma={gamma}"])
        assert [config.agents["ppo"]["gamma"] for config in plan.configs] == levels


def test_an_ambiguous_word_at_a_factor_s_place_is_a_sentence(read: Read) -> None:
    one, said = "  design: one_at_a_time\n", "is text to many readers of YAML; write 3.0e-4"
    for written, where in (("3e-4", ""), ("{log_uniform: [3e-4, 0.1]}", ".log_uniform[0]")):
        head = HEAD.replace("horizon: 16", f"horizon: 16, learning_rate: {written}")
        assert problems(read, "{agents.ppo.learning_rate: [0.1, 0.2]}", head, one) == [
            f"agents.ppo.learning_rate{where}: 3e-4 {said}"
        ]


def test_a_choice_is_not_lost_to_a_field_beside_it(read: Read) -> None:
    head = HEAD.replace("{pods: {min: 1, max: 2}}", "auto")
    with pytest.raises(ConfigError, match="population: auto chooses for one run"):
        read("{agents.ppo.gamma: [0.9, 0.99]}", head, overrides=["population.pods.max=4"])


def test_a_cell_is_the_file_with_its_levels_in_their_places(read: Read) -> None:
    plan = read("{agents.ppo.gamma: [0.9, 0.99], population.pods: [{min: 1, max: 1}, "
                "{min: 2, max: 3}]}", sweep="  seeds: 2\n")  # fmt: skip
    assert [cell.name for cell in plan.cells] == [
        "001-1", "002-1", "003-1", "004-1", "001-2", "002-2", "003-2", "004-2",
    ]  # fmt: skip
    configs = [plan.config_of(cell) for cell in plan.cells]
    assert [config.agents["ppo"]["gamma"] for config in configs] == [0.9, 0.9, 0.99, 0.99] * 2
    assert [config.population.pods.max for config in configs] == [1, 3, 1, 3] * 2
    assert {config.name for config in configs} == {f"swept-{cell.name}" for cell in plan.cells}
    assert len({config.seed for config in configs}) == 8
    assert {config.env.num_envs for config in configs} == {4}
    assert {(c.cluster.launcher, c.cluster.slots) for c in configs} == {("local", 1)}


def test_a_file_without_an_environment_has_it_from_the_sweep(read: Read) -> None:
    head = HEAD.replace("{id: CartPole-v1, num_envs: 4}", "{num_envs: 4}")
    plan = read("{env.id: [CartPole-v1, Acrobot-v1]}", head)
    assert [config.env.id for config in plan.configs] == ["CartPole-v1", "Acrobot-v1"]


def test_an_agent_s_field_counts_where_it_is_trained(read: Read) -> None:
    plan = read("{population.algorithms: [{ppo: 1}, {dqn: 1}], agents.dqn.tau: [0.1, 0.2]}")
    assert [list(cell.levels.values()) for cell in plan.cells] == [
        [{"ppo": 1}], [{"dqn": 1}, 0.1], [{"dqn": 1}, 0.2],
    ]  # fmt: skip
    assert [sorted(config.agents) for config in plan.configs] == [["ppo"], ["dqn"], ["dqn"]]


def test_an_element_has_the_cores_of_all_slots_of_a_cell(read: Read) -> None:
    cluster = "resources: {cpus_per_pod: 3}\ncluster: {launcher: slurm, slots: 5}\n"
    plan = read("{agents.ppo.gamma: [0.9, 0.99, 0.999]}", HEAD + cluster, "  slots: 2\n")
    element = element_of(plan)
    assert (element.resources.cpus_per_pod, element.cluster.slots) == (6, 2)
    assert (element.name, element.cluster.coordinator) == ("swept", False)


def test_a_field_that_is_unknown_is_said_once_and_one_cell_s_problem_with_the_cell(
    read: Read,
) -> None:
    assert problems(read, "{agents.ppo.gama: [0.9, 0.99], round.episodess: [4, 8]}") == [
        "round.episodess: unknown key; did you mean 'episodes'?"
    ]
    said = problems(read, "{agents.ppo.gamma: [0.9, 9.0], population.updater: [ranking, no_such]}")
    where = "(in 2 cells of 4: agents.ppo.gamma=0.9, population.updater=no_such; agents.ppo.gamma="
    assert [each.partition(":")[0] for each in said] == ["population.updater", "agents.ppo.gamma"]
    assert "no_such" in said[0] and where in said[0]
    assert said[1].endswith(
        "(in 2 cells of 4: agents.ppo.gamma=9.0, population.updater=ranking;"
        " agents.ppo.gamma=9.0, population.updater=no_such)"
    )


def test_what_is_wrong_with_levels_and_with_fields_is_said_in_one_go(read: Read) -> None:
    over = "{stop.rounds: [2], round.epissodes: [4, 8], env.num_envs: {int: [1, 3]}}"
    assert [each.partition(":")[0] for each in problems(read, over)] == [
        "sweep.over.stop.rounds", "sweep.over.env.num_envs", "round.epissodes",
    ]  # fmt: skip


def test_what_is_wrong_with_ranks_and_so_with_the_launcher_is_said_once(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    head, said = HEAD + "resources: {gpus_per_pod: 3}\npod: {ranks: 2}\n", "pod.ranks: a rank has"
    [every] = problems(read, "{agents.ppo.gamma: [0.9, 0.99]}", head)
    assert every.startswith(said)
    [some] = problems(read, "{pod.ranks: [2, 3]}", head)
    assert some.startswith(said) and "(in 1 cell of 2: pod.ranks=2)" in some


def test_a_field_of_an_agent_that_no_cell_trains_is_refused(read: Read) -> None:
    assert problems(read, "{agents.sac.tau: [0.1, 0.2]}") == [
        "sweep.over.agents.sac.tau: no cell trains sac: take it out"
    ]


@pytest.mark.parametrize("stop, over, said", [
    ("{rounds: 2}", "{agents.ppo.gamma: [0.9, 0.99]}",
     "stop: the cells need equal budgets; set stop.env_steps, or stop.minutes"),
    ("{env_steps: 1024}", "{stop.env_steps: [1024, 2048]}",
     "stop.env_steps: the cells need equal budgets, got 1024, 2048"),
    ("{minutes: 1}", "{population.pods: [{min: 1, max: 1}, {min: 1, max: 4}]}",
     "sweep.slots: in equal minutes all cells need as many slots, and one of them has 1 pod, too"
     " few for 2"),
])  # fmt: skip
def test_budgets_that_differ_are_refused(read: Read, stop: str, over: str, said: str) -> None:
    head = HEAD.replace("{env_steps: 1024}", stop)
    assert problems(read, over, head, "  slots: 2\n") == [said]


def test_a_sweep_of_a_million_runs_is_asked_to_be_confirmed(read: Read) -> None:
    levels = ", ".join(f"agents.ppo.x{i}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]" for i in range(6))
    with pytest.raises(UserError, match=r"a sweep of 1,000,000 runs; confirm so many by --yes"):
        read(f"{{{levels}}}")
    many = ", ".join(str(0.5 + i / 2002) for i in range(1001))
    assert len(read(f"{{agents.ppo.gamma: [{many}]}}", yes=True).cells) == 1001


def test_other_verbs_say_that_the_file_is_a_sweep(
    read: Read, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read("{agents.ppo.gamma: [0.9, 0.99]}")
    assert main(["train", "swept.yaml"]) == 2
    assert NO_SWEEP in capsys.readouterr().err
    assert main(["validate", "swept.yaml", "--no-probe", "--set", "sweep.seeds=3"]) == 0
    assert "# swept: 6 runs, 2 combinations of 1 factor" in capsys.readouterr().out
    assert not (home / "runs").exists()
