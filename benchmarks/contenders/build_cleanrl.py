"""The newer Stable-Baselines3 that CleanRL's DQN asks for, beside the one of its SAC and TD3."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

folder = Path(sys.prefix) / "newer"
install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
subprocess.run([*install, "--target", str(folder), "stable-baselines3==2.0.0"], check=True)
