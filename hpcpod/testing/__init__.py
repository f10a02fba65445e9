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
"""

try:
    import pytest as _pytest  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "hpcpod.testing needs pytest: pip install 'hpcpod[test]'", name=missing.name
    ) from missing

from hpcpod.testing.agents import AgentContract
from hpcpod.testing.envs import EnvContract

__all__ = ["AgentContract", "EnvContract"]
