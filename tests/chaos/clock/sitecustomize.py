"""A node whose clock is wrong: every Python that finds this on its path reads the time shifted.

Only jobs have it there. ``CHAOS_CLOCKS`` names a folder with a file for each node: seconds by
which its clock is ahead. It is read again while processes run, so that a clock may jump under
their hands, as after a repair.
"""

import os
import time

_true, _steady = time.time, time.monotonic
_file = f"{os.environ.get('CHAOS_CLOCKS')}/{os.environ.get('SLURMD_NODENAME')}"
_shift, _read_again = 0.0, 0.0


def _shifted() -> float:
    global _shift, _read_again
    now = _steady()
    if now >= _read_again:
        _read_again = now + 0.5
        try:
            with open(_file) as file:  # noqa: PTH123 (pathlib is imported by nobody yet)
                _shift = float(file.read() or 0.0)
        except (OSError, ValueError):
            pass
    return _true() + _shift


time.time = _shifted
