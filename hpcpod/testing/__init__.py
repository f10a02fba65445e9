"""Contracts as tests: subclass one in a test file of your own and run pytest.

::

    from hpcpod.testing import AgentContract, EnvContract

    class TestMyAgent(AgentContract):
        agent = "my_pkg.mod:MyAgent"
        env = "CartPole-v1"
        config = {"horizon": 16}

    class TestMyEnv(EnvContract):
        def make_env(self, num_envs):
            return make_env("my_pkg.mod:MyEnv", num_envs)

    class TestMyUpdater(UpdaterContract):  # and GeneratorContract, AllocatorContract
        updater = "my_pkg.mod:MyUpdater"
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcpod.testing.agents import AgentContract
    from hpcpod.testing.allocators import AllocatorContract
    from hpcpod.testing.envs import EnvContract
    from hpcpod.testing.generators import GeneratorContract
    from hpcpod.testing.updaters import UpdaterContract

try:
    import pytest as _pytest  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "hpcpod.testing needs pytest: pip install 'hpcpod[test]'", name=missing.name
    ) from missing

__all__ = [
    "AgentContract",
    "AllocatorContract",
    "EnvContract",
    "GeneratorContract",
    "UpdaterContract",
]

_ROOMS = {
    "AgentContract": "agents",
    "AllocatorContract": "allocators",
    "EnvContract": "envs",
    "GeneratorContract": "generators",
    "UpdaterContract": "updaters",
}


def __getattr__(name: str) -> Any:
    """Import a contract when it is asked for: only those of agents and environments need torch."""
    if name not in _ROOMS:
        raise AttributeError(f"module 'hpcpod.testing' has no attribute '{name}'")
    return getattr(import_module(f"hpcpod.testing.{_ROOMS[name]}"), name)
