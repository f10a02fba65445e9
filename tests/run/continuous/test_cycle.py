"""Cycles: news, a run that goes on from the deployed policy, a judgement, a decision."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hpcpod.cli.parser import main
from hpcpod.config.loader import from_mapping, to_mapping
from hpcpod.errors import UserError
from hpcpod.run.continuous import cycle, training
from hpcpod.run.continuous.cycle import abandon, advance, stream_of
from hpcpod.run.continuous.registry import Registry, create, open_registry
from hpcpod.run.continuous.rollback import rolled_back
from hpcpod.run.continuous.training import repeat
from hpcpod.run.run import open_run
from hpcpod.storage.locks import file_lock
from hpcpod.tournament.continuous.stream import Player
from hpcpod.trading.ledger import LEDGERS, Ledger
from tests.run.continuous.worlds import (
    EMBARGO,
    JUDGE,
    Generous,
    bars_of,
    config,
    copied,
    drive,
    grow,
    rewritten,
    spoil,
    unjudged,
    without_second,
)
from tests.storage.faults import DEAD, finish, in_child, start
from tests.support.command_line import refusal

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """Runs are trained in this process: the driver of a run has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "drive", drive)
        yield


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, here: None) -> Registry:
    """A registry after two cycles, of which each has deployed its version."""
    home = tmp_path_factory.mktemp("two")
    file = home / "bars.parquet"
    grow(file, 45)
    easy = {"kwargs": {"judge": JUDGE, "window": 30}, "stream": f"{Generous.__module__}:Generous"}
    registry = create(config(file, ct=easy), "a test", home)
    for sessions in (45, 45 + JUDGE):
        grow(file, sessions)
        assert advance(registry, probe=False).kind == "promoted"
    return registry


def test_a_cycle_goes_on_from_the_deployed_policy_on_later_sessions(two: Registry) -> None:
    first, second = two.versions()
    assert (first.parent, second.parent) == (None, 1)
    pods = open_run(second.run).board().pods
    origins = [None if pod.origin is None else pod.origin.run for pod in pods.values()]
    assert origins == ["mine-c0001", None]
    assert [str(each.windows.train["holdout"]) for each in (first, second)] == [
        "2000-02-23", "2000-03-06",
    ]  # fmt: skip
    assert str(second.windows.train["holdout"]) >= first.windows.end
    assert {p.name for p in two.folder(2).iterdir()} == {
        "policy.h5", "entry.json", "reference.json", "card.json", "README.md",
    }  # fmt: skip


def test_the_card_of_a_version_has_its_lineage_its_data_and_its_scores(two: Registry) -> None:
    for own, parent in zip(two.versions(), (None, "v0001"), strict=True):
        card, page = ((two.folder(own.number) / f).read_text() for f in ("card.json", "README.md"))
        made, digest = json.loads(card), stream_of(two.config).digest(own.windows)
        told = made["registered"]
        assert (told["parent"], told["config_sha256"]) == (parent, own.config_sha256)
        assert (told["data"]["sha256"], told["data"]["source"]) == (digest, bars_of(two).name)
        assert (told["judged"], made["score"]) == (own.verdict.said, own.score)
        assert made["run"]["lineage"][-1]["pod"] == made["policy"]["pod"] in page
        said = f"score is {own.score['mean']:.4g}", digest, own.config_sha256, f"parent | {parent}"
        assert [each in page for each in said] == [True, True, True, parent is not None]


def test_a_second_call_without_news_does_nothing(two: Registry) -> None:
    before = [path for path in two.path.rglob("*") if path.is_file()]
    done = advance(two, probe=False)
    assert done.kind == "not due" and "0 of 8 new sessions" in done.words
    assert [path for path in two.path.rglob("*") if path.is_file()] == before


