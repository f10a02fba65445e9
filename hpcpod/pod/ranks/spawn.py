"""Start the ranks of a pod on this machine: ``python -m hpcpod.pod.ranks.spawn N -- COMMAND``.

What srun does on a cluster: every rank gets its place as torchrun would tell it, and all that
comes in on standard input. When one has failed, the others have some time to save themselves. All
end with whoever reads standard output. No torch.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from hpcpod.pod.signals import end_group_with
from hpcpod.pod.starting import WAIT_SECONDS

_GRANULE = 1 << 16


def main(arguments: Sequence[str]) -> int:
    """Run N copies of a command until the last has ended; the first exit code that is not 0."""
    count, dashes, *command = arguments
    assert dashes == "--"
    end_group_with(sys.stdout.fileno())
    size = int(count)
    ranks = [
        subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, **told(rank, size)})
        for rank in range(size)
    ]
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, lambda received, frame: _forward(ranks, received))
    return _wait(ranks)


def told(rank: int, size: int) -> dict[str, str]:
    """What a rank's environment says of its place; nothing if it is alone."""
    numbers = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    return {name: str(number) for name, number in numbers.items()} if size > 1 else {}


def _wait(ranks: Sequence[subprocess.Popen[bytes]]) -> int:
    """Hand on what comes in until all have ended; as ``main`` returns."""
    pidfds = {os.pidfd_open(process.pid): process for process in ranks}
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
                if not _broadcast(ranks):
                    waiting.unregister(0)
            elif descriptor in pidfds:
                waiting.unregister(descriptor)
                code = pidfds.pop(descriptor).wait()
                os.close(descriptor)
                if code != 0 and failed == 0:
                    failed, deadline = code, time.monotonic() + WAIT_SECONDS
    return failed if failed >= 0 else 128 - failed


def _broadcast(ranks: Sequence[subprocess.Popen[bytes]]) -> bool:
    """Hand on what has come in; False at its end."""
    chunk = os.read(0, _GRANULE)
    for process in ranks:
        assert process.stdin is not None
        try:
            if chunk:
                process.stdin.write(chunk)
                process.stdin.flush()
            else:
                process.stdin.close()
        except BrokenPipeError:
            continue
    return bool(chunk)


def _forward(ranks: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    for process in ranks:
        if process.poll() is None:
            process.send_signal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
