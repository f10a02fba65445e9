"""Configurations from files, the command line and Python, and their refusals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcpod.config.loader import asks_auto, dump_yaml, from_mapping, from_words, load_file
from hpcpod.config.schema import RunConfig
from hpcpod.config.space import Choice, LogUniform
from hpcpod.errors import ConfigError

LEAST = "name: a\nenv: {id: CartPole-v1}\n"

BOMB = (
    b"a: &a ["
    + b",".join([b"x"] * 9)
    + b"]\n"
    + b"".join(
        b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(98, 106)
    )
)
"""Some 300 bytes whose last line is 9 to the 9th words."""

REFERENCE = """
name: pendulum            # runs/<name>
seed: 0
env: {id: Pendulum-v1, num_envs: 16, backend: auto, wrappers: []}
population:
  scheme: tournament
  pods: {min: 2, max: 8}
  algorithms: {ppo: 1, sac: 1, td3: 1}
  updater: paired_gate
  generator: gentle_truncation
round: {env_steps: 20000, episodes: 32}
agents:
  sac: {learning_rate: {log_uniform: [1.0e-4, 1.0e-2]}, gamma: 0.99}
pod: {ranks: 1, fusion: {scheme: mean, every: 1}, pipeline: false}
stop: {target: -200, env_steps: 2000000, minutes: 60}
resources: {gpus_per_pod: 0, cpus_per_pod: 1, pods_per_gpu: 1}
cluster: {launcher: local, partition: null, minutes: 240, template: default}
"""


def load(folder: Path, text: str | bytes, *overrides: str) -> RunConfig:
    """The configuration in a file with this text."""
    path = folder / "run.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_file(path, overrides)


def problems(folder: Path, text: str | bytes, *overrides: str) -> list[str]:
    """The problems of a file with this text."""
    with pytest.raises(ConfigError) as caught:
        load(folder, text, *overrides)
    return caught.value.problems


def test_the_reference_file_loads(tmp_path: Path) -> None:
    config = load(tmp_path, REFERENCE)
    assert config.env.num_envs == 16
    assert config.population.algorithms == {"ppo": 1.0, "sac": 1.0, "td3": 1.0}
    assert config.agents == {"sac": {"learning_rate": LogUniform(1e-4, 1e-2), "gamma": 0.99}}
    assert (config.stop.target, config.cluster.partition) == (-200.0, None)


def test_a_scheme_that_there_is_not_is_said(tmp_path: Path) -> None:
    assert problems(tmp_path, REFERENCE.replace("scheme: tournament", "scheme: islands")) == [
        "population.scheme: expected one of 'tournament', 'generational', got 'islands'",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "stop: {target: 3e-4}",
            "stop.target: 3e-4 is text to many readers of YAML; write 3.0e-4",
        ),
        (
            "stop: {target: -1.5e6}",
            "stop.target: -1.5e6 is text to many readers of YAML; write -1.5e+6",
        ),
        (
            "round: {env_steps: 1e6}",
            "round.env_steps: 1e6 is text to many readers of YAML; write 1000000",
        ),
        (
            "agents: {ppo: {lr: 3e-4}}",
            "agents.ppo.lr: 3e-4 is text to many readers of YAML; write 3.0e-4",
        ),
        (
            "agents: {ppo: {lr: {log_uniform: [1e-4, 1.0e-2]}}}",
            "agents.ppo.lr.log_uniform[0]: 1e-4 is text to many readers of YAML; write 1.0e-4",
        ),
        (
            "stop: {minutes: 2:30}",
            "stop.minutes: 2:30 is 150 to many readers of YAML;"
            " write one number without colons, such as 150",
        ),
        ("seed: 007", "seed: 007 is a number in base 8 to many readers of YAML; write 7"),
        (
            "pod: {pipeline: off}",
            "pod.pipeline: off is false to some readers of YAML, and text to others; write false",
        ),
        (
            "cluster: {partition: on}",
            "cluster.partition: on is true to some readers of YAML, and text to others;"
            " write 'on' in quotes",
        ),
        ("seed: no", "seed: expected int, got no"),
        (
            "cluster: {sbatch: {mem: 1e6}}",
            "cluster.sbatch.mem: 1e6 is text to many readers of YAML; write '1e6' in quotes",
        ),
        (
            "cluster: {sbatch: {nice: 100}}",
            "cluster.sbatch.nice: expected str, got 100; put it in quotes: '100'",
        ),
        (
            "cluster: {sbatch: {on: x}}",
            "cluster.sbatch.on: the key on is not text to YAML; put it in quotes: 'on'",
        ),
        (
            "cluster: {sbatch: {null: x}}",
            "cluster.sbatch.null: the key null is not text to YAML; put it in quotes: 'null'",
        ),
        (
            "cluster: {sbatch: {[a]: x}}",
            "cluster.sbatch: a key must be text, not a list or a mapping",
        ),
        ("seed: 1\nseed: 2", "seed: written twice, on lines 3 and 4"),
        ("pod:", "pod: expected a mapping, got null; leave it out for the defaults"),
        ("stop: {target: .inf}", "stop.target: expected a finite number, got .inf"),
        ("stop: {target: .nan}", "stop.target: expected a finite number, got .nan"),
        (
            "seed: !!python/name:os.system",
            "seed: the tag tag:yaml.org,2002:python/name:os.system is not supported; leave it out",
        ),
        ("agents: &a {ppo: *a}", "agents.ppo: refers to itself"),
        ("pod: {<<: {ranks: 1}}", "pod.<<: merge keys are not supported"),
    ],
)
def test_a_trap_of_yaml_is_caught(tmp_path: Path, line: str, problem: str) -> None:
    assert problem in problems(tmp_path, LEAST + line)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20_000", 20_000),
        ("+5", 5),
        ("0x10", 16),
        ("3.0e-4", 3e-4),
        ("1.", 1.0),
        (".5", 0.5),
        ("1.0e+6", 1e6),
        ("'3e-4'", "3e-4"),
        ("TRUE", True),
        ("'on'", "on"),
        ("2026-01-01", "2026-01-01"),
        ("_5", "_5"),
        ("5_", "5_"),
        ("none", "none"),
        ("once", "once"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_what_every_reader_of_yaml_agrees_on_is_taken(
    tmp_path: Path, text: str, value: object
) -> None:
    config = load(tmp_path, f"{LEAST}agents: {{ppo: {{x: {text}}}}}")
    assert config.agents["ppo"]["x"] == value
    assert type(config.agents["ppo"]["x"]) is type(value)


def test_an_anchor_stands_for_what_it_names(tmp_path: Path) -> None:
    text = "population: {algorithms: {ppo: 1, dqn: 1}}\nagents: {ppo: &x {lr: 0.1}, dqn: *x}"
    assert load(tmp_path, LEAST + text).agents["dqn"] == {"lr": 0.1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "the file is empty"),
        (b"# nothing\n", "the file is empty"),
        (b"- a\n- b\n", "expected 'key: value' lines"),
        (b"hello", "expected 'key: value' lines"),
        (b"name: \xff\xfe\n", "it is not UTF-8 text (byte 6)"),
        (b"name: a\x00b\n", "line 1: not valid YAML: a character that can't be printed"),
        (b"name: a\nenv: {id: x\n", "line 3, column 1: not valid YAML: expected ',' or '}'"),
        (b"name: a: b\n", "line 1, column 8: not valid YAML: mapping values are not allowed here"),
        (b"name: a\n\tseed: 1\n", "indent with spaces, not tabs"),
        (b"name: a\n--- \nname: b\n", "expected a single document"),
        (b"name: *a\n", "found undefined alias 'a'"),
        (b"[" * 5000, "not valid YAML: nested too deeply"),
        (BOMB, "more than 100,000 values, counting what * refers to; write it out"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_sentence(
    tmp_path: Path, text: bytes, problem: str
) -> None:
    [found] = problems(tmp_path, text)
    assert problem in found
    assert "\n" not in found


def test_a_section_that_has_to_be_there_is_not_to_be_left_out(tmp_path: Path) -> None:
    [found] = problems(tmp_path, "name: a\nenv:\n")
    assert found.startswith("env: expected a mapping, got null (id, ")


def test_an_environment_without_a_name_is_refused(tmp_path: Path) -> None:
    said = "env: id is empty: name an environment, such as CartPole-v1"
    assert problems(tmp_path, 'name: a\nenv: {id: " "}\n') == [said]


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "cartpole.yaml").write_text(LEAST)
    with pytest.raises(ConfigError, match=r"there is no such file; did you mean 'cartpole.yaml'\?"):
        load_file(tmp_path / "cartpol.yaml")


def test_a_file_in_a_missing_folder_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_file(tmp_path / "nowhere" / "a.yaml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is a folder, not a YAML file"):
        load_file(tmp_path)


def test_what_the_filesystem_says_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it can't be read: File name too long"):
        load_file(tmp_path / ("x" * 300))


def test_a_byte_order_mark_is_no_key(tmp_path: Path) -> None:
    assert load(tmp_path, b"\xef\xbb\xbf" + LEAST.encode()).name == "a"


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("stop.target=3e-4", "stop.target", 3e-4),
        ("round.env_steps=1e6", "round.env_steps", 1_000_000),
        ("stop.target=null", "stop.target", None),
        ("name=42", "name", "42"),
        ("name=1e6", "name", "1e6"),
        ("cluster.partition=no", "cluster.partition", "no"),
        ("cluster.partition=null", "cluster.partition", None),
        ("pod.pipeline=off", "pod.pipeline", False),
        ("pod.ranks=1", "pod.ranks", 1),
        ("seed=007", "seed", 7),
        ("cluster.setup=[module load cuda, 'x=1']", "cluster.setup", ("module load cuda", "x=1")),
        ("cluster.sbatch={mem: 16G, nice: 100}", "cluster.sbatch", {"mem": "16G", "nice": "100"}),
        ("cluster.sbatch.constraint=a100", "cluster.sbatch", {"constraint": "a100"}),
        (
            "agents.ppo.lr={log_uniform: [1e-5, 1.0e-2]}",
            "agents",
            {"ppo": {"lr": LogUniform(1e-5, 1e-2)}},
        ),
        ("agents.ppo.lr=3e-4", "agents", {"ppo": {"lr": 3e-4}}),
        ("agents.ppo={n: {choice: [8, 16]}}", "agents", {"ppo": {"n": Choice((8, 16))}}),
        ("env.id=pkg.mod:Env", "env.id", "pkg.mod:Env"),
    ],
)
def test_an_override_is_read_as_what_is_expected_there(
    tmp_path: Path, override: str, path: str, value: object
) -> None:
    found: Any = load(tmp_path, LEAST, override)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


def test_later_overrides_win(tmp_path: Path) -> None:
    assert load(tmp_path, LEAST + "seed: 1", "seed=2", "seed=3").seed == 3


def test_an_override_replaces_what_stands_at_its_path(tmp_path: Path) -> None:
    text = LEAST + "agents: {ppo: {lr: {choice: [1, 2]}, n: 3}}"
    assert load(
        tmp_path, text, "agents.ppo.lr={uniform: [0, 1]}", "agents.ppo.n=4"
    ) == from_mapping(
        {
            "name": "a",
            "env": {"id": "CartPole-v1"},
            "agents": {"ppo": {"lr": {"uniform": [0, 1]}, "n": 4}},
        }
    )


def test_a_name_with_dots_stands_in_quotes(tmp_path: Path) -> None:
    options = ('population.algorithms."my_pkg.mod:A"=1', 'agents."my_pkg.mod:A".lr=3e-4')
    found = load(tmp_path, LEAST, *options)
    assert found.agents == {"my_pkg.mod:A": {"lr": 3e-4}}
    for broken in ('agents."my_pkg.mod:A.lr=1', 'agents."".lr=1', 'agents."a"b=1'):
        [problem] = problems(tmp_path, LEAST, broken)
        assert problem.startswith(f"--set {broken}: expected path=value")


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("round.env_step=3", "round.env_step: unknown key; did you mean 'env_steps'?"),
        ("foo", "--set foo: expected path=value, such as round.env_steps=50000"),
        ("=3", "--set =3: expected path=value, such as round.env_steps=50000"),
        ("a..b=3", "--set a..b=3: expected path=value, such as round.env_steps=50000"),
        ("name.x=3", "name: expected str, got a mapping"),
        ("round.env_steps=many", "round.env_steps: expected int, got 'many'"),
        ("pod.pipeline=maybe", "pod.pipeline: expected bool, got 'maybe'"),
        (
            "stop.minutes=2:30",
            "stop.minutes: 2:30 is 150 to many readers of YAML;"
            " write one number without colons, such as 150",
        ),
        ("seed=1e999", "seed: expected a finite number, got 1e999"),
        ("name=", "name: expected str, got null"),
    ],
)
def test_a_wrong_override_is_said(tmp_path: Path, override: str, problem: str) -> None:
    assert problems(tmp_path, LEAST, override) == [problem]


@pytest.mark.parametrize(
    ("text", "overrides"),
    [("population: auto", []), ("", ["population=auto"]), ("population: {auto: true}", [])],
)
def test_a_field_is_put_beside_auto(tmp_path: Path, text: str, overrides: list[str]) -> None:
    seen: list[Any] = []

    def choose(data: dict[str, Any]) -> dict[str, Any]:
        seen.append(data.pop("population"))
        return data

    path = tmp_path / "c.yaml"
    path.write_text(LEAST + text)
    load_file(path, [*overrides, "population.pods.max=4"], choose=choose)
    [population] = seen
    assert asks_auto({"population": population}) and population["pods"]["max"].value == 4


def test_an_override_that_is_not_yaml_is_said(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, LEAST, "cluster.setup=[a")
    assert problem.startswith("--set cluster.setup=[a: line 1, column 3: not valid YAML")


def test_file_and_overrides_say_their_problems_together(tmp_path: Path) -> None:
    found = problems(tmp_path, "name: 3\nname: 4\nseed: x\n", "round.episodes=0", "y")
    assert len(found) == 6, found


def test_plain_data_takes_overrides_as_a_file_does(tmp_path: Path) -> None:
    data = {"name": "x", "env": {"id": "y", "kwargs": {"a": 1}}}
    words = ["env.kwargs.b=2", "env.num_envs=3"]
    config = from_words(data, words, source="y")
    assert config == load(tmp_path, "name: x\nenv: {id: y, kwargs: {a: 1, b: 2}, num_envs: 3}")
    assert data == {"name": "x", "env": {"id": "y", "kwargs": {"a": 1}}}
    with pytest.raises(ConfigError, match=r"^y has 2 problems\n"):
        from_words(data, ["env.num_env=3", "z"], source="y")


def test_the_dump_says_what_the_file_meant_to_every_reader(tmp_path: Path) -> None:
    config = from_mapping(
        {
            "name": "1e6",
            "env": {"id": "on"},
            "cluster": {
                "partition": "2:30",
                "sbatch": {"a": "007", "b": "2026-01-01", "c": "null"},
            },
            "agents": {"ppo": {"lr": {"log_uniform": [1e-7, 3e20]}}},
        }
    )
    text = dump_yaml(config)
    assert from_mapping(yaml.safe_load(text)) == config
    assert load(tmp_path, text) == config
    assert math.isclose(config.agents["ppo"]["lr"].high, 3e20)  # type: ignore[union-attr]
