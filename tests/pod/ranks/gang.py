"""Real processes that are the ranks of one group: each runs a function of this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import json, sys, torch
from pathlib import Path
from hpcpod.plugins import load
from hpcpod.pod.ranks.group import Meeting, join
from hpcpod.pod.ranks.rank import rank_of
from hpcpod.storage.disk import Disk
import os
torch.set_num_threads(1)
given = json.loads(sys.argv[1])
rank = rank_of(os.environ)
meeting = Meeting(
    Disk(), Path(given["folder"]), given["name"], given["size"], given["seconds"],
    {"the configuration": given["agreed"].get(str(rank.number), "same")},
)
group = join(rank, meeting, given["backend"], torch.device("cpu"))
print(json.dumps(load(given["work"])(group, **given["words"])), flush=True)
group.close()
threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
assert not [name for name in threads if "gloo" in name], threads
"""


class Gang:
    """``size`` processes of this machine that were told of each other as torchrun does."""

    def __init__(
        self, folder: Path, work: str, size: int = 2, *, seconds: float = 20.0,
        agreed: dict[str, str] | None = None, told: int | None = None, backend: str = "gloo",
        words: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        given = {
            "folder": str(folder), "name": "meeting", "size": size, "seconds": seconds,
            "agreed": agreed or {}, "backend": backend, "work": f"tests.pod.ranks.work:{work}",
            "words": words or {},
        }  # fmt: skip
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, json.dumps(given)],
                env={
                    **os.environ,
                    "RANK": str(rank), "WORLD_SIZE": str(told or size),
                    "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(told or size),
                },
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for rank in range(size)
        ]  # fmt: skip

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
