"""The panes of ``hpcpod watch``: recorded screens, and what must not reach a terminal.

``HPCPOD_RECORD=1 python -m pytest tests/cli/test_screen.py`` records the screens anew.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hpcpod.cli.screen.app import App
from hpcpod.cli.screen.pace import Pace
from hpcpod.cli.screen.terminal import keys
from hpcpod.cli.screen.text import fitted
from hpcpod.cli.screen.watcher import Event, Watcher
from hpcpod.records.records import PodState
from hpcpod.run.forecast import Forecast
from hpcpod.run.run import Run
from hpcpod.storage.run_folder import RunFolder
from hpcpod.storage.slots import OrderStatus, SlotStatus
from tests.support.watched import made, played, publish

SCREENS = Path(__file__).parent / "screens"


def opened(folder: RunFolder) -> tuple[App, Watcher]:
    """The screen of a run, in the first of its minutes."""
    run = Run(RunFolder.open(folder.path))
    watcher = Watcher(run)
    scene = watcher.scene
    status = replace(scene.status, minutes=1.0, forecast=Forecast("rounds", 240, 180, 360))
    watcher.scene = replace(scene, now=36_000.0, status_at=36_000.0, status=status)
    return App(run, watcher), watcher


def shown(app: App, columns: int = 80, rows: int = 24) -> str:
    """The text that a terminal would show."""
    return "\n".join(line.plain.rstrip() for line in app.lines(columns, rows))


def at_work(folder: RunFolder) -> None:
    """Two slots, of which one trains and scores; a third has nothing to do."""
    training = SlotStatus(
        state="training", order="p0001-00004-1", pod="p0001", round=4, algorithm="ppo",
        env_steps=3 * 512 + 128, target_steps=4 * 512, mean_return=1.25, steps_per_second=1234.0,
        host="node1", pid=1,
    )  # fmt: skip
    scoring = OrderStatus(
        state="scoring", order="p0002-00003-1", pod="p0002", round=3, algorithm="ppo"
    )
    folder.slots.write("7_0", replace(training, scoring=scoring))
    folder.slots.write("7_1", replace(training, pod="p0003", mean_return=float("nan"),
                                      steps_per_second=766.0, env_steps=4 * 512))  # fmt: skip
    folder.slots.write("7_2", SlotStatus(state="idle", host="node1", pid=1))


def test_a_run_on_slurm_without_a_slot_may_be_queued_or_gone_and_watch_says_so(
    tmp_path: Path,
) -> None:
    app, watcher = opened(made(tmp_path, cluster={"launcher": "slurm"}))
    assert watcher.scene.slots == {}
    assert " waiting (queued, or gone: `hpcpod status` asks) | " in shown(app).splitlines()[0]


def test_the_time_of_a_run_that_stops_between_two_statuses_does_not_go_back(tmp_path: Path) -> None:
    _, watcher = opened(made(tmp_path))
    scene = replace(watcher.scene, now=36_090.0)
    assert scene.minutes == 2.5  # a status of 1 minute, 90 s ago
    began = scene.board.began
    assert began is not None
    board = replace(scene.board, phase="finals", stopped=began + 153.0)
    assert replace(scene, board=board).minutes == 2.55


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_screens_are_as_they_were_recorded(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    folder = made(tmp_path, copies=True, cluster={"launcher": "slurm", "minutes": 60})
    at_work(folder)
    app, _ = opened(folder)
    screens = []
    for key in ("1", "j", "2", "3", "4", "?"):
        app.press(key)
        screens.append(f"=== {key}\n{shown(app, *size)}\n")
    said = "".join(screens).replace(str(folder.path), "RUN")
    recorded = SCREENS / f"{size[0]}x{size[1]}.txt"
    if os.environ.get("HPCPOD_RECORD"):
        recorded.parent.mkdir(exist_ok=True)
        recorded.write_text(said, encoding="utf-8")
    assert said == recorded.read_text(encoding="utf-8")


def test_the_bar_of_a_slot_is_its_share_of_the_round(tmp_path: Path) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    at_work(folder)
    app, watcher = opened(folder)
    app.press("2")
    first, _beside, second, _idle = [
        row for row in shown(app, 100).splitlines() if row.startswith("7_")
    ]
    assert " 25%" in first, "128 of 512 steps"
    assert "100%" in second
    assert "nan" not in shown(app)
    assert watcher.scene.steps_per_second == 2000.0
    app.press("j")
    assert app.chosen == "p0002", "the row of what the first slot scores"
    app.press("enter")
    assert "p0002 ppo, alive, round 3: scoring in slot 7_0" in shown(app)


@pytest.mark.parametrize("columns", [1, 7, 39, 79])
@pytest.mark.parametrize("rows", [1, 3, 9, 24])
def test_no_terminal_is_too_small(columns: int, rows: int, tmp_path: Path) -> None:
    folder = made(tmp_path, pods=2, rounds=1, cluster={"launcher": "slurm"})
    at_work(folder)
    app, _ = opened(folder)
    for key in "1234lw?W":
        app.press(key)
        assert len(app.lines(columns, rows)) >= rows


def test_a_run_without_a_report_has_a_screen(tmp_path: Path) -> None:
    app, _ = opened(made(tmp_path, pods=1, rounds=0, cluster={"launcher": "slurm"}))
    said = shown(app)
    assert "best none yet | - env steps/s" in said
    assert "no round was reported yet" in said
    assert " p0001 ppo " in said
    for key in ("2", "3", "4", "w", "l", "up", "page down", "end"):
        assert app.press(key)
        assert shown(app)
    app.press("3")
    assert "nothing has happened yet" in shown(app)


def test_of_two_thousand_pods_a_screen_has_those_around_the_chosen_one(tmp_path: Path) -> None:
    folder = made(tmp_path, pods=1, rounds=1, cluster={"launcher": "slurm"})
    board = played(folder)
    first: PodState = board.pods["p0001"]
    names = [f"p{number:04d}" for number in range(1, 2001)]
    births = {name: first.birth and replace(first.birth, pod=name) for name in names}
    pods = {name: replace(first, id=name, birth=births[name]) for name in names}
    publish(folder, replace(board, pods=pods))
    app, watcher = opened(folder)
    assert watcher.scene.status.pods == 2000
    app.press("end")
    assert app.chosen == "p2000"
    last = shown(app).splitlines()
    assert len(last) == 24
    assert "p2000" in last[-2]
    app.press("home")
    assert "p0001" in shown(app).splitlines()[6]


def test_what_others_have_written_does_not_steer_the_terminal(tmp_path: Path) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    evil = "\x1b]0;owned\x07\x1b[2J\n<script>"
    folder.slots.write("7_0", SlotStatus(state=evil, pod=evil, algorithm=evil, host="n", pid=1))
    app, watcher = opened(folder)
    pod = replace(
        watcher.scene.board.pods["p0001"], algorithm=evil, evidence=evil, verdict=evil,
        failure=evil, hyperparameters={evil: evil},
    )  # fmt: skip
    scene = watcher.scene
    watcher.scene = replace(
        scene,
        board=replace(scene.board, pods={**scene.board.pods, "p0001": pod}, failure=evil),
        events=(Event(None, evil),),
        trouble=evil,
    )
    for key in ("1", "2", "3", "4", "w", "l"):
        app.press(key)
        said = "".join(line.plain for line in app.lines(80, 40))
        assert not {each for each in said if ord(each) < 32 or 127 <= ord(each) < 160}, key
    app.press("1")
    assert "<script>" in shown(app)


def test_a_filesystem_that_refuses_is_shown_and_asked_again(tmp_path: Path) -> None:
    folder = made(tmp_path, cluster={"launcher": "slurm"})
    app, watcher = opened(folder)
    (folder.path / "slots").rename(folder.path / "hidden")
    (folder.path / "slots").mkdir()
    (folder.path / "slots" / "7_0.json").mkdir()  # EISDIR
    watcher.look()
    watcher.scene = replace(watcher.scene, trouble="the disk is away")
    assert "the disk is away" in shown(app)
    (folder.path / "slots" / "7_0.json").rmdir()
    watcher._look = Pace(0.0, 1.0)
    watcher.look()
    assert watcher.scene.trouble == ""


def test_keys_are_told_from_what_a_terminal_sends() -> None:
    assert keys("\x1b[A\x1bOBjq") == ["up", "down", "j", "q"]
    assert keys("\t\x1b[Z\r\x1b[5~ ") == ["tab", "back tab", "enter", "page up", "page down"]
    assert keys("\x1b") == ["escape"]
    assert keys("\x1b[200~\x1b[?1;2c1") == ["1"], "what is no key does nothing"


def test_columns_are_counted_as_a_terminal_does() -> None:
    assert fitted("ab", 4) == "ab  "
    assert fitted("ab", 4, right=True) == "  ab"
    assert fitted("abcdef", 4) == "abc…"
    assert fitted("日本語", 5) == "日本…", "each has two columns"
    assert fitted("日本語", 4) == "日 …"
    assert fitted("abc", 0) == ""


def test_dear_work_is_done_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, used = [100.0], [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "process_time", lambda: used[0])

    def work(seconds: float) -> None:
        with each:
            used[0] += seconds

    each = Pace(1.0, 0.01)
    assert each.due
    work(0.001)  # 0.1 s by its share: the interval counts
    assert each.left == pytest.approx(1.0)
    clock[0] += 1.0
    work(0.05)
    assert each.left == pytest.approx(5.0), "0.05 s are 1 % of 5 s"
    work(0.05)  # before its time
    assert each.left == pytest.approx(10.0), "and both are 1 % of 10 s"
