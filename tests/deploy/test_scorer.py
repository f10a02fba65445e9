"""The process that plays an evaluation, in this one: engines, spaces, and what can't be played."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import hpcpod
from hpcpod._process import REQUEUE, StopFlag
from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.score_folder import ScoreFolder, Work, chunks_of
from hpcpod.deploy.scorer import load, serve
from hpcpod.errors import Corrupt, UserError
from hpcpod.run.evaluation import evaluate as evaluation
from tests.support.untrained import untrained


class Here:
    """A pool that plays in this process, when it is started."""

    poll = 0.0

    def __init__(self, folder: ScoreFolder) -> None:
        self._folder = folder
        self._work: Work | None = None

    def begin(self, work: Work) -> None:
        self._work = work

    def living(self) -> set[str]:
        return set()

    def start(self, count: int) -> None:
        if self._work is not None:
            assert serve(self._folder, self._work.name, "here", StopFlag()) == 0

    def started(self, owner: str) -> bool:
        return owner == "here"

    def last_words(self, owner: str) -> str:
        return "is here"

    def __enter__(self) -> Here:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...  # fmt: skip


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "LocalPool", Here)


def refused(file: Path, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        hpcpod.evaluate(file, episodes=2, **options)
    return str(caught.value).removeprefix(f"{file} can't be scored in ")


def test_gymnasium_scores_what_was_trained_in_a_fast_engine(tmp_path: Path) -> None:
    file = untrained(tmp_path / "fast.h5", EnvConfig("CartPole-v1", backend="torch"))
    [row] = hpcpod.evaluate(file, episodes=4).rows
    same = untrained(tmp_path / "own.h5", EnvConfig("CartPole-v1", backend="gymnasium"))
    [other] = hpcpod.evaluate(same, episodes=4).rows
    assert row.engine == other.engine and row.engine.startswith("gymnasium ")
    assert row.returns == other.returns and row.paired


def test_the_policys_own_backend_scores_what_gymnasium_does_not_have(tmp_path: Path) -> None:
    own = EnvConfig("tests.support.faulty_envs:Slow", kwargs={"pause": 0.0})
    [row] = hpcpod.evaluate(untrained(tmp_path / "own.h5", own), episodes=4).rows
    assert row.env == own.id and row.episodes == 4


def test_a_policy_is_refused_where_the_spaces_are_others(tmp_path: Path) -> None:
    assert refused(untrained(tmp_path / "a.h5"), envs="Pendulum-v1") == (
        "Pendulum-v1: it needs observations Box(4,) and actions Discrete(2), and Pendulum-v1 has"
        " observations Box(3,) and actions Box(1,) in [-2.0, 2.0]"
    )


def test_an_environment_that_cannot_be_had_here_is_a_sentence(tmp_path: Path) -> None:
    file = untrained(tmp_path / "a.h5")
    assert refused(file, envs="Ant-v77").startswith("Ant-v77: Ant-v77 can't be made: ")
    said = refused(file, kwargs={"gravity": [9.0]})
    assert said.startswith("CartPole-v1 (gravity=9.0): CartPole-v1 refused its arguments")
    said = refused(file, wrappers=["no.mod:Wrapper"])
    assert said.startswith("CartPole-v1 (Wrapper): wrapper 'no.mod:Wrapper' can't be imported")


def test_equal_seeds_decide_every_condition(tmp_path: Path) -> None:
    file = untrained(tmp_path / "a.h5")
    limit: dict[str, dict[str, object]] = {"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 9}}
    found = hpcpod.evaluate(file, seeds=range(7, 27), wrappers=[limit])
    assert found.earlier == 0
    own, limited = (found.of(name)[0].returns for name in found.conditions)
    assert limited == tuple(min(each, 9.0) for each in own)  # the same episodes, cut
    again = hpcpod.evaluate([file], seeds=range(7, 27))
    assert again.rows[0].returns == own and again.seeds == range(7, 27)


def test_the_rows_are_a_frame(tmp_path: Path) -> None:
    files = [untrained(tmp_path / f"{seed}.h5", seed=seed) for seed in range(2)]
    frame = hpcpod.evaluate(files, episodes=4).frame()
    assert list(frame["place"]) == [1, 2] and "returns" not in frame
    assert frame["improves"].dtype == float and frame["improves"].isna().tolist() == [False, True]


def test_a_scorer_that_is_stopped_gives_its_chunk_back(tmp_path: Path) -> None:
    folder = ScoreFolder(tmp_path / "scores")
    folder.create()
    policy = folder.add_policy(untrained(tmp_path / "a.h5").read_bytes())
    work = Work(tuple(chunks_of(policy, EnvConfig("CartPole-v1"), range(4))))
    folder.add_work(work)
    stop = StopFlag()
    stop.set()
    assert serve(folder, work.name, "one", stop) == REQUEUE
    assert folder.claims(work, work.chunks) == [] and folder.scored() == set()
    assert serve(folder, work.name, "other", StopFlag()) == 0
    assert folder.scored() == {work.chunks[0].name}


def test_a_policy_that_is_another_than_its_name_says_is_not_played(tmp_path: Path) -> None:
    folder = ScoreFolder(tmp_path / "scores")
    folder.create()
    policy = folder.add_policy(untrained(tmp_path / "a.h5").read_bytes())
    assert load(folder.policy(policy)).about["agent"] == "ppo"
    untrained(folder.policy(policy), seed=1)
    with pytest.raises(Corrupt, match="does not match its checksum"):
        load(folder.policy(policy))


def test_scores_stay_out_of_a_runs_folder(finished_run: Path) -> None:
    with pytest.raises(UserError, match="is a run's folder: give the scores another"):
        hpcpod.evaluate(finished_run, folder=finished_run)


def test_an_ensemble_is_scored_as_any_policy(tmp_path: Path) -> None:
    files = [untrained(tmp_path / f"{seed}.h5", seed=seed) for seed in range(3)]
    joined = hpcpod.ensemble([hpcpod.load_policy(files[0])] * 2 + [hpcpod.load_policy(files[1])])
    joined.save(tmp_path / "vote.h5")
    [first, second] = hpcpod.evaluate([tmp_path / "vote.h5", files[0]], episodes=8).rows
    assert {first.agent, second.agent} == {"vote of 3: ppo", "ppo"}
    assert first.returns == second.returns  # two of three votes are its