def test_a_cycle_that_is_killed_between_any_two_steps_goes_on(
    two: Registry, tmp_path: Path
) -> None:
    whole = two.decisions()[1]
    steps = 0
    while True:
        registry = copied(two, tmp_path / str(steps))
        without_second(registry)
        # Of the trained run what is on the disk is taken: to train is the longest of the steps.
        shutil.copytree(two.runs / "mine-c0002", registry.runs / "mine-c0002")
        code = in_child(partial(_until, registry, steps))
        left = (registry.path / "current" / "policy.h5").read_bytes()
        assert left in [two.policy(number).read_bytes() for number in (1, 2)]
        done = advance(open_registry(registry.path), probe=False)
        assert done.kind == whole.kind if code == DEAD else done.kind == "not due"
        ledger = registry.decisions()
        assert [line.cycle for line in ledger] == [1, 2] and ledger[1].why == whole.why
        assert registry.current == 2
        assert (registry.path / "current" / "policy.h5").read_bytes() == (
            two.path / "current" / "policy.h5"
        ).read_bytes()
        if code == 0:
            break
        steps += 1
    assert steps == 7


def test_what_a_killed_cycle_has_remarked_is_told_when_it_ends(
    two: Registry, tmp_path: Path
) -> None:
    registry = copied(two, tmp_path / "copy")
    without_second(registry)
    shutil.copytree(two.runs / "mine-c0002", registry.runs / "mine-c0002")
    with rewritten(bars_of(registry)) as rewrite:
        rewrite()
        assert in_child(partial(_until, registry, 2)) == DEAD  # it has planned
        done = advance(open_registry(registry.path), probe=False)
    assert done.cycle == 2
    assert any("are not what an earlier cycle saw" in remark for remark in done.remarks)


def _until(registry: Registry, step: int) -> None:
    """Die when a cycle tells of this step, which it is about to do."""
    left = step

    def tell(text: str) -> None:
        nonlocal left
        if left == 0:
            os._exit(DEAD)
        left -= 1

    advance(registry, probe=False, tell=tell)


def test_a_version_that_is_trained_again_has_the_same_bits(
    two: Registry, here: None, tmp_path: Path
) -> None:
    done = repeat(two, 2, tmp_path, stream_of(two.config))
    assert done.same_bits and done.run == tmp_path / "mine-c0002"
    again = repeat(two, 2, tmp_path, stream_of(two.config))
    assert again.same_bits and again.run == tmp_path / "2/mine-c0002", "it is trained once more"


def test_a_version_whose_data_were_changed_is_not_trained_again(
    two: Registry, tmp_path: Path
) -> None:
    with rewritten(bars_of(two)) as rewrite:
        rewrite()
        with pytest.raises(UserError, match="the data of version 2 are not what they were"):
            repeat(two, 2, tmp_path, stream_of(two.config))


@pytest.mark.parametrize("step", ["judges what came of it", "registers v0002"])
def test_a_cycle_whose_data_are_changed_meanwhile_registers_nothing(
    two: Registry, tmp_path: Path, step: str
) -> None:
    registry = copied(two, tmp_path / "copy")
    without_second(registry)
    shutil.copytree(two.runs / "mine-c0002", registry.runs / "mine-c0002")
    with rewritten(bars_of(registry)) as rewrite:
        done = advance(registry, probe=False, tell=lambda text: rewrite() if step in text else None)
    assert (done.kind, done.current) == ("failed", 1)
    assert "its data were changed after it began" in done.words
    assert registry.version(2) is None and registry.decisions()[1].version is None


