"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# Tests share their cores with real Slurm daemons and training runs: no example has a deadline.
settings.register_profile("hpcpod", deadline=None)
settings.load_profile("hpcpod")
