"""Evaluations: which policies, which environments, which seeds, and the numbers of the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from hpcpod.config.schema import EnvConfig
from hpcpod.deploy.score_folder import Chunk, Score, ScoreFolder, Work, chunks_of
from hpcpod.errors import HpcpodError, LaunchError, StorageError, UserError
from hpcpod.run.evaluation.conditions import Condition, check_same_task, conditions
from hpcpod.run.evaluation.evaluate import FIRST_SEED, seeds_of
from hpcpod.run.evaluation.policies import Candidate, candidates
from hpcpod.run.evaluation.pool import Waiting
from hpcpod.run.evaluation.slurm import SlurmPool, slurm_config
from hpcpod.run.evaluation.table import Played, rows_of

CARTPOLE = EnvConfig("CartPole-v1")
T_3 = 3.182446
"""Student's quantile of 0.975 with three degrees of freedom, of a printed table."""


def candidate(label: str, env: EnvConfig = CARTPOLE) -> Candidate:
    return Candidate(label, f"{label}.h5", "", None, "ppo", b"", env)


def played(label: str, *returns: float, paired: bool = True) -> Played:
    return Played(candidate(label), "CartPole-v1", returns, "an engine", paired)


def test_rows_stand_by_their_means_each_compared_with_the_next_seed_by_seed() -> None:
    # on the four seeds a beats b twice, ties once, loses once: (2 + 1/2) / 4
    rows = rows_of("as trained", [played("b", 1, 5, 3, 1), played("a", 2, 6, 3, 0)])
    assert [(row.place, row.policy, row.over) for row in rows] == [(1, "a", "b"), (2, "b", None)]
    assert rows[0].improves == 0.625
    assert rows[1].improves is rows[1].improves_low is None
    # of any pair: 6 beats 4; 3 beats 2 and ties 1; 2 beats 2; 0 none: (4 + 2.5 + 2) / 16
    apart = rows_of("it", [played("b", 1, 5, 3, 1), played("a", 2, 6, 3, 0, paired=False)])
    assert apart[0].improves == 8.5 / 16
    assert not apart[0].paired


def test_the_interval_of_a_mean_is_students_and_the_iqm_leaves_a_quarter_out_at_each_end() -> None:
    [row] = rows_of("as trained", [played("a", 0, 2, 4, 10)])
    # squares about 4: 16 + 4 + 0 + 36 = 56, and 56 / 3 is the variance
    assert (row.mean, row.iqm, row.episodes) == (4.0, 3.0, 4)
    assert row.sd == pytest.approx(math.sqrt(56 / 3))
    half = T_3 * math.sqrt(56 / 3 / 4)
    assert [row.low, row.high] == pytest.approx([4 - half, 4 + half])
    assert row.iqm_low <= 3.0 <= row.iqm_high


def test_equal_policies_are_as_likely_to_improve_as_not() -> None:
    rows = rows_of("as trained", [played("a", 3, 1, 4), played("again", 3, 1, 4)])
    assert rows[0].improves == 0.5


def test_default_seeds_lie_above_all_that_a_run_draws() -> None:
    from hpcpod.envs.vec_env import random_seeds

    seeds = seeds_of(None, None)
    assert (seeds[0], len(seeds)) == (2**31, 64)
    drawn = random_seeds(0, "panel", 1, count=4096)
    assert int(drawn.max()) < FIRST_SEED <= min(seeds)


def test_seeds_are_a_first_one_or_all_of_them() -> None:
    assert seeds_of(1000, 8) == range(1000, 1008)
    assert seeds_of(range(5, 9), None) == range(5, 9)
    for wrong, episodes, why in (
        (range(5, 9), 3, "4 seeds are as many episodes, not 3"),
        (range(5, 6), None, "at least two episodes"),
        (None, 1, "at least two episodes"),
        (2**32 - 2, 4, "seeds are from 0 to 4294967295, got 4294967294 to 4294967297"),
    ):
        with pytest.raises(UserError, match=why):
            seeds_of(wrong, episodes)


def test_a_condition_is_the_environment_with_one_change() -> None:
    own = EnvConfig("Pendulum-v1", kwargs={"g": 9.0}, wrappers=("my:Own",), num_envs=8)
    found = conditions(kwargs={"g": [5.0, 12]}, wrappers=({"my:Delay": {"steps": 2}},))
    assert [each.name for each in found] == ["as trained", "g=5.0", "g=12", "Delay steps=2"]
    assert [each.of(own).kwargs["g"] for each in found] == [9.0, 5.0, 12, 9.0]
    assert found[3].of(own).wrappers == ("my:Own", {"my:Delay": {"steps": 2}})
    assert {each.of(own).num_envs for each in found} == {1}


def test_two_conditions_never_share_a_name() -> None:
    found = conditions(kwargs={"mode": [True, "true", "9", 9, "fast"]})
    assert [each.name for each in found[1:]] == [
        "mode=true", 'mode="true"', 'mode="9"', "mode=9", "mode=fast"
    ]  # fmt: skip
    for words in (
        {"kwargs": {"g": [9, 9]}}, {"envs": ["Ant-v5", "Ant-v5"]},
        {"wrappers": ("my:Delay", "other:Delay")},
    ):  # fmt: skip
        with pytest.raises(UserError, match=r"two conditions are named '.*(g=9|Ant-v5|Delay)'"):
            conditions(**words)


