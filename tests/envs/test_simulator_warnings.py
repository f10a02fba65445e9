"""Warnings of simulators while they are imported and made: once, and not to every reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.slots import ROOT

MUJOCO, SWIG = "settotalmass", "swig"

MAKE = """\
import logging, hpcpod
logging.basicConfig(level=logging.DEBUG)
for _ in range(2):
    for backend in ("gymnasium", "mujoco"):
        hpcpod.make_env("HalfCheetah-v5", num_envs=2, backend=backend).close()
    hpcpod.make_env("HalfCheetah-v5", num_envs=2, backend="vector").close()
    hpcpod.make_env("gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv").close()
    hpcpod.make_env("LunarLander-v3").close()
    hpcpod.make_env("Ant-v4").close()
"""


def said(folder: Path, *words: str) -> str:
    """All that a command prints, run in a folder of its own with every Python warning shown."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (folder / "MUJOCO_LOG.TXT").exists()
    return done.stdout + done.stderr


def test_the_log_of_who_debugs_has_each_warning_once(tmp_path: Path) -> None:
    lines = said(tmp_path, "-c", MAKE).splitlines()
    models = [line for line in lines if MUJOCO in line]
    of = ("HalfCheetah-v5", "gymnasium.envs.mujoco.half_cheetah_v5:HalfCheetahEnv")
    assert [line.partition(" compiler")[0] for line in models] == [
        f"DEBUG:hpcpod.envs.simulator_warnings:{name}:" for name in of
    ]
    assert not [line for line in lines if SWIG in line.lower()]
    [old] = [line for line in lines if "out of date" in line]
    assert old.startswith(
        "WARNING:hpcpod.envs.simulator_warnings:Ant-v4: "
    )  # which its user can mend


def test_who_tries_trains_or_launches_sees_no_word_of_it_nor_do_slots(tmp_path: Path) -> None:
    config = {
        "name": "quiet", "env": {"id": "HalfCheetah-v5", "num_envs": 2},
        "population": {"pods": {"min": 1, "max": 1}}, "agents": {"ppo": {"horizon": 16}},
        "round": {"env_steps": 64, "episodes": 2}, "stop": {"rounds": 1, "confirm_episodes": 2},
    }  # fmt: skip
    (tmp_path / "quiet.yaml").write_text(json.dumps(config))
    text = said(tmp_path, "-m", "hpcpod", "launch", "quiet.yaml")
    text += said(tmp_path, "-m", "hpcpod", "train", "quiet.yaml")
    quick = ("--steps", "20", "--seconds", "0.01", "--num-envs", "2", "--backend", "gymnasium")
    text += said(tmp_path, "-m", "hpcpod", "envs", "check", "quiet.yaml", *quick)
    text += said(tmp_path, "-m", "hpcpod", "envs", "check", "LunarLander-v3", *quick[:-2])
    logs = "".join(path.read_text() for path in (tmp_path / "runs/quiet/logs").glob("*.log"))
    assert "training ends" in logs and "scoring ends" in logs
    assert MUJOCO not in text + logs
    assert "contract: kept" in text
    assert not [line for line in (text + logs).splitlines() if "DeprecationWarning" in line]
    assert SWIG not in (text + logs).lower()


def test_an_old_gym_does_not_print_that_it_is_old(tmp_path: Path) -> None:
    (tmp_path / "gym_notices").mkdir()
    (tmp_path / "gym_notices/notices.py").write_text("notices = {'0.26.2': 'Gym is unmaintained'}")
    (tmp_path / "gym.py").write_text(
        "import sys\n"
        "try:\n"
        "    import gym_notices.notices as notices\n"
        "    print(notices.notices['0.26.2'], file=sys.stderr)\n"
        "except Exception:\n"
        "    pass\n"
    )
    (tmp_path / "own.py").write_text(
        "import gym, gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n"
    )
    code = "import hpcpod; hpcpod.make_env('own:make', {}).close()"
    assert "unmaintained" not in said(tmp_path, "-c", code.format("processes=1"))
    elsewhere = f"num_envs=2, processes=2, python={sys.executable!r}"
    assert "unmaintained" not in said(tmp_path, "-c", code.format(elsewhere))
