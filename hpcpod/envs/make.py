"""From the words of a configuration to a batched environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpcpod import plugins
from hpcpod.envs.construct import Env, Wrapper
from hpcpod.envs.vec_env import VecEnv


def make_env(
    env: str | Callable[..., Env],
    num_envs: int = 1,
    backend: str = "auto",
    device: str = "cpu",
    wrappers: Sequence[Wrapper] = (),
) -> VecEnv:
    """N environments as one batch.

    Args:
        env: a gymnasium id, the path ``"pkg.mod:EnvClass"``, or what returns a gymnasium.Env.
        num_envs: N.
        backend: ``"auto"``, a name of the group ``hpcpod.envs``, or the path of a class that is
            called as ``backend(env, num_envs, device, wrappers)``.
        device: where the tensors live.
        wrappers: innermost first, each ``"pkg.mod:Wrapper"`` or ``{"pkg.mod:Wrapper": {...}}``.

    Raises:
        UserError: the environment or the backend can't be had; the sentence says what to do.
    """
    factory = plugins.resolve("envs", "gymnasium" if backend == "auto" else backend)
    made: VecEnv = factory(env, num_envs, device, wrappers)
    return made