def test_another_environment_has_the_policys_wrappers_and_not_its_arguments() -> None:
    own = EnvConfig("Ant-v5", backend="mujoco", kwargs={"a": 1}, wrappers=("my:Own",))
    found = conditions(["Ant-v5", "Ant-v4"], {"b": [2]})
    assert [each.name for each in found] == ["Ant-v5", "Ant-v5 b=2", "Ant-v4", "Ant-v4 b=2"]
    same, _, other, changed = (each.of(own) for each in found)
    assert (same.kwargs, same.backend) == ({"a": 1}, "mujoco")
    assert (other.id, other.kwargs, other.backend) == ("Ant-v4", {}, "auto")
    assert (changed.kwargs, changed.wrappers) == ({"b": 2}, ("my:Own",))


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"holdout": 0.96}, "holdout"),
        ({"selection": "2020-01-01"}, "selection"),
        ({"embargo": 0}, "embargo"),
        ({"purge": 1}, "purge"),
        ({"folds": 2}, "folds"),
        ({"fold": 2}, "fold"),
        ({"anchored": False}, "anchored"),
        ({"market": "bars.parquet"}, r"market\.below"),
        ({"market": {"source": "more.parquet", "below": "2021-01-01"}}, r"market\.source"),
        ({"fee_bps": 1.0}, None),
        ({"embargo": 3}, None),
        ({"market": {"source": "bars.parquet", "below": "2021-01-01", "licence": "mine"}}, None),
    ],
)
def test_no_condition_moves_the_parts_of_a_trading_task(
    changed: dict[str, Any], name: str | None
) -> None:
    market = {"source": "bars.parquet", "below": "2021-01-01"}
    own = {"market": market, "part": "selection", "embargo": 3}
    trading = EnvConfig("trading", backend="trading", kwargs=own)
    condition = Condition("it", None, changed)
    if name is None:
        assert condition.of(trading).kwargs == own | changed
        return
    with pytest.raises(UserError, match=f"^{name} stays as the run has it, .* --holdout`"):
        condition.of(trading)
    assert condition.of(CARTPOLE).kwargs == changed  # no business of another task's


def test_another_market_is_no_other_part_where_parts_are_dates() -> None:
    dates = {"selection": "2020-01-01", "holdout": "2020-06-01", "market": {"below": "2021-01-01"}}
    longer = Condition("it", None, {"market": {"source": "more.parquet"}})
    own = EnvConfig("trading", backend="trading", kwargs=dates)
    assert longer.of(own).kwargs["holdout"] == "2020-06-01"
    with pytest.raises(UserError, match="market"):  # of folds the sessions are counted
        longer.of(replace(own, kwargs={**dates, "folds": 2}))


def test_policies_of_different_tasks_are_not_compared_in_their_own() -> None:
    changed = EnvConfig("CartPole-v1", kwargs={"sutton_barto_reward": True})
    check_same_task([candidate("a"), candidate("b", EnvConfig("CartPole-v1", num_envs=64))])
    said = r"a was trained in CartPole-v1, b in CartPole-v1 \{.*sutton.*\}: say by --env"
    with pytest.raises(UserError, match=said):
        check_same_task([candidate("a"), candidate("b", changed)])


def test_policies_are_found_by_run_by_pods_and_by_places_on_the_leaderboard(
    finished_run: Path,
) -> None:
    [best] = candidates([finished_run])
    assert best.label.startswith("looked-at p0") and best.env.id == "CartPole-v1"
    assert (finished_run / "best.h5").read_bytes() == best.data
    two = candidates([finished_run], top=2)
    assert len({each.pod for each in two}) == 2
    [last] = candidates([finished_run], pods=["p0002"], keep="last")
    assert (last.pod, last.label) == ("p0002", "looked-at p0002 last")
    file, run = candidates([finished_run / "best.h5", finished_run])
    assert (file.pod, file.data) == (run.pod, run.data)


def test_what_cannot_be_evaluated_is_a_sentence(finished_run: Path, tmp_path: Path) -> None:
    (tmp_path / "no.h5").write_text("<script>")
    refused: tuple[tuple[Path, dict[str, Any], str], ...] = (
        (tmp_path / "gone.h5", {}, "there is no file .*gone.h5"),
        (tmp_path / "no.h5", {}, "no.h5 is damaged, or is no policy"),
        (tmp_path, {}, "there is no run at"),
        (finished_run, {"pods": ["p0099"]}, "looked-at has no pod p0099"),
        (finished_run / "best.h5", {"top": 2}, "is one policy: --pods, --top and --keep"),
    )
    for source, options, why in refused:
        with pytest.raises(UserError, match=why):
            candidates([source], **options)
    with pytest.raises(UserError, match="there is nothing to evaluate"):
        candidates([])


