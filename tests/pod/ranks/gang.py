"""Real processes that are the ranks of one group: each runs a function of this package."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch

from hpcpod.plugins import load
from hpcpod.pod.ranks.group import Meeting, join
from hpcpod.pod.ranks.rank import rank_of
from hpcpod.storage.disk import Disk

WORK = "tests.pod.ranks.work"

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__, WORK])  # ranks begin with torch's second behind them


def play(given: dict[str, Any]) -> None:
    """Be one rank: meet the others, do the work, say what it returned."""
    torch.set_num_threads(1)
    rank = rank_of(os.environ)
    meeting = Meeting(
        Disk(), Path(given["folder"]), given["name"], given["size"], given["seconds"],
        {"the configuration": given["agreed"].get(str(rank.number), "same")},
    )  # fmt: skip
    group = join(rank, meeting, given["backend"], torch.device("cpu"))
    print(json.dumps(load(given["work"])(group, **given["words"])), flush=True)
    group.close()
    threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    assert not [name for name in threads if "gloo" in name], threads


def _forked(given: dict[str, Any], env: dict[str, str], said: Path) -> None:
    os.environ.update(env)
    for stream, kind in ((sys.stdout, "out"), (sys.stderr, "err")):
        with Path(f"{said}.{kind}").open("w") as file:
            os.dup2(file.fileno(), stream.fileno())
    play(given)


class _Rank(Protocol):
    """A process that is a rank, as ``subprocess.Popen`` has it."""

    @property
    def returncode(self) -> int | Any: ...

    def communicate(self, *, timeout: float) -> tuple[str, str]: ...


class _Fork:
    """A rank forked from a process that has imported all that it needs."""

    def __init__(self, given: dict[str, Any], env: dict[str, str], said: Path) -> None:
        self._said = said
        self._process = _FORKS.Process(target=_forked, args=(given, env, said))
        self._process.start()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def communicate(self, *, timeout: float) -> tuple[str, str]:
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"no end within {timeout:g} s"
        out, err = (Path(f"{self._said}.{kind}").read_text() for kind in ("out", "err"))
        return out, err


def _whole(given: dict[str, Any], env: Mapping[str, str]) -> subprocess.Popen[str]:
    program = f"import json, sys; from {__name__} import play; play(json.loads(sys.argv[1]))"
    return subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(given)], env={**os.environ, **env},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


class Gang:
    """``size`` processes of this machine that were told of each other as torchrun does.

    Those of ``absent`` are never started. With ``whole`` each is a Python of its own, which also
    ends as one.
    """

    def __init__(
        self, folder: Path, work: str, size: int = 2, *, seconds: float = 20.0,
        agreed: dict[str, str] | None = None, told: int | None = None, backend: str = "gloo",
        words: dict[str, Any] | None = None, absent: tuple[int, ...] = (), whole: bool = False,
    ) -> None:  # fmt: skip
        given = {
            "folder": str(folder), "name": "meeting", "size": size, "seconds": seconds,
            "agreed": agreed or {}, "backend": backend, "work": f"{WORK}:{work}",
            "words": words or {},
        }  # fmt: skip
        self.processes = list[_Rank]()
        for rank in sorted({*range(size)} - {*absent}):
            env = {
                "RANK": str(rank), "WORLD_SIZE": str(told or size),
                "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(told or size),
            }  # fmt: skip
            said = folder / f"said-{rank}"
            self.processes.append(_whole(given, env) if whole else _Fork(given, env, said))

    def results(self, timeout: float = 60.0) -> list[Any]:
        """What each rank's function returned; raises AssertionError if one failed."""
        said = [process.communicate(timeout=timeout) for process in self.processes]
        assert not any(process.returncode for process in self.processes), said
        return [json.loads(out.splitlines()[-1]) for out, _ in said]

    def failures(self, timeout: float = 60.0) -> list[str]:
        """The last line of each rank's error."""
        said = [process.communicate(timeout=timeout) for process in self.processes]
        assert all(process.returncode for process in self.processes), said
        return [err.strip().splitlines()[-1] for _, err in said]
