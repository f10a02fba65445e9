"""Programs that fail: one sentence each, and nobody is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hpcpod.errors import Diverged
from hpcpod.pod.watch import ProgramFailed, Stopped, Watch
from tests.program.programs import READ, birth_of, create, execute, gone, once
from tests.support.slots import SlotProcess
from tests.support.small_runs import wait_for

SAVE = """
(save / "weights").write_text("1")
"""
RETURNS = "report(steps=4, returns=[1.0] * 8)\n"

BAD: dict[str, tuple[str, str, str]] = {
    "a crash": (
        'print("loading"); raise ValueError("no data in /data")', "raised",
        "ended with exit code 1; its last lines: .*ValueError: no data in /data",
    ),
    "half a line": (
        'sys.stdout.write("no data, bye"); sys.exit(3)', "raised",
        "exit code 3; its last lines: no data, bye$",
    ),
    "out of memory": (
        'raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")', "memory",
        "exit code 1; its last lines: .*CUDA out of memory",
    ),
    "killed": ("os.kill(os.getpid(), 9)", "memory", "was killed .SIGKILL: most often"),
    "a segfault": ("os.kill(os.getpid(), 11)", "crash", "ended by SIGSEGV, and printed nothing"),
    "no report": ('print("done")', "raised", "exit code 0, but without a report; .*done"),
    "a hang": ("time.sleep(60)", "crash", "no sign of life for 0.3 s .pod.hang_seconds.: killed"),
    "too few returns": (
        SAVE + "report(returns=[1.0] * 5)", "raised",
        "reported 5 returns for the 8 seeds of the panel",
    ),
    "other seeds": (
        SAVE + "report(returns=[1.0] * 8, seeds=list(range(8)))", "raised",
        "returns for other seeds than those of the panel",
    ),
    "no numbers": (SAVE + 'report(returns=["x"] * 8)', "raised", "return 'x', which is no number"),
    "neither": (SAVE + "report(steps=4)", "raised", "neither returns nor a score"),
    "no error": (SAVE + "report(score=1.0)", "raised", "without its standard error"),
    "a negative error": (SAVE + "report(score=1.0, error=-1)", "raised", "error -1, which is"),
    "half a step": (SAVE + "report(steps=0.5, returns=[1.0] * 8)", "raised", "has steps 0.5"),
    "no JSON": (
        SAVE + 'Path(task["report_to"]).write_text("{")', "raised", "report is no JSON",
    ),
    "a list": (
        SAVE + 'Path(task["report_to"]).write_text("[]")', "raised", "no JSON mapping but list",
    ),
    "a linked report": (
        SAVE + 'os.symlink("/etc/passwd", task["report_to"])', "raised", "report can't be read",
    ),
    "a report that is a folder": (
        SAVE + 'os.mkdir(task["report_to"])\ntime.sleep(60)', "raised", "is no regular file",
    ),
    "no folder of its own": (
        'import shutil\nshutil.rmtree(session)\ntime.sleep(60)', "raised",
        "the program has removed the session's folder, and printed nothing",
    ),
    "no save": (RETURNS, "raised", "save can't be taken: there is no file in"),
    "no save, and says so": (
        SAVE + "report(returns=[1.0] * 8, saved=False)", "raised", "reported without a save",
    ),
    "a link out": (
        SAVE + 'os.symlink("/etc/passwd", save / "x")\n' + RETURNS, "raised", "'x' .* is a link",
    ),
    "a folder elsewhere": (
        SAVE + 'os.symlink("/etc", save / "etc")\n' + RETURNS, "raised", "'etc' .* is a link",
    ),
    "a folder that became a link": (
        'save.rmdir(); os.symlink("/etc", save)\n' + RETURNS, "raised", "is a link or a file by",
    ),
    "a folder that is gone": (
        "save.rmdir()\n" + RETURNS, "raised", "can't be taken: FileNotFoundError",
    ),
    "endless steps": (SAVE + "report(steps=2**70, returns=[1.0] * 8)", "raised", "has steps 118"),
    "endless progress": (
        "tell(steps=2**70); tell(steps=1e200)\n" + RETURNS, "raised", "there is no file in",
    ),
    "a pipe": (
        SAVE + '(save / "d").mkdir(); os.mkfifo(save / "d" / "p")\n' + RETURNS, "raised",
        "'d/p' in the saved folder is a device, a pipe or a socket",
    ),
    "too large": (
        '(save / "big").write_bytes(b"x" * 2000)\n' + RETURNS, "raised",
        r"2,000 bytes, more than program.max_save_bytes \(1,000\)",
    ),
    "100 GB": (
        'os.truncate(os.open(save / "big", os.O_CREAT | os.O_RDWR), 100 * 2**30)\n' + RETURNS,
        "raised", "107,374,182,400 bytes, more than",
    ),
    "a name of no letters": (
        'open(bytes(save) + b"/\\xff", "w").close()\n' + RETURNS, "raised", "is not UTF-8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_program_that_fails_says_why_in_one_sentence(name: str, tmp_path: Path) -> None:
    script, kind, said = BAD[name]
    pod = {"hang_seconds": 0.3} if name == "a hang" else {}
    folder = create(READ + script, tmp_path, program={"max_save_bytes": 1000}, pod=pod)
    with pytest.raises(ProgramFailed, match=said) as failure:
        execute(folder, birth_of(folder))
    assert failure.value.kind == kind
    assert "\n" not in str(failure.value) and not list((folder.path / "pods").rglob("*.json"))


@pytest.mark.parametrize(
    "report", ["returns=[float('nan')] * 8", "score=float('inf'), error=1", "score=1, error=1e999"]
)
def test_numbers_that_are_not_finite_have_diverged(report: str, tmp_path: Path) -> None:
    folder = create(READ + SAVE + f"report({report})", tmp_path)
    with pytest.raises(Diverged, match="not finite"):
        execute(folder, birth_of(folder))


def test_a_word_that_can_not_be_started_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("#!/bin/no-such-shell\n")
    (tmp_path / "there").chmod(0o755)
    folder = create("", tmp_path, program={"command": ["./there", "now"]})
    with pytest.raises(ProgramFailed, match=r"'./there now' can't be started: No such file"):
        execute(folder, birth_of(folder))


DAEMON = """
import subprocess
child = subprocess.Popen(
    [sys.executable, "-I", "-S", "-c",
     "import os, signal, time\\n"
     "if os.fork() == 0:\\n"
     "    os.setsid()\\n"
     "    for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\\n"
     f"    open({str(session.parent / 'DAEMON')!r}, 'w').write(str(os.getpid()))\\n"
     "    time.sleep(600)\\n"],
    start_new_session=True,
)
child.wait()
while not (session.parent / "DAEMON").exists() or not (session.parent / "DAEMON").read_text():
    time.sleep(0.002)