def test_a_cycle_that_has_too_little_to_compare_fails_and_is_not_judged_again(
    two: Registry, tmp_path: Path
) -> None:
    registry = unjudged(two, tmp_path / "copy")
    made = stream_of(registry.config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hpcpod.trading.stream.FEWEST", JUDGE - EMBARGO + 1)
        patch.setattr(cycle, "stream_of", lambda config: made)
        done = advance(registry, probe=False)
    assert (done.kind, done.current) == ("failed", 1)
    assert "6 days can be judged on, and 7 are judged at least" in done.words
    assert advance(registry, probe=False).kind == "not due"


def test_each_look_at_judged_sessions_is_counted_once(two: Registry) -> None:
    lines = Ledger(two.path.parent / LEDGERS).openings()
    first, second = (version.policy[:16] for version in two.versions())
    days = [str(version.windows.train["holdout"]) for version in two.versions()]
    assert [line.policy for line in lines] == [first, second, first]
    assert {line.run for line in lines} == {"mine.ct"} and lines[0].last < lines[1].first
    assert days[0] < lines[0].first < days[1] < lines[1].first == lines[2].first
    judged = Player(two.policy(2), two.config.env)
    stream_of(two.config).judge(two.versions()[1].windows, judged, None, two.cycle(2))
    assert len(Ledger(two.path.parent / LEDGERS).openings()) == 3


def test_while_another_process_works_on_it_nothing_is_done(two: Registry) -> None:
    with file_lock(two.path / "lock", timeout=1.0) as held:
        assert held
        done = advance(two, probe=False)
    assert (done.kind, done.words) == ("busy", "another process works on it, at cycle 2")


def test_two_that_work_at_once_though_locks_lie_come_to_one_end(
    two: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = copied(two, tmp_path / "copy")
    without_second(registry)
    shutil.copytree(two.runs / "mine-c0002", registry.runs / "mine-c0002")
    monkeypatch.setattr(cycle, "file_lock", lambda path, timeout: nullcontext(None))
    at_once = [start(lambda: _until(open_registry(registry.path), 99)) for _ in range(3)]
    assert [finish(each) for each in at_once] == [0, 0, 0]
    ledger = registry.decisions()
    assert [line.cycle for line in ledger] == [1, 2]
    assert (ledger[1].kind, ledger[1].why) == (two.decisions()[1].kind, two.decisions()[1].why)
    assert registry.verify(2).weights == two.verify(2).weights
    assert not list(registry.path.rglob(".tmp-*"))


@pytest.mark.parametrize("broken", ["torn", "short", "gone", "price"])
def test_a_broken_file_is_a_sentence_and_the_deployed_policy_stays(
    two: Registry, tmp_path: Path, broken: str
) -> None:
    file = tmp_path / "bars.parquet"
    said = _break(file, broken)
    env = to_mapping(two.config)
    env["env"]["kwargs"]["market"]["source"] = str(file)
    registry = copied(two, tmp_path / "copy")
    registry.configure(from_mapping(env))
    with pytest.raises(UserError, match=said) as caught:
        advance(registry, probe=False)
    assert str(caught.value).endswith(f"; v000{registry.current} stays deployed")
    assert "\n" not in str(caught.value)
    assert registry.verify(registry.current or 0) and len(registry.plans()) == 2


def _break(file: Path, how: str) -> str:
    import pandas as pd

    grow(file, 65)
    if how == "torn":
        file.write_bytes(file.read_bytes()[:1000])
        return "bars.parquet"
    if how == "gone":
        file.unlink()
        return "bars.parquet"
    if how == "short":
        grow(file, 40)
        return "bars are missing"
    table = pd.read_parquet(file)
    table.loc[700, "close"] = -1.0
    table.to_parquet(file, index=False)
    return "700|702|701"


SPOILT = [
    ("damaged", "is not what was registered: it is damaged; put it back by `cp "),
    ("agent", "nowhere.at_all"),
    ("spaces", "observation"),
]


@pytest.mark.parametrize(("how", "said"), SPOILT)
def test_nothing_is_trained_where_the_deployed_policy_can_t_be_judged_against(
    two: Registry, tmp_path: Path, how: str, said: str
) -> None:
    registry = copied(two, tmp_path / "copy")
    spoil(registry, 2, how)
    link = (registry.path / "current").readlink()
    for _ in range(2):  # cron comes again
        with rewritten(bars_of(registry)), pytest.raises(UserError, match=said) as caught:
            grow(bars_of(registry), 45 + 2 * JUDGE)
            advance(registry, probe=False)
    told = str(caught.value)
    assert told.startswith("nothing can be judged against v0002 any more: ")
    assert "or go back by `hpcpod ct rollback mine VERSION`, or give the configuration ano" in told
    assert told.endswith("; v0002 stays deployed") and "\n" not in told
    assert len(registry.plans()) == 2 and len(list(registry.runs.iterdir())) == 2
    assert (registry.path / "current").readlink() == link
    if how == "damaged":
        _, source, place = shlex.split(told.split("`")[1])
        shutil.copy(source, place)
        assert registry.verify(2)
    assert rolled_back(registry, 1).current == 1


@pytest.mark.parametrize(("how", "said"), SPOILT)
def test_a_cycle_ends_if_the_deployed_policy_can_t_be_judged_against_any_more(
    two: Registry, tmp_path: Path, how: str, said: str
) -> None:
    registry = unjudged(two, tmp_path / "copy")
    (registry.cycle(2) / "drift.json").unlink()
    registry.follow()
    spoil(registry, 1, how)
    (registry.folder(1) / "reference.json").write_text("torn")
    done = advance(registry, probe=False)
    assert (done.kind, done.cycle, done.current) == ("failed", 2, 1)
    assert done.words.startswith("no new version: nothing can be judged against v0001 any more: ")
    assert said in done.words and "rollback" not in done.words
    assert registry.decisions()[1].why in done.words and len(registry.decisions()) == 2
    assert advance(registry, probe=False).kind == "not due"
    assert (registry.path / "current").readlink() == Path("versions/v0001")


def test_a_cycle_whose_own_policy_can_t_be_judged_does_not_blame_the_deployed_one(
    two: Registry, tmp_path: Path
) -> None:
    registry = unjudged(two, tmp_path / "copy")
    with rewritten(bars_of(registry)):
        bars_of(registry).write_text("torn")
        with pytest.raises(UserError, match=r"bars\.parquet"):
            advance(registry, probe=False)
    assert len(registry.decisions()) == 1
    assert advance(registry, probe=False).kind == "promoted"


def test_a_cycle_can_be_given_up(two: Registry, tmp_path: Path) -> None:
    registry = copied(two, tmp_path / "copy")
    (registry.path / "decisions" / "000002.json").unlink()
    registry.follow()
    spoil(registry, 1, "damaged")  # it ends all the same
    done = abandon(registry)
    assert (done.kind, done.cycle, registry.current) == ("failed", 2, 1)
    with pytest.raises(UserError, match="no cycle is open"):
        abandon(registry)


def test_drift_is_told_of_the_deployed_policys_training(two: Registry) -> None:
    drift = two.drift(2)
    assert drift is not None and (drift.version, drift.words) == (1, "")
    assert {each.name for each in drift.shifts[:-1]} == {"signal", "return_1"}
    assert all(each.p is not None for each in drift.shifts[:-1])
    assert (drift.shifts[-1].name, drift.shifts[-1].p) == ("reward", None)


def test_the_verb_tells_and_goes_back(
    two: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    registry = copied(two, tmp_path / "runs")
    monkeypatch.setenv("HPCPOD_RUNS", str(registry.path.parent))
    assert main(["ct", "status"]) == 0
    told = capsys.readouterr().out
    assert f"mine: v000{registry.current} is deployed since" in told and "v0002" in told
    assert main(["ct", "history", "mine"]) == 0
    assert "promoted" in capsys.readouterr().out
    assert main(["ct", "rollback"]) == 0
    assert "rolled back from v0002 to v0001" in capsys.readouterr().out
    assert main(["ct", "status"]) == 0
    fates = [row.split()[-1] for row in capsys.readouterr().out.splitlines() if row[:2] == "v0"]
    assert fates == ["deployed", "promoted"]
    ledger = [replace(each, kind="kept") for each in registry.decisions() if each.cycle == 2]
    with monkeypatch.context() as patched:
        patched.setattr(Registry, "decisions", lambda _: ledger)
        assert main(["ct", "status"]) == 0
    assert " kept out" in capsys.readouterr().out
    assert "v0001 was the first" in refusal(capsys, "ct", "rollback", "mine")
    assert main(["ct", "mine", "--crontab", "--every", "1d"]) == 0
    line = capsys.readouterr().out
    assert line.split()[2:5] == ["*", "*", "*"] and line.rstrip().endswith("2>&1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ct", "nobody"), "a registry of that name is not there either"),
        (("ct", "status", "nobody"), "no registry at nobody"),
        (("ct", "status"), "there is no registry here"),
        (("ct", "a", "b"), "takes nothing else"),
    ],
)
def test_what_is_not_there_is_a_sentence(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert said in refusal(capsys, *words)
