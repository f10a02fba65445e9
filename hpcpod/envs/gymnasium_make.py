"""Make one gymnasium environment as a configuration says; every refusal is a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator

from hpcpod import plugins
from hpcpod.envs import observations
from hpcpod.envs.backend import Wanted, closed_if_refused
from hpcpod.envs.simulator_warnings import logged_once, models_of, one_line
from hpcpod.envs.spec_json import structure_of
from hpcpod.envs.vec_env import Bound, Box, Discrete, EnvSpec, MultiDiscrete, Space
from hpcpod.errors import UnknownPlugin, UnsupportedSpace, UnusableWrapper, UserError, in_words

Env = gym.Env[Any, Any]
Wrapper = str | Mapping[str, Mapping[str, object]]

# One environment serves every pod that a slot trains: nothing may leak from one to the next.
_RUNNING_STATISTICS = (gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward)


def build(
    source: str | Callable[..., Env],
    count: int,
    wrappers: Sequence[Wrapper],
    kwargs: Mapping[str, object],
) -> list[Env]:
    """Equal environments, wrapped.

    Args:
        source: a gymnasium id, the path ``"pkg.mod:EnvClass"``, or what returns an environment.
        count: how many.
        wrappers: innermost first, each ``"pkg.mod:Wrapper"`` or ``{"pkg.mod:Wrapper": {arg: 1}}``.
        kwargs: of the environment.

    Raises:
        UnusableWrapper: a wrapper can't be put around it.
        UserError: it can't be made; the sentence says what to do.
    """
    name, made = name_of(source), list[Env]()
    with refusals(name), closed_if_refused(made):
        import_before(source)
        with models_of(name):
            for i in range(count):
                made.append(_make(source, kwargs))
                made[i] = reduce(_wrap, wrappers, made[i])
    return made


def import_before(source: object) -> None:
    """Import what makes an environment: the log of a simulator's warnings can only be set once it
    is imported. What can't be imported is left to the call that makes the environment."""
    if not isinstance(source, str):
        return
    with suppress(UnknownPlugin, gym.error.Error, ImportError, ValueError):
        if is_path(source):
            plugins.load(source)
        elif isinstance(entry := gym.spec(source).entry_point, str):
            load_env_creator(entry)


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn what an environment raises while it is made into a sentence; log its warnings.

    Args:
        name: the environment's.

    Raises:
        UserError: something was raised.
    """
    with logged_once(name):
        try:
            yield
        except gym.error.DependencyNotInstalled as error:
            raise UserError(f"{name} needs a package that is missing: {error}") from error
        except ImportError as error:
            raise UserError(_missing(name, error)) from error
        except gym.error.Error as error:
            raise UserError(f"{name} can't be made: {one_line(error)}") from error
        except TypeError as error:
            said = f"{name} refused its arguments (env.kwargs): {one_line(error)}"
            raise UserError(said) from error
        except (UserError, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # an environment may raise whatever it likes
            raise UserError(f"{name} can't be made: {in_words(error)}") from error


def name_of(source: object) -> str:
    """The id that stands in the spec and in messages."""
    if isinstance(source, str):
        return source
    kind: Any = source if hasattr(source, "__qualname__") else type(source)
    return f"{kind.__module__}:{kind.__qualname__}"


def is_path(source: str) -> bool:
    """True if it is the path ``"pkg.mod:Name"`` and no gymnasium id."""
    _, colon, attribute = source.partition(":")
    # 'pkg:Name-v0' is gymnasium's own 'import pkg first'.
    return bool(colon) and attribute.replace(".", "").isidentifier()


def engine_of(env: Env | None) -> str:
    """The engine with its versions: gymnasium, and the packages that the environment's class and
    its simulation are of. Of an environment that can't be seen, gymnasium alone."""
    inner = None if env is None else env.unwrapped
    parts = (inner, getattr(inner, "model", None), getattr(inner, "world", None))
    names = dict.fromkeys(["gymnasium", *(type(part).__module__.split(".")[0] for part in parts)])
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in names}
    return ", ".join(f"{name} {said}" for name, said in versions.items() if said is not None)


def wrappers_of(env: Env) -> list[Any]:
    """The wrappers around an environment, outermost first."""
    found = []
    while isinstance(env, gym.Wrapper):
        found.append(env)
        env = env.env
    return found


def time_limit_of(env: Env) -> int | None:
    """Steps after which the episode is truncated: the least of its TimeLimit wrappers, else what
    the spec says."""
    limits = [w for w in wrappers_of(env) if isinstance(w, gym.wrappers.TimeLimit)]
    spec = env.unwrapped.spec
    said = None if spec is None else spec.max_episode_steps
    return min((int(limit._max_episode_steps) for limit in limits), default=said)


