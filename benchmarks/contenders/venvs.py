"""A virtual environment for each contender, made when it is first needed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements"
CONSTRAINTS = REQUIREMENTS / "constraints.txt"
"""The versions that all of them share: one torch."""
STAMP = "installed-for-peers"


class NotInstalled(Exception):
    """Why a contender can't be had, in one line."""


def python_of(name: str, venvs: Path) -> Path:
    """The interpreter of a contender's environment, which is made if it is missing or out of date.

    Installed are, in this order and as far as there is such a file: ``NAME.txt``,
    ``NAME.no-deps.txt`` (packages whose pins contradict the others', so without their
    dependencies), and what ``build_NAME.py`` builds, run by the new interpreter.

    Raises:
        NotInstalled: a step has failed.
    """
    folder = venvs.absolute() / name
    python = folder / "bin" / "python"
    stamp, wanted = folder / STAMP, _digest(name)
    if stamp.is_file() and stamp.read_text(encoding="ascii") == wanted:
        return python
    print(f"making the environment of {name} in {folder}", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    bound = ["--constraint", str(CONSTRAINTS)]
    _run([*install, *bound, "--requirement", str(REQUIREMENTS / f"{name}.txt")])
    bare = REQUIREMENTS / f"{name}.no-deps.txt"
    if bare.is_file():
        # Python's own upper bound is among what is overridden here.
        _run([*install, "--no-deps", "--ignore-requires-python", "--requirement", str(bare)])
    build = HERE / f"build_{name}.py"
    if build.is_file():
        _run([str(python), str(build)])
    stamp.write_text(wanted, encoding="ascii")
    return python


def _digest(name: str) -> str:
    """Of everything that decides what is installed."""
    sources = [CONSTRAINTS, *sorted(REQUIREMENTS.glob(f"{name}.*")), HERE / f"build_{name}.py"]
    content = b"\0".join(path.read_bytes() for path in sources if path.is_file())
    if b"--editable" in content:  # this code is used where it stands; its entry points are not
        project, _, _tools = (ROOT / "pyproject.toml").read_bytes().partition(b"[tool.")
        content += (ROOT / "constraints.txt").read_bytes() + project
    return hashlib.sha256(content + sys.version.encode()).hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotInstalled(last_words(done.stderr or done.stdout))


def last_words(text: str) -> str:
    """The line of a failed command's output that says most: the last one that names an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "error" in line.lower()]
    return (named or lines or ["it said nothing"])[-1][:160]
