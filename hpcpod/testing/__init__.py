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

try:
    import pytest as _pytest  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "hpcpod.testing needs pytest: pip install 'hpcpod[test]'", name=missing.name
    ) from missing

from hpcpod.testing.agents import AgentContract
from hpcpod.testing.allocators import AllocatorContract
from hpcpod.testing.envs import EnvContract
from hpcpod.testing.generators import GeneratorContract
from hpcpod.testing.updaters import UpdaterContract

__all__ = [
    "AgentContract",
    "AllocatorContract",
    "EnvContract",
    "GeneratorContract",
    "UpdaterContract",
]
