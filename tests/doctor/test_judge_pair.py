"""Two tasks that examine each other, as real processes with a folder between them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.doctor.finding import Finding
from hpcpod.doctor.judge_pair import judge, met
from hpcpod.doctor.probes.locks import KINDS, summary, trying
from hpcpod.doctor.probes.peers import NAMES, Exchange, PairFacts, Unheard, meet
from hpcpod.records.codec import decode

TASK = """\
import json, sys
from pathlib import Path
from hpcpod.records.codec import encode
from hpcpod.doctor.probes.peers import meet
folder, task, scheme, seconds = sys.argv[1:]
facts = meet(Path(folder), int(task), scheme, float(seconds), float(seconds))
print(json.dumps(encode(facts)))
"""

HALF = tuple(str(number) for number in range(NAMES // 2))
REST = tuple(str(number) for number in range(NAMES // 2, NAMES))
READ = ("by 0",) * (NAMES // 2) + ("by 1",) * (NAMES - NAMES // 2)
LOCKS = ("flock", "held"), ("flock again", "taken"), ("fcntl", "held"), ("fcntl again", "taken")
FIRST = PairFacts(
    0, "a", "x", ahead=0.001, ahead_error=0.002, seen_after=0.01,
    locks=(("flock", "taken"), ("fcntl", "taken")), won=HALF, read=READ,
)  # fmt: skip
SECOND = PairFacts(1, "b", "y", locks=LOCKS, won=REST, read=READ, reads=100, kept=True)


def meeting(
    first: Path, second: Path, scheme: str = "link", seconds: float = 60
) -> list[PairFacts]:
    """Two tasks, each with its folder; what both have seen."""
    tasks = [
        subprocess.Popen(
            [sys.executable, "-c", TASK, str(folder), str(task), scheme, str(seconds)],
            stdout=subprocess.PIPE, text=True,
        )
        for task, folder in enumerate((first, second))
    ]  # fmt: skip
    return [decode(PairFacts, json.loads(task.communicate(timeout=240)[0])) for task in tasks]


def row(findings: list[Finding], probe: str) -> Finding:
    [found] = [finding for finding in findings if finding.probe == probe]
    return found


@pytest.mark.parametrize("scheme", ["link", "directory"])
def test_two_tasks_of_one_machine_find_everything_in_order(tmp_path: Path, scheme: str) -> None:
    tasks = meeting(tmp_path, tmp_path, scheme)
    assert met(tasks)
    first, second = tasks
    assert sorted([*first.won, *second.won], key=int) == [str(n) for n in range(NAMES)]
    assert first.read == second.read
    assert second.kept
    assert second.reads > 0
    findings = judge(tasks)
    assert {f.probe: f.verdict for f in findings if f.verdict != "ok"} == {"nodes": "note"}
    assert "are one machine" in row(findings, "nodes").found


def test_tasks_that_do_not_share_the_folder_do_not_wait_for_ever(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    tasks = meeting(*folders, seconds=1)
    assert not met(tasks)
    problem = row(judge(tasks), "exchange")
    assert problem.verdict == "problem"
    assert problem.found == "what the second task wrote ('hello') was not seen within 1 s"


def test_a_task_whose_folder_is_gone_says_so(tmp_path: Path) -> None:
    facts = meet(tmp_path / "removed", 0, "link", 1, 1)
    assert "removed is gone" in facts.error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_clock_that_is_ahead_is_told_within_its_error(tmp_path: Path) -> None:
    """The test is task 1, whose clock is 100 s ahead."""
    other = Exchange(tmp_path, 1)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(meet, tmp_path, 0, None, 1, 60)
        other.say("hello")
        for number in range(5):
            other.hear(f"ping-{number}")
            other.say(f"pong-{number}", time.time() + 100)
        first = result.result()  # it waits for more, in vain
    assert abs(first.ahead - 100) <= first.ahead_error
    assert "'asked'" in first.error
    ahead = replace(FIRST, ahead=first.ahead, ahead_error=first.ahead_error)
    found = row(judge([ahead, SECOND]), "clocks")
    assert found.verdict == "problem"
    assert found.found == "b is 100 s ahead of a"


@pytest.mark.long
def test_a_file_that_is_written_in_place_is_seen_torn(tmp_path: Path) -> None:
    """The test is task 0, whose filesystem replaces nothing in one step."""
    other = Exchange(tmp_path, 0)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(meet, tmp_path, 1, None, 1, 60)
        other.say("hello")
        for number in range(5):
            other.say(f"ping-{number}")
            other.hear(f"pong-{number}")
        (tmp_path / "names").mkdir()
        other.say("folder")
        other.hear("asked")
        (tmp_path / "names" / "late").touch()
        assert other.hear("found")
        for kind in KINDS:
            with trying(kind, tmp_path / f"lock-{kind}"):
                other.say(f"{kind}-held")
                other.hear(f"{kind}-tried")
            other.say(f"{kind}-released")
            other.hear(f"{kind}-again")
        (tmp_path / "changing").write_bytes(b"00000001" + bytes(100))
        other.say("changing")
        other.hear("looking")
        other.say("changed")
        other.hear("looked")
        second = result.result()  # it waits for more, in vain
    assert second.torn == second.reads > 0
    findings = judge([FIRST, replace(second, error="")])
    assert row(findings, "replacing").verdict == "problem"
    # Two threads of one process: its locks of the older kind are no locks between them.
    assert row(findings, "locks (fcntl)").found.startswith("a lock that is held is not seen")
    assert row(findings, "locks (flock)").found == "a lock is seen between nodes"


def test_what_is_never_said_is_not_heard(tmp_path: Path) -> None:
    with pytest.raises(Unheard, match=r"'hello'\) was not seen within 0.1 s"):
        Exchange(tmp_path, 0, 0.1).hear("hello")


def test_nothing_is_wrong_between_two_good_nodes() -> None:
    findings = judge([SECOND, FIRST])
    assert {finding.verdict for finding in findings} == {"ok"}
    assert row(findings, "nodes").found == "a and b"
    assert "each has one publisher (10 and 10)" in row(findings, "publishing").found


@pytest.mark.parametrize(
    ("first", "second", "probe", "verdict", "found"),
    [
        ({"won": REST}, {}, "publishing", "problem", "10 have two publishers, 10 have none"),
        ({"read": ("by 1",) * NAMES}, {}, "publishing", "problem", "10 read differently"),
        ({}, {"torn": 3}, "replacing", "problem", "3 of 100 reads"),
        ({}, {"kept": False}, "renaming", "note", "is not refused"),
        ({"seen_after": 31.0}, {}, "names", "note", "within 31 s"),
        ({"ahead": -20.0}, {}, "clocks", "note", "b is 20 s behind a"),
        ({"ahead": 20.0, "ahead_error": 19.99}, {}, "clocks", "ok", "agree"),
        ({"error": "it broke"}, {}, "exchange", "problem", "it broke"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_a_row(
    first: dict[str, object], second: dict[str, object], probe: str, verdict: str, found: str
) -> None:
    facts = [replace(FIRST, **first), replace(SECOND, **second)]  # type: ignore[arg-type]
    told = row(judge(facts), probe)
    assert told.verdict == verdict
    assert found in told.found


@pytest.mark.parametrize(
    ("mine", "theirs", "after", "told", "then"),
    [
        ("taken", "held", "taken", "seen", "merges take turns"),
        ("taken", "taken", "taken", "unseen", "merges race"),
        ("taken", "held", "held", "kept", "in vain"),
        ("refused: no locks", "taken", "taken", "refused: no locks", "merges race"),
        ("taken", "refused: no locks", "taken", "refused: no locks", "merges race"),
    ],
)
def test_what_a_lock_is_worth(mine: str, theirs: str, after: str, told: str, then: str) -> None:
    assert summary(mine, theirs, after) == told
    first = replace(FIRST, locks=(("flock", mine), ("fcntl", "taken")))
    locks = ("flock", theirs), ("flock again", after), *LOCKS[2:]
    finding = row(judge([first, replace(SECOND, locks=locks)]), "locks (flock)")
    assert then in finding.then
    assert finding.verdict == ("ok" if told == "seen" else "note")


def test_one_task_alone_is_a_problem() -> None:
    assert [finding.verdict for finding in judge([FIRST])] == ["problem"]
