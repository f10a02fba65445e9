"""Episodes that never end: told at launch, and an error of the round that waits for them."""

from __future__ import annotations

from pathlib import Path

import pytest

import hpcpod
from hpcpod.api import train_config
from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping
from hpcpod.errors import EndlessEpisode
from hpcpod.records.records import Keep
from hpcpod.run.preflight import check
from hpcpod.tournament.merge import read_board
from tests.envs.processes.test_processes import family
from tests.support.small_runs import mapping, wait_for

ENDLESS = "tests.support.endless_envs:Endless"
REMARK = (
    f"env.max_episode_steps: {ENDLESS} has no time limit, and no episode of it ended in 1,000"
    " random steps; a panel fails if an episode goes on for 100,000 steps (env.longest_episode), so"
    " give it a limit, such as env: {max_episode_steps: 1000}"
)


def test_an_environment_that_does_not_end_is_told_of_before_a_run_is_made() -> None:
    assert REMARK in check(from_mapping(mapping(env={"id": ENDLESS}))).remarks
    limited = mapping(env={"id": ENDLESS, "max_episode_steps": 1000})
    ending = mapping(env={"id": ENDLESS, "kwargs": {"ends": 30}})
    for harmless in (limited, ending, mapping()):
        assert not [r for r in check(from_mapping(harmless)).remarks if "max_episode" in r]


def test_a_run_whose_panels_never_end_fails_soon_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = mapping(
        env={"id": ENDLESS, "longest_episode": 200}, population={"pods": {"min": 1, "max": 2}},
        stop={"rounds": None, "minutes": 30},
    )  # fmt: skip
    others = {each.pid for each in family()}  # of tests before, in the same process
    run = hpcpod.launch(config, runs=tmp_path)
    assert run.wait(timeout=300).state == "finished"
    wait_for("the end of its processes", lambda: {each.pid for each in family()} <= others)
    folder = run.folder
    board = read_board(folder)
    assert (board.stop_reason, board.reports) == ("failed", 4)
    assert main(["why", str(folder.path)]) == 0
    said = capsys.readouterr().out
    sentence = (
        f"8 of 8 episodes of {ENDLESS} have not ended in 200 steps, and it has no time limit: give"
        " it one, env: {max_episode_steps: 1000}, or a panel more steps by env.longest_episode"
    )
    assert sentence in said
    assert main(["logs", str(folder.path), "p0001"]) == 0
    assert sentence in capsys.readouterr().out


def test_with_a_limit_the_same_run_is_trained(tmp_path: Path) -> None:
    training = hpcpod.train(
        env=ENDLESS, env_steps=256, episodes=2, max_episode_steps=50, horizon=32, minibatch_size=32
    )
    assert len(training.curve) == 1
    to = tmp_path / "policy.h5"
    training.policy.save(to)
    policy = hpcpod.load_policy(to)
    assert policy.spec.max_episode_steps == 50
    assert policy.about["env"]["max_episode_steps"] == 50


def test_a_training_is_told_of_an_end_that_does_not_come(caplog: pytest.LogCaptureFixture) -> None:
    fields = mapping(env={"id": ENDLESS, "longest_episode": 100}, stop={"env_steps": 512})
    with pytest.raises(EndlessEpisode, match="8 of 8 episodes"):
        train_config(from_mapping(fields))
    assert REMARK.replace("100,000", "100") in caplog.messages


@pytest.mark.parametrize("keep", ["best", "last"])
def test_a_training_that_has_a_score_keeps_what_was_scored(
    keep: Keep, caplog: pytest.LogCaptureFixture
) -> None:
    """A panel plays an episode and begins the next: those of the third one do not end."""
    env = {"id": ENDLESS, "kwargs": {"ends": 9, "first": 4}, "longest_episode": 50}
    config = from_mapping(mapping(env=env, stop={"env_steps": 2048}))
    training = train_config(config, keep=keep)
    assert [point.env_steps for point in training.curve] == [512, 1024]
    assert training.kept in training.curve
    assert len(training.returns) == 8
    ended = [line for line in caplog.messages if "; the training ends here, with what was" in line]
    assert len(ended) == 1
