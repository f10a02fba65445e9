"""``hpcpod watch`` in a real terminal: keys, sizes, and each way to end."""

from __future__ import annotations

import os
import re
import shutil
import signal
import termios
from pathlib import Path

import pytest

from hpcpod.storage.requests import Drain
from tests.chaos.world import Disk
from tests.launchers.slurm.test_scripts import fake
from tests.support.watched import made, played, watching

BACK = "\x1b[?7h\x1b[?25h\x1b[?1049l"
"""The terminal as it was: it wraps, has a cursor, and its first screen."""


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """Slurm's commands, of which each leaves a line when it is called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("squeue", "sinfo", "scontrol", "sacct", "sbatch"):
        fake(folder, name, f'echo {name} "$@" >> {tmp_path}/calls\nexit 1')
    return folder


def test_panes_are_switched_by_keys_and_the_scheduler_is_asked_nothing(
    tmp_path: Path, commands: Path
) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    path = f"{commands}:{os.environ['PATH']}"
    with watching(["watch", str(folder.path)], PATH=path, NO_COLOR="1") as screen:
        shown = screen.wait_for("reads files; asks the scheduler nothing", "q quit")
        waits = r" small waiting \(queued, or gone: `hpcpod status` asks\) \| \d+ (s|min) so far"
        assert re.match(waits, shown)
        assert re.search(r"^ *1 p0004 ppo +3 +4\.0 \[", shown, re.MULTILINE)
        screen.press("2")
        screen.wait_for("0 of 4 at work")
        screen.press("3")
        screen.wait_for("earlier  p0004 ppo round 3: return 4.0")
        screen.press("\x1b[Z\x1b[Zjj\r")  # back to the first pane, two pods down, open
        screen.wait_for(" p0002 ppo, alive, 3 rounds reported, in no slot now")
        screen.press("w")
        screen.wait_for("round 4 waits for a slot", "by files alone; `hpcpod why")
        screen.press("l")
        screen.wait_for("log of p0002", "no slot has taken it yet")
        screen.press("\x1b")
        screen.press("?")
        screen.wait_for("leave; the run goes on")
        screen.resize(120, 30)
        screen.until(lambda: sorted(screen.rows) == list(range(1, 31)), "30 rows")
        assert {len(row) for row in screen.rows.values()} == {120}
        screen.press("W")
        screen.wait_for("0 slots at work, 4 wanted")
        screen.press("q")
        assert screen.wait() == 0
        assert BACK in screen.sent
        assert not re.search(r"\x1b\[[\d;]*3\dm", screen.sent), "a colour"
    assert not (tmp_path / "calls").exists()


def test_what_comes_while_it_is_watched_is_shown_and_a_pause_ends_it(tmp_path: Path) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    with watching(["watch", str(folder.path)]) as screen:
        screen.wait_for("12 rounds", "q quit")
        assert "\x1b[2m" in screen.sent, "with colours and styles"
        screen.press("3")
        played(folder)
        shown = screen.wait_for("16 rounds", "p0004 ppo round 4: return 4.0")
        assert re.search(r"^\d\d:\d\d:\d\d p0004 ppo round 4", shown, re.MULTILINE)
        folder.requests.publish(Drain())
        assert screen.wait() == 75
    left = screen.sent.partition(BACK)[2]
    assert "leaderboard" in left
    assert f"paused; go on with: hpcpod resume {folder.path}" in left


def test_a_run_that_has_ended_is_told_of_and_shows_no_screen(finished_run: Path) -> None:
    with watching(["watch", str(finished_run)]) as screen:
        assert screen.wait() == 0
    assert "\x1b[?1049h" not in screen.sent
    assert "finished: rounds, after" in screen.sent


def test_a_folder_that_vanishes_ends_it_with_a_sentence(tmp_path: Path) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    with watching(["watch", str(folder.path)]) as screen:
        screen.wait_for("panel means")
        shutil.rmtree(folder.path)
        assert screen.wait() == 2
    left = screen.sent.partition(BACK)[2]
    assert left.strip() == f"hpcpod: the run folder {folder.path} is gone"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_and_gives_the_terminal_back(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    folder = made(tmp_path, rounds=0, pods=1, cluster={"launcher": "slurm"})
    with watching(["watch", str(folder.path)]) as screen:
        screen.wait_for("no round was reported yet")
        assert not termios.tcgetattr(screen.terminal)[3] & termios.ECHO
        os.kill(screen.pid, number)
        assert screen.wait() == code
        assert termios.tcgetattr(screen.terminal)[3] & termios.ECHO
    assert screen.sent.endswith(BACK)


def test_a_terminal_that_can_show_no_screen_gets_lines(tmp_path: Path) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    folder.requests.publish(Drain())
    with watching(["watch", str(folder.path)], TERM="dumb") as screen:
        assert screen.wait() == 75
    assert "\x1b[?1049h" not in screen.sent
    assert "p0004 ppo round 3: return 4.0" in screen.sent


def test_a_folder_that_can_only_be_read_is_watched(tmp_path: Path) -> None:
    with Disk.mounted(tmp_path / "disk") as disk:
        if not disk.own:
            pytest.skip("mounting is not permitted here")
        folder = made(disk.home, cluster={"launcher": "slurm"})
        assert disk.remount("ro")
        with watching(["watch", str(folder.path)]) as screen:
            screen.wait_for("p0004 ppo")
            screen.press("4w")
            screen.wait_for("round 4 waits for a slot")
            screen.press("q")
            assert screen.wait() == 0