class Hand:
    """A pool whose processes do what a function says when they are started, and are gone."""

    poll = 0.0

    def __init__(self, act: Callable[[str], None]) -> None:
        self._act = act
        self.names: list[str] = []

    def living(self) -> set[str]:
        return set()

    def start(self, count: int) -> None:
        for _ in range(count):
            self.names.append(f"hand-{len(self.names)}")
            self._act(self.names[-1])

    def started(self, owner: str) -> bool:
        return owner in self.names

    def last_words(self, owner: str) -> str:
        return f"was {owner or 'nobody'}"

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...  # fmt: skip


@pytest.fixture
def scores(tmp_path: Path) -> ScoreFolder:
    folder = ScoreFolder(tmp_path / "scores")
    folder.create()
    return folder


def three_chunks(scores: ScoreFolder) -> Work:
    work = Work(tuple(chunks_of("0" * 64, CARTPOLE, range(48))))
    scores.add_work(work)
    return work


def waiting(scores: ScoreFolder, work: Work, act: Callable[[str], None]) -> Waiting:
    return Waiting(scores, work, Hand(act), lambda chunk: f"chunk of {chunk.seeds[0]}")


def test_a_chunk_whose_process_dies_is_played_again(scores: ScoreFolder) -> None:
    work = three_chunks(scores)
    died: list[str] = []

    def act(name: str) -> None:
        for chunk in scores.take(work, name):
            if chunk.seeds[0] == 16 and not died:
                died.append(name)
                return
            scores.put(chunk, Score((0.0,) * 16, "an engine", True))

    said: list[str] = []
    waiting(scores, work, act).wait(1, said.append)
    assert len(scores.scored()) == 3 and died == ["hand-0"]
    assert said == ["0 of 48 episodes are played", "16 of 48 episodes are played"]


def test_a_chunk_of_which_two_processes_die_is_named(scores: ScoreFolder) -> None:
    work = three_chunks(scores)

    def act(name: str) -> None:
        for chunk in scores.take(work, name):
            if chunk.seeds[0] == 16:
                return
            scores.put(chunk, Score((0.0,) * 16, "an engine", True))

    said = r"chunk of 16: 2 processes have died of it, on seeds 16 to 31; the last one was hand-1"
    with pytest.raises(HpcpodError, match=said):
        waiting(scores, work, act).wait(1, lambda text: None)


def test_the_claims_of_a_command_that_was_killed_are_nobodys(scores: ScoreFolder) -> None:
    work = three_chunks(scores)
    assert len(list(scores.take(work, "of-another-command"))) == 3

    def act(name: str) -> None:
        for chunk in scores.take(work, name):
            scores.put(chunk, Score((0.0,) * 16, "an engine", True))

    waiting(scores, work, act).wait(1, lambda text: None)
    assert len(scores.scored()) == 3


def test_processes_that_come_to_nothing_are_not_started_for_ever(scores: ScoreFolder) -> None:
    work = three_chunks(scores)
    started: list[str] = []
    said = "nothing was scored by the last 3 starts of processes; one was nobody"
    with pytest.raises(HpcpodError, match=said):
        waiting(scores, work, started.append).wait(1, lambda text: None)
    assert len(started) == 3


def test_a_refusal_is_said_with_the_name_of_what_was_refused(scores: ScoreFolder) -> None:
    work = three_chunks(scores)

    def act(name: str) -> None:
        scores.refuse(work, work.chunks[2], "it has other spaces")

    with pytest.raises(UserError, match=r"^chunk of 32: it has other spaces$"):
        waiting(scores, work, act).wait(1, lambda text: None)


class Submitted:
    """A scheduler with one job of this evaluation, which says what is cancelled."""

    longest = 0.0

    def __init__(self, work: Work) -> None:
        self.cancelled: list[str] = []
        self._view = SimpleNamespace(
            jobs=[SimpleNamespace(token=work.name, slot="7_0", submission="7", job="7_0")]
        )

    def observe(self, patience: float) -> SimpleNamespace:
        return self._view

    def cancel(self, jobs: list[str]) -> None:
        self.cancelled += jobs


@pytest.mark.parametrize(
    ("error", "cancelled"),
    [
        (None, True), (UserError("it has other spaces"), True),
        (StorageError("can't list scores: ESTALE"), False), (KeyboardInterrupt(), False),
        (HpcpodError("2 processes have died of it"), False), (OSError(116, "stale"), False),
        (LaunchError("the scheduler is gone"), False),
    ],
)  # fmt: skip
def test_jobs_go_on_unless_all_is_scored_or_refused(
    scores: ScoreFolder, error: BaseException | None, cancelled: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    work = three_chunks(scores)
    pool = SlurmPool(scores, work, slurm_config([], {}))
    scheduler: Any = Submitted(work)
    pool._launcher = scheduler
    assert pool.living() == {"7_0"}
    try:
        with pool:
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    assert scheduler.cancelled == (["7"] if cancelled else [])
    assert ("its jobs go on" in caplog.text) is not cancelled


def test_a_chunk_of_equal_policies_is_played_once() -> None:
    first, again = (Chunk("0" * 64, CARTPOLE, (1, 2)) for _ in range(2))
    from hpcpod.run.evaluation.evaluate import _work

    assert _work([[first], [again]]).chunks == (first,)
