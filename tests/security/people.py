"""Two users of a group, and a stranger: real processes under user ids of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcpod._process import PYTHON

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Person:
    """Somebody with a shell. No user database knows them, as on many compute nodes."""

    uid: int
    gid: int
    python: str

    def start(self, *words: str, cwd: Path, umask: int = 0o002) -> subprocess.Popen[str]:
        """Start a command of theirs."""
        path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        return subprocess.Popen(
            words, cwd=cwd, umask=umask, user=self.uid, group=self.gid, extra_groups=[], text=True,
            env={**os.environ, "PYTHONPATH": path, "HOME": str(cwd), "TMPDIR": "/tmp"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *words: str, cwd: Path, code: int = 0, umask: int = 0o002) -> str:
        """What a command of theirs says; it must end with this exit code."""
        process = self.start(*words, cwd=cwd, umask=umask)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == code, said
        assert "Traceback" not in said, said
        return said

    def hpcpod(self, *words: str, cwd: Path, code: int = 0) -> str:
        """A verb of the command line."""
        main = "import sys; from hpcpod.cli.parser import main; sys.exit(main(sys.argv[1:]))"
        # As the installed command, which finds no module in the working directory.
        return self.run(self.python, *PYTHON[1:], "-c", main, *words, cwd=cwd, code=code)

    def does(self, text: str, *words: str, cwd: Path, umask: int = 0o002, code: int = 0) -> str:
        """A program of theirs, with ``RunFolder`` and more at hand."""
        head = (
            "import os, sys; from pathlib import Path; from tests.support.small_runs import create;"
            " from hpcpod.storage.requests import Drain;"
            " from hpcpod.storage.run_folder import RunFolder;"
            " from hpcpod.storage.slots import SlotStatus;"
            " from hpcpod.records.records import *\n"
        )
        return self.run(self.python, "-c", head + text, *words, cwd=cwd, umask=umask, code=code)


def people() -> tuple[Person, Person, Person]:
    """Ann and Bob, of one group, and Carol, of another."""
    if os.geteuid() != 0:
        pytest.skip("only root can start processes of other users")
    for python in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        found = Person(65521, 65500, str(python))
        try:
            found.run(
                found.python, "-c", "import tests, hpcpod, h5py, filelock, torch", cwd=Path("/")
            )
        except (OSError, AssertionError):
            continue
        return found, Person(65522, 65500, str(python)), Person(65523, 65501, str(python))
    pytest.skip("no Python here, with what hpcpod needs, can be read by other users")


@contextmanager
def shared_folder(owner: Person) -> Iterator[Path]:
    """A folder for the runs of a group, as docs/sharing.md has it made: setgid and sticky."""
    # Not pytest's tmp_path: nobody else may look into it.
    home = Path(tempfile.mkdtemp(prefix="hpcpod-shared-", dir="/tmp"))
    try:
        home.chmod(0o755)
        shared = home / "runs"
        shared.mkdir()
        os.chown(shared, owner.uid, owner.gid)
        shared.chmod(0o3775)
        yield shared
    finally:
        shutil.rmtree(home)
