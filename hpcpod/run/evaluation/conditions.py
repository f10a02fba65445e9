"""The environments in which policies are scored: their own, others, and changed ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hpcpod.config.decoder import encode
from hpcpod.config.schema import EnvConfig, Wrapper
from hpcpod.errors import UserError
from hpcpod.run.evaluation.policies import Candidate
from hpcpod.trading.splits import moved
from hpcpod.trading.verdict import BACKENDS

OWN = "as trained"
"""The name of the condition in which nothing is changed."""


@dataclass(frozen=True)
class Condition:
    """An environment, by how it differs from the one in which a policy was trained."""

    name: str
    id: str | None = None
    """Of another environment; None: the policy's own."""
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Keyword arguments that are changed."""
    wrappers: tuple[Wrapper, ...] = ()
    """Wrappers around it, outside of the policy's own."""

    def of(self, env: EnvConfig) -> EnvConfig:
        """The environment in which a policy is scored that was trained in ``env``.

        Another id has none of the arguments and not the backend of the policy's own, but its
        wrappers, for they make its observations, and its time limit.

        Raises:
            UserError: a part of a trading task would have other sessions, such as its holdout's.
        """
        if self.id is not None and self.id != env.id:
            env = replace(env, id=self.id, kwargs={}, backend="auto")
        if env.backend in BACKENDS and (name := moved(env.kwargs, self.kwargs)) is not None:
            raise UserError(
                f"{name} stays as the run has it, for a part with other sessions may reach into its"
                " holdout, which `hpcpod evaluate RUN --holdout` opens, and counts"
            )
        kwargs, wrappers = {**env.kwargs, **self.kwargs}, (*env.wrappers, *self.wrappers)
        return replace(env, kwargs=kwargs, wrappers=wrappers, processes=1, num_envs=1)


def conditions(
    envs: Sequence[str] = (),
    kwargs: Mapping[str, Sequence[object]] | None = None,
    wrappers: Sequence[Wrapper] = (),
) -> list[Condition]:
    """The conditions that are asked for: each environment as it is, then with one change each.

    Args:
        envs: ids of other environments; none: the policies' own.
        kwargs: values of keyword arguments, each a condition.
        wrappers: each a condition.

    Raises:
        UserError: two would have one name.
    """
    found = []
    for env in envs or (None,):
        lead = f"{env} " if env is not None and len(envs) > 1 else ""
        found.append(Condition(env or OWN, env))
        found += [
            Condition(f"{lead}{name}={_said(value)}", env, {name: value})
            for name, values in (kwargs or {}).items()
            for value in values
        ]
        found += [
            Condition(f"{lead}{_wrapper(wrapper)}", env, wrappers=(wrapper,))
            for wrapper in wrappers
        ]
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two conditions are named '{twice}': ask for one of them alone")
    return found


def check_same_task(policies: Sequence[Candidate]) -> None:
    """See that all policies were trained in one environment, in which they can be compared.

    Raises:
        UserError: they were not.
    """
    first = policies[0]
    for other in policies[1:]:
        if _task(other.env) != _task(first.env):
            raise UserError(
                f"{first.label} was trained in {_words(first.env)}, {other.label} in"
                f" {_words(other.env)}: say by --env in which all are to be scored"
            )


def _task(env: EnvConfig) -> Any:
    return encode((env.id, env.kwargs, env.wrappers, env.max_episode_steps))


def _words(env: EnvConfig) -> str:
    named = ("kwargs", "wrappers", "max_episode_steps")
    said = {name: value for name, value in encode(env).items() if name in named and value}
    return f"{env.id} {json.dumps(said, default=str)}" if said else env.id


def _wrapper(wrapper: Wrapper) -> str:
    if isinstance(wrapper, str):
        return wrapper.rpartition(":")[2]
    [(path, arguments)] = wrapper.items()
    said = (f"{name}={_said(value)}" for name, value in arguments.items())
    return " ".join([path.rpartition(":")[2], *said])


def _said(value: object) -> str:
    """A value in words; a text that looks like another value is in quotes."""
    if not isinstance(value, str):
        return json.dumps(value, default=str)
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        return value
    return json.dumps(value)