"""
"""Leaves a process behind that has a session of its own and ignores signals."""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for sessions alone."""
    import tempfile

    path = tmp_path / "scratch"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return path


def test_a_daemon_that_a_program_leaves_behind_is_ended(tmp_path: Path, scratch: Path) -> None:
    folder = create(READ + SAVE + DAEMON + RETURNS, tmp_path)
    execute(folder, birth_of(folder))
    assert gone(int((scratch / "DAEMON").read_text()))
    assert [path.name for path in scratch.iterdir()] == ["DAEMON"]  # no session's folder


def test_a_program_that_ignores_its_stop_is_ended_with_all_that_it_started(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcpod.program.guard.KILL_SECONDS", 0.2)
    stubborn = "import signal\nsignal.signal(15, signal.SIG_IGN)\n" + DAEMON + "time.sleep(600)\n"
    folder = create(READ + stubborn, tmp_path, program={"stop_seconds": 0.2})
    daemon = scratch / "DAEMON"
    with pytest.raises(Stopped):
        execute(folder, birth_of(folder), once(daemon.exists))
    assert gone(int(daemon.read_text()))
    assert [path.name for path in scratch.iterdir()] == ["DAEMON"]


SRUN = """#!/bin/sh
trap 'echo asked > "$0.asked"; exit 0' TERM
echo $$ > "$0.part"; mv "$0.part" "$0.pid"
while :; do sleep 0.01; done
"""
"""Tasks on other nodes end if this one is asked to end, and stay if it is killed."""


@pytest.mark.parametrize("ends", ["counts for nothing", "left behind", "killed"])
def test_an_srun_is_asked_to_end_so_that_it_ends_its_tasks(ends: str, tmp_path: Path) -> None:
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    pid = tmp_path / "srun.pid"
    starts = f"""
import subprocess
child = subprocess.Popen([{str(tmp_path / "srun")!r}])
while not Path({str(pid)!r}).exists():
    time.sleep(0.002)
"""
    behind = ends == "left behind"
    folder = create(READ + SAVE + starts + (RETURNS if behind else "child.wait()"), tmp_path)
    if behind:
        execute(folder, birth_of(folder))
    elif ends == "killed":
        from hpcpod.program.guard import Guarded

        give = {"HPCPOD_SESSION": str(tmp_path), "PATH": "/usr/bin:/bin"}
        guarded = Guarded([str(tmp_path / "srun")], give, tmp_path, tmp_path / "none")
        wait_for("srun", pid.exists)
        guarded.close()
    else:
        with pytest.raises(Stopped):
            execute(folder, birth_of(folder), Watch(pid.exists, discarded=lambda: True))
    assert gone(int(pid.read_text()))
    assert (tmp_path / "srun.asked").read_text() == "asked\n"


def test_a_round_that_counts_for_nothing_any_more_is_dropped_at_once(tmp_path: Path) -> None:
    script = READ + "import signal\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)\n"
    folder = create(script, tmp_path)
    with pytest.raises(Stopped):
        execute(folder, birth_of(folder), Watch(lambda: True, discarded=lambda: True))


def test_an_endless_stream_of_words_does_not_stop_a_round(tmp_path: Path) -> None:
    script = READ + SAVE + "for _ in range(3000): print('x' * 100)\n" + RETURNS
    folder = create(script, tmp_path)
    assert execute(folder, birth_of(folder)).returns == (1.0,) * 8


def test_a_program_ends_with_its_slot_even_if_that_is_killed(tmp_path: Path, scratch: Path) -> None:
    folder = create(READ + DAEMON + "tell(steps=1)\ntime.sleep(600)\n", tmp_path)
    slot = SlotProcess(folder)
    slot.until_in_mid_round()
    child = slot.child()
    daemon = int((scratch / "DAEMON").read_text())
    [session] = scratch.glob("hpcpod-session-*")  # a second one may be there soon
    child.send_signal(signal.SIGKILL)
    assert gone(daemon)
    wait_for("its session's folder to go", lambda: not session.exists())
    slot.process.send_signal(signal.SIGKILL)
    slot.process.wait()


def test_a_failed_attempt_is_told_with_the_last_lines_of_the_log(tmp_path: Path) -> None:
    folder = create(READ + 'raise ValueError("no data")', tmp_path, cluster={"max_restarts": 0})
    slot = SlotProcess(folder)
    slot.end()
    done = subprocess.run(
        [sys.executable, "-m", "hpcpod", "why", str(folder.path), "p0001"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "ended with exit code 1; its last lines: " in done.stdout
    assert "ValueError: no data" in done.stdout
    assert "Traceback" not in slot.log.replace("Traceback (most recent call last)", "", 1)
