"""The price of ``hpcpod watch``: ``python benchmarks/watching.py``, in about three minutes.

A run folder with real records: pods, their rounds and copies are folded from made-up returns, and a
process writes what slots write while they train, as often as slots do: their status every 0.5 s
here, every 30 s on Slurm, and a report that is merged every second. ``hpcpod watch`` looks at it in
a pseudo-terminal of 80 x 24, a key switches its pane every ten seconds, and its share of a core is
measured by the kernel's count. ``strace`` counts directory listings and opened files, in a run of
its own, since it slows what it counts.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from hpcpod.config.loader import from_mapping  # noqa: E402
from hpcpod.records.records import Birth, Checkpoint, Order, Report  # noqa: E402
from hpcpod.run.launch import create_run  # noqa: E402
from hpcpod.run.preflight import check  # noqa: E402
from hpcpod.storage.restarts import RestartRecord  # noqa: E402
from hpcpod.storage.run_folder import RunFolder  # noqa: E402
from hpcpod.storage.slots import SlotStatus  # noqa: E402
from hpcpod.tournament.leaderboard import fold, orders  # noqa: E402
from hpcpod.tournament.merge import read_board  # noqa: E402
from hpcpod.tournament.rules import Rules  # noqa: E402

STEPS = 20_000
WARM_UP_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=100, help="of each pod, before")
    parser.add_argument("--launcher", choices=("local", "slurm"), default="local")
    parser.add_argument("--seconds", type=float, default=60.0, help="to measure for")
    parser.add_argument("--live", metavar="RUN", type=Path, help="be the slots of this run")
    options = parser.parse_args()
    if options.live:
        live(RunFolder.open(options.live), STATUS_SECONDS[options.launcher])
        return
    with tempfile.TemporaryDirectory(prefix="hpcpod-watching-") as home:
        folder = made(Path(home), options)
        command = [sys.executable, __file__, "--live", str(folder.path)]
        with subprocess.Popen([*command, "--launcher", options.launcher]) as slots:
            try:
                share, memory, sent = watched(folder.path, options.seconds)
                counts = traced(folder.path, options.seconds / 3)
            finally:
                slots.terminate()
        print(
            f"{options.pods} pods, {options.rounds} rounds of each, {options.launcher}:"
            f" {100 * share:.2f} % of a core, {memory / 2**20:.0f} MiB,"
            f" {sent / options.seconds:.0f} bytes/s to the terminal;"
            f" a second: {', '.join(f'{value:.1f} {name}' for name, value in counts.items())}"
        )


STATUS_SECONDS = {"local": 0.5, "slurm": 30.0}
"""Interval of a slot's status: of ``slot.Pace``."""


def made(home: Path, options: argparse.Namespace) -> RunFolder:
    """A run of so many pods that have trained so many rounds."""
    given = {
        "name": "watched",
        "env": {"id": "CartPole-v1", "num_envs": 8},
        "population": {"algorithms": {"ppo": 1, "dqn": 1}, "pods": {"max": options.pods}},
        "round": {"env_steps": STEPS, "episodes": 32},
        "stop": {"rounds": 2 * options.rounds},
        "cluster": {"launcher": options.launcher},
    }
    folder = create_run(check(from_mapping(given), probe=False).resolved, home)
    rules, board = Rules.of_run(folder), read_board(folder)
    generation, before = folder.board.read() or (0, {})
    began = time.time() - 60.0 * options.rounds
    for merge in range(options.rounds):
        done = [answer(order) for order in orders(board)]
        board = fold(board, done, rules, now=began + 60.0 * merge)
    board = replace(board, started=began, began=began)
    folder.board.publish(generation, before, board.document(), "benchmark")
    for number in range(options.pods):
        record = RestartRecord(restarts=1, seconds=3600.0, cpus=4, began=began)
        folder.restarts.save(f"7_{number}", record)
    return folder


def answer(order: Order) -> Report:
    """A report by chance: skill of the pod, luck of the panel and of each episode."""
    rng, panel = Random(order.id), Random(f"panel {order.round}")
    skill = Random(order.pod).uniform(0, 6) * order.round**0.5
    returns = tuple(skill + panel.gauss(0, 3) + rng.gauss(0, 2) for _ in range(32))
    return Report(
        order.id, order.pod, order.round, order.attempt, slot="7_0", returns=returns,
        checkpoint=Checkpoint(f"{rng.getrandbits(256):064x}", env_steps=STEPS * order.round),
        trained_steps=STEPS, wall_seconds=60.0, train_seconds=50.0, evaluate_seconds=10.0,
        metrics={f"metric {number}": rng.random() for number in range(8)},
    )  # fmt: skip


