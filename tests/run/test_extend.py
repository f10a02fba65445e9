"""The extension of a finished run: by the command line, from Python, killed in the middle."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcpod.config.schema import StopConfig
from hpcpod.errors import LaunchError, Superseded, UserError
from hpcpod.records.records import Board, Extension
from hpcpod.run.explain import why
from hpcpod.run.extend import _not_larger, extend, limits_of
from hpcpod.run.run import Run
from hpcpod.storage.board import writer_id
from hpcpod.storage.disk import Disk
from hpcpod.storage.requests import Finals, Stop
from hpcpod.storage.run_folder import RunFolder
from hpcpod.tournament.leaderboard import orders
from hpcpod.tournament.merge import merge, read_board
from hpcpod.tournament.rules import Rules
from tests.support.command_line import refusal
from tests.support.hand_played import answer, end, merged
from tests.support.small_runs import create


def finished(home: Path, **sections: Any) -> RunFolder:
    """A run of two pods that 1,024 steps have ended, each after one round."""
    folder = create(
        home, population={"pods": {"min": 1, "max": 2}},
        stop={"rounds": None, "env_steps": 1024, "finalists": 1}, **sections,
    )  # fmt: skip
    play(folder)
    assert read_board(folder).phase == "finished"
    return folder


def play(folder: RunFolder) -> Board:
    """Answer every order, of finalists too."""
    board = read_board(folder)
    while board.phase != "finished":
        for order in orders(board):
            answer(folder, order, (float(order.pod[1:]), 2.0 + float(order.pod[1:])))
        board = merged(folder)
    return board


def everything(folder: Path) -> dict[str, bytes]:
    """Every file of a run's boards, decisions and reports."""
    kept = ("board", "decisions", "reports", "config.json")
    files = (path for name in kept for path in [folder / name, *(folder / name).rglob("*")])
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def test_an_extended_run_ends_twice_and_its_first_decisions_stay_to_the_byte(home: Path) -> None:
    folder = finished(home)
    before, best = everything(folder.path), (folder.path / "best.json").read_bytes()
    extend(folder, {"env_steps": 2048})
    assert folder.requests.read(Stop) is None and folder.requests.read(Finals) is None
    assert (folder.path / "best.json").read_bytes() == best  # until the new end
    run = Run(RunFolder.open(folder.path))
    assert run.best().checkpoint != run.path / "best.h5"  # type: ignore[union-attr]
    board = play(run.folder)
    assert (board.stop_reason, board.env_steps, board.winner) == ("env_steps", 2048, "p0002")
    after = everything(folder.path)
    assert {name: after[name] for name in before} == before
    assert (folder.path / "best.json").read_bytes() != best
    (first,), (second,) = board.endings[0].confirmed, board.confirmed
    assert first.purpose == second.purpose and first.number != second.number
    assert folder.requests.read_or_default(Stop) == Stop("env_steps", 1)


def test_a_run_can_be_extended_again(home: Path) -> None:
    folder = finished(home)
    extend(folder, {"env_steps": 2048})
    play(folder)
    extend(folder, {"env_steps": 3072})
    assert RunFolder.open(folder.path).resolved.config.stop.env_steps == 3072
    board = play(folder)
    assert [ending.extension.words for ending in board.endings] == [
        "stop.env_steps 1024 -> 2048",
        "stop.env_steps 2048 -> 3072",
    ]
    every = [*(end.confirmed[0] for end in board.endings), *board.confirmed]
    assert len({(score.purpose, score.number) for score in every}) == 3


class Killed(BaseException):
    """The end of a process."""


