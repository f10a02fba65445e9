"""Start the ranks of a pod on this machine: ``python -m hpcpod.pod.ranks.spawn N -- COMMAND``.

What srun does on a cluster: every rank gets its number as torchrun would tell it, and all that
comes in on standard input. When one has failed, the others have some time to save themselves. All
end with the process that reads standard output. With ``mpirun`` before ``--`` that starts them.
No torch.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hpcpod._process import end_group_with
from hpcpod.pod.ipc.commands import WAIT_SECONDS

Process = subprocess.Popen[bytes]

_GRANULE = 1 << 16  # bytes: what a pipe holds on Linux


def main(arguments: Sequence[str]) -> int:
    """Run N copies of a command until the last has ended; the first exit code that is not 0."""
    end = arguments.index("--")
    (count, *mpirun), command = arguments[:end], list(arguments[end + 1 :])
    end_group_with(sys.stdout.fileno())
    started = _by_mpirun if mpirun else _one_by_one
    with contextlib.ExitStack() as needed:
        processes, inputs = started(int(count), command, needed)
        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, lambda received, frame: _forward(processes, received))
        return _wait(processes, inputs)


def _one_by_one(
    size: int, command: list[str], needed: contextlib.ExitStack
) -> tuple[list[Process], list[int]]:
    """The processes, and file descriptors of what they read."""
    processes = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, env={**os.environ, **variables_of(rank, size)}
        )
        for rank in range(size)
    ]
    return processes, [p.stdin.fileno() for p in processes if p.stdin is not None]


def _by_mpirun(
    size: int, command: list[str], needed: contextlib.ExitStack
) -> tuple[list[Process], list[int]]:
    """The same. mpirun hands its input to rank 0 alone, so each rank reads a pipe with a name."""
    folder = needed.enter_context(tempfile.TemporaryDirectory(prefix="hpcpod-ranks-"))
    names = [Path(folder, str(rank)) for rank in range(size)]
    for name in names:
        os.mkfifo(name)
    # For reading too: else this would wait until the rank has opened its end.
    inputs = [os.open(name, os.O_RDWR | os.O_CLOEXEC) for name in names]
    own = f'exec "$@" < {shlex.quote(folder)}/"$OMPI_COMM_WORLD_RANK"'
    # By default Open MPI refuses more ranks than cores, and pins each.
    mpirun = ["mpirun", "-n", str(size), "--oversubscribe", "--bind-to", "none"]
    words = [*mpirun, "sh", "-c", own, "sh", *command]
    return [subprocess.Popen(words, stdin=subprocess.DEVNULL)], inputs


def variables_of(rank: int, size: int) -> dict[str, str]:
    """The environment variables of one rank, as torchrun sets them; none if it is alone."""
    numbers = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    return {name: str(number) for name, number in numbers.items()} if size > 1 else {}


def _wait(processes: Sequence[Process], inputs: list[int]) -> int:
    """Hand on what comes in until all have ended; as ``main`` returns."""
    pidfds = {os.pidfd_open(process.pid): process for process in processes}
    waiting = select.poll()
    for descriptor in (*pidfds, 0):
        waiting.register(descriptor, select.POLLIN)
    failed, deadline = 0, float("inf")
    while pidfds:
        left = deadline - time.monotonic()
        if left <= 0:
            for process in pidfds.values():
                process.kill()
            deadline = left = float("inf")
        for descriptor, _ in waiting.poll(None if left == float("inf") else 1000 * left):
            if descriptor == 0:
                if not _broadcast(inputs):
                    waiting.unregister(0)
            elif descriptor in pidfds:
                waiting.unregister(descriptor)
                code = pidfds.pop(descriptor).wait()
                os.close(descriptor)
                if code != 0 and failed == 0:
                    failed, deadline = code, time.monotonic() + WAIT_SECONDS
    return failed if failed >= 0 else 128 - failed  # of a signal as a shell has it


def _broadcast(inputs: list[int]) -> bool:
    """Hand on what has come in; False at its end."""
    chunk = os.read(0, _GRANULE)
    for descriptor in inputs:
        with contextlib.suppress(BrokenPipeError):
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        if not chunk:
            os.close(descriptor)
    return bool(chunk)


def _forward(processes: Sequence[Process], number: int) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