def observation_space(name: str, space: gym.Space[Any]) -> Space:
    """Our space for a gymnasium observation space: ``Dict`` and ``Tuple`` become one vector, in
    the order that ``hpcpod.envs.observations`` declares.

    Raises:
        UnsupportedSpace: naming the wrapper that makes it a supported one.
    """
    if observations.is_structured(space):
        space = observations.vector_space(name, space)
        return Box(space.shape, _bound(space.low), _bound(space.high))
    if (choices := _choices(space)) is not None:
        return choices
    if isinstance(space, gym.spaces.Box):
        dtype = "uint8" if space.dtype == np.uint8 else "float32"
        return Box(space.shape, _bound(space.low), _bound(space.high), dtype)
    if isinstance(space, gym.spaces.MultiBinary):
        return Box(space.shape, 0.0, 1.0)
    remedy = "write a gymnasium.ObservationWrapper that turns it into a Box"
    with suppress(NotImplementedError):  # a user's own space may not say
        if space.is_np_flattenable:  # one with a Sequence in it is not
            remedy = "add gymnasium.wrappers:FlattenObservation to env.wrappers"
    raise UnsupportedSpace(
        f"{name} observes a {type(space).__name__} space, which agents can't read; {remedy}"
    )


def action_space(name: str, space: gym.Space[Any]) -> Space:
    """The policy's space for a gymnasium action space: continuous ones become [-1, 1].

    Raises:
        UnsupportedSpace: naming what would make it a supported one.
    """
    if (choices := _choices(space)) is not None:
        return choices
    if isinstance(space, gym.spaces.MultiBinary) and len(space.shape) == 1:
        return MultiDiscrete((2,) * space.shape[0])
    if isinstance(space, gym.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise UnsupportedSpace(
                f"{name} has a continuous action without finite bounds, so [-1, 1] can't be"
                " mapped to it; write a gymnasium.ActionWrapper that gives it some (env.wrappers)"
            )
        return Box(space.shape, -1.0, 1.0)
    raise UnsupportedSpace(
        f"{name} acts in {space}, which no agent supports; write a gymnasium.ActionWrapper that"
        f" turns it into a Discrete, MultiDiscrete or floating-point Box space"
    )


def spec_of(
    name: str, observed: gym.Space[Any], acted: gym.Space[Any], wanted: Wanted, **more: Any
) -> EnvSpec:
    """The spec of the batch that is wanted, from the spaces of one environment.

    Args:
        name: the environment's.
        observed: its observation space.
        acted: its action space.
        wanted: the batch.
        more: further fields of the spec.

    Raises:
        UnsupportedSpace: agents can't use one of them.
    """
    more = {"structure": structure_of(observed)} | more
    if isinstance(acted, gym.spaces.Box):
        more |= {"action_bounds": (_bound(acted.low), _bound(acted.high))}
        more |= {"action_dtype": str(acted.dtype)}
    return EnvSpec(
        name, observation_space(name, observed), action_space(name, acted), wanted.num_envs,
        wanted.device, **more,
    )  # fmt: skip


def _make(source: str | Callable[..., Env], kwargs: Mapping[str, object]) -> Env:
    creator: Any = source
    if isinstance(source, str):
        if not is_path(source):
            made: Env = gym.make(source, disable_env_checker=True, **kwargs)  # type: ignore[arg-type]
            return made
        try:
            creator = plugins.load(source)
        except UnknownPlugin as error:
            raise UserError(f"environment {error}") from error
    env = creator(**kwargs)
    if not isinstance(env, gym.Env):
        raise UserError(
            f"{name_of(source)} gave a {type(env).__name__}, but a gymnasium.Env is needed"
        )
    for space in ("observation_space", "action_space"):  # annotations alone in gymnasium.Env
        if not hasattr(env, space):
            raise UserError(f"{name_of(source)} has no {space}: set it in its __init__")
    return env


def _wrap(env: Env, wrapper: Wrapper) -> Env:
    if isinstance(wrapper, str):
        wrapper = {wrapper: {}}
    for path, arguments in wrapper.items():
        try:
            kind = plugins.load(path)
        except UnknownPlugin as error:
            raise UnusableWrapper(f"wrapper {error}") from error
        if kind in _RUNNING_STATISTICS:
            raise UnusableWrapper(
                f"wrapper {path} keeps statistics beyond an episode, which no checkpoint holds;"
                " leave it out: agents normalise observations themselves"
            )
        try:
            wrapped: Any = kind(env, **arguments)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # a wrapper may raise whatever it likes
            said = f"wrapper {path} can't be made: {in_words(error)}"
            raise UnusableWrapper(said) from error
        if not isinstance(wrapped, gym.Env):
            gave = type(wrapped).__name__
            raise UnusableWrapper(f"wrapper {path} gave a {gave}, not a gymnasium.Env")
        env = wrapped
    return env


def _missing(name: str, error: ImportError) -> str:
    # gymnasium raises a second error, without the module's name, from the first.
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    remedy = f"; pip install {cause.name}" if cause.name else ""
    return f"{name} needs a package that is missing: {one_line(cause)}{remedy}"


def _choices(space: gym.Space[Any]) -> Discrete | MultiDiscrete | None:
    """Our space for one choice, or for several in a row; None for all else."""
    if isinstance(space, gym.spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if not isinstance(space, gym.spaces.MultiDiscrete) or space.nvec.ndim != 1:
        return None
    start = tuple(int(first) for first in space.start)
    return MultiDiscrete(tuple(int(n) for n in space.nvec), start if any(start) else 0)


def _bound(values: Any) -> Bound:
    flat = [float(v) for v in np.asarray(values).ravel()]
    return flat[0] if flat and len(set(flat)) == 1 else tuple(flat)
