"""Round trips: each configuration comes back from its mapping, its JSON and its YAML."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping

import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpcpod.config.cluster import ClusterConfig
from hpcpod.config.loader import dump_yaml, from_mapping, to_mapping
from hpcpod.config.schema import (
    EnvConfig,
    PodsConfig,
    PopulationConfig,
    RoundConfig,
    RunConfig,
    StopConfig,
)
from hpcpod.config.space import Choice, Int, LogUniform, Uniform, Value
from hpcpod.config.yaml_file import dump, parse

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-300, max_value=1e300)
whole = st.integers(-(2**62), 2**62)
count = st.integers(1, 2**62)
text = st.text()
tricky = st.sampled_from(
    ["1e6", "3e-4", "on", "No", "2:30", "007", "null", "~", "", "2026-01-01", "<<", "=", "1_0", "y"]
)
words = text | tricky
scalars = st.booleans() | whole | finite | words
hyperparameters: st.SearchStrategy[Value] = st.one_of(
    scalars,
    st.lists(positive, min_size=2, max_size=2, unique=True).map(lambda e: LogUniform(*sorted(e))),
    st.lists(finite, min_size=2, max_size=2, unique=True).map(lambda e: Uniform(*sorted(e))),
    st.lists(whole, min_size=2, max_size=2, unique=True).map(lambda e: Int(*sorted(e))),
    st.lists(words, min_size=2, max_size=5, unique=True).map(lambda v: Choice(tuple(v))),
    st.lists(finite, min_size=2, max_size=5, unique=True).map(lambda v: Choice(tuple(v))),
)
anything: st.SearchStrategy[object] = st.recursive(
    st.none() | scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
wrapped = st.dictionaries(
    words, st.dictionaries(words, anything, max_size=3), min_size=1, max_size=1
)


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    """Configurations of every shape."""
    algorithms = draw(st.dictionaries(words, positive, min_size=1, max_size=3))
    agents: Mapping[str, Mapping[str, Value]] = {
        name: draw(st.dictionaries(words, hyperparameters, max_size=3))
        for name in draw(st.sets(st.sampled_from(sorted(algorithms))))
    }
    least = draw(st.integers(1, 100))
    return RunConfig(
        name=draw(st.text(string.ascii_letters + string.digits, min_size=1)),
        env=EnvConfig(
            id=draw(words.filter(str.strip)),
            wrappers=tuple(draw(st.lists(words | wrapped, max_size=2))),
            kwargs=draw(st.dictionaries(words, anything, max_size=3)),
        ),
        seed=draw(whole),
        population=PopulationConfig(
            pods=PodsConfig(least, least + draw(st.integers(3, 100))), algorithms=algorithms
        ),
        round=RoundConfig(env_steps=draw(count)),
        agents=agents,
        stop=StopConfig(target=draw(st.none() | finite), rounds=draw(st.none() | count)),
        cluster=ClusterConfig(
            partition=draw(st.none() | words),
            sbatch=draw(st.dictionaries(words, words, max_size=3)),
            setup=tuple(draw(st.lists(words, max_size=3))),
        ),
    )


@given(configs())
def test_a_mapping_is_the_exact_inverse(config: RunConfig) -> None:
    assert from_mapping(to_mapping(config)) == config


@given(configs())
def test_json_keeps_everything(config: RunConfig) -> None:
    assert from_mapping(json.loads(json.dumps(to_mapping(config)))) == config


@given(configs())
def test_yaml_keeps_everything_for_us_and_for_others(config: RunConfig) -> None:
    written = dump_yaml(config)
    data, problems = parse(written)
    assert problems == []
    assert from_mapping(data) == config
    assert from_mapping(yaml.safe_load(written)) == config


@given(anything)
def test_any_plain_data_survives_yaml(data: object) -> None:
    assert parse(dump(data)) == (data, [])


@given(st.text())
def test_no_text_is_a_traceback(text: str) -> None:
    try:
        parse(text, lenient=True)
    except ValueError as error:
        assert "not valid YAML" in str(error)