def live(folder: RunFolder, interval: float) -> None:
    """Write what slots write, until the end: statuses, and a report a second."""
    rules, steps, due = Rules.of_run(folder), 0, [0.0, 0.0]
    with folder.locks.driver():
        while True:
            generation, document = folder.board.read() or (0, {})
            board = read_board(folder)
            births = [order for order in orders(board) if isinstance(order, Birth)]
            now = time.monotonic()
            if now >= due[0]:
                due[0], steps = now + interval, (steps + 500) % STEPS
                for number, order in enumerate(births):
                    show(folder, number, order, steps)
            if now >= due[1]:
                due[1] = now + 1.0
                after = fold(board, [answer(births[0])], rules, now=time.time())
                folder.board.publish(generation, document, after.document(), "benchmark")
            time.sleep(max(0.0, min(due) - time.monotonic()))


def show(folder: RunFolder, number: int, order: Birth, steps: int) -> None:
    done = STEPS * (order.round - 1) + steps
    status = SlotStatus(
        state="training", order=order.id, pod=order.pod, round=order.round, job="7",
        algorithm=order.algorithm, env_steps=done, target_steps=STEPS * order.round,
        mean_return=0.01 * steps, steps_per_second=1000.0 + number, host=socket.gethostname(),
        pid=os.getpid(),
    )  # fmt: skip
    folder.slots.write(f"7_{number}", status)


def watched(run: Path, seconds: float) -> tuple[float, int, int]:
    """The share of a core, the bytes of memory and those sent to the terminal."""
    pid, terminal = started([sys.executable, "-m", "hpcpod", "watch", str(run)])
    try:
        select.select([terminal], [], [])  # the first look is over: it takes seconds of 2,000 pods
        drained(terminal, WARM_UP_SECONDS)
        process = psutil.Process(pid)
        before, since = sum(process.cpu_times()[:2]), time.monotonic()
        sent = 0
        for turn in range(max(1, round(seconds / 10))):
            os.write(terminal, b"1234"[turn % 4 : turn % 4 + 1])
            sent += drained(terminal, min(10.0, seconds))
        share = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - since)
        return share, process.memory_info().rss, sent
    finally:
        ended(pid, terminal)


def traced(run: Path, seconds: float) -> dict[str, float]:
    """Listings and opened files a second, by strace."""
    log = run.parent / "strace"
    command = [sys.executable, "-m", "hpcpod", "watch", str(run)]
    strace = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-y",
        "-ttt",
        "-e",
        "trace=getdents64,openat",
        "-o",
        str(log),
    ]
    pid, terminal = started([*strace, *command])
    try:
        drained(terminal, WARM_UP_SECONDS)
        since = time.time()
        drained(terminal, seconds)
        until = time.time()
    finally:
        ended(pid, terminal)
    # "26472 1700000000.123456 openat(...": a process, the time, the call
    timed = [line for line in log.read_text().splitlines() if line.split()[1][:1].isdigit()]
    said = "\n".join(line for line in timed if since <= float(line.split()[1]) <= until)
    listings = re.findall(rf"getdents64\(\d+<({re.escape(str(run))}[^>]*)>", said)
    files = re.findall(rf"openat\(.*= \d+<({re.escape(str(run))}[^>]*)>", said)
    return {
        # a listing ends with a call that gives nothing
        "listings of slots/": sum(path.endswith("/slots") for path in listings) / 2 / seconds,
        "of other folders": sum(not path.endswith("/slots") for path in listings) / 2 / seconds,
        "files opened": len(files) / seconds,
    }


def started(command: list[str]) -> tuple[int, int]:
    """A process with a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    return pid, terminal


def drained(terminal: int, seconds: float) -> int:
    """The number of bytes that came."""
    end, count = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                count += len(os.read(terminal, 65536))
            except OSError:  # EIO: whoever wrote there has ended
                break
    return count


def ended(pid: int, terminal: int) -> None:
    os.write(terminal, b"q")
    drained(terminal, 1.0)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
