"""The interpreter that stable-baselines3 runs with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = ("stable-baselines3==2.9.2", "gymnasium[mujoco]==1.4.0", "mujoco==4.0.0", "torch")
CONSTRAINT = "torch==2.13.0"
"""hpcpod's own version; the same for both."""


def sb3_python(venvs: Path) -> Path:
    """The Python of ``venvs/sb3``, which is made if it is not there (about 1 GB).

    Raises:
        subprocess.CalledProcessError: it can't be made; pip has said why.
    """
    folder = venvs.absolute() / "sb3"
    python, complete = folder / "bin" / "python", folder / "installed-for-learning"
    if not complete.exists():
        print(f"making the environment of stable-baselines3 in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        constraints = folder / "constraints.txt"
        constraints.write_text(f"{CONSTRAINT}\n", encoding="ascii")
        install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints)]
        subprocess.run([*install, *PACKAGES], check=True, stdout=sys.stderr)
        complete.touch()
    return python
