"""The catalog of backends and simulators, readable on login nodes without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Package:
    """A package: the modules to import, and pip's word to install it."""

    modules: tuple[str, ...] = ()
    """Top-level names, such as ``mujoco``."""
    extra: str = ""
    """The requirement that has them, such as ``hpcpod[mujoco]``."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that can't be found; none is imported."""
        return tuple(name for name in self.modules if not is_there(name))

    @property
    def install(self) -> str:
        """The line to type."""
        return pip_line(self.extra)


@dataclass(frozen=True)
class Facts:
    """Facts of a backend."""

    package: Package
    """Modules that it imports, and their requirement."""
    steps: str
    """Environments that it steps, in words."""
    device: str
    """Threads or device that step them, in words."""
    ids: tuple[str, ...] = ()
    """Every id that it steps; none if they are not known in advance."""


GYMNASIUM = "gymnasium"

_MUJOCO_TASKS = (
    "Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "InvertedDoublePendulum-v5",
    "InvertedPendulum-v5", "Pusher-v5", "Reacher-v5", "Swimmer-v5", "Walker2d-v5",
)  # fmt: skip

BACKENDS: Mapping[str, Facts] = {
    "hpcpod.envs.gymnasium:PreprocessVecEnv": Facts(
        Package((GYMNASIUM, "torch"), "hpcpod"),
        "any gymnasium id, and any class by its path (pkg.mod:EnvClass)",
        "one CPU thread; several by env.processes, another Python by env.python",
    ),
    "hpcpod.envs.mujoco.env:MujocoVecEnv": Facts(
        Package(("mujoco", GYMNASIUM, "torch"), "hpcpod[mujoco]"),
        "gymnasium's MuJoCo tasks in batches",
        "as many CPU threads as resources.cpus_per_pod says",
        _MUJOCO_TASKS,
    ),
    "hpcpod.envs.mujoco.warp_env:WarpVecEnv": Facts(
        Package(("mujoco_warp", "warp", "mujoco", GYMNASIUM, "torch"), "hpcpod[warp]"),
        "gymnasium's MuJoCo tasks by thousands, in float32; never run on a GPU yet",
        "the agent's device: a GPU, or for tests a CPU",
        _MUJOCO_TASKS,
    ),
    "hpcpod.envs.torch_envs:TorchVecEnv": Facts(
        Package(("torch",), "hpcpod"),
        "classic control by thousands, and toys whose every number can be told beforehand",
        "the agent's device, a CPU or a GPU",
        (
            "Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0",
            "Pendulum-v1", "hpcpod/Counter-v0", "hpcpod/Image-v0", "hpcpod/Memory-v0",
        ),
    ),
    "hpcpod.envs.vector:GymnasiumVectorEnv": Facts(
        Package((GYMNASIUM, "torch"), "hpcpod"),
        "what a function gives (pkg.mod:make) that is a gymnasium.vector.VectorEnv",
        "as the VectorEnv does",
    ),
    # Some 740 MB installed. 1.2.5 is the last for Python 3.11; 1.2.7 needs 3.12.
    "hpcpod.envs.envpool:EnvPoolVecEnv": Facts(
        Package(("envpool", GYMNASIUM, "torch"), "hpcpod[envpool]"),
        "EnvPool's tasks by its names (Ant-v5, Pong-v5), with simulators of its own",
        "as many CPU threads as resources.cpus_per_pod says",
    ),
    # 2.3.2 of PyPI wants Python 3.11, numpy 1 and gymnasium 1.2.0: an environment of its own.
    "hpcpod.envs.isaac_lab:IsaacLabVecEnv": Facts(
        Package(("isaaclab",), "isaaclab"),
        "what a function gives (pkg.mod:make) that is Isaac Lab's; tested over a fake alone",
        "the simulator's GPU",
    ),
}  # fmt: skip
"""Facts of each backend, by the path that the entry point has."""

FAMILIES: Mapping[str, Package] = {
    "classic_control": Package(),
    "toy_text": Package(),
    # Its renderer, which an environment makes before it renders, imports imageio.
    "mujoco": Package(("mujoco", "imageio"), "hpcpod[mujoco]"),
    "box2d": Package(("Box2D", "pygame"), "gymnasium[box2d]"),
    "phys2d": Package(("jax", "flax"), "gymnasium[jax]"),
    "tabular": Package(("jax", "flax"), "gymnasium[jax]"),
    "atari": Package(("ale_py",), "gymnasium[atari]"),
}
"""Packages that gymnasium's own families need, by their folder in it; atari is a package apart."""

ATARI = "ale_py:ALE/<Game>-v5, such as ale_py:ALE/Pong-v5"
"""Atari's ids, which gymnasium knows once their package is imported: that is before the colon."""


def is_there(module: str) -> bool:
    """True if a top-level module could be imported; it is not."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # refused by a hook, or half loaded
        return False


def pip_line(requirement: str) -> str:
    """The line that installs a package; quoted, for shells take brackets for patterns."""
    return f'pip install "{requirement}"'
