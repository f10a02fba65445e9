"""``hpcpod evaluate`` as a person types it: real policies, real processes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hpcpod.cli.evaluate import as_ctrl_c
from hpcpod.cli.parser import main
from hpcpod.config.schema import EnvConfig
from tests.support.command_line import refusal
from tests.support.small_runs import wait_for
from tests.support.untrained import untrained

SEEDS = range(2**31, 2**31 + 20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two policies, and the scores of both and of the first one again, in two conditions."""
    home = tmp_path_factory.mktemp("evaluated")
    files = [untrained(home / f"{name}.h5", seed=seed) for seed, name in enumerate("ab")]
    words = (
        *map(str, [*files, files[0]]), "--episodes", "20", "--kwargs", "sutton_barto_reward=true",
        "--folder", str(home / "scores"), "--csv", str(home / "rows.csv"), "--json", "--cores", "1",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as here, (home / "said.json").open("w") as out:
        here.setattr(sys, "stdout", out)
        assert main(["evaluate", *words]) == 0
    return home


@pytest.fixture(scope="module")
def said(folder: Path) -> Any:
    return json.loads((folder / "said.json").read_text())


def rows_of(said: Any, condition: str) -> list[Any]:
    return [row for row in said["rows"] if row["condition"] == condition]


def played(file: Path, seed: int, **kwargs: Any) -> float:
    """The return of a policy in gymnasium itself, by a loop of one's own."""
    import gymnasium

    import hpcpod

    policy, env = hpcpod.load_policy(file), gymnasium.make("CartPole-v1", **kwargs)
    obs, _ = env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total, over = total + float(reward), terminated or truncated
    env.close()
    return total


def test_returns_are_those_of_gymnasium_on_the_same_seeds_in_each_condition(
    folder: Path, said: Any
) -> None:
    assert said["seeds"] == list(SEEDS)
    for condition, kwargs in (
        ("as trained", {}),
        ("sutton_barto_reward=true", {"sutton_barto_reward": True}),
    ):
        rows = rows_of(said, condition)
        assert len(rows) == 3
        for row in rows[:2]:
            for place in (0, 7, 15, 19):
                mine = played(Path(row["source"]), SEEDS[place], **kwargs)
                assert row["returns"][place] == mine


def test_the_same_policy_twice_is_as_likely_to_improve_as_not(folder: Path, said: Any) -> None:
    rows, a = rows_of(said, "as trained"), str(folder / "a.h5")
    by_source = [row["source"] for row in rows]
    first = by_source.index(a)
    assert by_source[first : first + 2] == [a, a]
    assert rows[first]["improves"] == 0.5
    assert rows[first]["returns"] == rows[first + 1]["returns"]


def test_the_csv_has_the_rows_without_their_returns(folder: Path, said: Any) -> None:
    with (folder / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == [row["policy"] for row in said["rows"]]
    assert [float(row["mean"]) for row in rows] == [row["mean"] for row in said["rows"]]
    assert "returns" not in rows[0]


def test_what_is_scored_is_not_played_again(
    folder: Path, said: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(folder / f"{name}.h5") for name in "ab"]
    monkeypatch.setattr(subprocess, "Popen", None)  # no process can be started
    where = ("--episodes", "20", "--folder", str(folder / "scores"))
    assert main(["evaluate", *files, *where, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    means = {row["policy"]: row["mean"] for row in rows_of(said, "as trained")}
    assert {row["policy"]: row["mean"] for row in again["rows"]} == means
    assert main(["evaluate", *files, *where, "--kwargs", "sutton_barto_reward=true"]) == 0
    shown = capsys.readouterr().out
    assert "as trained (CartPole-v1)" in shown and "P(> next)" in shown
    assert "mean return [95 %] in each condition" in shown
    assert "on the same seeds, 2147483648 to 2147483667: no run draws any of them" in shown
    assert "80 episodes had been played before, by the code of then" in " ".join(shown.split())


def test_a_signal_that_nohup_has_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), as_ctrl_c(signal.SIGTERM, signal.SIGHUP):
            signal.raise_signal(signal.SIGHUP)
            heard = signal.getsignal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
        assert heard is signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_bad_words_are_a_sentence_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = str(folder / "a.h5")
    for words, why in (
        (["--kwargs", "gravity"], "--kwargs gravity: expected NAME=VALUE"),
        (["--kwargs", "gravity=[1"], "--kwargs gravity=[1: line 1"),
        (["--wrapper", "{a: {}, b: {}}"], "each wrapper is a path"),
        (["--csv", a], "is there already"),
        (["--top", "2"], "is one policy"),
        (["--set", "cluster.partition=cpu"], "is for fields of cluster, beside --slurm"),
        (["--slurm", "--set", "env.kwargs.g=9"], "an environment are given by --kwargs"),
        (["--seeds", "4294967295"], "seeds are from 0"),
    ):
        assert why in refusal(capsys, "evaluate", a, *words)
    for words in (["--seeds", "9:3"], ["--seeds", "-3"], ["--episodes", "0"]):
        with pytest.raises(SystemExit):
            main(["evaluate", a, *words])
        assert "expected" in capsys.readouterr().err


@pytest.mark.long
def test_an_interrupted_evaluation_leaves_nothing_behind(tmp_path: Path) -> None:
    slow = EnvConfig("tests.support.faulty_envs:Slow", kwargs={"pause": 0.05})
    file, temporary = untrained(tmp_path / "slow.h5", slow), tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "hpcpod", "evaluate", str(file), "--cores", "1"],
        env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for("a scorer that plays", lambda: any(temporary.glob("*/claims/*/*")))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 130 and "Traceback" not in err
    assert list(temporary.iterdir()) == []
    wait_for("the scorer's end", lambda: not scorers(temporary), 10)


def scorers(home: Path) -> list[int]:
    """Processes that play for folders below one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"hpcpod.deploy.scorer" in words and str(home).encode() in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.long
def test_scorers_end_with_a_command_that_is_killed_and_their_scores_stand(tmp_path: Path) -> None:
    slow = EnvConfig("tests.support.faulty_envs:Slow", kwargs={"pause": 0.001})
    file, scores = untrained(tmp_path / "slow.h5", slow), tmp_path / "scores"
    process = subprocess.Popen(
        [sys.executable, "-m", "hpcpod", "evaluate", str(file), "--folder", str(scores),
         "--cores", "1", "--episodes", "1600"],
    )  # fmt: skip
    wait_for("a score", lambda: any(scores.glob("scores/*.json")))
    process.kill()
    process.wait()
    wait_for("the scorer's end", lambda: not scorers(scores), 10)
    before = len(list(scores.glob("scores/*.json")))
    time.sleep(0.1)
    assert len(list(scores.glob("scores/*.json"))) == before < 100
