"""PufferLib from its source package: the trainer's kernel and one of its C environments.

Its own build asks GitHub for libraries of other environments, wants CUDA wherever a compiler for
it is found, and forbids today's gymnasium; so the source is cut down to the CartPole first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "3.0.0"
DOWNLOADS = ("raylib-5.5_webassembly", "box2d-web", "box2d-linux-amd64")
"""What is not asked for when a folder of that name is there; CartPole needs none of it."""


def without_cuda() -> dict[str, str]:
    """The environment, with no folder on its path that has CUDA's compiler."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = [folder for folder in folders if not (Path(folder) / "nvcc").exists()]
    return {**os.environ, "PATH": os.pathsep.join(kept), "CUDA_HOME": ""}


def pip(*arguments: str, **variables: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--no-deps"]
    command += ["--no-build-isolation"]
    subprocess.run(command, check=True, env=without_cuda() | variables)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    # pip runs a source package's setup as it loads it. Without environments that asks GitHub for
    # nothing, but then misses a name that only they define.
    (folder / "sitecustomize.py").write_text("import builtins\nbuiltins.c_extension_paths = []\n")
    source = ("--no-binary", "pufferlib", f"pufferlib=={VERSION}")
    pip("download", "--dest", name, *source, NO_OCEAN="1", NO_TRAIN="1", PYTHONPATH=name)
    with tarfile.open(next(folder.glob("pufferlib-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / f"pufferlib-{VERSION}"
    for missing in DOWNLOADS:
        (unpacked / missing).mkdir(exist_ok=True)
    for binding in (unpacked / "pufferlib" / "ocean").glob("*/binding.c"):
        if binding.parent.name != "cartpole":
            shutil.rmtree(binding.parent)
    pip("install", str(unpacked))
