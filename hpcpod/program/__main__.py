"""``python -m hpcpod.program``: the child process of a slot that runs a user's program.

It speaks with the slot as ``python -m hpcpod.pod`` does, and loads no torch.
"""

from __future__ import annotations

import os
import sys

from hpcpod._process import THREAD_VARIABLES
from hpcpod.pod.__main__ import Executes, main
from hpcpod.storage.run_folder import RunFolder


def prepared(folder: RunFolder) -> Executes:
    """The program of a run, ready to execute orders."""
    given = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    # numpy starts a thread for each core; the program's own are its own affair.
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        from hpcpod.program.runner import Program
    finally:
        for name, value in given.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return Program(folder)


if __name__ == "__main__":
    sys.exit(main(prepared))
