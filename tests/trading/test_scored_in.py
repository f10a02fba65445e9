"""The part on which a trading policy is scored: by its run, and by whoever scores it again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod._process import StopFlag
from hpcpod.config.algorithms import resolve_algorithms
from hpcpod.config.loader import from_mapping, from_plain
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.deploy.score_folder import Chunk, ScoreFolder
from hpcpod.deploy.scorer import Player
from hpcpod.errors import ConfigError, UserError
from hpcpod.pod.evaluator import scored, scored_in
from hpcpod.pod.factory import EnvFactory, make_agent
from hpcpod.pod.policy import Policy, load_policy_file, policy_meta
from hpcpod.pod.trial.probe import probe
from hpcpod.records.codec import encode
from hpcpod.run.evaluation.evaluate import _returns
from hpcpod.run.evaluation.policies import candidates
from hpcpod.run.preflight import check
from hpcpod.run.remarks import remarks
from hpcpod.run.remarks_on_trading import on_trading
from hpcpod.trading.env import TradingVecEnv
from hpcpod.trading.evaluator import SelectionEvaluator
from tests.support.untrained import untrained

KWARGS: dict[str, Any] = {
    "market": {"stocks": 2, "days": 60, "minutes": 7}, "features": ["signal"], "stride": 3,
    "sessions": 2, "embargo": 1,
}  # fmt: skip


def config(evaluator: str = "trading") -> RunConfig:
    env = {"id": "trading", "backend": "trading", "kwargs": KWARGS}
    return from_mapping({"name": "t", "env": env, "pod": {"evaluator": evaluator}})


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """As a pod of a trading run saves it."""
    path = untrained(tmp_path / "trained.h5", config().env)
    loaded = load_policy_file(path)
    meta = policy_meta(loaded.spec, config(), "ppo", loaded.about["hyperparameters"])
    Policy(loaded.agent, loaded.spec, meta).save(path, overwrite=True)
    return path


def test_an_evaluator_says_where_it_scores() -> None:
    assert scored_in(config()).kwargs == {**KWARGS, "part": "selection", "apart": True}
    assert scored_in(config("panel")) == config().env


def test_a_policy_is_scored_again_where_its_run_has_scored_it(policy: Path) -> None:
    about = load_policy_file(policy).about
    assert from_plain(EnvConfig, about["env"], "it").kwargs == KWARGS
    [found] = candidates([policy])
    assert found.env == scored_in(config())
    assert encode(found.env) == about["scored_in"]
    old = untrained(policy.with_name("old.h5"), config().env)
    [found] = candidates([old])
    assert found.env.kwargs == KWARGS


def test_a_panel_is_of_windows_that_share_no_day_each_once() -> None:
    """4 windows, see below: of two episodes any two, of forty all."""
    made = SelectionEvaluator(EnvFactory(config().env, "cpu"))
    assert made.most_episodes == 4
    env, pairs = made.env(2), set()
    assert isinstance(env, TradingVecEnv)
    for number in range(60):
        pair = env.blocks(made.drawn("panel", number, episodes=2))
        assert len(set(pair)) == 2
        pairs.add(frozenset(pair))
        assert len(set(env.blocks(made.drawn("panel", number, episodes=4)))) == 4
    assert len(pairs) == 6, "each two of the four are drawn at times"
    agent = make_agent("ppo", env.spec, {}, 0, "cpu")
    assert len(scored(made, agent, "panel", 1, episodes=40)) == 4
    assert len(scored(made, agent, "panel", 1, episodes=3)) == 3
    made.close()


def test_where_there_is_one_window_a_run_is_refused() -> None:
    env = {"id": "trading", "backend": "trading", "kwargs": {**KWARGS, "sessions": 6}}
    whole = {"name": "t", "env": env, "pod": {"evaluator": "trading"}}
    with pytest.raises(ConfigError, match="it has data for 1 episode, and a score takes two"):
        check(from_mapping(whole), source="t", probe=True)


def test_that_a_panel_has_fewer_episodes_is_remarked_on() -> None:
    look = probe(config(), resolve_algorithms(config()))
    assert look.most_episodes == 4
    [said] = on_trading(config(), look)
    assert said.startswith(
        "round.episodes: the selection part has 4 windows that do not overlap, so a panel is of"
        " these, not of 32 episodes"
    )


def test_episodes_on_equal_days_count_once(policy: Path, tmp_path: Path) -> None:
    """11 sessions of three decisions, but a half-day of one: 4 windows of six decisions."""
    folder = ScoreFolder(tmp_path / "scores")
    folder.create()
    [found] = candidates([policy])
    chunk = Chunk(folder.add_policy(found.data), found.env, tuple(range(40)))
    player = Player(folder)
    score = player.play(chunk, StopFlag(()))
    by_window = {block: each for block, each in zip(score.blocks, score.returns, strict=True)}
    assert len(score.returns) == 40
    assert len(by_window) == 4
    assert list(score.returns) == [by_window[block] for block in score.blocks]
    told = _returns({chunk.name: score}, [chunk])
    assert list(told) == pytest.approx([by_window[block] for block in sorted(by_window)])
    one = Chunk(chunk.policy, chunk.env, (chunk.seeds[0], chunk.seeds[0]))
    with pytest.raises(UserError, match="all episodes are of one stretch of data"):
        _returns({one.name: player.play(one, StopFlag(()))}, [one])
    player.close()


def test_a_trading_run_that_scores_pods_where_they_train_is_remarked_on() -> None:
    (said,) = [r for r in remarks(config("panel"), {}, None) if r.startswith("pod.evaluator")]
    assert "write pod: {evaluator: trading}, which scores on the selection part" in said
    assert not [r for r in remarks(config(), {}, None) if r.startswith("pod.evaluator")]


def test_what_is_wrong_with_both_parts_is_said_once() -> None:
    wrong = config()
    env = replace(wrong.env, kwargs={**KWARGS, "features": ["nosuch"]})
    with pytest.raises(ConfigError) as refused:
        probe(replace(wrong, env=env), {})
    (said,) = refused.value.problems
    assert said.startswith("env.id: there is no feature nosuch")


def test_a_launch_refuses_a_selection_part_without_room_for_an_episode() -> None:
    task = config()
    long = replace(task, env=replace(task.env, kwargs={**KWARGS, "sessions": 12}))
    said = "pod.evaluator: part selection has 29 decisions, an episode of 12 sessions takes 36"
    with pytest.raises(ConfigError, match=said):
        check(long)
