"""Rendering without a screen: the library by which MuJoCo draws, and the driver of pygame.

Both are chosen by environment variables that are read when the simulator is imported, and what is
missing shows only when it draws. So each way is tried in a process of its own first.
"""

from __future__ import annotations

import os
import subprocess
import sys

from hpcpod._process import PYTHON
from hpcpod.errors import UserError

WAYS = ("egl", "osmesa")
"""Values of ``MUJOCO_GL`` that need no screen, in the order of trial: EGL can use a GPU."""
PATIENCE = 120.0
"""Seconds for one of them to draw a first picture: importing alone takes seconds on a busy disk."""

_TRIAL = """\
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><light/></worldbody></mujoco>")
with mujoco.Renderer(model, 16, 16) as renderer:
    renderer.update_scene(mujoco.MjData(model))
    assert renderer.render().shape == (16, 16, 3)
"""


def without_screen() -> None:
    """Have pygame draw into memory, where no other driver was asked for."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def choose_gl() -> str:
    """Set ``MUJOCO_GL`` to a way that draws here; of one that is set it is seen that it does.

    Returns:
        The way; empty if MuJoCo was imported before, and its way is decided.

    Raises:
        UserError: none does, with what each of them said.
    """
    if "mujoco" in sys.modules:
        return ""
    said, given = {}, os.environ.get("MUJOCO_GL")
    for way in (given,) if given else WAYS:
        said[way] = _refusal(way)
        if not said[way]:
            os.environ["MUJOCO_GL"] = way
            return way
    reasons = ", nor by ".join(f"{way.upper()} ({why})" for way, why in said.items())
    raise UserError(
        f"MuJoCo can't draw on this machine by {reasons}: without a screen it needs MUJOCO_GL=egl"
        " (Debian: libegl1 libgl1-mesa-dri) or MUJOCO_GL=osmesa (libosmesa6)"
    )


def _refusal(way: str) -> str:
    """The reason why MuJoCo can't draw so, in a line; empty if it can."""
    words = [*PYTHON, "-c", _TRIAL]
    try:
        done = subprocess.run(
            words, env={**os.environ, "MUJOCO_GL": way}, capture_output=True, text=True,
            check=False, timeout=PATIENCE,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no picture in {PATIENCE:g} s"
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