def test_a_run_killed_while_it_is_extended_is_as_it_was_or_extended(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, left, outcomes = finished(home), [0], []

    def dying(name: str) -> None:
        real = getattr(Disk, name)

        def operation(*args: Any, **kwargs: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return real(*args, **kwargs)

        patched.setattr(Disk, name, operation)

    for call in range(20):
        path = home / str(call)
        shutil.copytree(first.path, path)
        left[0] = call
        with monkeypatch.context() as patched, suppress(Killed):
            for name in ("write_new", "link", "rename", "unlink", "mkdir"):
                dying(name)
            extend(RunFolder.open(path), {"env_steps": 2048})
        again = RunFolder.open(path)
        board, stop = read_board(again), again.resolved.config.stop
        outcomes.append(bool(board.endings))
        if outcomes[-1]:
            assert (board.phase, stop.env_steps) == ("running", 2048)
        else:
            assert (board.phase, stop.env_steps) == ("finished", 1024)
            extend(again, {"env_steps": 2048})
        merged(again)
        assert again.requests.read(Stop) is None
        if left[0] > 0:  # it was not killed any more
            break
    assert play(again).env_steps == 2048
    assert left[0] > 0 and sorted(set(outcomes)) == [False, True]
    assert outcomes == sorted(outcomes)


def test_a_run_that_a_user_ended_is_not_ended_again_by_the_old_request(home: Path) -> None:
    folder = create(home, stop={"rounds": 3, "finalists": 1})
    answer(folder, orders(read_board(folder))[0], (1.0, 3.0))
    merged(folder)
    end(folder)
    stale = folder.requests.read(Stop)
    assert stale == Stop("user")
    extend(folder, {})
    folder.requests.replace(stale)  # a merger of before had not yet asked for it
    merged(folder)
    assert folder.requests.read(Stop) is None
    assert read_board(folder).phase == "running"


def test_a_process_with_the_limits_of_before_is_fenced(home: Path) -> None:
    folder = finished(home)
    late = RunFolder.open(folder.path)
    old = Rules.of_run(late)
    extend(folder, {"env_steps": 2048})
    with pytest.raises(Superseded, match="small was extended"):
        merge(late, old)
    assert late.resolved.config.stop.env_steps == 2048  # whoever looks is told
    assert merge(late, Rules.of_run(late)).phase == "running"


def test_a_lost_file_of_an_extension_loses_none(home: Path) -> None:
    folder = finished(home)
    extend(folder, {"env_steps": 2048})
    (folder.path / "extensions" / "1.json").write_bytes(b"torn")
    again = RunFolder.open(folder.path)
    assert read_board(again).phase == "running"
    assert again.resolved.config.stop.env_steps == 2048


def test_of_two_who_extend_at_once_one_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = finished(home)
    first = Extension(1, 0.0, {"env_steps": 4096}, {"env_steps": 1024})
    publish = type(folder.extensions).publish

    def beaten(self: Any, extension: Extension) -> bool:
        publish(self, first)
        return publish(self, extension)

    monkeypatch.setattr(type(folder.extensions), "publish", beaten)
    with pytest.raises(UserError, match="by another process just now"):
        extend(folder, {"env_steps": 2048})
    assert RunFolder.open(folder.path).resolved.config.stop.env_steps == 4096


REFUSED = {
    "nothing larger": ([], "would end again at once by stop.env_steps, which is 1024"),
    "equal": (["stop.env_steps=1024"], "would end again at once by stop.env_steps"),
    "smaller": (["stop.env_steps=1000"], "stop.env_steps: must be at least 1024, as before"),
    "another limit": (["stop.minutes=90"], "stop.minutes: it has no such limit"),
    "no end": (["stop.env_steps=null"], "stop: nothing would end the run; keep one of target"),
    "alpha": (["stop.env_steps=4096", "stop.alpha=0.1"], "stop.alpha: the error level"),
    "unknown": (["stop.env_step=4096"], "stop.env_step: unknown key"),
    "no number": (["stop.env_steps=many"], "stop.env_steps: expected int, got 'many'"),
    "another section": (["round.env_steps=4096"], "round: only limits (stop.*) can be extended"),
    "slots": (["cluster.slots=2"], "`hpcpod scale` changes slots"),
    "no path": (["stop"], "--set stop: expected path=value"),
    "a whole section": (["stop=3"], "stop: name its field, such as stop.env_steps"),
}


def test_what_is_no_larger_limit_is_refused_in_a_sentence(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(finished(home / "runs").path)
    for what, (words, why_not) in REFUSED.items():
        options = [option for word in words for option in ("--set", word)]
        assert why_not in refusal(capsys, "extend", "small", *options), what
    assert everything(home / "runs" / "small") == before
    assert not list((home / "runs" / "small" / "extensions").iterdir())


def test_null_final_episodes_are_so_many_for_each_finalist() -> None:
    before = StopConfig(rounds=9, finalists=3, confirm_episodes=100)  # null: 300
    assert not list(_not_larger(before, replace(before, final_episodes=300)))
    assert list(_not_larger(before, replace(before, final_episodes=299))) == [
        "stop.final_episodes: must be at least 300, as before, got 299"
    ]
    more = replace(before, final_episodes=1000)
    assert list(_not_larger(more, before)) == [
        "stop.final_episodes: must be at least 1000, as before, got 300"
    ]


def test_a_run_that_goes_on_or_failed_or_reached_its_target_says_what_to_do(home: Path) -> None:
    folder = create(home, stop={"env_steps": 1024})
    with pytest.raises(UserError, match=r"small has not finished, it is .* `hpcpod stop` ends it"):
        extend(folder, {"env_steps": 2048})

    def publish(**changes: Any) -> None:
        generation, document = folder.board.read()  # type: ignore[misc]
        board = replace(Board.from_document(document), **changes)
        folder.board.publish(generation, document, board.document(), writer_id())

    publish(phase="finished", stop_reason="failed", failure="1 pod failed")
    with pytest.raises(UserError, match="small has failed, and no larger limit helps: 1 pod"):
        extend(folder, {"env_steps": 2048})


def test_a_reached_target_must_be_raised(home: Path) -> None:
    folder = create(home, stop={"target": 2.0, "rounds": 9, "confirm_episodes": 2})
    for _ in range(2):
        for order in orders(read_board(folder)):
            answer(folder, order, (99.0, 98.0) * 64)
        merged(folder)
    assert read_board(folder).stop_reason == "target"
    with pytest.raises(UserError, match=r"has reached its target of 2: set stop\.target higher"):
        extend(folder, {"rounds": 20})
    extend(folder, {"target": 500.0})
    assert read_board(folder).phase == "running"


def test_a_run_whose_checkpoints_are_gone_is_not_reopened(home: Path) -> None:
    folder = finished(home)
    for blob in folder.path.glob("blobs/*/*.h5"):
        blob.unlink()
    with pytest.raises(UserError, match="the checkpoints of all its pods are gone"):
        extend(folder, {"env_steps": 2048})


def test_another_users_run_is_not_extended(home: Path) -> None:
    folder = finished(home)
    folder.owner = replace(folder.owner, uid=os.geteuid() + 1)
    with pytest.raises(UserError, match="belongs to"):
        extend(folder, {"env_steps": 2048})


def test_status_and_why_tell_of_the_extension(home: Path) -> None:
    folder = finished(home)
    extend(folder, limits_of(["stop.env_steps=2048"]))
    run = Run(folder)
    (said,) = run.status().extended
    assert "stop.env_steps 1024 -> 2048, after it was ended by env_steps and won by p0002" in said
    assert said in why(folder)


def test_python_extends_and_resumes_and_reads_the_new_limits(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished(home, cluster={"launcher": "slurm"})
    run = Run(RunFolder.open(folder.path))
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LaunchError, match="squeue"):  # resumed, where there is no Slurm
        run.extend(env_steps=2048)
    assert run.board().phase == "running"
    assert run.folder.resolved.config.stop.env_steps == 2048
