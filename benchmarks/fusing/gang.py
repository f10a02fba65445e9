"""The ranks of a measurement: real processes of this machine that take orders together."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from hpcpod._process import THREAD_VARIABLES
from hpcpod.pod.ipc.commands import CALM

HERE = Path(__file__).parents[1]
Order = dict[str, Any]
Result = dict[str, Any]


class Gang:
    """``size`` processes, started as a slot starts the ranks of a pod, one thread each."""

    def __init__(self, size: int, backend: str = "gloo") -> None:
        """Start them; they meet when the first order comes.

        Args:
            size: ranks.
            backend: ``gloo`` or ``mpi``, which needs mpirun and mpi4py.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="hpcpod-fusion-")
        words = [sys.executable, "-m", "fusing.rank", self._folder.name, str(size), backend]
        starting = size
        if backend == "mpi" and size > 1:
            options = ["--oversubscribe", "--bind-to", "none"]
            words = [shutil.which("mpirun") or "mpirun", "-n", str(size), *options, *words]
            starting = 1
        start = [sys.executable, "-m", "hpcpod.pod.ranks.spawn", str(starting), "--"]
        paths = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        env = {
            **CALM, **os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }  # fmt: skip
        # A session of its own: what starts ranks kills its group once this process is gone.
        self._process = subprocess.Popen(
            [*start, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
            start_new_session=True,
        )  # fmt: skip
        self._received = b""

    def do(self, order: Order) -> Result:
        """Have all ranks carry an order out; what the first one says.

        Raises:
            RuntimeError: they ended without an answer.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        while (line := self._line()) is not None:
            if line.startswith(b"{"):  # gloo tells of itself on standard output
                said: Result = json.loads(line)
                return said
        raise RuntimeError(f"the ranks ended, exit {self._process.wait()}, without doing {order}")

    def _line(self) -> bytes | None:
        """The next line that they write; None: they have ended.

        The end of the pipe would not tell that: a watcher beside them keeps it open.
        """
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._received:
            if not select.select([descriptor], [], [], 0.5)[0]:
                if self._process.poll() is not None:
                    return None
                continue
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line

    def __enter__(self) -> Gang:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let them end: no order comes any more."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        if kind is not None:
            self._process.terminate()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()
