"""The part on which a trading policy is scored: by its run, and by whoever scores it again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod._process import StopFlag
from hpcpod.config.loader import from_mapping, from_plain
from hpcpod.config.schema import EnvConfig, RunConfig
from hpcpod.deploy.score_folder import Chunk, ScoreFolder
from hpcpod.deploy.scorer import Player
from hpcpod.envs.make import configured
from hpcpod.envs.vec_env import random_seeds
from hpcpod.errors import ConfigError, UserError
from hpcpod.pod.evaluator import Blocked, play, scored_in
from hpcpod.pod.factory import EnvFactory
from hpcpod.pod.policy import Policy, load_policy_file, policy_meta
from hpcpod.records.codec import encode
from hpcpod.records.evaluations import by_stretch
from hpcpod.run.evaluation.evaluate import _returns
from hpcpod.run.evaluation.policies import candidates
from hpcpod.run.preflight import check
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


def test_a_panel_counts_each_window_once(policy: Path) -> None:
    """Of 40 episodes in 4 windows the score is 4 numbers, in the order of the windows."""
    agent = load_policy_file(policy).agent
    with closing(SelectionEvaluator(EnvFactory(config().env, "cpu"))) as evaluator:
        told = evaluator.evaluate(agent, 0, "panel", 1, episodes=40)
        again = evaluator.evaluate(agent, 0, "panel", 2, episodes=40)
        env = evaluator.env(40)
        assert isinstance(env, Blocked)
        seeds = random_seeds(0, "panel", 1, count=40)
        played, blocks = play(env, agent, seeds, longest=100), env.blocks(seeds)
        single = evaluator.evaluate(agent, 0, "panel", 1, episodes=1)
    assert len(set(blocks)) == 4
    assert list(told) == pytest.approx([
        played[blocks.index(block)] for block in sorted(set(blocks))
    ])  # fmt: skip
    assert again == pytest.approx(told), "other seeds draw the same days"
    assert single == (played[0],)


def test_a_selection_part_with_a_single_window_is_refused() -> None:
    env = scored_in(config())
    long = replace(env, kwargs={**env.kwargs, "sessions": 0})
    with pytest.raises(UserError, match="part selection has room for a single episode of 29 "):
        configured(long, 1, "cpu")


def test_a_launch_refuses_a_selection_part_that_can_not_be_scored() -> None:
    for kwargs, said in (
        ({"sessions": 0}, "a single episode of 29 decisions"),
        ({"sessions": 12}, "29 decisions, an episode of 12 sessions takes 36"),
    ):
        task = config()
        task = replace(task, env=replace(task.env, kwargs={**KWARGS, **kwargs}))
        with pytest.raises(ConfigError, match=f"pod.evaluator: part selection has .*{said}"):
            check(task)


def test_stretches_have_their_mean() -> None:
    assert by_stretch((1.0, 4.0, 2.0, 6.0), (7, 3, 7, 3)) == (5.0, 1.5)
    assert by_stretch((1.0, 4.0), ()) == (1.0, 4.0)
